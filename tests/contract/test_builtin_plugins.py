"""Built-in connectors and converters: the suites that every plugin must pass, and what a real Kafka Connect 4.3.1 was recorded to do."""

import base64
import datetime
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from airflow_provider_connect.connectors import commit_files
from airflow_provider_connect.connectors.file_sink import FileStreamSinkConnector
from airflow_provider_connect.connectors.file_source import FileStreamSourceConnector
from airflow_provider_connect.connectors.filesystem.source.connector import FileSystemSourceConnector
from airflow_provider_connect.converters.json.converter import JsonConverter
from airflow_provider_connect.converters.plain import (
    BooleanConverter,
    ByteArrayConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
    SimpleHeaderConverter,
    StringConverter,
)
from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    Struct,
    decimal_schema,
)
from airflow_provider_connect.errors import ConnectException, DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Plugin, class_name_of
from airflow_provider_connect.sdk.converter import Converter
from airflow_provider_connect.sdk.testing import (
    ConverterSuite,
    MemorySinkContext,
    MemorySourceContext,
    SinkConnectorSuite,
    SourceConnectorSuite,
)
from tests.reaching import reaching

GOLDEN = Path(__file__).parent / "golden"


def steps(scenario: str) -> dict[str, Any]:
    """The steps of a recorded scenario that have a name, by it."""
    return {step["id"]: step for step in json.loads((GOLDEN / "rest" / f"{scenario}.json").read_text())["steps"] if "id" in step}


def configured(cls: type[Converter], **settings: str) -> Converter:
    converter = cls()
    converter.configure({key.replace("_", "."): value for key, value in settings.items()}, is_key=False)
    return converter


# The suites


class TestFileStreamSource(SourceConnectorSuite):
    connector_class = FileStreamSourceConnector

    @pytest.fixture(autouse=True)
    def file(self, tmp_path: Path) -> None:
        self.path, self.written = tmp_path / "lines.txt", 0
        self.path.touch()

    def config(self) -> dict[str, str]:
        return {"file": str(self.path), "topic": "suite", "batch.size": "4"}

    def write_to_source(self, count: int) -> None:
        with self.path.open("a") as file:
            file.writelines(f"line {number}\n" for number in range(self.written, self.written + count))
        self.written += count

    def test_any_offset_resumes_with_the_next_record(self) -> None:
        """Only the last record of a batch has an offset: four batches of twenty lines."""
        super().test_any_offset_resumes_with_the_next_record()


class TestFileSystemSource(SourceConnectorSuite):
    connector_class = FileSystemSourceConnector

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path, self.written = tmp_path, 0

    def config(self) -> dict[str, str]:
        return {"url": str(self.path), "topic": "suite", "batch.max.rows": "4", "file.minimum.age.ms": "0"}

    def write_to_source(self, count: int) -> None:
        """Files of ten lines at most."""
        for first in range(self.written, self.written + count, 10):
            lines = (f'{{"n":{number}}}\n' for number in range(first, min(first + 10, self.written + count)))
            (self.path / f"{first:05d}.json").write_text("".join(lines))
        self.written += count


class TestFileStreamSink(SinkConnectorSuite):
    connector_class = FileStreamSinkConnector

    @pytest.fixture(autouse=True)
    def file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(commit_files, "LOCK_SECONDS", 0.3)  # tests do not end tasks; a fork keeps a lock until its exec
        self.path = tmp_path / "lines.txt"

    def config(self) -> dict[str, str]:
        return {"file": str(self.path), "topics": "suite"}

    def delivered(self) -> list[Any]:
        return self.path.read_text().splitlines()


class TestFileStreamSinkExactlyOnce(TestFileStreamSink):
    exactly_once = True


