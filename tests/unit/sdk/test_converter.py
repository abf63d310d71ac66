"""Each form of a converter made of the other."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from airflow_provider_connect.data.schema import INT64_SCHEMA, NULL, STRING_SCHEMA, Schema, SchemaAndValue
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.converter import ColumnRun, Converter, column_runs
from airflow_provider_connect.sdk.testing import ConverterSuite


class TaggedText(Converter):
    """Record form: ``i5`` is a number, ``sx`` a text."""

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, int | str):
            raise DataException(f"cannot write {value!r}")
        return f"{'i' if isinstance(value, int) else 's'}{value}".encode()

    def to_connect_data(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        text = data.decode()
        if text[:1] not in ("i", "s"):
            raise DataException(f"neither number nor text: {text}")
        return SchemaAndValue(INT64_SCHEMA, int(text[1:])) if text[0] == "i" else SchemaAndValue(STRING_SCHEMA, text[1:])


class PlainText(Converter):
    """Column form: text as UTF-8."""

    def from_connect_column(self, topic: str, schema: Schema | None, column: pa.Array) -> pa.Array:
        try:
            return pc.cast(column, pa.string()).cast(pa.binary())
        except pa.ArrowNotImplementedError as error:
            raise DataException(f"not text: {error}") from error

    def to_connect_column(self, topic: str, column: pa.Array) -> list[ColumnRun]:
        try:
            return [ColumnRun(len(column), STRING_SCHEMA.as_optional(), column.cast(pa.string()))]
        except pa.ArrowInvalid as error:
            raise DataException(f"not UTF-8: {error}") from error


class TestTaggedText(ConverterSuite):
    bad_data = (b"x5", b"")
    bad_values = ((None, 1.5),)

    def converter(self) -> Converter:
        converter = TaggedText()
        converter.configure({}, is_key=False)
        return converter

    def values(self) -> Sequence[tuple[Schema | None, Any]]:
        return [(INT64_SCHEMA, 1), (INT64_SCHEMA, 2), (STRING_SCHEMA, "a"), (INT64_SCHEMA, 3), (INT64_SCHEMA.as_optional(), None)]

    def read_back(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        return (None, None) if value is None else (schema, value)


class TestPlainText(ConverterSuite):
    bad_data = (b"\xff",)

    def converter(self) -> Converter:
        converter = PlainText()
        converter.configure({}, is_key=True)
        assert converter.is_key
        return converter

    def values(self) -> Sequence[tuple[Schema | None, Any]]:
        return [(STRING_SCHEMA, "a"), (STRING_SCHEMA, "é"), (STRING_SCHEMA.as_optional(), None), (INT64_SCHEMA, 7)]

    def read_back(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        return STRING_SCHEMA.as_optional(), None if value is None else str(value)


def test_columns_are_cut_where_the_schema_changes() -> None:
    runs = TaggedText().to_connect_column("t", pa.array([b"i1", b"i2", b"sx", None, b"i3"]))
    assert [(run.length, run.schema, run.column.to_pylist()) for run in runs] == [
        (2, INT64_SCHEMA, [1, 2]),
        (1, STRING_SCHEMA, ["x"]),
        (1, None, [None]),
        (1, INT64_SCHEMA, [3]),
    ]
    assert list(column_runs([])) == []


def test_converter_with_neither_form_reports_it() -> None:
    converter = Converter()
    for call in (
        lambda: converter.from_connect_data("t", None, 1),
        lambda: converter.from_connect_column("t", None, pa.array([1])),
    ):
        with pytest.raises(NotImplementedError, match="Converter must define from_connect_data or from_connect_column"):
            call()
    for call in (lambda: converter.to_connect_data("t", b""), lambda: converter.to_connect_column("t", pa.array([b""]))):
        with pytest.raises(NotImplementedError, match="Converter must define to_connect_data or to_connect_column"):
            call()


def test_the_suite_gives_a_converter_a_struct() -> None:
    class JsonText(PlainText):
        def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
            return None if value is None else json.dumps(value).encode()

    class Suite(TestPlainText):
        def converter(self) -> Converter:
            return JsonText()

    with pytest.raises(TypeError, match="Object of type Struct is not JSON serializable"):
        Suite().test_structs_are_written_or_refused()
