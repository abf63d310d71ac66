"""Suites for converters and transformations: the column or batch form must agree with the record form."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pytest

from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.columns import column_of, values_of
from airflow_provider_connect.data.records import SinkRecord, SourceRecord
from airflow_provider_connect.data.schema import STRING_SCHEMA, Schema, Struct
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.converter import Converter
from airflow_provider_connect.sdk.transformations import Transformation


class ConverterSuite:
    """The contract of a converter. Define ``converter`` and ``values``. Also define ``read_back`` if a value changes in a round trip."""

    bad_data: ClassVar[Sequence[bytes]] = ()
    """Bytes that raise DataException when they are read."""
    bad_values: ClassVar[Sequence[tuple[Schema | None, Any]]] = ()
    """Schemas and values that raise DataException when they are written."""

    def converter(self) -> Converter:
        """A new, configured converter."""
        raise NotImplementedError

    def values(self) -> Sequence[tuple[Schema | None, Any]]:
        """Schemas and values that the converter can write, including null if the format supports it."""
        raise NotImplementedError

    def read_back(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        """The schema and value to expect when ``value`` is written and read back. By default both are unchanged."""
        return schema, value

    def _columns(self) -> Iterator[tuple[Schema | None, list[Any]]]:
        for schema, run in itertools.groupby(self.values(), key=lambda pair: pair[0]):
            yield schema, [value for _, value in run]

    def test_values_survive_a_round_trip(self) -> None:
        converter = self.converter()
        for schema, value in self.values():
            data = converter.from_connect_data("t", schema, value)
            assert tuple(converter.to_connect_data("t", data)) == self.read_back(schema, value)

    def test_columns_are_written_like_records(self) -> None:
        converter = self.converter()
        for schema, values in self._columns():
            column = converter.from_connect_column("t", schema, column_of(values, schema))
            assert column.type == pa.binary()
            assert column.to_pylist() == [converter.from_connect_data("t", schema, value) for value in values]

    def test_columns_are_read_like_records(self) -> None:
        converter = self.converter()
        data = [converter.from_connect_data("t", schema, value) for schema, value in self.values()]
        runs = converter.to_connect_column("t", pa.array(data, type=pa.binary()))
        assert sum(run.length for run in runs) == len(data)
        found = [(run.schema, value) for run in runs for value in values_of(run.column, run.schema)]
        for (schema, value), text in zip(found, data, strict=True):
            expected = converter.to_connect_data("t", text)
            assert value == expected.value
            assert schema == expected.schema or value is None

    def test_slices_are_read_like_whole_columns(self) -> None:
        """A column may be a slice of a larger one, with an offset into Arrow's buffers."""
        converter = self.converter()
        data = [converter.from_connect_data("t", schema, value) for schema, value in self.values()]
        window = pa.array([b"before", *data, b"after"], type=pa.binary()).slice(1, len(data))
        found = [value for run in converter.to_connect_column("t", window) for value in values_of(run.column, run.schema)]
        assert found == [converter.to_connect_data("t", text).value for text in data]
        for schema, values in self._columns():
            column = column_of([*values, *values], schema).slice(len(values))
            written = converter.from_connect_column("t", schema, column).to_pylist()
            assert written == [converter.from_connect_data("t", schema, value) for value in values]

    def test_empty_columns(self) -> None:
        converter = self.converter()
        assert sum(run.length for run in converter.to_connect_column("t", pa.array([], type=pa.binary()))) == 0
        for schema, _ in self._columns():
            assert len(converter.from_connect_column("t", schema, column_of([], schema))) == 0

    def test_tombstone_is_null(self) -> None:
        converter = self.converter()
        assert converter.to_connect_data("t", None).value is None
        runs = converter.to_connect_column("t", pa.nulls(2, pa.binary()))
        assert [value for run in runs for value in values_of(run.column, run.schema)] == [None, None]

    def test_structs_are_written_or_refused(self) -> None:
        """A value of a struct schema is a ``Struct``, which is not a dict. A converter writes it or raises DataException."""
        converter, schema = self.converter(), Schema.struct({"name": STRING_SCHEMA})
        struct = Struct(schema, {"name": "tea"})
        with contextlib.suppress(DataException):
            converter.from_connect_data("t", schema, struct)
        with contextlib.suppress(DataException):
            converter.from_connect_column("t", schema, column_of([struct], schema))

    def test_bad_data_is_refused(self) -> None:
        converter = self.converter()
        for data in self.bad_data:
            with pytest.raises(DataException):
                converter.to_connect_data("t", data)
            with pytest.raises(DataException):
                converter.to_connect_column("t", pa.array([data], type=pa.binary()))

    def test_bad_values_are_refused(self) -> None:
        converter = self.converter()
        for schema, value in self.bad_values:
            with pytest.raises(DataException):
                converter.from_connect_data("t", schema, value)


