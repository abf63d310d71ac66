"""Determines the worker settings in force, key by key, even if a layer of settings has errors. Knows nothing of Airflow or files.

A wrong value does not stop connectors. The last good value of its key stays in force. Without a last good value, the value of the next
lower layer applies. Some keys decide where the state is, how clients log in or what connectors may access. No lower layer replaces a wrong
value of these keys. Without a last good value of such a key, nothing runs, and the caller may retry after WorkerSettingsException.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_connect.errors import ConfigException, WorkerSettingsException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.secret_keys import HIDDEN, is_secret_key
from airflow_provider_connect.runtime.model.url_passwords import without_url_passwords

LastGood = Mapping[str, Mapping[str, str]]
"""The values that were last in force, by the source of their layer."""

_DECISIVE = re.compile(
    r"(producer\.|consumer\.|admin\.)?(bootstrap\.servers|security\..*|sasl\..*|ssl\..*)"
    r"|group\.id|[a-z]+\.storage\.topic|connectors\..*|config\.providers.*|connector\.client\.config\.override\..*"
)


@dataclass(frozen=True, slots=True)
class Layer:
    """One source of settings, as it was read. ``values`` None: the layer could not be read, and ``wrong`` is the reason. ``refused`` has
    the reasons for keys that could not be read. These keys are not in ``values``."""

    source: str
    values: Mapping[str, str] | None
    wrong: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SettingFault:
    """A setting that is not in force. ``key`` is empty for a whole layer. ``reason`` includes the value unless it is a secret."""

    key: str
    source: str
    reason: str
    in_force: str

    def __str__(self) -> str:
        subject = f"{self.key} in {self.source}" if self.key else self.source
        return f"{subject} is ignored: {self.reason}; in force is {self.in_force}"


@dataclass(frozen=True, slots=True)
class SettingsInForce:
    """``values`` are the accepted values of each layer: the next call's ``LastGood``."""

    settings: WorkerSettings
    faults: Sequence[SettingFault]
    values: LastGood = field(repr=False)


def settings_in_force(
    layers: Sequence[Layer],
    last_good: LastGood | None,
    *,
    secrets_of: Callable[[Mapping[str, str]], Mapping[str, str]],
    check: Callable[[WorkerSettings], None] = lambda _: None,
) -> SettingsInForce:
    """``layers`` are ordered from the lowest to the highest. ``check`` raises ConfigException for settings that clients do not accept. It
    is called only if the values differ from the last good ones. ``last_good`` None: this host has no last good values yet.

    Raises WorkerSettingsException when no settings can be used.
    """
    accepted = _Accepted(last_good)
    for layer in layers:
        accepted.add(layer)
    while True:
        merged = accepted.merged()
        try:
            settings = WorkerSettings.of(merged, secrets_of(merged))
            if not accepted.is_last_good():
                check(settings)
        except ConfigException as error:
            accepted.refuse(error, merged)
        else:
            return SettingsInForce(settings, accepted.faults, accepted.values)


class _Accepted:
    """The values of each layer that were not refused."""

    def __init__(self, last_good: LastGood | None) -> None:
        self.values: dict[str, dict[str, str]] = {}
        self.faults: list[SettingFault] = []
        self._last_good = last_good
        self._replaced: set[tuple[str, str]] = set()
        self._is_rolled_back = False

    def add(self, layer: Layer) -> None:
        if layer.values is not None:
            self.values[layer.source] = dict(layer.values)
            for key, reason in layer.refused.items():
                self._fall_back(layer.source, key, reason)
            return
        if self._last_good is None:
            raise WorkerSettingsException(
                f"{layer.wrong}. No earlier settings are known on this host: nothing can run until this is corrected"
            )
        self.values[layer.source] = dict(self._last_good.get(layer.source, {}))
        self.faults.append(SettingFault("", layer.source, layer.wrong, "its last good content"))

    def merged(self) -> dict[str, str]:
        return {key: text for values in self.values.values() for key, text in values.items()}

    def is_last_good(self) -> bool:
        return self._last_good is not None and self.values == {source: dict(values) for source, values in self._last_good.items()}

    def refuse(self, error: ConfigException, merged: Mapping[str, str]) -> None:
        """Replaces the values that ``error`` names. Raises WorkerSettingsException if there is no replacement."""
        blamed = {key: reason for key, reason in _reasons(error).items() if key in merged}
        for key, reason in blamed.items():
            source = next(source for source, values in reversed(self.values.items()) if key in values)
            self._fall_back(source, key, _masked(key, merged[key], reason))
        if blamed:
            return
        if self._last_good is None or self._is_rolled_back:
            raise WorkerSettingsException(error.message, errors=error.errors, keys=error.keys) from error
        self._is_rolled_back = True
        self.values = {source: dict(self._last_good.get(source, {})) for source in self.values}
        self.faults = [SettingFault("", "what has changed in the worker settings", error.message, "what held before")]

    def _fall_back(self, source: str, key: str, reason: str) -> None:
        values = self.values[source]
        refused = values.pop(key, None)
        known = None if self._last_good is None else self._last_good.get(source, {})
        good = None if known is None else known.get(key)
        if good is not None and good != refused and (source, key) not in self._replaced:
            self._replaced.add((source, key))
            values[key] = good
            self._note(source, key, reason, "its last good value")
        elif _DECISIVE.fullmatch(key) and (known is None or key in known):
            raise WorkerSettingsException(f"{reason} ({source}). Nothing can run until this is corrected", keys=[key])
        else:
            lower = next((name for name, others in self.values.items() if key in others), None)
            self._note(source, key, reason, "the built-in default" if lower is None else f"the value of {lower}")

    def _note(self, source: str, key: str, reason: str, in_force: str) -> None:
        self.faults = [fault for fault in self.faults if (fault.key, fault.source) != (key, source)]
        self.faults.append(SettingFault(key, source, reason, in_force))


def _reasons(error: ConfigException) -> dict[str, str]:
    """The reason for each key that the error names."""
    if len(error.errors) == len(error.keys):
        return dict(zip(error.keys, error.errors, strict=True))
    return dict.fromkeys(error.keys, error.message)


def _masked(key: str, value: str, reason: str) -> str:
    return reason.replace(value, HIDDEN if is_secret_key(key) else without_url_passwords(value)) if value else reason
