"""Exactly-once sinks into SQL databases, with any DBAPI connection (PEP 249) or an SQLAlchemy connection.

Offset rows are in a table of the same database. Its key is a hash, because databases differ in which strings they consider equal.
"""

from __future__ import annotations

import hashlib
import sys
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, ClassVar, Final

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException, RetriableException
from airflow_provider_connect.sdk.offset_row import OffsetRow
from airflow_provider_connect.sdk.transactional_sink import TransactionalSink

_SAVEPOINT: Final = "connect_batch"
_MOST_NAME: Final = 1000
_COLUMNS: Final = (
    "id CHAR(64) NOT NULL PRIMARY KEY, kafka_partition INTEGER NOT NULL, next_offset BIGINT, claim_order BIGINT NOT NULL, "
    f"claim VARCHAR(1000) NOT NULL, connector VARCHAR({_MOST_NAME}) NOT NULL, topic VARCHAR(249) NOT NULL, topic_id VARCHAR(36) NOT NULL"
)
_ABSENT: Final = ("no such table", "not exist", "n't exist", "not found", "unknown table")
"""Parts of drivers' messages for a missing table. SQLite's driver raises OperationalError for it."""
_NO_AUTOCOMMIT: Final = "{}.open returned a connection that commits each statement; turn autocommit off"
_FAILED_TRANSACTION: Final = 3  # libpq's number, which psycopg uses
_MOST_KEYS: Final = 500  # per statement


