"""The history of connectors, and the return to an earlier config or to the offsets of an earlier instant.

A return is a change like any other, with the same checks, claims and fences. Only its values come from the history, which may lag behind
the topics. The history must catch up before offsets are restored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from airflow_provider_connect.errors import BadRequestException, ConfigException, ConflictException, NotFoundException
from airflow_provider_connect.runtime.config.dag_settings import DEFINED_IN, RELEASED
from airflow_provider_connect.runtime.herder.checks import AcceptedConfig, Given, require_own
from airflow_provider_connect.runtime.herder.connectors import ConnectorConfigs, RestoreSecrets
from airflow_provider_connect.runtime.herder.lifecycle import wait_until
from airflow_provider_connect.runtime.herder.offsets import OffsetKeeper, OffsetsNow
from airflow_provider_connect.runtime.herder.ports import RecordedChanges
from airflow_provider_connect.runtime.herder.snapshot import Topics, config_of
from airflow_provider_connect.runtime.model.history import (
    ConfigHistory,
    OffsetHistory,
    OffsetReturn,
    OffsetUndo,
    Page,
    Redact,
    by_partition,
    config_history,
    instant_ms,
    offset_history,
    offset_returns,
    partition_key,
)
from airflow_provider_connect.runtime.model.secret_keys import HIDDEN
from airflow_provider_connect.runtime.model.views import OffsetView

_STEERING = (DEFINED_IN, RELEASED)
_CATCH_UP_SECONDS = 20.0
_NO_HISTORY = "This server keeps no history: it has only topics, and no database. Airflow's API server has one"


class ConnectorHistory:
    """See the module. ``recorded`` None: no history is kept."""

    def __init__(
        self,
        topics: Topics,
        connectors: ConnectorConfigs,
        offsets: OffsetKeeper,
        recorded: RecordedChanges | None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._reader = topics.reader
        self._connectors = connectors
        self._offsets = offsets
        self._recorded = recorded
        self._sleep = sleep

    # ── configs ──

    def configs(self, name: str, *, limit: int, before: int | None, redact: Redact) -> ConfigHistory:
        """Raises NotFoundException for a connector that never existed."""
        page = self._require_recorded().config_lines(name, limit=limit, before=before)
        if not page.lines and before is None:
            config_of(self._reader.configs(), name)
        return config_history(page, redact, _STEERING)

    def roll_back(self, name: str, revision: int, restore: RestoreSecrets, author: str | None) -> AcceptedConfig:
        """Write the config of this revision. Hidden values are taken from the current config. Returns the stored config.

        Raises NotFoundException, BadRequestException for a revision without a config, ConflictException for a connector that a DAG file
        defines, and ConfigException for an invalid config, or for a hidden value that the connector no longer has.
        """
        require_own(name, config_of(self._reader.configs(), name))
        line = self._require_recorded().config_line(name, revision)
        if line is None:
            raise NotFoundException(f"Connector {name} has no revision {revision}; GET …/config/history lists them")
        wanted = config_history(Page([line]), dict, _STEERING).revisions[0].config
        if wanted is None:
            raise BadRequestException(f"Connector {name} was deleted in revision {revision}: name a revision with a config")
        return self._connectors.patch(name, {}, partial(_patch_to, wanted, revision, restore), author)

    # ── offsets ──

    def offsets(self, name: str, *, limit: int, before: int | None) -> OffsetHistory:
        """Raises NotFoundException."""
        recorded, now = self._require_recorded(), self._offsets.now(name)
        page = recorded.offset_lines(name, now.topic, limit=limit, before=before)
        return offset_history(page, recorded.begins_ms(now.topic))

    def undo(self, name: str, *, to: str | int | None, entry: int | None, dry_run: bool, author: str | None) -> OffsetUndo:
        """Set the offsets of a STOPPED connector to the offsets at the instant ``to``, or to the offsets before change ``entry``. A dry run
        changes nothing and is allowed in any state.

        Raises NotFoundException, BadRequestException for an instant at which the history is incomplete, ConflictException while the
        history lags behind the topics, and the exceptions of a change of offsets.
        """
        if (to is None) == (entry is None):
            raise BadRequestException("Give 'to', an instant, or 'entry', the number of a change: one of the two")
        recorded, now = self._require_recorded(), self._offsets.now(name)
        to_ms = instant_ms(to) if to is not None else self._before(name, entry or 0)
        self._require_whole(name, now.topic, to_ms)
        if dry_run:
            found = offset_returns(recorded.offsets_at(name, now.topic, to_ms), now.offsets)
            return OffsetUndo.of(to_ms, True, found, f"The offsets of {len(found)} partitions would change; nothing was changed")
        done: list[OffsetReturn] = []

        def decide(held: OffsetsNow) -> list[OffsetView]:
            self._await_recorded(name, held)
            done[:] = offset_returns(recorded.offsets_at(name, held.topic, to_ms), held.offsets)
            return [OffsetView(each.partition, each.then) for each in done]

        message = self._offsets.alter_by(name, decide, author)
        return OffsetUndo.of(to_ms, False, done, message or "The offsets are those of that instant already; nothing was changed")

    def _before(self, name: str, entry: int) -> int:
        """The last instant before change ``entry``: the instant before the first line of its claim."""
        recorded = self._require_recorded()
        line = recorded.offset_line(name, entry)
        if line is None:
            raise NotFoundException(f"Connector {name} has no change of offsets {entry}; GET …/offsets/history lists them")
        first = recorded.starts_ms(name, line.claim) if line.claim is not None else None
        return (line.at_ms if first is None else first) - 1

    def _require_whole(self, name: str, topic: str, to_ms: int) -> None:
        begins = self._require_recorded().begins_ms(topic)
        if begins is None:
            raise BadRequestException(f"The offsets of connector {name} are on {topic}, which the history does not follow")
        if to_ms < begins:
            raise BadRequestException(f"The history of {topic} begins at {begins} (ms since 1970), after {to_ms}: name a later instant")
        if to_ms > time.time() * 1000:
            raise BadRequestException(f"{to_ms} (ms since 1970) is in the future: name an earlier instant")

    def _await_recorded(self, name: str, held: OffsetsNow) -> None:
        """Wait until the history contains the current offsets. A change that the history does not contain yet would not be undone."""
        recorded, live = self._require_recorded(), by_partition(held.offsets)
        unseen = {partition_key(view.partition) for view in held.offsets if view.offset is None}

        def is_reached() -> bool:
            known = recorded.offsets_now(name, held.topics, is_sink=held.is_sink)
            return {key: offset for key, offset in known.items() if key not in unseen} == live

        if not wait_until(is_reached, _CATCH_UP_SECONDS, self._sleep):
            raise ConflictException(
                f"The history does not hold the offsets that connector {name} has now; nothing was changed. An API server has to follow "
                "the topics: retry once it does. If another program has moved the offsets, alter them instead"
            )

    def _require_recorded(self) -> RecordedChanges:
        if self._recorded is None:
            raise BadRequestException(_NO_HISTORY)
        return self._recorded


def _patch_to(wanted: Mapping[str, str], revision: int, restore: RestoreSecrets, _: Given, known: Mapping[str, str]) -> Given:
    """The patch from the config ``known`` to the config of the revision, with the secrets of ``known``."""
    gone = dict.fromkeys(key for key in known if key not in wanted and key not in _STEERING)
    patch = restore({**gone, **wanted}, known)
    for key, value in patch.items():
        if value is not None and HIDDEN in value and value == wanted.get(key):
            reason = f"its value is hidden in revision {revision}, and the connector has none now; put the config with the value itself"
            raise ConfigException.of(key, value, reason)
    return patch
