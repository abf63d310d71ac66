"""Spark frames as Arrow batches, and Arrow tables as Spark frames. Executors compute both conversions, and no row becomes a Python object.

Loaded only by tasks, in the driver of the Spark application.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException, PySparkRuntimeError, UnsupportedOperationException
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.types import ByteType, DataType, DateType, DecimalType, IntegerType, LongType, ShortType, TimestampNTZType, TimestampType

from airflow_provider_connect.connectors.spark.settings import FORMAT, FrameSettings
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.errors import ConfigException, ConnectException

_ORDERED: Final = (ByteType, ShortType, IntegerType, LongType, DecimalType, DateType, TimestampType, TimestampNTZType)
"""Types that Spark, databases and Arrow order and compare in the same way. Strings are not included, because databases have collations."""


def open_session(rows: int = 10_000) -> SparkSession:
    """A new session of the application. ``rows`` is the maximum number of rows in an Arrow batch. If the process has no application, Spark
    is started on this machine. Raises ConnectException if that fails."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")  # pyspark requires pandas, which is not used here
    try:
        session = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate().newSession()
    except PySparkRuntimeError as error:
        raise ConnectException(f"Spark does not start here. Install Java 17 or later, and set JAVA_HOME. ({error})") from error
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(rows))
    return session


@contextmanager
def translate_errors(settings: FrameSettings, key: str = FORMAT) -> Iterator[None]:
    """Raise ConfigException for errors that Spark raises before it reads or writes: a missing path, an unknown option, class or column."""
    try:
        yield
    except (AnalysisException, IllegalArgumentException, ParseException, UnsupportedOperationException) as error:
        raise ConfigException.of(key, settings.format, f"Spark rejects it: {str(error).partition('JVM stacktrace')[0][:2000]}") from error
    except ImportError as error:
        raise ConnectException(f"Spark needs a package for this: {error}. Run: pip install 'airflow-provider-connect[frames]'") from error


def open_frame(session: SparkSession, settings: FrameSettings, schema: str | None) -> DataFrame:
    """A frame of the format, path and options. ``schema`` has columns and types in Spark's DDL. None means the format's own schema."""
    reader = session.read.format(settings.format).options(**settings.options)
    if schema:
        reader = reader.schema(schema)
    return reader.load(settings.url) if settings.url else reader.load()


def append_rows(session: SparkSession, settings: FrameSettings, rows: pa.Table) -> None:
    """Append rows to the destination, as one partition. This is one file, or one transaction of a database."""
    writer = session.createDataFrame(rows).coalesce(1).write.format(settings.format).options(**settings.options).mode("append")
    writer.save(settings.url) if settings.url else writer.save()


class Range:
    """The rows of a frame, in ranges of a column whose values only grow."""

    def __init__(self, frame: DataFrame, key: str, column: str) -> None:
        """Raises ConfigException, which names the setting ``key``, for a missing column and an unsupported type."""
        types = {field.name: field.dataType for field in frame.schema}
        if not isinstance(types.get(column), _ORDERED):
            found = f"is of type {types[column].simpleString()}" if column in types else f"is not one of {', '.join(types)}"[:1000]
            raise ConfigException.of(
                key, column[:200], f"The column {found}. Name a column of whole numbers, decimals, dates or timestamps."
            )
        self._frame, self._type = frame, types[column]
        self._column = functions.col(f"`{column.replace('`', '``')}`")

    def newest(self) -> str | None:
        """The column's largest value as text. None for a frame without values."""
        found = self._frame.agg(functions.max(self._column).cast("string")).first()
        return None if found is None or found[0] is None else str(found[0])

    def between(self, after: str | None, upto: str) -> DataFrame:
        """The rows with values after ``after`` up to ``upto`` (inclusive), in order."""
        rows = self._frame.where(self._column <= _literal(upto, self._type))
        if after is not None:
            rows = rows.where(self._column > _literal(after, self._type))
        return rows.orderBy(self._column)


def _literal(text: str, type: DataType) -> Column:
    return functions.lit(text).cast(type)


def read_batches(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """The rows in the frame's order, one partition after another. The driver holds at most two partitions: the current and the next
    partition."""
    names = frame.columns
    plain = frame.toDF(*(f"c{number}" for number in range(len(names))))  # mapInArrow interprets dots and backticks in names
    for row in plain.mapInArrow(pack_batches, "rows binary").toLocalIterator(prefetchPartitions=True):
        with pa.ipc.open_stream(row[0]) as reader:
            yield from (batch.rename_columns(names) for batch in reader)


def pack_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each batch as one row of a binary column, in Arrow's stream format. Called in executors."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.record_batch([pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=["rows"])
