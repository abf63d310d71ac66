"""Records made to break what reads them: too deep, numbers too long, decimals of scales that nothing holds, schemas of many fields.

Whatever a record holds, a converter, a transformation or a sink's reading of it raises DataException or passes.
"""

import base64
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from airflow_provider_connect.connectors.file_sink import FileStreamSinkConnector, FileStreamSinkTask, text_column
from airflow_provider_connect.converters.json.converter import JsonConverter
from airflow_provider_connect.converters.plain import (
    ByteArrayConverter,
    DoubleConverter,
    LongConverter,
    SimpleHeaderConverter,
    StringConverter,
)
from airflow_provider_connect.data.columns import column_of, json_column, values_of
from airflow_provider_connect.data.json_text import MAX_DEPTH, MAX_NUMBER_LENGTH, depth_of, may_have_long_number
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.data.schema import BYTES_SCHEMA, Schema, decimal_schema
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException
from airflow_provider_connect.runtime.model.connector_settings import ErrorSettings
from airflow_provider_connect.runtime.worker.delivery.raw_batch import RawBatch
from airflow_provider_connect.runtime.worker.errors.failures import ConsumedRecord, ErrorStage, Failure
from airflow_provider_connect.runtime.worker.errors.tolerance import Tolerance
from airflow_provider_connect.runtime.worker.pipeline.sink_pipeline import SinkPipeline
from airflow_provider_connect.runtime.worker.pipeline.stages import Converters, Stage
from airflow_provider_connect.runtime.worker.task.sink_errors import SinkErrors
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch
from airflow_provider_connect.sdk.converter import Converter
from airflow_provider_connect.sdk.testing.contexts import MemorySinkContext
from airflow_provider_connect.sdk.transformations import Transformation
from airflow_provider_connect.transforms.cast import CastValue
from airflow_provider_connect.transforms.fields import InsertFieldValue, MaskFieldValue, ReplaceFieldValue
from airflow_provider_connect.transforms.structs import ExtractFieldValue, FlattenValue, HoistFieldValue, SetSchemaMetadataValue, ValueToKey
from airflow_provider_connect.transforms.timestamp_converter import TimestampConverterValue
from tests.reaching import reaching

SEED: Final = 20
DECIMAL: Final = '{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"%s"}}'


def nested(depth: int, opening: str = "[", closing: str = "]", inner: str = "") -> bytes:
    return (opening * depth + inner + closing * depth).encode()


def enveloped(schema: str, payload: str) -> bytes:
    return f'{{"schema":{schema},"payload":{payload}}}'.encode()


def arrays(depth: int) -> str:
    return '{"type":"array","items":' * depth + '{"type":"int32"}' + "}" * depth


def structs(depth: int) -> str:
    return (
        '{"type":"struct","optional":true,"fields":[' * depth
        + '{"type":"int32","field":"x","optional":true}'
        + '],"field":"s"}' * (depth - 1)
        + "]}"
    )


def json_converter(**settings: str) -> JsonConverter:
    converter = JsonConverter()
    converter.configure({name.replace("_", "."): text for name, text in settings.items()}, is_key=False)
    return converter


PLAIN, ENVELOPE = json_converter(schemas_enable="false"), json_converter()


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (nested(MAX_DEPTH + 1), "nesting depth"),
        (nested(1500), "nesting depth"),
        (nested(200_000), "nesting depth"),
        (nested(MAX_DEPTH + 1, '{"a":', "}", "1"), "nesting depth"),
        (nested(MAX_DEPTH + 1, '{"\\"[":', "}", '"]\\\\"'), "nesting depth"),
        (b'["\\n\\"",' + nested(MAX_DEPTH) + b',"\\n\\""]', "nesting depth"),
        (b'{"a":' + b"9" * 5000 + b"}", "Number value length"),
        (b'{"a":' + b"9" * (MAX_NUMBER_LENGTH + 1) + b"}", "Number value length"),
        (b'{"a":0.' + b"9" * MAX_NUMBER_LENGTH + b"}", "Number value length"),
        (b"9" * 5000, "Number value length"),
    ],
)
def test_a_schemaless_record_beyond_the_limits_is_named_in_a_column(record: bytes, words: str) -> None:
    with pytest.raises(DataException, match=words):
        PLAIN.to_connect_data("t", record)
    good = b'{"a":1}' if record[:1] in b"[{" else b"1"
    with pytest.raises(DataException, match=words) as raised:
        PLAIN.to_connect_column("t", pa.array([good, good, record, good], pa.binary()))
    assert raised.value.record == 2


