"""A private file that caches the config topic for the processes of this host, so that each need not read the whole topic.

One SQLite file has a row for each connector, and the offset up to which the rows are complete. A process loads the row of its connector
and reads from the offset to the topic's end. After many records it updates the affected rows and the offset in one transaction. No
decision depends on the file, and it may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.config.client_settings import ClientKind, internal_client_config
from airflow_provider_connect.runtime.config.internal_topics import UNKNOWN_SECONDS, absence_seconds
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.cluster_state import connector_of
from airflow_provider_connect.runtime.model.config_snapshot import ConfigSnapshot, Slice
from airflow_provider_connect.runtime.model.records import ConfigRecord, FencingRecord, Unreadable
from airflow_provider_connect.runtime.stores.decoders import decode_config
from airflow_provider_connect.runtime.stores.log_consumer import BEGINNING, LogTruncatedException
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.stores.topic_reader import TopicReader

_FORMAT = 2
_MANY = 200  # rereading this many records takes two milliseconds, and writing to the file takes about as long
_MOST_HELD = 20_000  # records in memory
_MOST_READ = 200_000  # reading them takes some seconds, which are lost if the reader is killed
_BUSY_SECONDS = 10.0
_REFRESH_SECONDS = 600.0
_LONGEST_SECONDS = 6 * 3600.0
_TABLES = """
CREATE TABLE IF NOT EXISTS position (topic_id TEXT, read_to INTEGER, read_at REAL, keep_seconds REAL, common TEXT);
CREATE TABLE IF NOT EXISTS connectors (name TEXT PRIMARY KEY, slice TEXT) WITHOUT ROWID;
"""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Position:
    read_to: int
    read_at: float
    keep_seconds: float
    common: str


class ConfigCache:
    """``folder`` must be private, because configs contain secrets. ``now`` is in seconds since 1970."""

    def __init__(self, folder: Path, *, now: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._now = now

    def read(self, settings: WorkerSettings, connector: str | None, *, timeout_seconds: float = 120.0) -> ConfigSnapshot:
        """The state of ``connector`` at the topic's end. None means all connectors. Raises TopicMissingException, StoreTimeoutException.

        If possible, keeps the records that were read before a timeout, so that the next call continues from there.
        """
        topic = settings.config_topic
        with closing(TopicAdmin(settings)) as admin:
            later = admin.describe_later([topic])[topic]
            config = internal_client_config(settings, ClientKind.CONSUMER, "configs")
            with TopicReader[ConfigRecord | Unreadable](topic, config, decode_config) as reader:
                reader.partitions(min(timeout_seconds, 10.0))
                topic_id = admin.described_id(topic, later)
                file, retention = self._file(settings), partial(_retention_seconds, admin, topic)
                reading = partial(_Reading, now=self._now, keep_seconds=retention)
                try:
                    with _opened(file) as database:
                        return reading(database, topic_id, connector, reader).to_end(timeout_seconds)
                except (sqlite3.Error, ValueError, TypeError, KeyError) as error:  # busy, full, torn, or not written by us
                    _log.debug("The config topic is read without %s: %s", file, error)
                    if not isinstance(error, sqlite3.OperationalError):
                        file.unlink(missing_ok=True)
                with _connected(":memory:") as database:
                    return reading(database, topic_id, connector, reader).to_end(timeout_seconds)

    def _file(self, settings: WorkerSettings) -> Path:
        """The path. One file for each host and cluster, because hosts may share the folder's disk."""
        marks = "\0".join([socket.gethostname(), settings.bootstrap_servers, settings.config_topic, str(_FORMAT)])
        return self._folder / f"config-topic-{hashlib.sha256(marks.encode()).hexdigest()[:16]}.sqlite"


def _opened(file: Path) -> AbstractContextManager[sqlite3.Connection]:
    """Opens the database with mode 0600. Raises sqlite3.Error."""
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise sqlite3.OperationalError(str(error)) from error
    return _connected(str(file))


@contextmanager
def _connected(path: str) -> Iterator[sqlite3.Connection]:
    """Opens a database, and creates the tables if they are missing."""
    with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)) as database:
        if not _has_tables(database):
            database.executescript(_TABLES)
        yield database


def _has_tables(database: sqlite3.Connection) -> bool:
    return len(database.execute("SELECT 1 FROM sqlite_master WHERE name IN ('position', 'connectors')").fetchall()) == 2


def _retention_seconds(admin: TopicAdmin, topic: str) -> float:
    """How long reads may continue from the file before the whole topic must be read again."""
    try:
        configs = admin.configs([topic])[topic]
    except ConnectException:  # not authorized to ask
        return UNKNOWN_SECONDS
    return min(absence_seconds(configs), _LONGEST_SECONDS)


class _Waiting:
    """Records that were read and not yet applied, in order. A claim replaces the connector's earlier claim.

    Each run writes a claim, so a long topic consists mostly of claims. Only the newest claim of each connector counts.
    """

    def __init__(self) -> None:
        self._records: dict[int | str, ConfigRecord | Unreadable] = {}
        self.taken = 0

    def add(self, record: ConfigRecord | Unreadable) -> None:
        key = record.connector if isinstance(record, FencingRecord) and record.claim is None else record.offset
        self._records.pop(key, None)
        self._records[key] = record
        self.taken += 1

    def clear(self) -> None:
        self._records.clear()
        self.taken = 0

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[ConfigRecord | Unreadable]:
        return iter(self._records.values())


