"""SparkSource: reads rows of any format that Spark reads into a topic. Can be limited to new rows, by a column whose values only grow.

Only tasks import pyspark.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow_provider_connect.connectors.spark.settings import FORMAT, KEYS, PATH, ROWS, ROWS_KEY, FrameSettings, add_errors
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.arrow_schema import schema_of
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, ConfigValue, Importance
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport, SourceConnector
from airflow_provider_connect.sdk.datasets import Dataset
from airflow_provider_connect.sdk.task import SourceTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOPIC, COLUMN, SCHEMA = "topic", "incremental.column", "schema"
VALUE: Final = "value"
MAX_BYTES: Final = 256 << 20
"""Maximum size of the rows that share a value of the column, because they form one batch."""


class SparkSourceTask(SourceTask):
    """Reads the rows in the order of the column, up to its largest value at the start of the run. All rows with the same value are in one
    batch, so the value alone is the offset."""

    def start(self, config: Config) -> None:
        self._reading = threading.Lock()
        self._is_stopped = False
        self._rows: Iterator[pa.RecordBatch] | None = None
        self._held: pa.Table | None = None
        self._schema: Schema | None = None
        if self.context.is_preview:
            raise ConfigException.of("connector.class", "SparkSource", "It has no preview: Spark would have to start for that.")
        self._config = config
        self._topic, self._column = config[TOPIC], config[COLUMN]
        self._partition = None if not self._column else source_partition(config)
        found = None if self._partition is None else self.context.offset(self._partition)
        self._after = None if found is None else value_of(found)

    def poll(self) -> Batch | None:
        with self._reading:
            if self._is_stopped:
                return None
            try:
                rows = self._next()
            except BaseException:
                self._rows = self._held = None  # the next poll continues after the returned rows
                raise
            if rows is None:
                return None
            if self._column:
                self._after = text_of(rows[self._column][-1])
            self._schema = self._schema or schema_of(pa.field("", pa.struct(list(rows.schema)), nullable=False))
            offset = None if self._partition is None else {VALUE: self._after}
            return Batch.of(self._topic, rows, value_schema=self._schema, source_partition=self._partition, source_offset=offset)

    def datasets(self) -> Iterable[Dataset]:
        """The path. Locations in options are not reported, because their meaning depends on the format."""
        return [Dataset("file", self._config[PATH])] if self._config[PATH] else []

    def stop(self) -> None:
        self._is_stopped = True
        with self._reading:
            self._rows = self._held = None

    def _next(self) -> pa.Table | None:
        """The next rows, up to and including all rows of the last value. None if there are no more rows."""
        if self._rows is None:
            self._rows = self._open_batches()
        for batch in self._rows:
            if self._is_stopped:
                return None
            if not batch.num_rows:
                continue
            found = pa.Table.from_batches([batch])
            if not self._column:
                return found
            held = found if self._held is None else pa.concat_tables([self._held, found])
            column = held[self._column]
            start = pc.index(pc.equal(column, column[-1]), True).as_py()  # bytes of the rows with the last value; more such rows may follow
            self._held = held.slice(start)
            if start:
                return held.slice(0, start)
            if held.nbytes > MAX_BYTES:
                reason = f"More than {MAX_BYTES >> 20} MiB of rows have the value {text_of(column[-1])}. Name a column with more values."
                raise ConfigException.of(COLUMN, self._column, reason)
        rest, self._held = self._held, None
        return rest

    def _open_batches(self) -> Iterator[pa.RecordBatch]:
        from airflow_provider_connect.connectors.spark.frames import Range, open_frame, open_session, read_batches, translate_errors

        settings = FrameSettings.of(self._config, self.allowed_paths)
        session = open_session(self._config[ROWS])
        with translate_errors(settings):
            frame: DataFrame = open_frame(session, settings, self._config[SCHEMA])
            if self._column:
                range = Range(frame, COLUMN, self._column)
                newest = range.newest()
                if newest is None:
                    return iter(())
                frame = range.between(self._after, newest)
            batches = read_batches(frame)
            first = next(batches, None)  # Spark raises here for anything that it does not find
            return chain(() if first is None else (first,), batches)


class SparkSourceConnector(SourceConnector):
    """Reads rows with Spark into a topic: all rows in each run, or new rows by a column. One task reads the rows, in the driver of the
    application. The executors compute the rows."""

    needs_spark: ClassVar[bool] = True
    task_class: ClassVar[type[SourceTask]] = SparkSourceTask
    config_def = ConfigDef(
        ConfigKey(TOPIC, importance=Importance.HIGH, doc="The topic that the rows are written to."),
        *KEYS,
        ConfigKey(
            SCHEMA,
            default=None,
            doc="Columns and types for formats without a schema: id BIGINT, name STRING. Default: Spark infers them, or reads texts.",
        ),
        ConfigKey(
            COLUMN,
            default="",
            importance=Importance.HIGH,
            doc="Column of whole numbers, decimals, dates or timestamps whose values only grow: each run reads the rows after the last "
            "value. Without it, each run reads all rows.",
        ),
        ROWS_KEY,
    )

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        return add_errors(super().validate(config), config, self)

    def check(self, config: Mapping[str, str]) -> None:
        FrameSettings.of(self.config_def.parse(config), self.allowed_paths)

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [self.config.originals]

    def output_topics(self, config: Mapping[str, str]) -> Sequence[str]:
        return [config[TOPIC]]

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Only supported with a column. Without a column, a retried run reads the same rows again."""
        return ExactlyOnceSupport.SUPPORTED if config.get(COLUMN) else ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:  # Any: JSON from a user, checked here
        for partition, offset in offsets.items() if isinstance(offsets, Mapping) else offsets:
            if not isinstance(partition, Mapping) or set(partition) != {FORMAT, PATH, "column"}:
                raise ConnectException(f"A source partition has {FORMAT}, {PATH} and column, got {partition}")
            if offset is not None:
                value_of(offset)
        return True


def source_partition(config: Mapping[str, Any]) -> dict[str, object]:
    """The source partition. It has no options, because they may contain passwords."""
    return {FORMAT: config[FORMAT], PATH: config[PATH], "column": config[COLUMN]}


def value_of(offset: Mapping[str, object]) -> str:
    """The last value that was read. Raises ConnectException for an invalid offset."""
    value = offset.get(VALUE) if isinstance(offset, Mapping) else None
    if not isinstance(value, str) or not value or len(value) > 100:
        wanted = f"a value of the column as text, such as {{'{VALUE}': '17'}}"
        raise ConnectException(f"A source offset must be {wanted}, got {str(offset)[:200]}")
    return value


def text_of(value: pa.Scalar) -> str:
    """A value of the column as text that Spark casts back to the value. Python has no years before 1 or after 9999."""
    try:
        return str(value.as_py())
    except (OverflowError, ValueError):
        return str(value.cast(pa.string()))
