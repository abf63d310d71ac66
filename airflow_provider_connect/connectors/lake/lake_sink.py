"""The base of lake sinks. The connection of a lake sink is a session, which keeps batches and offset rows for one commit of a table."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import ClassVar, Final, Protocol

from airflow_provider_connect.connectors.lake.lake_errors import shorten, text_of
from airflow_provider_connect.connectors.lake.unwritten_fields import UnwrittenFields
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConfigException, ConnectException, RetriableException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigKey, ConfigValue, Importance, Range, Type, add_errors
from airflow_provider_connect.sdk.datasets import Dataset
from airflow_provider_connect.sdk.offset_row import OffsetRow
from airflow_provider_connect.sdk.transactional_sink import TransactionalSink

MAX_RETRIES: Final = "max.retries"
RETRY_TIMEOUT: Final = "errors.retry.timeout"


class Session(Protocol):
    """One connection of a task, which is discarded after an exception. ``written`` has the addresses of tables with committed rows, and the
    types of their columns."""

    written: dict[str, Mapping[str, str]]

    def begin(self) -> None:
        """Discard uncommitted rows and offsets."""

    def reject_missing_tables(self) -> None:
        """Raise ConfigException for a missing table that must not be created."""

    def create_home_table(self) -> None:
        """Create the table that keeps offsets, unless it exists."""

    def write(self, batch: Batch) -> None:
        """Add a batch. Raises DataException for records that do not fit the table."""

    def flush(self) -> None:
        """Write the data files of the added batches."""

    def read_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetRow]:
        """The existing rows of these partitions."""
        ...

    def write_offsets(self, rows: Mapping[TopicPartition, OffsetRow | None]) -> None:
        """Keep offset rows for the commit."""

    def holds_records(self) -> bool:
        """Whether a target table has data, from any writer."""
        ...

    def commit(self) -> None:
        """Commit the added batches and offset rows. Does nothing if there are neither."""

    def close(self) -> None: ...


class LakeSink(TransactionalSink):
    """A sink that calls its session. Subclasses define ``open``, ``mistakes`` and ``translate_library_error``.

    An unknown error of a library fails the task, and names the records that may have caused it. By default, the task fails immediately. If
    ``errors.retry.timeout`` is above 0, it fails after that time without a commit. With -1, it never fails.
    """

    required_columns: ClassVar[frozenset[str]] = frozenset({"key"})
    commits_when_caught_up = False  # each commit is a snapshot, with files of its own
    retries_setting = MAX_RETRIES
    evolve_setting: ClassVar[str]
    """The setting that adds missing columns."""
    alias_remedy: ClassVar[str] = ""
    """A remedy for a renamed column that only this lake has, to follow another one."""
    _written_tables: Mapping[str, Mapping[str, str]] = MappingProxyType({})  # with all connections of a task
    _put_offsets: Mapping[TopicPartition, tuple[int, int]] = MappingProxyType({})  # first and last offset in the current transaction
    _unknown_since: float | None = None  # time of the first unknown error since the last commit

    def mistakes(self, config: Config) -> Iterable[ConfigException]:
        """One exception for each invalid or contradictory setting. Does not access anything outside the process."""
        raise NotImplementedError

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """Also checks for contradictory settings. The validating process must not access the catalog or the table."""
        values = super().validate(config)
        if not any(value.errors for value in values):
            add_errors(values, self.mistakes(self.config_def.parse(config)))
        return values

    def check_fully(self, config: Mapping[str, str]) -> None:
        """Also checks that the catalog accepts the credentials, and that the tables exist or may be created."""
        self.check(config)
        self.config = self.config_def.parse(config)
        try:
            with contextlib.closing(self.open()) as session:
                session.reject_missing_tables()
        except Exception as error:
            known = self.translate_error(error)
            raise known from (None if known is error else error)

    @functools.cached_property
    def unwritten(self) -> UnwrittenFields:
        """The fields that this task has not written. All its connections share it."""
        return UnwrittenFields(self.config.originals.get("name", ""), self.evolve_setting, self.alias_remedy)

    def lost_values(self) -> int:
        return self.unwritten.values

    @property
    def max_retries(self) -> int:  # type: ignore[override]  # from the config
        return int(self.config[MAX_RETRIES])

    def translate_library_error(self, error: Exception) -> Exception:
        """This package's exception for a library error, or ``error`` itself if it is unknown."""
        raise NotImplementedError

    def translate_error(self, error: Exception) -> Exception:
        known = self.translate_library_error(error)
        if isinstance(known, ConnectException | MemoryError):
            return known
        offsets = [f"{p.topic}-{p.partition}, offsets {first} to {last}" for p, (first, last) in sorted(self._put_offsets.items())]
        text = f"Unexpected error with {'; '.join(offsets) or 'no records'}: {shorten(text_of(error))}"
        self._unknown_since = time.monotonic() if self._unknown_since is None else self._unknown_since
        timeout_ms = int(self.config.originals.get(RETRY_TIMEOUT, 0))
        if timeout_ms < 0 or time.monotonic() - self._unknown_since < timeout_ms / 1000:
            return RetriableException(text)
        return ConnectException(f"{text}. Retries ({RETRY_TIMEOUT}) failed or are disabled")

    def begin(self, connection: Session) -> Session:
        self._put_offsets = {}
        connection.begin()
        return connection

    def create_offsets(self, connection: Session) -> None:
        connection.create_home_table()

    def write(self, transaction: Session, batch: Batch) -> None:
        offsets, partition = batch.kafka_offsets, batch.topic_partition
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        self._put_offsets = {**self._put_offsets, partition: (self._put_offsets.get(partition, (first, last))[0], last)}
        transaction.write(batch)

    def flush(self, transaction: Session) -> None:
        transaction.flush()

    def read_offsets(self, transaction: Session, connector: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetRow]:
        return transaction.read_offsets(partitions)

    def write_offsets(self, transaction: Session, connector: str, rows: Mapping[TopicPartition, OffsetRow | None]) -> None:
        transaction.write_offsets(rows)

    def holds_records(self, transaction: Session) -> bool:
        return transaction.holds_records()

    def commit(self, connection: Session) -> None:
        connection.commit()
        self._unknown_since = None
        self._written_tables = {**self._written_tables, **connection.written}

    def datasets(self) -> Iterable[Dataset]:
        return [Dataset.at(address, columns) for address, columns in self._written_tables.items()]


def upsert_key(name: str) -> ConfigKey:
    """The setting for upserts."""
    doc = (
        "false: each record is a new row. true: a record replaces the row with the same id columns, and one without a value deletes the "
        "row of its key."
    )
    return ConfigKey(name, Type.BOOLEAN, False, importance=Importance.HIGH, group="Writes", doc=doc)


def retries_key(reason: str) -> ConfigKey:
    """The setting for the number of retries of a commit after ``reason``."""
    return ConfigKey(MAX_RETRIES, Type.INT, 10, validator=Range(0), group="Errors", doc=f"How often a commit is repeated after {reason}.")
