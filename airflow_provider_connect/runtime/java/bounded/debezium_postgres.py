"""Debezium's connector for PostgreSQL in runs that end. Determines the end of a run, and checks for new data without a JVM.

The connector reads the WAL in its own threads, so an empty poll means nothing. The run's goal is the server's WAL position at its start.
The slot's statistics show when the connector has received, and when it has acknowledged, everything up to the goal.

Debezium acknowledges WAL only when it has records, but changes of other tables also extend the WAL. Debezium also refuses a slot that is
past its offset, unless the offset is only a position, as after a snapshot. So after a run, the offset becomes such a position. Up to this
position, the slot is known to contain no change of the connector. The check before a run advances the slot past WAL without changes. It
starts no JVM.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

from airflow_provider_connect.errors import ConfigException, ConnectException, RetriableException
from airflow_provider_connect.runtime.java.bounded.database_server import Within
from airflow_provider_connect.runtime.java.bounded.debezium_phases import (
    PREFIX,
    Beans,
    Phase,
    has_table_signals_only,
    is_past_snapshot,
    is_snapshot_only,
)
from airflow_provider_connect.runtime.java.bounded.replication_slot import SLOT, ReplicationSlot, RetainedWal, SlotState
from airflow_provider_connect.runtime.java.bounded.runs import Progress
from airflow_provider_connect.runtime.java.jvm.connect_worker import ConnectWorker
from airflow_provider_connect.sdk.connector import OffsetReader

log = logging.getLogger(__name__)

CLASS: Final = "io.debezium.connector.postgresql.PostgresConnector"
_DROP: Final = "slot.drop.on.stop"
_FOR_SHORT_RUNS: Final = {
    "status.update.interval.ms": "200",  # Debezium's defaults (10,000, 500, 10,000 and 6) would make a run wait
    "poll.interval.ms": "100",
    "slot.retry.delay.ms": "1000",
    "slot.max.retries": "60",
}
_UNANSWERED_SECONDS: Final = 60.0
_LSN: Final = "lsn"
_PGOUTPUT: Final = "pgoutput"
_LAST_RECORD: Final = ("lsn_proc", "lsn_commit")
_KEPT: Final = ("ts_usec",)
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.]+")
_OPERATIONS: Final = {"c": "I", "u": "U", "d": "D", "t": "T"}
_MESSAGE: Final = "M"
_BEGIN: Final = "B"
_HELD_BYTES: Final = 1 << 30
"""The log contains a warning when a slot retains this much WAL."""
_SEGMENT_BYTES: Final = 16 << 20
"""The size of a WAL segment, unless the server was built with another size. A server removes only whole segments."""
_PIECE_BYTES: Final = 64 << 20
"""The number of bytes of WAL that one query reads. It is limited because a query has a time limit."""
_CHECK_SECONDS: Final = 20.0
_RELEASE_SECONDS: Final = 5.0
"""The time within which the server must notice that the JVM has released the slot."""


class DebeziumPostgres:
    """See ``BoundedSource``."""

    def task_defaults(self, config: Mapping[str, str], worker: Mapping[str, str], internal: Collection[str]) -> Mapping[str, str]:
        """See ``BoundedSource``."""
        return _FOR_SHORT_RUNS

    def goal(self, config: Mapping[str, str], offsets: OffsetReader, within: Within) -> PostgresGoal:
        """The server's current position. Raises ConfigException for a config that is refused here or by the server, RetriableException if
        the server does not answer."""
        return PostgresGoal(config, within)

    def has_new_data(self, config: Mapping[str, str], offsets: OffsetReader, within: Within) -> bool | None:
        """Whether the slot contains an undelivered change, or WAL that only a run may release. None: only a run can find out, because of a
        snapshot, another slot or another output plugin. If the offset is only a position, this call advances the slot past WAL without
        changes."""
        offset = offsets({"server": config.get(PREFIX, "")})
        if offset is None or not _is_streaming(offset) or not has_table_signals_only(config):
            return None
        slot = ReplicationSlot(config, within)
        try:
            state = slot.state()
            if state is None or state.plugin != _PGOUTPUT or state.is_active:
                return None
            if (state.held_bytes or 0) >= _HELD_BYTES:
                log.warning("Replication slot %s retains %d bytes of the server's WAL", config.get(SLOT, "debezium"), state.held_bytes)
            if _is_position_alone(offset):
                return _advance_over_other_tables(slot, state, _position(offset), config)
            position, end = _position(offset), slot.settled_position()
            found = slot.has_changes(position, _message_kinds(config), end, _excluded_tables(config))
            is_worth_a_run = end is not None and end - state.confirmed >= _SEGMENT_BYTES and end - 1 > position
            return True if found is False and is_worth_a_run else found
        finally:
            slot.close()

    def retained_wal(self, config: Mapping[str, str], within: Within) -> RetainedWal | None:
        """See ``BoundedSource``."""
        slot = ReplicationSlot(config, within)
        try:
            return slot.retained_wal()
        finally:
            slot.close()


class PostgresGoal:
    """See ``Goal``. For a single run. Keeps its connection until ``close``."""

    moves_offsets = True

    def __init__(self, config: Mapping[str, str], within: Within) -> None:
        self._beans = Beans("postgres", config)
        self._partition: dict[str, object] = {"server": config.get(PREFIX, "")}
        self._message_kinds, self._excluded_tables = _message_kinds(config), _excluded_tables(config)
        if config.get(_DROP, "").strip().lower() == "true":
            raise ConfigException.of(_DROP, "true", "Changes between two runs would be lost with the slot. Leave it out.")
        self._is_snapshot_only = is_snapshot_only(config)
        self._slot = ReplicationSlot(config, within)
        self._position = self._slot.position()
        self._unanswered_since: float | None = None

    def progress(self, worker: ConnectWorker, polled: int) -> Progress:
        """At most RECEIVED after a snapshot in this run, because the slot may be at its end while records of the snapshot still wait to be
        polled."""
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

    def offsets_after(self, offsets: OffsetReader) -> list[tuple[dict[str, object], dict[str, object]]]:
        """See ``Goal``. Queries the slot, because a run at its goal does not prove that the slot has no changes.

        If no run has had a record, there is no offset, and the next run would take the snapshot again, and start after it. The slot still
        has every change since the snapshot, because nothing was acknowledged.
        """
        offset = offsets(self._partition)
        state = self._await_release()
        if state is None or self._is_snapshot_only:
            return []
        if offset is None:
            return [(self._partition, {_LSN: state.confirmed - 1})]
        if state.plugin != _PGOUTPUT or not _is_streaming(offset):
            return []
        position, end = _position(offset), self._slot.settled_position()
        if end is None:
            return []
        end = min(end, max(position, state.confirmed) + _PIECE_BYTES)
        if end - 1 <= position or self._slot.has_changes(position, self._message_kinds, end, self._excluded_tables) is not False:
            return []
        return [(self._partition, {**{key: offset[key] for key in _KEPT if key in offset}, _LSN: end - 1})]

    def close(self) -> None:
        self._slot.close()

    def _await_release(self) -> SlotState | None:
        """The slot's state after its reader has disconnected. None: the reader has not disconnected, or the slot cannot be read."""
        until = time.monotonic() + _RELEASE_SECONDS
        while (state := self._slot.state()) is not None and state.is_active:
            if time.monotonic() > until:
                return None
            time.sleep(0.1)
        return state

    def _passed(self) -> tuple[bool, bool]:
        """The slot's progress. A server that is temporarily unreachable does not end the run, because the connector also waits for the
        server."""
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