@pytest.mark.parametrize(
    "record",
    [
        nested(MAX_DEPTH),
        nested(MAX_DEPTH, '{"a":', "}", "1"),
        b'{"a":"' + b"[" * 5000 + b'"}',
        b'{"a":"' + b"9" * 5000 + b'"}',
        b'{"a":' + b"9" * MAX_NUMBER_LENGTH + b"}",
        b"[" + b",".join([b"[[1]]"] * 1000) + b"]",
        b'["\\\\","[\\"[' + b"[" * 1000 + b'"]',
        b'["\\t\\"","' + b"[" * 1000 + b'"]',
    ],
)
def test_records_within_the_limits_are_read_printed_and_written(record: bytes) -> None:
    runs = PLAIN.to_connect_column("t", pa.array([b'{"a":1}', record], pa.binary()))
    assert [run.length for run in runs] == [2]
    column = runs[0].column
    assert values_of(column, None)[1] == json.loads(record)
    assert len(text_column(column, None)) == len(PLAIN.from_connect_column("t", None, column)) == 2


def test_depth_is_counted_outside_of_texts() -> None:
    rng = random.Random(SEED)

    def value(depth: int) -> Any:
        if depth == 0:
            return "".join(rng.choices('[]{}"\\a\n\u20ac', k=rng.randrange(6)))
        inner = [value(rng.randrange(depth)) for _ in range(rng.randrange(3))] + [value(depth - 1)]
        rng.shuffle(inner)
        return inner if rng.random() < 0.5 else {f'"[{index}': entry for index, entry in enumerate(inner)}

    for depth in [0, 1, 2, 5, 8] * 20:
        assert depth_of(json.dumps(value(depth)).encode()) == depth


def test_a_long_number_is_seen_wherever_it_is() -> None:
    for start in range(0, 300, 7):
        assert may_have_long_number(b"x" * start + b"1" * (MAX_NUMBER_LENGTH + 1) + b" ")
        assert not may_have_long_number(b"x" * start + b"1" * MAX_NUMBER_LENGTH + b" " * 500)


@pytest.mark.parametrize("schema", [arrays(300), arrays(500), arrays(100_000), structs(150), structs(3000)])
def test_deep_schemas_are_bad_records(schema: str) -> None:
    for record in (enveloped(schema, "[]"), enveloped(schema, "[]").replace(b"{", b"{ ", 1)):
        with pytest.raises(DataException, match="nesting depth"):
            ENVELOPE.to_connect_column("t", pa.array([record], pa.binary()))