PLACE = Schema.struct({"x": INT32_SCHEMA, "y": INT64_SCHEMA.as_optional().with_default(7)}, optional=True)
VALUES: Sequence[tuple[Schema | None, Any]] = [
    (STRING_SCHEMA, "text"),
    (STRING_SCHEMA, 'é😀 "\\\n\x1f'),
    (STRING_SCHEMA.as_optional(), None),
    (INT64_SCHEMA, -(2**63)),
    (FLOAT32_SCHEMA, 0.10000000149011612),
    (FLOAT64_SCHEMA.as_optional(), 1e300),
    (FLOAT64_SCHEMA.as_optional(), None),
    (BOOLEAN_SCHEMA, True),
    (BYTES_SCHEMA, b"\x00\xff"),
    (decimal_schema(3), Decimal("-12.345")),
    (DATE_SCHEMA, datetime.date(1969, 12, 31)),
    (TIME_SCHEMA, datetime.time(23, 59, 59, 999000)),
    (TIMESTAMP_SCHEMA, datetime.datetime(2020, 2, 29, 12, tzinfo=datetime.UTC)),
    (Schema.array(STRING_SCHEMA.as_optional()), ["a", None]),
    (Schema.map(STRING_SCHEMA, INT32_SCHEMA), {"a": 1}),
    (Schema.map(INT32_SCHEMA, STRING_SCHEMA), {1: "a"}),
    (PLACE, Struct(PLACE, {"x": 1, "y": 2})),
    (PLACE, None),
]


class TestJsonConverter(ConverterSuite):
    bad_data: ClassVar[Sequence[bytes]] = (b"", b"nul", b"5", b'{"a":1}', b'{"schema":{"type":"int32"},"payload":null}', b"\xff")
    bad_values: ClassVar[Sequence[tuple[Schema | None, Any]]] = ((STRING_SCHEMA, None), (INT32_SCHEMA, "x"), (STRING_SCHEMA, 5))

    def converter(self) -> Converter:
        return configured(JsonConverter)

    def values(self) -> Sequence[tuple[Schema | None, Any]]:
        return VALUES


class TestJsonConverterWithNumericDecimals(TestJsonConverter):
    def converter(self) -> Converter:
        return configured(JsonConverter, decimal_format="numeric")


class TestJsonConverterWithoutSchemas(ConverterSuite):
    bad_data: ClassVar[Sequence[bytes]] = (b"nul", b'{"a":', b"[1,]", b"'x'", b"\xff")

    def converter(self) -> Converter:
        return configured(JsonConverter, schemas_enable="false")

    def values(self) -> Sequence[tuple[Schema | None, Any]]:
        values: tuple[Any, ...] = ({"a": [1, 2.5, None, True, "é"]}, {}, [], {"b": {"c": 1}}, None)
        return [(None, value) for value in values]


class TestJsonConverterOfSchemalessNumbers(TestJsonConverterWithoutSchemas):
    def values(self) -> Sequence[tuple[Schema | None, Any]]:
        return [(None, value) for value in (1, -5, 2**63 - 1, None)]