def _advance_over_other_tables(slot: ReplicationSlot, state: SlotState, position: int, config: Mapping[str, str]) -> bool | None:
    """Like ``has_new_data``, for changes after ``position``. Releases WAL without changes piece by piece, and only WAL that was read.

    The slot then begins one byte before the record that follows the piece. No record begins at that byte, so each later transaction is
    complete.
    """
    kinds, left_out = _message_kinds(config), _excluded_tables(config)
    end, deadline = slot.settled_position(), time.monotonic() + _CHECK_SECONDS
    if end is None:
        return slot.has_changes(position, kinds, None, left_out)
    read = max(position, state.confirmed)
    while read < end:
        read = min(end, read + _PIECE_BYTES)
        found = slot.has_changes(position, kinds, read, left_out)
        if found is not False:
            return found
        try:
            slot.advance(read - 1)
        except ConnectException as error:  # the WAL is retained until the next check
            log.warning("Replication slot was not advanced: %s", error.message)
        if read < end and time.monotonic() > deadline:
            return None
    return False


def _message_kinds(config: Mapping[str, str]) -> set[str]:
    """The kinds of pgoutput messages, by letter, that become records."""
    skipped = {each.strip() for each in config.get("skipped.operations", "t").split(",")}
    has_transactions = config.get("provide.transaction.metadata", "").strip().lower() == "true"
    changes = {kind for operation, kind in _OPERATIONS.items() if operation not in skipped}
    return {_MESSAGE, *changes} | ({_BEGIN} if has_transactions else set())


def _excluded_tables(config: Mapping[str, str]) -> Callable[[str], bool]:
    """A test for tables that the connector certainly excludes, from a list of plain names. Debezium reads such names as regular
    expressions, in which a dot is any character and case does not matter."""
    listed = [each.strip() for each in config.get("table.include.list", "").split(",")]
    if not all(_PLAIN.fullmatch(each) for each in listed):
        return lambda _: False
    signals = config.get("signal.data.collection", "").strip().lower()

    def is_excluded(table: str) -> bool:
        name = table.lower()
        return not signals.endswith(name) and not any(_matches_name(each.lower(), name) for each in listed)

    return is_excluded


def _matches_name(listed: str, table: str) -> bool:
    return len(listed) == len(table) and all(one in (".", other) for one, other in zip(listed, table, strict=True))


def _is_position_alone(offset: Mapping[str, object]) -> bool:
    """Whether the offset is only a position, so that Debezium accepts any start of the slot. If the offset contains a last record, Debezium
    compares this record with the slot, and may refuse to start."""
    return not any(offset.get(key) is not None for key in _LAST_RECORD)


def _is_streaming(offset: Mapping[str, object]) -> bool:
    """Whether a run would continue in the WAL: no snapshot is in progress, and the position is known."""
    return is_past_snapshot(offset) and isinstance(offset.get(_LSN), int)


def _position(offset: Mapping[str, object]) -> int:
    found = offset[_LSN]
    assert isinstance(found, int)
    return found