class SqlSink(TransactionalSink):
    """A sink into an SQL database. Define ``open`` and ``write``. ``open`` returns a connection without autocommit.

    ``write`` gets a cursor, or the connection itself if it is SQLAlchemy's. The driver's errors (PEP 249) DataError and IntegrityError mean
    refused records. OperationalError and InterfaceError mean a lost connection. All other errors fail the task. The table of offset rows is
    created if it is missing.
    """

    offsets_table: ClassVar[str] = "connect_sink_offsets"
    """The name of the table of offset rows, as written in statements. Several connectors may share it."""
    stores_offsets_separately = True
    lock_clause: ClassVar[str] = "FOR UPDATE"
    """The end of a SELECT that locks its rows and reads their newest version. Not used for SQLite, whose transactions lock the database."""
    _is_sqlite = False
    _has_table = False
    _has_missed_table = False  # in the current transaction, which the error may have ended
    _stored: frozenset[TopicPartition] = frozenset()  # partitions whose rows existed in the current transaction

    def begin(self, connection: Any) -> Any:
        """Begin a transaction. An SQLite database is locked immediately: two transactions that first read and then write would block each
        other."""
        self._has_missed_table = False
        raw = _driver_connection(connection)
        if _commits_each_statement(raw):
            raise ConnectException(_NO_AUTOCOMMIT.format(type(self).__name__))
        transaction = connection if _is_sqlalchemy(connection) else connection.cursor()
        # sqlite3 and libsql have both attributes; mysql-connector-python has only the first, psycopg2 only the second
        self._is_sqlite = hasattr(raw, "in_transaction") and hasattr(raw, "isolation_level")
        if self._is_sqlite and not raw.in_transaction:
            _execute(transaction, "BEGIN IMMEDIATE")
        return transaction

    def commit(self, connection: Any) -> None:
        """Commit the transaction. Raises ConnectException if ``write`` suppressed an error of PostgreSQL.

        Such an error has ended the transaction: PostgreSQL would roll back at the commit, and its drivers would report success.
        """
        status = getattr(getattr(_driver_connection(connection), "info", None), "transaction_status", None)
        if status == _FAILED_TRANSACTION and not self._has_missed_table:
            raise ConnectException(
                f"{type(self).__name__}.write has suppressed an error that ended the transaction; raise it, or use ON CONFLICT or a "
                "savepoint"
            )
        connection.commit()

    def close(self, connection: Any) -> None:
        """Roll back and close. Without the rollback, SQLite would keep its lock while a cursor of the connection exists."""
        with suppress(Exception):  # the connection may be gone
            connection.rollback()
        connection.close()

    def create_offsets(self, connection: Any) -> None:
        """Create the table of offset rows if it is missing. The right to create tables is needed only in this case."""
        transaction = self.begin(connection)
        is_there = self._finds_table(transaction)
        try:
            connection.rollback()
        except Exception as error:
            self._refuse_no_transaction(transaction, error)
            raise
        if not is_there:
            self._create_table(connection)
        raw = _driver_connection(connection)
        if callable(getattr(raw, "autocommit", None)) and not hasattr(raw, "get_autocommit"):
            self._check_rollback(connection)

    def _create_table(self, connection: Any) -> None:
        try:
            _execute(self.begin(connection), f"CREATE TABLE {self.offsets_table} ({_COLUMNS})")
            connection.commit()
        except Exception as error:
            if isinstance(self.translate_error(error), RetriableException):
                raise
            connection.rollback()
            if not self._finds_table(self.begin(connection)):  # otherwise another task has created it
                text = f"The table {self.offsets_table} for offsets is missing and cannot be created: {error}"
                raise ConfigException(f"{text}. Create it ({_COLUMNS}), or set delivery.guarantee to at_least_once.") from error
            connection.rollback()

    def _check_rollback(self, connection: Any) -> None:
        """Check that a rolled-back row is gone. Used for drivers whose ``autocommit`` is a method: their state cannot be read."""
        row_id = _row_id(uuid.uuid4().hex, TopicPartition("", 0))
        _execute(self.begin(connection), f"INSERT INTO {self.offsets_table} VALUES ('{row_id}', 0, NULL, 0, ?, ?, ?, ?)", [""] * 4)
        connection.rollback()
        transaction = self.begin(connection)
        if _execute(transaction, f"SELECT id FROM {self.offsets_table} WHERE id = '{row_id}'").fetchall():
            _execute(transaction, f"DELETE FROM {self.offsets_table} WHERE id = '{row_id}'")
            connection.commit()
            raise ConnectException(_NO_AUTOCOMMIT.format(type(self).__name__))
        connection.rollback()

    def _refuse_no_transaction(self, transaction: Any, error: Exception) -> None:
        """Raise ConnectException if the connection is alive but could not roll back."""
        try:
            _execute(transaction, "SELECT 1")
        except Exception:
            return
        text = f"The connection of {type(self).__name__}.open has no transaction after begin ({error})"
        raise ConnectException(f"{text}; turn autocommit off, or override begin") from error

    def read_offsets(self, transaction: Any, connector: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetRow]:
        self._stored = frozenset()
        if not self._finds_table(transaction):
            return {}
        by_id = {_row_id(connector, partition): partition for partition in partitions}
        found: dict[TopicPartition, OffsetRow] = {}
        ids = sorted(by_id)
        for start in range(0, len(ids), _MOST_KEYS):
            where = f"WHERE id IN ({', '.join(map(repr, ids[start : start + _MOST_KEYS]))}) ORDER BY id"
            sql = f"SELECT id, next_offset, claim, claim_order, topic_id FROM {self.offsets_table} {where}"
            for row_id, *values in _execute(transaction, sql if self._is_sqlite else f"{sql} {self.lock_clause}").fetchall():
                found[by_id[row_id]] = OffsetRow(*values)
        self._stored = frozenset(found)
        return found

    def write_offsets(self, transaction: Any, connector: str, rows: Mapping[TopicPartition, OffsetRow | None]) -> None:
        """Write the rows. Called after ``read_offsets`` of the same partitions, which found the rows to update.

        The column with the connector's name is only for people: it is ASCII and may be truncated. The row's id is a hash of the whole name.
        """
        table, name = self.offsets_table, connector.encode("ascii", "backslashreplace").decode()[:_MOST_NAME]
        for partition, row in sorted(rows.items()):
            row_id = _row_id(connector, partition)
            if row is None:
                _execute(transaction, f"DELETE FROM {table} WHERE id = '{row_id}'")
                continue
            next_offset = "NULL" if row.next_offset is None else row.next_offset
            if partition in self._stored:
                changes = f"next_offset = {next_offset}, claim_order = {row.claim_epoch}, claim = ?, topic_id = ?"
                _execute(transaction, f"UPDATE {table} SET {changes} WHERE id = '{row_id}'", [row.claim, row.topic_id])
            else:
                values = f"'{row_id}', {partition.partition}, {next_offset}, {row.claim_epoch}, ?, ?, ?, ?"
                _execute(transaction, f"INSERT INTO {table} VALUES ({values})", [row.claim, name, partition.topic, row.topic_id])

    def _finds_table(self, transaction: Any) -> bool:
        """Whether the table exists. If not, some databases end the transaction.

        Raises the driver's error if the error has another cause, such as a lock timeout: existing offsets must not be considered missing.
        """
        if not self._has_table:
            try:
                _execute(transaction, f"SELECT id FROM {self.offsets_table} WHERE 1 = 0").fetchall()
            except Exception as error:
                if isinstance(self.translate_error(error), RetriableException) and not any(text in str(error).lower() for text in _ABSENT):
                    raise
                self._has_missed_table = True
                return False
            self._has_table = True
        return True

    def savepoint(self, transaction: Any) -> AbstractContextManager[Any] | None:
        return _savepoint(transaction)

    def translate_error(self, error: Exception) -> Exception:
        """Translate by class name: each driver has its own classes, and SQLAlchemy wraps them in classes of the same names."""
        if isinstance(error, ConnectException):
            return error
        names = {kind.__name__ for kind in type(error).__mro__}
        text = f"{type(error).__name__}: {' '.join(str(getattr(error, 'orig', None) or error).split())}"
        if names & {"DataError", "IntegrityError"}:
            return DataException(text)
        return RetriableException(text) if names & {"OperationalError", "InterfaceError"} else error


