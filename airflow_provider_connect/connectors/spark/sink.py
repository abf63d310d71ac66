"""SparkSink: appends records of topics to any format that Spark writes, at least once.

Only tasks import pyspark.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

from airflow_provider_connect.connectors.lake.rows import lake_field, project, value_rows
from airflow_provider_connect.connectors.spark.settings import KEYS, FrameSettings, add_errors
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, ConfigValue, Range, Type
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport, SinkConnector
from airflow_provider_connect.sdk.datasets import Dataset
from airflow_provider_connect.sdk.task import SinkTask

FLUSH_BYTES: Final = "flush.bytes"


class SparkSinkTask(SinkTask):
    """Buffers rows until they reach ``flush.bytes``, the schema changes, or a commit is due. A Spark job then appends them."""

    required_columns: ClassVar[frozenset[str]] = frozenset()

    def start(self, config: Config) -> None:
        from airflow_provider_connect.connectors.spark.frames import open_session

        self._writing = threading.Lock()
        self._rows: list[pa.Table] = []
        self._bytes = 0
        self._max_bytes = config[FLUSH_BYTES]
        self._settings = FrameSettings.of(config, self.allowed_paths)
        self._session = open_session()

    def put(self, batch: Batch) -> None:
        """Raises DataException for values that are not structs, and for fields without a type in Spark."""
        rows = _table(batch)
        if not rows.num_rows:
            return
        with self._writing:
            if self._rows and not rows.schema.equals(self._rows[-1].schema):
                self._append()
            self._rows.append(rows)
            self._bytes += rows.nbytes
            if self._bytes >= self._max_bytes:
                self._append()

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        with self._writing:
            self._append()

    def datasets(self) -> Iterable[Dataset]:
        """The path, as in SparkSourceTask."""
        return [Dataset("file", self._settings.url.removeprefix("file://"))] if self._settings.url else []

    def stop(self) -> None:
        """Drops rows that were not flushed. They are delivered again."""

    def _append(self) -> None:
        from airflow_provider_connect.connectors.spark.frames import append_rows, translate_errors

        if not self._rows:
            return
        with translate_errors(self._settings):
            append_rows(self._session, self._settings, pa.concat_tables(self._rows))
        self._rows.clear()
        self._bytes = 0


class SparkSinkConnector(SinkConnector):
    """Appends the records of topics to any format that Spark writes. Values must be structs with a schema. One task reads the records, in
    the driver of the application. The executors write the rows."""

    needs_spark: ClassVar[bool] = True
    task_class: ClassVar[type[SinkTask]] = SparkSinkTask
    config_def = ConfigDef(
        *KEYS,
        ConfigKey(
            FLUSH_BYTES,
            Type.LONG,
            64 << 20,
            validator=Range(1, 1 << 30),
            doc="Rows are written when they take this many bytes in memory, and before each commit of offsets.",
        ),
    )

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        return add_errors(super().validate(config), config, self)

    def check(self, config: Mapping[str, str]) -> None:
        FrameSettings.of(self.config_def.parse(config), self.allowed_paths)

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """One task. If two Spark jobs appended to a folder, the first job to end would remove the temporary files of the other."""
        return [self.config.originals]

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Not supported, because Spark's writers cannot store offsets and claims."""
        return ExactlyOnceSupport.UNSUPPORTED


def _table(batch: Batch) -> pa.Table:
    """The rows of the records with a value, converted to Spark's types."""
    rows = value_rows(batch)
    if batch.value is None or not rows.num_columns:
        return pa.table({})
    schema = pa.schema([lake_field(field).remove_metadata().with_nullable(True) for field in rows.schema])
    for field in schema:
        if pa.types.is_time(field.type) or pa.types.is_decimal256(field.type):
            raise DataException(f"Spark has no type for the field {field.name} ({field.type}). Convert it, or leave it out.")
    return project(rows, schema, rows.num_rows).filter(pc.is_valid(batch.value))
