"""Converters turn bytes in Kafka into data with a schema, and back. They convert single records or whole columns.

A converter defines one form for each direction, and the framework derives the other. Built-in converters define the column form.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_connect.data.arrow import np, pa
from airflow_provider_connect.data.columns import column_of, values_of
from airflow_provider_connect.data.schema import BYTES_SCHEMA, NULL, Schema, SchemaAndValue
from airflow_provider_connect.sdk.allowed_paths import NOTHING_ALLOWED, AllowedPaths
from airflow_provider_connect.sdk.config_def import Plugin

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


@dataclass(slots=True)
class ColumnRun:
    """``length`` consecutive values of one schema, as one Arrow array of that length. If ``schema`` is None, the values have no schema."""

    length: int
    schema: Schema | None
    column: pa.Array


class Converter(Plugin):
    """Converts bytes on a topic to data and back, for keys or for values.

    Each task has its own instance and calls it from one thread. Raise DataException for a value that cannot be converted. In the column
    form, the exception fails the whole column. Unless ``DataException.record`` has the record's index, the framework then converts parts of
    the column to find the record.
    """

    is_key: bool = False
    """Whether it converts keys."""
    allowed_paths: AllowedPaths = NOTHING_ALLOWED
    """The folders of the host whose files the config may name. The framework sets it before ``configure``."""

    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        """Read the settings. Called once, before anything else. ``config`` has the prefix (``value.converter.``) removed."""
        self.is_key = is_key

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """The bytes of one value. None becomes a tombstone."""
        self._need_one_of("from_connect_data", "from_connect_column")
        data: bytes | None = self.from_connect_column(topic, schema, column_of([value], schema))[0].as_py()
        return data

    def to_connect_data(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """The value of ``data``, with its schema. If ``data`` is None, the record is a tombstone."""
        self._need_one_of("to_connect_data", "to_connect_column")
        run = self.to_connect_column(topic, pa.array([data], type=pa.binary()))[0]
        return SchemaAndValue(run.schema, values_of(run.column, run.schema)[0])

    def from_connect_column(self, topic: str, schema: Schema | None, column: pa.Array) -> pa.Array:
        """The bytes of a column of one schema: Arrow binary, of the same length. Null stays null, or becomes the format's own null."""
        self._need_one_of("from_connect_data", "from_connect_column")
        return pa.array([self.from_connect_data(topic, schema, value) for value in values_of(column, schema)], type=pa.binary())

    def to_connect_column(self, topic: str, column: pa.Array) -> list[ColumnRun]:
        """The values of a column of bytes (Arrow binary), as one run per schema. The lengths of the runs add up to the length of the
        column."""
        self._need_one_of("to_connect_data", "to_connect_column")
        return list(column_runs(self.to_connect_data(topic, data) for data in column.to_pylist()))

    def find_invalid_rows(self, topic: str, column: pa.Array) -> Mapping[int, Exception]:
        """The row indexes for which ``to_connect_data`` would raise, each with its exception. Optional: by default the result is empty.

        Called before each column is converted; the framework leaves these rows out. Override it if finding invalid rows is much faster than
        converting them. The result need not have all invalid rows.
        """
        return {}

    def _need_one_of(self, *names: str) -> None:
        if all(getattr(type(self), name) is getattr(Converter, name) for name in names):
            raise NotImplementedError(f"{type(self).__qualname__} must define {' or '.join(names)}")


def column_runs(values: Iterable[SchemaAndValue]) -> Iterator[ColumnRun]:
    """One run for each group of consecutive values with the same schema."""
    for schema, run in itertools.groupby(values, key=lambda pair: pair.schema):
        of_run = [value for _, value in run]
        yield ColumnRun(len(of_run), schema, column_of(of_run, schema))


def joined_runs(runs: Iterable[ColumnRun]) -> list[ColumnRun]:
    """``runs``, after joining neighbours of the same schema and Arrow type."""
    return [_joined_run(list(group)) for _, group in itertools.groupby(runs, _kind)]


def _kind(run: ColumnRun) -> tuple[Schema | None, pa.DataType | None]:
    return run.schema, None if run.column is None else run.column.type


def _joined_run(group: list[ColumnRun]) -> ColumnRun:
    if len(group) == 1:
        return group[0]
    column = None if group[0].column is None else pa.concat_arrays([run.column for run in group])
    return ColumnRun(sum(run.length for run in group), group[0].schema, column)


def interleaved_runs(kinds: NDArray[np.int64], read: Mapping[int, tuple[Schema | None, pa.Array]]) -> list[ColumnRun]:
    """Runs of values of several kinds, in the original order of the values. The values of each kind were read as one column.

    ``kinds`` has the kind of each value and is not empty. ``read`` has schema and column of each kind."""
    bounds = [0, *(np.flatnonzero(kinds[1:] != kinds[:-1]) + 1).tolist(), len(kinds)]
    taken = dict.fromkeys(read, 0)
    runs = []
    for start, end in itertools.pairwise(bounds):
        number = int(kinds[start])
        schema, values = read[number]
        runs.append(ColumnRun(end - start, schema, values.slice(taken[number], end - start)))
        taken[number] += end - start
    return runs


class HeaderConverter(Plugin):
    """Converts bytes of record headers to data and back. Each task has its own instance and calls it from one thread.

    A header is converted only when it is read or changed: batches carry headers as bytes."""

    def configure(self, config: Mapping[str, str]) -> None:
        """Read the settings. Called once, before anything else."""

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        """The bytes of one header's value."""
        raise NotImplementedError

    def from_connect_header_column(self, topic: str, key: str, schema: Schema | None, column: pa.Array) -> pa.Array:
        """The bytes (Arrow binary) of one header of many records. By default this method converts the values one by one."""
        values = (self.from_connect_header(topic, key, schema, value) for value in values_of(column, schema))
        return pa.array(values, type=pa.binary())

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        """The value of one header, with its schema."""
        raise NotImplementedError


class RawHeaderConverter(HeaderConverter):
    """Leaves header values as bytes; a string becomes UTF-8. Used if no header converter is set."""

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return None if value is None else value.encode() if isinstance(value, str) else bytes(value)

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        return NULL if data is None else SchemaAndValue(BYTES_SCHEMA.as_optional(), data)


RAW_HEADERS: Final = RawHeaderConverter()