class TransformationSuite:
    """The contract of a transformation: ``apply_batch`` must change a batch as ``apply`` changes its records."""

    def transformation(self) -> Transformation:
        """A new, configured transformation."""
        raise NotImplementedError

    def records(self) -> Sequence[SourceRecord]:
        """Records that show its effect. The suite sets their source partition and offsets."""
        raise NotImplementedError

    def _source_records(self) -> list[SourceRecord]:
        return [record.replace(source_partition={"s": 1}, source_offset={"n": n}) for n, record in enumerate(self.records())]

    def _sink_records(self) -> list[SinkRecord]:
        return [
            SinkRecord(
                record.topic, 0, 100 + n, record.key, record.value, record.key_schema, record.value_schema, record.timestamp,
                headers=record.headers.duplicate(),
            )
            for n, record in enumerate(self.records())
        ]  # fmt: skip

    def test_source_batches_change_like_records(self) -> None:
        transformation = self.transformation()
        expected = [_seen(after) for record in self._source_records() if (after := transformation.apply(record)) is not None]
        batches = Batch.from_source_records(self._source_records())
        pieces = [piece for batch in batches for piece in _listed(transformation.apply_batch(batch))]
        _assert_same([_seen(record) for piece in pieces for record in piece.source_records()], expected)

    def test_sink_batches_change_like_records(self) -> None:
        transformation = self.transformation()
        expected = [_seen(after) for record in self._sink_records() if (after := transformation.apply(record)) is not None]
        pieces = self._sink_pieces(transformation)
        _assert_same([_seen(record) for piece in pieces for record in piece.sink_records()], expected)

    def test_sink_offsets_are_kept(self) -> None:
        """Even if a record's topic changes, the record keeps its Kafka partition and offset, which are used for commits."""
        before = {(record.topic_partition, record.kafka_offset) for record in self._sink_records()}
        for piece in self._sink_pieces(self.transformation()):
            for record in piece.sink_records():
                assert (record.topic_partition, record.kafka_offset) in before

    def test_empty_batch_is_harmless(self) -> None:
        for batch in Batch.from_source_records(self._source_records()):
            assert sum(len(piece) for piece in _listed(self.transformation().apply_batch(batch.slice(0, 0)))) == 0

    def _sink_pieces(self, transformation: Transformation) -> list[Batch]:
        batches = Batch.from_sink_records(self._sink_records())
        return [piece for batch in batches for piece in _listed(transformation.apply_batch(batch))]


def _listed(batches: Batch | list[Batch] | None) -> list[Batch]:
    return [] if batches is None else batches if isinstance(batches, list) else [batches]


def _seen(record: SourceRecord | SinkRecord) -> dict[str, object]:
    """The parts of a record that a consumer can see."""
    names = ("topic", "kafka_partition", "key_schema", "key", "value_schema", "value", "timestamp")
    headers = [(header.key, _text(header.value)) for header in record.headers]
    return {**{name: getattr(record, name) for name in names}, "headers": headers}


def _text(value: object) -> object:
    return bytes(value) if isinstance(value, bytearray | memoryview) else value.encode() if isinstance(value, str) else value


def _assert_same(found: list[dict[str, object]], expected: list[dict[str, object]]) -> None:
    """Fail with the attributes and fields that differ."""
    differences = [
        f"record {number}: {difference}"
        for number, (batch, record) in enumerate(zip(found, expected, strict=False))
        for name in record
        for difference in _differences(name, batch[name], record[name])
    ]
    if len(found) != len(expected):
        differences.append(f"{len(found)} records from apply_batch, {len(expected)} from apply")
    if differences:
        raise AssertionError("\n".join(["apply_batch and apply differ:", *differences]))


def _differences(name: str, batch: Any, record: Any) -> Iterator[str]:
    """The innermost fields that differ, with the values of both forms."""
    if batch == record:
        return
    if isinstance(batch, Struct) and isinstance(record, Struct) and list(batch) == list(record):
        for field in batch:
            yield from _differences(f"{name}.{field}", batch.get_without_default(field), record.get_without_default(field))
    elif isinstance(batch, Schema) and isinstance(record, Schema) and batch.fields and record.fields:
        before, after = ({field.name: field.schema for field in schema.fields} for schema in (batch, record))
        for field in dict.fromkeys([*before, *after]):
            yield from _differences(f"{name}.{field}", before.get(field), after.get(field))
        batch, record = dataclasses.replace(batch, fields=()), dataclasses.replace(record, fields=())
        if batch != record:
            yield f"{name} is {_shown(batch)} from apply_batch, {_shown(record)} from apply"
    else:
        yield f"{name} is {_shown(batch)} from apply_batch, {_shown(record)} from apply"


def _shown(value: object) -> str:
    """A schema by its attributes that are set; anything else by ``repr``."""
    if not isinstance(value, Schema):
        return repr(value)
    given = {
        field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.repr and field.name not in ("type", "fields")
    }
    return ", ".join([value.type.name, *(f"{name}={each!r}" for name, each in given.items() if each not in (None, False))])