@contextmanager
def _savepoint(transaction: Any) -> Iterator[None]:
    _execute(transaction, f"SAVEPOINT {_SAVEPOINT}")
    try:
        yield
    except Exception:
        _execute(transaction, f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
        raise
    _execute(transaction, f"RELEASE SAVEPOINT {_SAVEPOINT}")


def _row_id(connector: str, partition: TopicPartition) -> str:
    return hashlib.sha256(f"{partition.topic}/{partition.partition}/{connector}".encode()).hexdigest()


def _is_sqlalchemy(connection: Any) -> bool:
    return hasattr(connection, "exec_driver_sql")


def _driver_connection(connection: Any) -> Any:
    return connection.connection.driver_connection if _is_sqlalchemy(connection) else connection


def _commits_each_statement(raw: Any) -> bool:
    """Whether autocommit is on. Most drivers have an attribute for this; MySQL's drivers have a method.

    sqlite3's attribute has another value in its legacy mode, where BEGIN starts a transaction.
    """
    autocommit = raw.get_autocommit() if hasattr(raw, "get_autocommit") else getattr(raw, "autocommit", False)
    return autocommit is True


def _execute(transaction: Any, sql: str, texts: Sequence[str] = ()) -> Any:  # has fetchall
    """Execute ``sql`` with ``texts`` as the values of its ``?`` marks. Returns the cursor or SQLAlchemy's result."""
    style = transaction.engine.dialect.paramstyle if _is_sqlalchemy(transaction) else _paramstyle(type(transaction))
    names = [f"text{number}" for number in range(len(texts))]
    marks = {
        "named": [f":{name}" for name in names],
        "numeric": [f":{number + 1}" for number in range(len(texts))],
        "qmark": ["?"] * len(texts),
    }
    first, *others = sql.split("?") if texts else [sql]
    statement = first + "".join(f"{mark}{each}" for mark, each in zip(marks.get(style, ["%s"] * len(texts)), others, strict=True))
    parameters: Any = dict(zip(names, texts, strict=True)) if style == "named" else tuple(texts)
    execute = transaction.exec_driver_sql if _is_sqlalchemy(transaction) else transaction.execute
    result = execute(statement, parameters) if texts else execute(statement)
    return result if _is_sqlalchemy(transaction) else transaction


def _paramstyle(cursor: type) -> str:
    """The ``paramstyle`` of the driver, from the first module or package of the cursor's classes that has one."""
    for kind in cursor.__mro__:
        parts = kind.__module__.split(".")
        for count in range(len(parts), 0, -1):
            style = getattr(sys.modules.get(".".join(parts[:count])), "paramstyle", None)
            if style is not None:
                return str(style)
    raise ConnectException(f"The module of {cursor.__qualname__} has no paramstyle, so it is not a PEP 249 driver")
