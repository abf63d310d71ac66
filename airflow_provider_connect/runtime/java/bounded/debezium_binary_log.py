"""Debezium's connectors for MariaDB and MySQL in runs that end. Determines the end of a run, and checks for new data without a JVM.

The connector reads the binary log in its own thread, which fills a queue. The run's goal is the end of the log at its start. The goal is
received when the reader has passed it. The goal is delivered when all records that were in the queue at that time were polled.

Debezium's offset is the offset of its last record, but transactions of other tables also extend the log. So after a run has reached its
goal, the offset is moved to the goal, as a heartbeat of Debezium would move it. The next check then finds no new data, and the server may
purge the log up to the goal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.java.bounded.binary_log import BinaryLog, LogPosition
from airflow_provider_connect.runtime.java.bounded.database_server import Within
from airflow_provider_connect.runtime.java.bounded.debezium_phases import (
    PREFIX,
    Beans,
    Phase,
    has_table_signals_only,
    is_past_snapshot,
    is_snapshot_only,
    snapshot_mode,
)
from airflow_provider_connect.runtime.java.bounded.runs import Progress
from airflow_provider_connect.runtime.java.jvm.connect_worker import ConnectWorker
from airflow_provider_connect.sdk.connector import OffsetReader

MARIADB_CLASS: Final = "io.debezium.connector.mariadb.MariaDbConnector"
MYSQL_CLASS: Final = "io.debezium.connector.mysql.MySqlConnector"
_FOR_SHORT_RUNS: Final = {"poll.interval.ms": "100"}  # Debezium's default is 500
_BATCH: Final = "max.batch.size"
_LARGEST_BATCH: Final = 2048
_NEEDS_SNAPSHOT: Final = "when_needed"
_WITHIN_TRANSACTION: Final = ("event", "row")
_NOT_BETWEEN: Final = ("transaction_", "snapshot")  # prefixes of keys of an open transaction or snapshot


class DebeziumBinaryLog:
    """See ``BoundedSource``. ``kind`` is ``mariadb`` or ``mysql``."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def task_defaults(self, config: Mapping[str, str], worker: Mapping[str, str], internal: Collection[str]) -> Mapping[str, str]:
        """See ``BoundedSource``."""
        return _FOR_SHORT_RUNS

    def goal(self, config: Mapping[str, str], offsets: OffsetReader, within: Within) -> BinaryLogGoal:
        """The current end of the log. Raises ConfigException for a config that is refused here or by the server, RetriableException if the
        server does not answer, ConnectException if the server has purged unread changes."""
        return BinaryLogGoal(self._kind, config, offsets({"server": config.get(PREFIX, "")}), within)

    def has_new_data(self, config: Mapping[str, str], offsets: OffsetReader, within: Within) -> bool | None:
        """Whether the log continues after the offset. None: only a run can find out, because a snapshot is not complete, or the offset is
        within a transaction."""
        offset = offsets({"server": config.get(PREFIX, "")})
        read = None if offset is None else _between_transactions(offset)
        if read is None or not has_table_signals_only(config):
            return None
        log = self._log(config, within)
        try:
            return not log.is_kept(read) or not log.has_read(read, log.end())  # if the log was purged, the run reports it
        finally:
            log.close()

    def retained_wal(self, config: Mapping[str, str], within: Within) -> None:
        """None: the server purges its log whether or not it was read."""

    def _log(self, config: Mapping[str, str], within: Within) -> BinaryLog:
        return BinaryLog(config, within, has_domains=self._kind == "mariadb")