class _Reading:
    """One read, from the position of ``database`` to the topic's end."""

    def __init__(
        self,
        database: sqlite3.Connection,
        topic_id: str,
        connector: str | None,
        reader: TopicReader[ConfigRecord | Unreadable],
        *,
        now: Callable[[], float],
        keep_seconds: Callable[[], float],
    ) -> None:
        self._database = database
        self._topic_id = topic_id
        self._connector = connector
        self._reader = reader
        self._now = now
        self._keep_seconds = keep_seconds
        self._from = 0
        self._waiting = _Waiting()

    def to_end(self, timeout_seconds: float) -> ConfigSnapshot:
        position = self._position() or self._begin()
        self._from = position.read_to
        try:
            self._reader.start_at({0: position.read_to or BEGINNING})
            self._reader.read(self._add, timeout_seconds)
        except LogTruncatedException:  # the id is the same, so records were removed
            self._waiting.clear()
            self._begin()
            self._from = 0
            self._reader.rewind()
            self._reader.read(self._add, timeout_seconds)
        except ConnectException:
            self._fold(is_kept=True)
            raise
        is_due = self._now() - position.read_at > min(_REFRESH_SECONDS, position.keep_seconds / 2)
        return self._fold(is_kept=self._waiting.taken >= _MANY or not position.read_to or is_due)

    def _add(self, record: ConfigRecord | Unreadable) -> str:
        self._waiting.add(record)
        if self._waiting.taken >= _MOST_READ or len(self._waiting) >= _MOST_HELD:
            self._fold(is_kept=True)
        return ""

    def _position(self) -> _Position | None:
        row = self._database.execute("SELECT topic_id, read_to, read_at, keep_seconds, common FROM position").fetchone()
        if row is None or row[0] != self._topic_id:
            return None
        found = _Position(*row[1:])
        return found if 0 <= self._now() - found.read_at < found.keep_seconds else None

    def _begin(self) -> _Position:
        """Starts without any rows."""
        position = _Position(0, self._now(), self._keep_seconds(), "{}")
        with self._transaction(is_kept=True):
            self._database.execute("DELETE FROM connectors")
            self._write(position)
        return position

    def _fold(self, *, is_kept: bool) -> ConfigSnapshot:
        """Applies the waiting records to the rows that they concern. With ``is_kept``, also writes the rows and their new offset.

        Skips records that another process has meanwhile applied.
        """
        with self._transaction(is_kept=is_kept):
            position = self._position() or _Position(0, self._now(), 0.0, "{}")
            if position.read_to < self._from:
                raise sqlite3.OperationalError("another process has started the file again")
            concerned = {name for record in self._waiting if (name := connector_of(record))}
            wanted = None if self._connector is None and not is_kept else concerned | {self._connector or ""}
            log = ConfigSnapshot(self._topic_id, position.read_to, self._slices(wanted), json.loads(position.common)).log()
            for record in self._waiting:
                if record.offset >= position.read_to:
                    self._reader.skipped.note(log.apply(record), record, offset=record.offset)
            self._waiting.clear()
            if is_kept:
                self._keep(ConfigSnapshot.of(log, concerned), position)
                self._from = log.state.offset
                if self._connector is None:
                    log = ConfigSnapshot(self._topic_id, log.state.offset, self._slices(None), ConfigSnapshot.of(log, ()).common).log()
        return ConfigSnapshot.of(log, None if self._connector is None else [self._connector])

    def _slices(self, names: Iterable[str] | None) -> dict[str, Slice]:
        if names is None:
            rows = self._database.execute("SELECT name, slice FROM connectors").fetchall()
        else:
            found = (self._database.execute("SELECT name, slice FROM connectors WHERE name = ?", (name,)).fetchone() for name in names)
            rows = [row for row in found if row is not None]
        return {name: json.loads(text) for name, text in rows}

    def _keep(self, snapshot: ConfigSnapshot, position: _Position) -> None:
        known = [(name, json.dumps(each)) for name, each in snapshot.slices.items() if each]
        unknown = [(name,) for name, each in snapshot.slices.items() if not each]
        self._database.executemany("INSERT OR REPLACE INTO connectors VALUES (?, ?)", known)
        self._database.executemany("DELETE FROM connectors WHERE name = ?", unknown)
        self._write(_Position(snapshot.offset, self._now(), position.keep_seconds, json.dumps(snapshot.common)))

    def _write(self, position: _Position) -> None:
        self._database.execute("DELETE FROM position")
        values = (self._topic_id, position.read_to, position.read_at, position.keep_seconds, position.common)
        self._database.execute("INSERT INTO position VALUES (?, ?, ?, ?, ?)", values)

    @contextmanager
    def _transaction(self, *, is_kept: bool) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE" if is_kept else "BEGIN")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")