class TestStringConverter(ConverterSuite):
    def converter(self) -> Converter:
        return configured(StringConverter)

    def values(self) -> Sequence[tuple[Schema | None, Any]]:
        return [
            (STRING_SCHEMA.as_optional(), "text"),
            (STRING_SCHEMA.as_optional(), ""),
            (STRING_SCHEMA.as_optional(), None),
            (INT32_SCHEMA, 5),
        ]

    def read_back(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        return STRING_SCHEMA.as_optional(), None if value is None else str(value)


class TestByteArrayConverter(ConverterSuite):
    bad_values: ClassVar[Sequence[tuple[Schema | None, Any]]] = ((STRING_SCHEMA, "x"), (None, "x"))

    def converter(self) -> Converter:
        return configured(ByteArrayConverter)

    def values(self) -> Sequence[tuple[Schema | None, Any]]:
        return [(BYTES_SCHEMA.as_optional(), b""), (BYTES_SCHEMA.as_optional(), b"\x00\xff"), (BYTES_SCHEMA.as_optional(), None)]


class NumberSuite(ConverterSuite):
    cls: ClassVar[type[Converter]]
    schema: ClassVar[Schema]
    numbers: ClassVar[Sequence[Any]]
    bad_data: ClassVar[Sequence[bytes]] = (b"", b"123")
    bad_values: ClassVar[Sequence[tuple[Schema | None, Any]]] = ((STRING_SCHEMA, "x"),)

    def converter(self) -> Converter:
        return configured(self.cls)

    def values(self) -> Sequence[tuple[Schema | None, Any]]:
        return [(self.schema, number) for number in (*self.numbers, None)]


class TestShortConverter(NumberSuite):
    cls, schema, numbers = ShortConverter, INT16_SCHEMA.as_optional(), (0, -1, 32767)


class TestIntegerConverter(NumberSuite):
    cls, schema, numbers = IntegerConverter, INT32_SCHEMA.as_optional(), (0, -1, 2**31 - 1)


class TestLongConverter(NumberSuite):
    cls, schema, numbers = LongConverter, INT64_SCHEMA.as_optional(), (0, -1, 2**63 - 1)


class TestFloatConverter(NumberSuite):
    cls, schema, numbers = FloatConverter, FLOAT32_SCHEMA.as_optional(), (0.0, -1.5)


class TestDoubleConverter(NumberSuite):
    cls, schema, numbers = DoubleConverter, FLOAT64_SCHEMA.as_optional(), (0.0, 1e300)


class TestBooleanConverter(NumberSuite):
    cls, schema, numbers = BooleanConverter, BOOLEAN_SCHEMA.as_optional(), (True, False)
    bad_data: ClassVar[Sequence[bytes]] = (b"", b"\x02", b"11")


# Recordings

PLUGINS: Mapping[str, type[Plugin]] = {
    "source": FileStreamSourceConnector,
    "source by alias": FileStreamSourceConnector,
    "source by simple name": FileStreamSourceConnector,
    "sink": FileStreamSinkConnector,
    "json converter": JsonConverter,
    "string converter": StringConverter,
    "long converter": LongConverter,
    "simple header converter": SimpleHeaderConverter,
}


@pytest.mark.parametrize("name", PLUGINS)
def test_settings_are_those_of_connects_plugin(name: str) -> None:
    step, plugin = steps("plugin-config")[name], PLUGINS[name]
    asked = step["path"].split("/")[2]
    assert asked in (class_name_of(plugin), *plugin.aliases)
    recorded = step["answer"]["body"]
    own = [key for key in recorded if key["name"] in plugin.config_def.keys]
    assert plugin.config_def.describe() == own
    if plugin not in (FileStreamSourceConnector, FileStreamSinkConnector):
        assert len(own) == len(recorded)


def test_class_names_are_those_that_connect_lists() -> None:
    listed = {(plugin["class"], plugin["type"]) for plugin in steps("plugins-list")["all"]["answer"]["body"]}
    numbers = (BooleanConverter, DoubleConverter, FloatConverter, IntegerConverter, LongConverter, ShortConverter)
    ours = {
        (class_name_of(cls), kind)
        for cls in (JsonConverter, StringConverter, ByteArrayConverter, *numbers)
        for kind in ("converter", "header_converter")
    }
    ours |= {(class_name_of(SimpleHeaderConverter), "header_converter")}
    assert ours == {(name, kind) for name, kind in listed if kind.endswith("converter")}
    for connector, kind in ((FileStreamSourceConnector, "source"), (FileStreamSinkConnector, "sink")):
        assert (class_name_of(connector), kind) in listed


def polled(path: Path, position: int | None = None) -> Batch:
    config = {"file": str(path), "topic": "t"}
    task = reaching(FileStreamSourceConnector.task_class())
    key = json.dumps({"filename": str(path)}, sort_keys=True)
    task.initialize(MemorySourceContext(config, {} if position is None else {key: {"position": position}}))
    task.start(FileStreamSourceConnector.task_config(config))
    batch = task.poll()
    task.stop()
    assert isinstance(batch, Batch)
    return batch


def lines_written(path: Path, batches: Sequence[Batch]) -> list[str]:
    config = {"file": str(path)}
    task = reaching(FileStreamSinkConnector.task_class())
    task.initialize(MemorySinkContext(config, []))
    task.start(FileStreamSinkConnector.task_config(config))
    for batch in batches:
        task.put(batch)
    task.flush({})
    task.stop()
    return path.read_text().splitlines()


def records(converter: Converter, batch: Batch) -> list[dict[str, str | None]]:
    assert batch.value is not None
    data = converter.from_connect_column("t", batch.value_schema, batch.value)
    return [{"key": None, "value": value.decode()} for value in data.to_pylist()]


def test_lines_through_converters_are_the_recorded_records(tmp_path: Path) -> None:
    recorded = json.loads((GOLDEN / "rest" / "converters.json").read_text())["steps"]
    (tmp_path / "conv.txt").write_text(recorded[0]["text"])
    batch = polled(tmp_path / "conv.txt")
    named = steps("converters")
    assert records(configured(StringConverter), batch) == named["string records"]["answer"]["body"]
    assert records(configured(JsonConverter, schemas_enable="false"), batch) == named["json records"]["answer"]["body"]
    assert records(configured(JsonConverter, schemas_enable="true"), batch) == named["worker's records"]["answer"]["body"]


@pytest.mark.parametrize(
    ("source", "converter", "sink"),
    [
        ("worker's records", configured(StringConverter), "raw lines"),
        ("json records", configured(JsonConverter, schemas_enable="false"), "lines as they were"),
    ],
)
def test_recorded_records_are_the_recorded_lines(tmp_path: Path, source: str, converter: Converter, sink: str) -> None:
    named = steps("converters")
    data = pa.array([record["value"].encode() for record in named[source]["answer"]["body"]])
    batches = [Batch("t", run.column, value_schema=run.schema) for run in converter.to_connect_column("t", data)]
    assert lines_written(tmp_path / "out.txt", batches) == named[sink]["answer"]["body"]


def test_positions_are_the_recorded_offsets(tmp_path: Path) -> None:
    recorded = {step.get("id"): step for step in json.loads((GOLDEN / "rest" / "source-lifecycle.json").read_text())["steps"]}
    path = tmp_path / "lines.txt"
    path.write_text(
        recorded[None]["text"] if "text" in recorded.get(None, {}) and recorded[None]["step"] == "write" else "one\ntwo\nthree\n"
    )
    first = polled(path)
    assert first.source_offset == recorded["offsets"]["answer"]["body"]["offsets"][0]["offset"]
    assert records(configured(JsonConverter), first) == recorded["records"]["answer"]["body"]
    with path.open("a") as file:
        file.write("four\n")
    assert polled(path, 14).source_offset == recorded["offsets later"]["answer"]["body"]["offsets"][0]["offset"]


REFUSED = [
    step for step in steps("source-offsets-refused").values() if step.get("deviation", {}).get("name") == "offsets-rejected-by-plugin"
]


@pytest.mark.parametrize("step", REFUSED, ids=[step["id"] for step in REFUSED])
def test_wrong_offsets_get_the_recorded_text(step: dict[str, Any]) -> None:
    pairs = [(entry.get("partition"), entry.get("offset")) for entry in step["json"]["offsets"]]
    with pytest.raises(ConnectException) as raised:
        reaching(FileStreamSourceConnector()).alter_offsets({"file": "/x", "topic": "t"}, pairs)
    assert str(raised.value) == step["answer"]["body"]["message"]


def answered(converter: Converter, read: bytes) -> str | None:
    """What the converter writes of what it reads; None if it refuses, empty for nothing."""
    try:
        data = converter.from_connect_data("t", None, converter.to_connect_data("t", read).value)
    except DataException:
        return None
    return "" if data is None else data.decode()


HALF_PAIRS = {b'"\\ud83d"', b'"\\ude00"'}  # no text, and refused here


def test_json_converter_without_schemas_writes_what_connects_does() -> None:
    """But for its limits of depth and length, and for what is no text behind the value."""
    plain, counts = configured(JsonConverter, schemas_enable="false"), Counter[str]()
    for line in (GOLDEN / "json_converter.jsonl").read_text().strip().split("\n"):
        row = json.loads(line)
        read = base64.b64decode(row["read"]["base64"]) if isinstance(row["read"], dict) else row["read"].encode()
        ours = answered(plain, read)
        if (ours or None) == (row["written"] or None):
            counts["equal"] += 1
        elif len(read) >= 500 or read.endswith(b"\xff") or read in HALF_PAIRS:
            counts["other limits"] += 1
        else:
            assert ours, row
            assert float(ours) == float(row["written"]), row
            counts["same number, one digit less"] += 1
    assert counts["equal"] > 580, counts
    assert counts["same number, one digit less"] < 5, counts
