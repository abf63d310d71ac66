"""Debezium's connector for PostgreSQL in runs that end: until where a run goes, and whether there is anything to do, without a JVM.

The connector reads the WAL in threads of its own, so a poll that returned nothing means nothing. The run's goal is the position of the
server's WAL as the run begins; the slot's statistics show when the connector has received, and when it has acknowledged, all up to there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from typing import Final

from airflow_provider_connect.errors import ConfigException, RetriableException
from airflow_provider_connect.java.connect_worker import ConnectWorker
from airflow_provider_connect.java.debezium.database_server import Within
from airflow_provider_connect.java.debezium.phases import (
    PREFIX,
    Beans,
    Phase,
    is_asked_by_changes_alone,
    is_past_snapshot,
    is_snapshot_only,
)
from airflow_provider_connect.java.debezium.replication_slot import SLOT, HeldWal, ReplicationSlot
from airflow_provider_connect.java.runs import Progress
from airflow_provider_connect.sdk.connector import OffsetReader

log = logging.getLogger(__name__)

CLASS: Final = "io.debezium.connector.postgresql.PostgresConnector"
_DROP: Final = "slot.drop.on.stop"
_FOR_SHORT_RUNS: Final = {
    "status.update.interval.ms": "200",  # Debezium's own are 10,000, 500, 10,000 and 6: a run would wait for them
    "poll.interval.ms": "100",
    "slot.retry.delay.ms": "1000",
    "slot.max.retries": "60",
}
_UNANSWERED_SECONDS: Final = 60.0
_OPERATIONS: Final = {"c": "I", "u": "U", "d": "D", "t": "T"}
_MESSAGE: Final = "M"
_HELD_BYTES: Final = 1 << 30
"""Held back WAL of which the log warns."""


class DebeziumPostgres:
    """See ``BoundedSource``."""

    def task_defaults(self, config: Mapping[str, str], worker: Mapping[str, str], internal: Collection[str]) -> Mapping[str, str]:
        """See ``BoundedSource``."""
        return _FOR_SHORT_RUNS

    def goal(self, config: Mapping[str, str], offsets: OffsetReader, within: Within) -> PostgresGoal:
        """The position now. Raises ConfigException for a config that is refused, or that the server refuses, RetriableException where it
        does not answer."""
        return PostgresGoal(config, within)

    def has_new_data(self, config: Mapping[str, str], offsets: OffsetReader, within: Within) -> bool | None:
        """Whether the slot holds a change that is not delivered. None: a run has to find out, for a snapshot, another slot or plugin."""
        offset = offsets({"server": config.get(PREFIX, "")})
        if offset is None or not _is_streaming(offset) or not is_asked_by_changes_alone(config):
            return None
        slot = ReplicationSlot(config, within)
        try:
            state = slot.state()
            if state is None or state.plugin != "pgoutput" or state.is_active:
                return None
            if (state.held_bytes or 0) >= _HELD_BYTES:
                log.warning("Replication slot %s holds back %d bytes of the server's WAL", config.get(SLOT, "debezium"), state.held_bytes)
            skipped = {each.strip() for each in config.get("skipped.operations", "t").split(",")}
            kinds = {_MESSAGE, *(kind for operation, kind in _OPERATIONS.items() if operation not in skipped)}
            return slot.has_changes(_position(offset), kinds)
        finally:
            slot.close()

    def held_wal(self, config: Mapping[str, str], within: Within) -> HeldWal | None:
        """See ``BoundedSource``."""
        slot = ReplicationSlot(config, within)
        try:
            return slot.held_wal()
        finally:
            slot.close()


class PostgresGoal:
    """See ``Goal``. One run's; keeps its connection until ``close``. The slot has a position of its own, and the offset stays."""

    moves_offsets = False

    def __init__(self, config: Mapping[str, str], within: Within) -> None:
        self._beans = Beans("postgres", config)
        if config.get(_DROP, "").strip().lower() == "true":
            raise ConfigException.of(_DROP, "true", "Changes between two runs would be lost with the slot. Leave it out.")
        self._is_snapshot_only = is_snapshot_only(config)
        self._slot = ReplicationSlot(config, within)
        self._position = self._slot.position()
        self._unanswered_since: float | None = None

    def progress(self, worker: ConnectWorker, polled: int) -> Progress:
        """Behind a snapshot of this run, RECEIVED at the most: the slot is at its end while records of the snapshot wait to be polled."""
        phase = self._beans.phase(worker)
        if phase is Phase.SNAPSHOT:
            return Progress.BEHIND
        if self._is_snapshot_only:
            return Progress.RECEIVED
        if self._beans.reader(worker) is None:
            return Progress.BEHIND
        is_received, is_acknowledged = self._passed()
        if is_acknowledged and phase is Phase.CHANGES:
            return Progress.DELIVERED
        return Progress.RECEIVED if is_received else Progress.BEHIND

    def offsets_behind(self, offsets: OffsetReader) -> list[tuple[dict[str, object], dict[str, object]]]:
        return []

    def close(self) -> None:
        self._slot.close()

    def _passed(self) -> tuple[bool, bool]:
        """A server that is away for a while ends no run: the connector waits for it too."""
        try:
            passed = self._slot.passed(self._position)
        except RetriableException:
            now = time.monotonic()
            self._unanswered_since = self._unanswered_since or now
            if now - self._unanswered_since > _UNANSWERED_SECONDS:
                raise
            return False, False
        self._unanswered_since = None
        return passed


def _is_streaming(offset: Mapping[str, object]) -> bool:
    """Whether a run would go on in the WAL: no snapshot is under way, and the position is known."""
    return is_past_snapshot(offset) and isinstance(offset.get("lsn"), int)


def _position(offset: Mapping[str, object]) -> int:
    found = offset["lsn"]
    assert isinstance(found, int)
    return found