class BinaryLogGoal:
    """See ``Goal``. For a single run. Keeps its connection until ``close``."""

    moves_offsets = True

    def __init__(self, kind: str, config: Mapping[str, str], offset: Mapping[str, object] | None, within: Within) -> None:
        self._beans = Beans(kind, config)
        self._prefix = config.get(PREFIX, "")
        self._has_domains = kind == "mariadb"
        self._is_snapshot_only = is_snapshot_only(config)
        self._batch = _number(config.get(_BATCH), _LARGEST_BATCH)
        self._log = BinaryLog(config, within, has_domains=self._has_domains)
        self._end = self._log.end()
        self._is_read = False
        if offset is not None and (read := _position(offset)) is not None:
            if snapshot_mode(config) != _NEEDS_SNAPSHOT and not self._log.is_kept(read):
                raise _purged(self._log, read)
            self._is_read = _between_transactions(offset) is not None and self._log.has_read(read, self._end)
        self._first: LogPosition | None = None
        self._waiting: int | None = None
        self._last: int | None = None

    def progress(self, worker: ConnectWorker, polled: int) -> Progress:
        """DELIVERED means that the records up to the goal were polled, because the pause that follows commits polled records. If changes
        never stop, DELIVERED means that enough records were polled: more than the queue and the current poll can have contained when the
        goal was received."""
        phase = self._beans.phase(worker)
        if phase is Phase.SNAPSHOT:
            return Progress.BEHIND
        if self._is_snapshot_only:
            return Progress.RECEIVED
        names = ("BinlogFilename", "BinlogPosition", "QueueTotalCapacity", "QueueRemainingCapacity")  # read in this order
        found = self._beans.reader(worker, *names)
        if found is None or not self._is_received(phase, position := _reader_position(found)):
            return Progress.BEHIND
        self._first = self._first or position
        waiting = _number(found.get(names[2])) - _number(found.get(names[3]))
        if self._waiting is None:
            self._waiting = waiting
        elif self._last is None:
            self._last = self._waiting + polled + self._batch  # ``polled`` was read later than ``waiting``
        return Progress.DELIVERED if not waiting or (self._last is not None and polled >= self._last) else Progress.RECEIVED

    def _is_received(self, phase: Phase, position: LogPosition) -> bool:
        """Whether the reader has passed the goal. If everything was read before, the server sends nothing, and the reader has no position.
        The end of a snapshot in this run is always after the goal."""
        return self._is_read or (phase is Phase.AFTER_SNAPSHOT and bool(position.file)) or position.has_passed(self._end)

    def offsets_after(self, offsets: OffsetReader) -> list[tuple[dict[str, object], dict[str, object]]]:
        """See ``Goal``. Empty for MySQL with GTIDs, because MySQL does not report GTIDs together with the end of its log.

        If no run has had a record, there is no offset, and the next run would take the snapshot again, and start after it. The reader's
        first position in this run is after the snapshot, and every change before it would have been delivered.
        """
        partition: dict[str, object] = {"server": self._prefix}
        offset = offsets(partition)
        if offset is None and self._first is not None and (self._has_domains or not self._end.gtids):
            first = self._log.with_gtids(self._first) if self._end.gtids else self._first
            return [(partition, _offset(first))]
        read = None if offset is None or not is_past_snapshot(offset) else _position(offset)
        if offset is None or read is None or bool(read.gtids) != bool(self._end.gtids) or (read.gtids and not self._has_domains):
            return []
        if read.has_passed(self._end) or self._log.has_read(read, self._end):
            return []  # the offset is already there, or in a later transaction
        kept = {key: value for key, value in offset.items() if key not in _WITHIN_TRANSACTION and not key.startswith(_NOT_BETWEEN)}
        return [(partition, kept | _offset(self._end if read.gtids else replace(self._end, gtids="")))]

    def close(self) -> None:
        self._log.close()


def _reader_position(reader: Mapping[str, object]) -> LogPosition:
    return LogPosition(str(reader.get("BinlogFilename") or ""), _number(reader.get("BinlogPosition")))


def _offset(position: LogPosition) -> dict[str, object]:
    offset = {"file": position.file, "pos": position.position}
    return {**offset, "gtids": position.gtids} if position.gtids else offset


def _position(offset: Mapping[str, object]) -> LogPosition | None:
    """The position at which a run from ``offset`` continues. None: the offset has no position, or a snapshot is in progress."""
    file, position, gtids = offset.get("file"), offset.get("pos"), offset.get("gtids")
    if not is_past_snapshot(offset) or not isinstance(file, str) or not isinstance(position, int):
        return None
    return LogPosition(file, position, gtids if isinstance(gtids, str) else "")


def _between_transactions(offset: Mapping[str, object]) -> LogPosition | None:
    """Like ``_position``, but also None within a transaction, because the last record of the transaction may or may not be delivered."""
    return None if any(offset.get(key) for key in _WITHIN_TRANSACTION) else _position(offset)


def _purged(log: BinaryLog, read: LogPosition) -> ConnectException:
    return ConnectException(
        f"{log.address} no longer holds {read.file} of its binary log, from which the connector has to go on: changes are lost. For a new "
        "snapshot stop the connector and reset its offsets (airflow connect stop «name», airflow connect offsets reset «name», airflow "
        "connect resume «name»). Then have the server keep its log longer (binlog_expire_logs_seconds), or run the connector more often"
    )


def _number(value: object, default: int = 0) -> int:
    text = str(value).strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else default
