"""Debezium's connector for PostgreSQL in runs that end: until where a run goes, and whether there is anything to do, without a JVM.

The connector reads the WAL in threads of its own, so a poll that returned nothing means nothing. The run's goal is the position of the
server's WAL as the run begins; the slot's statistics show when the connector has received, and when it has acknowledged, all up to there.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from typing import Final

from airflow_provider_connect.errors import ConfigException, RetriableException
from airflow_provider_connect.java.connect_worker import ConnectWorker
from airflow_provider_connect.java.debezium.replication_slot import SLOT, HeldWal, ReplicationSlot, Within
from airflow_provider_connect.java.runs import Progress
from airflow_provider_connect.sdk.connector import OffsetReader

log = logging.getLogger(__name__)

CLASS: Final = "io.debezium.connector.postgresql.PostgresConnector"
_PREFIX: Final = "topic.prefix"
_MODE: Final = "snapshot.mode"
_DROP: Final = "slot.drop.on.stop"
_ONLY_SNAPSHOT: Final = "initial_only"
_FOR_SHORT_RUNS: Final = {
    "status.update.interval.ms": "200",  # Debezium's own are 10,000, 500, 10,000 and 6: a run would wait for them
    "poll.interval.ms": "100",
    "slot.retry.delay.ms": "1000",
    "slot.max.retries": "60",
}
_LEGAL_PREFIX: Final = re.compile(r"[\w.-]+", re.ASCII)
_SNAPSHOT: Final = ("SnapshotRunning", "SnapshotCompleted", "SnapshotSkipped")
_UNANSWERED_SECONDS: Final = 60.0
_OPERATIONS: Final = {"c": "I", "u": "U", "d": "D", "t": "T"}
_MESSAGE: Final = "M"
_HELD_BYTES: Final = 1 << 30
"""Held back WAL of which the log warns."""


class DebeziumPostgres:
    """See ``BoundedSource``."""

    task_defaults: Mapping[str, str] = _FOR_SHORT_RUNS

    def goal(self, config: Mapping[str, str], within: Within) -> PostgresGoal:
        """The position now. Raises ConfigException for a config that is refused, or that the server refuses, RetriableException where it
        does not answer."""
        return PostgresGoal(config, within)

    def has_new_data(self, config: Mapping[str, str], offsets: OffsetReader, within: Within) -> bool | None:
        """Whether the slot holds a change that is not delivered. None: a run has to find out, for a snapshot, another slot or plugin."""
        offset = offsets({"server": config.get(_PREFIX, "")})
        if offset is None or not _is_streaming(offset) or not _is_asked_by_changes_alone(config):
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
    """See ``Goal``. One run's; keeps its connection until ``close``."""

    def __init__(self, config: Mapping[str, str], within: Within) -> None:
        self._prefix = config.get(_PREFIX, "")
        if not _LEGAL_PREFIX.fullmatch(self._prefix):
            raise ConfigException.of(_PREFIX, self._prefix, "It must be of letters, digits, dots, hyphens and underscores.")
        if config.get(_DROP, "").strip().lower() == "true":
            raise ConfigException.of(_DROP, "true", "Changes between two runs would be lost with the slot. Leave it out.")
        self._is_snapshot_only = config.get(_MODE, "").strip().lower() == _ONLY_SNAPSHOT
        self._slot = ReplicationSlot(config, within)
        self._position = self._slot.position()
        self._unanswered_since: float | None = None

    def progress(self, worker: ConnectWorker) -> Progress:
        """Behind a snapshot of this run, RECEIVED at the most: the slot is at its end while records of the snapshot wait to be polled."""
        snapshot = worker.attributes(self._bean("snapshot"), _SNAPSHOT)
        is_taken = bool(snapshot.get("SnapshotCompleted"))
        if snapshot.get("SnapshotRunning") or not (is_taken or snapshot.get("SnapshotSkipped")):
            return Progress.BEHIND
        if self._is_snapshot_only:
            return Progress.RECEIVED
        if not worker.attributes(self._bean("streaming"), ("Connected",)).get("Connected"):
            return Progress.BEHIND
        is_received, is_acknowledged = self._passed()
        if is_acknowledged and not is_taken:
            return Progress.DELIVERED
        return Progress.RECEIVED if is_received else Progress.BEHIND

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

    def _bean(self, context: str) -> str:
        return f"debezium.postgres:type=connector-metrics,context={context},server={self._prefix},*"


def _is_streaming(offset: Mapping[str, object]) -> bool:
    """Whether a run would go on in the WAL: no snapshot is under way, and the position is known."""
    is_whole = offset.get("snapshot") in (None, False, "false") or bool(
        offset.get("last_snapshot_record") or offset.get("snapshot_completed")
    )
    return is_whole and isinstance(offset.get("lsn"), int) and not any(str(key).startswith("incremental_snapshot") for key in offset)


def _is_asked_by_changes_alone(config: Mapping[str, str]) -> bool:
    """Whether no signal comes from elsewhere than from the tables."""
    channels = {each.strip() for each in config.get("signal.enabled.channels", "source").split(",")}
    return channels <= {"source", ""} and config.get(_MODE, "").strip().lower() != _ONLY_SNAPSHOT


def _position(offset: Mapping[str, object]) -> int:
    found = offset["lsn"]
    assert isinstance(found, int)
    return found