@pytest.mark.parametrize(("schema", "payload"), [(arrays(MAX_DEPTH - 2), "[]"), (structs(MAX_DEPTH // 2 - 1), "{}")])
def test_schemas_within_the_limit_pass_the_whole_way(schema: str, payload: str) -> None:
    for opening in ("{", "{ "):
        record = enveloped(schema, payload).replace(b"{", opening.encode(), 1)
        (run,) = ENVELOPE.to_connect_column("t", pa.array([record], pa.binary()))
        assert len(text_column(run.column, run.schema)) == 1
        assert ENVELOPE.from_connect_column("t", run.schema, run.column)[0].as_py().startswith(b'{"schema":')
        assert KafkaBatch("t", run.column, value_schema=run.schema, first_offset=0).sink_records()[0].value_schema == run.schema


@pytest.mark.parametrize("scale", ["1000000", "-1000000", "2147483647", "-2147483648", "99999999999", "77", "9" * 5000])
def test_scales_that_no_decimal_has_are_bad_records(scale: str) -> None:
    for payload in ('"AQ=="', "null"):
        with pytest.raises(DataException):
            ENVELOPE.to_connect_column("t", pa.array([enveloped(DECIMAL % scale, payload)], pa.binary()))


@pytest.mark.parametrize("scale", [-76, -39, -38, 0, 38, 39, 76])
def test_scales_up_to_76_are_read_printed_and_written(scale: int) -> None:
    record = enveloped(DECIMAL % scale, '"AQ=="')
    (run,) = ENVELOPE.to_connect_column("t", pa.array([record], pa.binary()))
    assert text_column(run.column, run.schema).to_pylist() == [str(values_of(run.column, run.schema)[0])]
    assert json.loads(ENVELOPE.from_connect_column("t", run.schema, run.column)[0].as_py())["payload"] == "AQ=="


@pytest.mark.parametrize("size", [17, 33, 3000, 100_000])
def test_decimals_of_many_bytes_are_bad_records(size: int) -> None:
    record = enveloped(DECIMAL % 2, json.dumps(base64.b64encode(b"\x7f" * size).decode()))
    with pytest.raises(DataException):
        ENVELOPE.to_connect_column("t", pa.array([record], pa.binary()))


@pytest.mark.parametrize("precision", ["77", "x", "9" * 5000])
def test_a_precision_that_no_decimal_has_is_a_bad_record(precision: str) -> None:
    schema = DECIMAL % 2
    schema = schema.replace('"2"', f'"2","connect.decimal.precision":"{precision}"')
    with pytest.raises(DataException):
        ENVELOPE.to_connect_column("t", pa.array([enveloped(schema, '"AQ=="')], pa.binary()))


@pytest.mark.soak  # a measurement: what CI runs below is bounded by its limits alone
def test_the_time_for_a_schema_grows_with_its_fields_only() -> None:
    def seconds(count: int) -> float:
        fields = ",".join(f'{{"field":"f{index}","type":"string","optional":true}}' for index in range(count))
        record = pa.array([enveloped(f'{{"type":"struct","fields":[{fields}]}}', "{}")], pa.binary())
        start = time.process_time()
        (run,) = json_converter().to_connect_column("t", record)
        batch = Batch("t", run.column, value_schema=run.schema)
        for kind, config in ((ReplaceFieldValue, {"renames": "f1:z"}), (FlattenValue, {})):
            _created(kind, config).apply_batch(batch)
        return time.process_time() - start

    seconds(10)
    few, many = min(seconds(1000) for _ in range(3)), min(seconds(8000) for _ in range(2))
    assert many < 24 * few  # 8 times as many; squared it would be 64


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{" * 100_000, "[" * 150 + "1" + "]" * 150, "[" * 1500 + "1" + "]" * 1500, '{"a":' * 300 + "1" + "}" * 300]
)
def test_deep_headers_are_read_or_stay_bytes(text: str) -> None:
    converter = SimpleHeaderConverter()
    start = time.process_time()
    schema, value = converter.to_connect_header("t", "h", text.encode())
    assert time.process_time() - start < 60
    assert value == text.encode() if schema == BYTES_SCHEMA else converter.from_connect_header("t", "h", schema, value) == text.encode()


# The whole way of a sink


class _Sink:
    """A FileStreamSink behind its pipeline, with a tolerance."""

    def __init__(self, path: Path, converter: Converter, stages: tuple[Stage, ...] = (), *, tolerates_all: bool = True) -> None:
        self.failures: list[Failure] = []
        self.tolerance = Tolerance(ErrorSettings(0, 60_000, tolerates_all, False, False), self.failures.append)
        strings = StringConverter()
        strings.configure({}, is_key=True)
        self.pipeline = SinkPipeline(Converters(strings, converter, SimpleHeaderConverter()), stages, self.tolerance)
        self.task = reaching(FileStreamSinkTask())
        config = {"file": str(path)}
        self.partition = TopicPartition("t", 0)
        self.task.initialize(MemorySinkContext(config, [self.partition], claim_epoch=1, exactly_once=False))
        self.task.start(FileStreamSinkConnector.task_config(config))
        self.path = path

    def put(self, records: list[bytes]) -> list[str]:
        raw = RawBatch(self.partition, 0, len(records), pa.array(records, pa.binary()))
        for batch in self.pipeline.batches(raw):
            self._put(batch)
        return self.path.read_text().splitlines()

    def _put(self, batch: Batch) -> None:
        SinkErrors(self.tolerance).put_in_parts(
            batch.num_records,
            lambda start, length: self.task.put(batch.slice(start, length)),
            lambda index: ConsumedRecord("t", 0, index),
        )


def test_a_file_sink_goes_on_behind_hostile_records(tmp_path: Path) -> None:
    sink = _Sink(tmp_path / "out", PLAIN)
    assert sink.put([b'{"a":1}', nested(1500), b'{"a":' + b"9" * 5000 + b"}", b'{"a":2}']) == ["{a=1}", "{a=2}"]
    assert [failure.operation.stage for failure in sink.failures] == [ErrorStage.VALUE_CONVERTER] * 2


def test_without_tolerance_a_record_that_can_never_pass_is_final(tmp_path: Path) -> None:
    for number, record in enumerate([nested(1500), b'{"a":' + b"9" * 5000 + b"}"]):
        with pytest.raises(ConnectException, match="Tolerance exceeded in error handler") as raised:
            _Sink(tmp_path / str(number), PLAIN, tolerates_all=False).put([b'{"a":1}', record])
        assert not raised.value.retriable
        assert isinstance(raised.value.__cause__, DataException)


# Fuzz


def hostile(rng: random.Random) -> Iterator[bytes]:
    """Records of all kinds, each hostile in one way."""
    numbers = [
        "9" * rng.choice([5, 19, 20, 400, 999, 1001, 4301, 20_000]),
        "1e400",
        "-1e-400",
        "1e999999999",
        "-0.0",
        "0" * 2000 + "1",
        "NaN",
    ]
    texts = [
        "\\u0000",
        "\\ud800",
        "x" * 5000,
        "9" * 5000,
        "0x1p999999",
        "-1e999999999",
        "+" + "1" * 4400,
        "\\u0661" * 30,
        "99999-12-31",
        "2020-01-01",
    ]
    scalars = [
        rng.choice(numbers),
        f'"{rng.choice(texts)}"',
        "null",
        "true",
        '""',
        "[]",
        "{}",
        str(rng.getrandbits(70) - 2**69),
        str(rng.uniform(-1e300, 1e300)),
    ]
    scalar = rng.choice(scalars)
    depth = rng.choice([1, 2, 50, 150, 199, 200, 201, 333, 500, 999, 3000])
    yield scalar.encode()
    yield f'{{"a":{scalar},"b":{{"c":{rng.choice(scalars)}}},"d":[{scalar}]}}'.encode()
    yield nested(depth, rng.choice(['{"a":', '{"b":']), "}", scalar)
    yield nested(depth, "[", "]", scalar)
    yield rng.randbytes(rng.choice([0, 1, 3, 8, 100]))
    yield rng.choice([b"[", b"{", b'{"a":', b'"', b"-", b'[{"a":"']) * rng.choice([1, 300, 5000])


SCHEMAS: Final = [
    *(f'{{"type":"{kind}","optional":true}}' for kind in ("int8", "int64", "float", "double", "boolean", "string", "bytes")),
    *(
        f'{{"type":"{kind}","name":"org.apache.kafka.connect.data.{name}","optional":true}}'
        for kind, name in (("int32", "Date"), ("int32", "Time"), ("int64", "Timestamp"), ("bytes", "Decimal"), ("string", "Decimal"))
    ),
    *(DECIMAL % scale for scale in ("0", "2", "-5", "76", "77", "x", "", "-2147483648")),
    arrays(2),
    arrays(150),
    arrays(400),
    structs(2),
    structs(60),
    structs(400),
    '{"type":"map","keys":{"type":"int32"},"values":{"type":"double"}}',
    '{"type":"map","keys":{"type":"string"},"values":' * 70 + '{"type":"int64"}' + "}" * 70,
    "null",
]


def enveloped_hostile(rng: random.Random) -> Iterator[bytes]:
    schema = rng.choice(SCHEMAS)
    for record in hostile(rng):
        yield b'{"schema":' + schema.encode() + b',"payload":' + record + b"}"
        inner = f'{{"type":"struct","fields":[{schema[:-1]},"field":"a"}}]}}' if schema != "null" else schema
        yield b'{"schema":' + inner.encode() + b',"payload":{"a":' + record + b"}}"


def _transformations() -> list[Transformation]:
    made: list[tuple[type[Transformation], dict[str, str]]] = [
        *((CastValue, {"spec": kind}) for kind in ("int8", "int64", "float32", "float64", "boolean", "string")),
        *((CastValue, {"spec": f"a:{kind}"}) for kind in ("int8", "int64", "float32", "float64", "boolean", "string")),
        (FlattenValue, {}),
        (ExtractFieldValue, {"field": "a"}),
        (HoistFieldValue, {"field": "h"}),
        (InsertFieldValue, {"static.field": "s", "static.value": "x"}),
        (MaskFieldValue, {"fields": "a"}),
        (ReplaceFieldValue, {"renames": "a:z"}),
        (ReplaceFieldValue, {"exclude": "a"}),
        (SetSchemaMetadataValue, {"schema.name": "n"}),
        (ValueToKey, {"fields": "a"}),
        *(
            (TimestampConverterValue, {"target.type": target, "format": "yyyy-MM-dd", "unix.precision": unit, **field})
            for target in ("string", "unix", "Date", "Time", "Timestamp")
            for unit in ("seconds", "nanoseconds")
            for field in ({}, {"field": "a"})
        ),
    ]

    return [_created(kind, config) for kind, config in made]


def _created(kind: type[Transformation], config: dict[str, str]) -> Transformation:
    transformation = kind()
    transformation.configure(transformation.config_def.parse(config))
    return transformation


FRIENDLY: Final = (DataException, ConfigException)


def _allowed(act: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return act(*arguments)
    except FRIENDLY:
        return None


@pytest.mark.parametrize("seed", range(SEED, SEED + 6))
def test_hostile_records_are_read_changed_and_written_or_refused(seed: int) -> None:
    rng = random.Random(seed)
    transformations = _transformations()
    headers = SimpleHeaderConverter()
    others: list[Converter] = [StringConverter(), ByteArrayConverter(), LongConverter(), DoubleConverter()]
    for converter in others:
        converter.configure({}, is_key=False)
    for _ in range(6):
        for converter, source in ((PLAIN, hostile), (ENVELOPE, enveloped_hostile), (others[0], hostile), (rng.choice(others), hostile)):
            for record in source(rng):
                headers.to_connect_header("t", "h", record)
                _allowed(converter.to_connect_data, "t", record)
                runs = _allowed(converter.to_connect_column, "t", pa.array([record], pa.binary()))
                for run in runs or ():
                    batch = KafkaBatch("t", run.column, value_schema=run.schema, kafka_partition=0, first_offset=0, next_offset=1)
                    _pass(batch)
                    for transformation in rng.sample(transformations, 6):
                        changed = _allowed(transformation.apply_batch, batch)
                        for piece in [] if changed is None else changed if isinstance(changed, list) else [changed]:
                            _pass(piece)


def _pass(batch: Batch) -> None:
    """What sinks, dead letters and previews do with a batch."""
    if batch.value is None:
        return
    _allowed(text_column, batch.value, batch.value_schema)
    _allowed(batch.sink_records, SimpleHeaderConverter())
    for converter in (PLAIN, ENVELOPE):
        _allowed(converter.from_connect_column, "t", batch.value_schema, batch.value)


@pytest.mark.parametrize("depth", [250, 900, 5000])
def test_what_another_plugin_hands_over_is_refused_too(depth: int) -> None:
    """A source's JSON text has passed no converter of ours."""
    column = json_column([nested(depth).decode()])
    value: Any = 1
    for _ in range(depth):
        value = [value]
    for act in (
        lambda: values_of(column, None),
        lambda: text_column(column, None),
        lambda: PLAIN.from_connect_column("t", None, column),
        lambda: StringConverter().from_connect_column("t", None, column),
        lambda: column_of([value, "x"], None),
        lambda: column_of([10**5000, "x"], None),
    ):
        _allowed(act)


def test_a_decimals_schema_of_this_package_is_checked_too() -> None:
    with pytest.raises(DataException, match="scale 77"):
        column_of([None], decimal_schema(77))
    assert isinstance(decimal_schema(76), Schema)
