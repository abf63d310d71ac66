"""WAL that replication slots retain for connectors, for ``airflow connect doctor``, ``/health``, the page and metrics.

A run advances the slot of its connector. A PAUSED or STOPPED connector has no runs, so its server retains WAL until the disk is full.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

from airflow_provider_connect.api_server.cluster_checks import Finding, Outcome, ok, warning, wrong
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.hooks.airflow_settings import airflow_secrets
from airflow_provider_connect.runtime.config import config_providers
from airflow_provider_connect.runtime.config.masking import Mask, secret_values
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.java.bounded.replication_slot import RetainedWal
from airflow_provider_connect.runtime.java.bounded.sources import BoundedSource, bounded_source
from airflow_provider_connect.runtime.model.connector_keys import strip_framework_keys
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.model.views import RetainedWalView
from airflow_provider_connect.runtime.plugins.catalog.chosen_plugins import PluginChoice
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.worker.bounded_call import within

MANY_BYTES = 1 << 30
_SUBJECT = "slots"


@dataclass(frozen=True, slots=True)
class SlotReport:
    """The slot of a connector. If ``held`` is None, the slot could not be queried because of ``problem``."""

    connector: str
    target: TargetState
    held: RetainedWal | None
    problem: str = ""

    @property
    def finding(self) -> Finding:
        """The finding for an admin."""
        if self.held is None:
            return warning(_SUBJECT, f"The replication slot of connector {self.connector} could not be queried: {self.problem}")
        return slot_finding(self.connector, self.target, self.held)

    @property
    def view(self) -> RetainedWalView | None:
        """The view for users of the connector. None: unknown."""
        return None if self.held is None else RetainedWalView(self.held.held_bytes, self._note(self.held))

    def _note(self, held: RetainedWal) -> str | None:
        if held.held_bytes is None:
            return f"Replication slot {held.slot} has lost the WAL that it needs: drop it, and reset the connector's offsets"
        if held.held_bytes < MANY_BYTES and (self.target is TargetState.STARTED or not held.held_bytes):
            return None
        until = "" if self.target is TargetState.STARTED else f", and more until the connector, which is {self.target}, resumes"
        return f"Replication slot {held.slot} holds back {held.held_bytes:,} bytes of WAL{until}"


def slot_reports(settings: WorkerSettings) -> Iterator[SlotReport]:
    """A report for each connector with a slot. Connects to the database servers in the configs, like runs, for at most 30 s each."""
    try:
        with closing(ConfigStore(settings)) as store:
            state = store.read()
    except ConnectException:  # missing topics or brokers have their own findings
        return
    choice = PluginChoice(PluginCatalog(settings.plugin_path), settings)
    for name in state.connectors():
        config = state.connector_config(name) or {}
        source = _source(choice, name, config)
        if source is None:
            continue
        mask, target = Mask(), state.target_state(name) or TargetState.STARTED
        try:
            found = source.retained_wal(_resolve(settings, name, config, mask), within)
        except ConnectException as error:
            yield SlotReport(name, target, None, mask(error.message))
            continue
        if found is not None:
            yield SlotReport(name, target, found)


def slot_problems(findings: Iterable[Finding]) -> list[str]:
    """A sentence for ``/health``, without names, because some users may not see all connectors."""
    count = sum(each.outcome is not Outcome.OK for each in findings)
    text = f"Connectors with a replication slot that has lost WAL, holds much of it back or could not be queried: {count}"
    return [f"{text}. airflow connect doctor names them."] if count else []


def _source(choice: PluginChoice, name: str, config: Mapping[str, str]) -> BoundedSource | None:
    try:
        plugin = choice.connector(name, config)
    except ConnectException:
        return None
    return bounded_source(plugin.class_name) if plugin.is_java else None


def _resolve(settings: WorkerSettings, name: str, config: Mapping[str, str], mask: Mask) -> dict[str, str]:
    providers = settings.config_providers(name)
    secrets = config_providers.airflow_values(config, providers, airflow_secrets)
    mask.add(secret_values(config, providers, secrets))
    return strip_framework_keys(config_providers.resolve(config, providers, secrets))


def slot_finding(name: str, target: TargetState, found: RetainedWal) -> Finding:
    """The finding for the slot of connector ``name``. Only runs advance a slot, so it is a warning if the connector is not STARTED."""
    drop = f"SELECT pg_drop_replication_slot('{found.slot}')"
    text = f"Connector {name} is {target}: replication slot {found.slot} of {found.server}"
    word = shlex.quote(name)
    if found.held_bytes is None:
        fix = (
            f"airflow connect stop {word}    # then {drop}, airflow connect offsets reset {word}, airflow connect resume {word}: "
            "the next run takes a snapshot"
        )
        return wrong(_SUBJECT, f"{text} has lost the WAL that it needs, and changes with it", fix)
    text += f" holds back {found.held_bytes} bytes of WAL; max_slot_wal_keep_size is {found.limit}"
    if target is not TargetState.STARTED:
        return warning(_SUBJECT, f"{text}. It grows until a run moves it", f"airflow connect resume {word}    # or, for good: {drop}")
    if found.held_bytes >= MANY_BYTES:
        return warning(
            _SUBJECT, text, "run it more often, or, if its tables seldom change, set heartbeat.interval.ms and heartbeat.action.query"
        )
    return ok(_SUBJECT, text)
