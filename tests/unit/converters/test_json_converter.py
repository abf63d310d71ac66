"""JsonConverter against what Kafka Connect 4.3.1's did with the same bytes, one record at a time and as a column.

A line of ``recorded_json.jsonl`` holds the bytes read (``in``, with ``schemas`` enabled or not), the schema found, and what was written
again ``with`` an envelope, ``without``, and with ``numeric`` decimals; ``text`` is StringConverter's of the same value, ``header``
SimpleHeaderConverter's. ``…error`` is the first line of an exception.
"""

import datetime
import itertools
import json
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_connect.codecs.json.reader import json_column
from airflow_provider_connect.converters.json.converter import JsonConverter
from airflow_provider_connect.converters.plain import SimpleHeaderConverter, StringConverter
from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.data.columns import column_of, is_json, values_of
from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaType,
    Struct,
    decimal_schema,
)
from airflow_provider_connect.errors import ConfigException, DataException

RECORDED = [json.loads(line) for line in (Path(__file__).parent / "recorded_json.jsonl").read_text().strip().split("\n")]

# What Arrow and Python cannot hold, or hold otherwise: a decimal keeps its schema's scale, the end of a day is no time of Python; and
# the sign of zero, which Connect loses.
DECIMALS = {"12", "1.2", "0", "1.234", "1E+2"}
OTHERWISE = {
    *(row["in"] for row in RECORDED if "data.Decimal" in row["in"] and any(f'"payload":{text}}}' in row["in"] for text in DECIMALS)),
    *(row["in"] for row in RECORDED if row["in"].endswith('"payload":86400000}')),
    *(row["in"] for row in RECORDED if row["in"].endswith('"payload":-0.0}')),
}


def converter(**settings: object) -> JsonConverter:
    converter = JsonConverter()
    converter.configure({key.replace("_", "."): str(value).lower() for key, value in settings.items()}, is_key=False)
    return converter


def described(schema: Schema | None) -> str:
    if schema is None:
        return "null"
    name = f"({schema.name},{'null' if schema.version is None else schema.version})" if schema.name else ""
    inner = ",".join(described(s) for s in (schema.key_schema, schema.value_schema) if s is not None)
    return f"{schema.type.name}{'?' if schema.optional else ''}{name}{f'<{inner}>' if inner else ''}"


def written(schema: Schema | None, value: Any, row: dict[str, Any]) -> dict[str, str]:
    """All that is made of one value."""
    kept = {"replace_null_with_default": row["replace"]}
    string = StringConverter()
    string.configure({}, is_key=False)
    forms: dict[str, Callable[[str, Schema | None, Any], bytes | None]] = {
        "with": converter(**kept).from_connect_data,
        "without": converter(schemas_enable=False, **kept).from_connect_data,
        "numeric": converter(schemas_enable=False, decimal_format="NUMERIC", **kept).from_connect_data,
        "text": string.from_connect_data,
        "header": lambda topic, schema, value: SimpleHeaderConverter().from_connect_header(topic, "h", schema, value),
    }
    found: dict[str, str] = {}
    for form, convert in forms.items():
        try:
            data = convert("t", schema, value)
            if data is not None:
                found[form] = data.decode()
        except DataException as error:
            found[f"{form}_error"] = f"DataException: {error}"
    return found if "text" in row else {form: text for form, text in found.items() if form != "text"}


def expected(row: dict[str, Any]) -> dict[str, str]:
    return {form: text for form, text in row.items() if form.partition("_")[0] in {"with", "without", "numeric", "text", "header"}}


@pytest.mark.parametrize("row", [row for row in RECORDED if row["in"] not in OTHERWISE], ids=lambda row: row["in"][-60:])
def test_record_is_read_and_written_as_by_connect(row: dict[str, Any]) -> None:
    reader = converter(schemas_enable=row["schemas"], replace_null_with_default=row["replace"])
    if "error" in row:
        with pytest.raises(DataException) as raised:
            reader.to_connect_data("t", row["in"].encode())
        assert f"DataException: {raised.value}".startswith(row["error"].partition(": com.fasterxml")[0].rstrip(": ")[:90])
        return
    schema, value = reader.to_connect_data("t", row["in"].encode())
    assert described(schema) == row["schema"]
    assert written(schema, value, row) == expected(row)


@pytest.mark.parametrize("row", [row for row in RECORDED if row["in"] not in OTHERWISE], ids=lambda row: row["in"][-60:])
def test_column_is_read_and_written_as_records_are(row: dict[str, Any]) -> None:
    reader = converter(schemas_enable=row["schemas"], replace_null_with_default=row["replace"])
    data = pa.array([None, row["in"].encode(), row["in"].encode(), None], pa.binary()).slice(1, 2)
    if "error" in row:
        with pytest.raises(DataException):
            reader.to_connect_column("t", data)
        return
    one = reader.to_connect_data("t", row["in"].encode())
    [run] = reader.to_connect_column("t", data)
    assert (run.length, run.schema) == (2, one.schema)
    if "12345678901234567890}" not in row["in"]:  # JSON text keeps what Connect cuts down to 64 bits
        assert values_of(run.column, run.schema) == [one.value] * 2
    for form in ("with", "without", "numeric"):
        writer = converter(
            schemas_enable=form == "with",
            decimal_format="NUMERIC" if form == "numeric" else "BASE64",
            replace_null_with_default=row["replace"],
        )
        if f"{form}_error" in row:
            with pytest.raises(DataException):
                writer.from_connect_column("t", run.schema, run.column)
        elif run.schema is not None or not is_json(run.column.type):
            text = row.get(form)
            assert writer.from_connect_column("t", run.schema, run.column).to_pylist() == [text.encode() if text is not None else None] * 2


ORDER = Schema.struct(
    {
        "id": INT64_SCHEMA,
        "name": STRING_SCHEMA.as_optional(),
        "amount": FLOAT64_SCHEMA.as_optional(),
        "weight": FLOAT32_SCHEMA,
        "paid": BOOLEAN_SCHEMA,
        "small": INT8_SCHEMA,
        "price": decimal_schema(2, optional=True),
        "day": DATE_SCHEMA,
        "at": TIME_SCHEMA,
        "moment": TIMESTAMP_SCHEMA.as_optional(),
        "picture": BYTES_SCHEMA.as_optional(),
        "tags": Schema.array(STRING_SCHEMA.as_optional(), optional=True),
        "counts": Schema.map(STRING_SCHEMA, INT32_SCHEMA.as_optional()),
        "pairs": Schema.map(INT32_SCHEMA, STRING_SCHEMA, optional=True),
        "place": Schema.struct({"x": INT32_SCHEMA, "y": INT32_SCHEMA.as_optional().with_default(7)}, optional=True),
    },
    name="shop.Order",
    version=2,
    doc='an "order"',
    parameters={"k": "v"},
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
PLACES = st.builds(lambda x, y: Struct(ORDER.field("place").schema, {"x": x, "y": y}), st.integers(-9, 9), st.none() | st.integers(-9, 9))  # type: ignore[union-attr]
ORDERS = st.builds(
    lambda **values: Struct(ORDER, values),
    id=st.integers(-(2**63), 2**63 - 1),
    name=st.none() | TEXTS,
    amount=st.none() | st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0),
    weight=st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0),
    paid=st.booleans(),
    small=st.integers(-128, 127),
    price=st.none() | st.integers(-(10**20), 10**20).map(lambda number: Decimal(number).scaleb(-2)),
    day=st.dates(),
    at=st.times().map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)),
    moment=st.none()
    | st.datetimes(timezones=st.just(datetime.UTC)).map(lambda instant: instant.replace(microsecond=instant.microsecond // 1000 * 1000)),
    picture=st.none() | st.binary(max_size=9),
    tags=st.none() | st.lists(st.none() | TEXTS, max_size=3),
    counts=st.dictionaries(TEXTS, st.none() | st.integers(-9, 9), max_size=1),
    pairs=st.none() | st.dictionaries(st.integers(-9, 9), TEXTS, max_size=3),
    place=st.none() | PLACES,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ORDERS, min_size=1, max_size=5), st.booleans(), st.booleans())
def test_any_struct_goes_there_and_back_in_both_forms(orders: list[Struct], enable: bool, numeric: bool) -> None:
    both = converter(schemas_enable=enable, decimal_format="numeric" if numeric else "base64")
    column = column_of(orders, ORDER)
    data = both.from_connect_column("t", ORDER, column)
    assert data.to_pylist() == [both.from_connect_data("t", ORDER, order) for order in orders]
    if enable:
        [run] = both.to_connect_column("t", data)
        filled = [Struct(ORDER, {name: order.get(name) for name in order}) for order in orders]
        assert run.schema == ORDER
        assert json.loads(data[0].as_py())["schema"]["doc"] == 'an "order"'
        assert [both.from_connect_data("t", ORDER, value) for value in values_of(run.column, run.schema)] == data.to_pylist()
        assert [value["id"] for value in values_of(run.column, run.schema)] == [order["id"] for order in filled]


PLAIN = Schema.struct({field.name: field.schema for field in ORDER.fields if field.schema.type is not SchemaType.MAP})


@settings(max_examples=60, deadline=None)
@given(st.lists(ORDERS, min_size=1, max_size=5), st.booleans())
def test_parsed_columns_equal_what_was_written(orders: list[Struct], numeric: bool) -> None:
    both = converter(decimal_format="NUMERIC" if numeric else "BASE64", replace_null_with_default=False)
    column = column_of([Struct(PLAIN, {f.name: order.get_without_default(f.name) for f in PLAIN.fields}) for order in orders], PLAIN)
    [run] = both.to_connect_column("t", both.from_connect_column("t", PLAIN, column))
    assert run.column.equals(column)


def envelope(schema: str, payload: str) -> bytes:
    return f'{{"schema":{schema},"payload":{payload}}}'.encode()


def test_each_change_of_schema_begins_a_run() -> None:
    number, text = '{"type":"int32","optional":true}', '{"type":"string","optional":false}'
    data = [
        envelope(number, "1"),
        envelope(number, "2"),
        envelope(text, '"a"'),
        None,
        None,
        envelope(text, '"b\\n"'),
        envelope(number, "null"),
    ]
    runs = converter().to_connect_column("t", pa.array(data, pa.binary()))
    assert [(run.length, described(run.schema), values_of(run.column, run.schema)) for run in runs] == [
        (2, "INT32?", [1, 2]),
        (1, "STRING", ["a"]),
        (2, "null", [None, None]),
        (1, "STRING", ["b\n"]),
        (1, "INT32?", [None]),
    ]


OPTIONAL, REQUIRED = (f'{{"type":"int64","optional":{word}}}' for word in ("true", "false"))
MIXED = [
    lambda number: envelope(OPTIONAL, str(number)),
    lambda number: envelope(REQUIRED, str(number)),
    lambda number: None,
    lambda number: envelope('{"type":"string","optional":false}', f'"{number}"'),
    lambda number: f'{{ "schema" : {REQUIRED}, "payload" : {number} }}'.encode(),
    lambda number: f'{{"payload":{number},"schema":{REQUIRED}}}'.encode(),
]
BROKEN = [lambda number: envelope(REQUIRED, "nul"), lambda number: b"{", lambda number: envelope('{"type":"unknown"}', "1")]


@given(st.lists(st.sampled_from(MIXED), min_size=1, max_size=300), st.lists(st.integers(0, 299), max_size=2), st.sampled_from(BROKEN))
@settings(max_examples=200)
def test_kinds_that_change_often_are_read_as_records_alone_are(
    kinds: list[Callable[[int], bytes | None]], at: list[int], broken: Callable[[int], bytes]
) -> None:
    """Also where some are broken: the first of these is named, unless its schema is what is broken."""
    data = [kind(number) for number, kind in enumerate(kinds)]
    wrong = sorted(index for index in at if index < len(data))
    for index in wrong:
        data[index] = broken(index)
    read = converter()
    if wrong:
        with pytest.raises(DataException) as raised:
            read.to_connect_column("t", pa.array(data, pa.binary()))
        assert raised.value.record == (None if "Unknown schema type" in raised.value.message else wrong[0])
        return
    runs = read.to_connect_column("t", pa.array(data, pa.binary()))
    assert all(one.schema != other.schema for one, other in itertools.pairwise(runs))
    found = [(run.schema, value) for run in runs for value in values_of(run.column, run.schema)]
    assert found == [tuple(read.to_connect_data("t", each)) for each in data]


@pytest.mark.parametrize("more", [',"x":2', ',"v":{"a":3}', ',{"b":1}', ',"x":[2', '],"x":[2', "]", "}"])
@pytest.mark.parametrize("document", ['{"a":1}', "[1]"])
@pytest.mark.parametrize("enable", [True, False])
def test_a_document_with_something_behind_it_is_read_as_alone(document: str, more: str, enable: bool) -> None:
    """A field, a value, or what closes the text in which Arrow's parser is given it."""
    record = envelope("null", document + more) if enable else (document + more).encode()
    good = envelope("null", document) if enable else document.encode()
    read = converter(schemas_enable=enable)
    try:
        alone = read.to_connect_data("t", record).value
    except DataException:
        with pytest.raises(DataException):
            read.to_connect_column("t", pa.array([good, record, good]))
        return
    runs = read.to_connect_column("t", pa.array([good, record, good]))
    assert [value for run in runs for value in values_of(run.column, run.schema)][1] == alone


def test_many_records_that_are_not_for_arrows_parser_are_read_whatever_their_number() -> None:
    """Each such record has more of those behind it read exactly: not more than there may be."""
    odd = [envelope(OPTIONAL, f"00{number % 10}") for number in range(3000)]
    data = [each for number, one in enumerate(odd) for each in (one, envelope(REQUIRED, str(number)))]
    runs = converter().to_connect_column("t", pa.array(data))
    assert [run.length for run in runs] == [1] * 6000
    assert [value for run in runs for value in run.column.to_pylist()] == [each for number in range(3000) for each in (number % 10, number)]


@pytest.mark.parametrize("digits", ["9" * 310, "-" + "9" * 400])
def test_a_whole_number_beyond_any_double_is_infinite_in_both_forms(digits: str) -> None:
    record = envelope('{"type":"double","optional":false}', digits)
    expected = float("-inf" if digits[0] == "-" else "inf")
    assert converter().to_connect_data("t", record).value == expected
    [run] = converter().to_connect_column("t", pa.array([record, record]))
    assert run.column.to_pylist() == [expected] * 2


def test_a_column_whose_schema_changes_with_each_record_is_read_in_linear_time() -> None:
    """Debezium's rows are optional structs or not, by the record before."""
    data = pa.array([envelope((OPTIONAL, REQUIRED)[number % 2], str(number)) for number in range(50_000)])
    read = converter()
    began = time.process_time()
    assert len(read.to_connect_column("t", data)) == 50_000
    assert time.process_time() - began < 5, "each run by itself takes ten seconds and more"


def test_long_runs_are_found_whole() -> None:
    number = '{"type":"int64","optional":false}'
    runs = converter().to_connect_column("t", pa.array([envelope(number, str(n)) for n in range(5000)]))
    assert [run.length for run in runs] == [5000]
    assert runs[0].column.to_pylist() == list(range(5000))


@pytest.mark.parametrize("pieces", [("1}\n{", "2"), ('1},{"x":2', "3"), ("1", '2}}\n{"v":{'), ("", "1"), ('1}{"v":2', "3"), ("1,", "2")])
def test_records_cannot_lean_on_one_another(pieces: tuple[str, ...]) -> None:
    """Records that could be other documents if they were read as one text."""
    data = [envelope('{"type":"int64","optional":false}', piece) for piece in pieces]
    try:
        alone = [converter().to_connect_data("t", record).value for record in data]
    except DataException:
        with pytest.raises(DataException):
            converter().to_connect_column("t", pa.array(data))
    else:
        assert [v for run in converter().to_connect_column("t", pa.array(data)) for v in values_of(run.column, run.schema)] == alone


def test_bytes_that_are_no_utf8_are_refused() -> None:
    for data in (b'{"schema":{"type":"string"},"payload":"a\xff"}', b'{"schema":{"type":"string"},"payload":"a\\n\xff"}'):
        for form in (lambda d: converter().to_connect_data("t", d), lambda d: converter().to_connect_column("t", pa.array([d]))):
            with pytest.raises(DataException):
                form(data)


_ENVELOPE = '{"schema":{"type":"struct","fields":[{"field":"n","type":"int32","optional":false}],"optional":false},"payload":'


@pytest.mark.parametrize(
    ("enable", "good", "broken"),
    [
        (True, f'{_ENVELOPE}{{"n":1}}}}', [f'{_ENVELOPE}{{"n":1}}', f'{_ENVELOPE}{{"n":1', '{"n":1}', "no JSON", "", "{"]),
        (False, '{"n":1}', ['{"n":1', 'n":1}', "no JSON", "{", '{"n":1,']),
        (False, '"text"', ['"text', "text", "tex{"]),
        (False, "[1]", ["[1", "]", "[1,"]),
    ],
)
def test_broken_records_are_found_among_good_ones(enable: bool, good: str, broken: list[str]) -> None:
    reader = converter(**{"schemas.enable": enable})
    texts: list[bytes | None] = [good.encode()] * 1000
    for number, text in enumerate(broken):
        texts[100 * number + 7] = text.encode()
    texts[50], texts[51] = None, good.encode() + b" "
    column = pa.array(texts, pa.binary())
    assert reader.find_invalid_rows("t", column) == {}  # nothing was broken so far
    with pytest.raises(DataException):
        reader.to_connect_column("t", column)
    found = reader.find_invalid_rows("t", column)
    assert list(found) == [100 * number + 7 for number in range(len(broken))]
    assert all(isinstance(error, DataException) for error in found.values())
    assert reader.find_invalid_rows("t", column.filter(pc.invert(pc.is_in(column, pa.array([text.encode() for text in broken]))))) == {}


def test_records_of_different_forms_are_not_broken() -> None:
    reader = converter(**{"schemas.enable": False})
    with pytest.raises(DataException):
        reader.to_connect_column("t", pa.array([b"{"]))
    for texts in ([b"1", b"2"], [b'{"a":1}', b"1", b"true"], [b' {"a":1}', b'{"a":1}\n'], [None, None], [b'{"a":1}'] * 10 + [b"[1]"] * 10):
        assert reader.find_invalid_rows("t", pa.array(texts, pa.binary())) == {}


def test_schemaless_columns_have_the_type_of_their_records() -> None:
    plain = converter(schemas_enable=False)

    def read(*texts: str) -> pa.Array:
        [run] = plain.to_connect_column("t", pa.array([text.encode() for text in texts]))
        assert run.schema is None
        return run.column

    assert read('"a"', '"b"').type == pa.string()
    assert read('"a"', '"\\u00e9\\n"', "null").to_pylist() == ["a", "é\n", None]
    assert read("1", "-2").type == pa.int64()
    assert read("true", "false").type == pa.bool_()
    assert read("1.5", "2.5").type == pa.float64()
    assert is_json(read('{"a":1}', "[1]", "null").type)
    assert read('{"a":1}', "null").storage.to_pylist() == ['{"a":1}', None]
    assert is_json(read('"a"', "1").type)


def test_fixed_schema_reads_plain_json() -> None:
    fixed = JsonConverter()
    fixed.configure({"schema.content": '{"type":"struct","fields":[{"type":"int32","optional":false,"field":"a"}]}'}, is_key=False)
    [run] = fixed.to_connect_column("t", pa.array([b'{"a":1}', b'{"a":2,"b":3}']))
    assert [value["a"] for value in values_of(run.column, run.schema)] == [1, 2]
    assert fixed.to_connect_data("t", b'{"a":5}').value["a"] == 5
    with pytest.raises(DataException, match="Invalid null value for required INT32 field"):
        fixed.to_connect_data("t", b"{}")


@pytest.mark.parametrize("role", ["key", "value"])
@pytest.mark.parametrize("enable", ["true", "false"])
def test_what_is_not_json_has_the_remedy_for_keys_and_values(role: str, enable: str) -> None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": enable, "converter.type": role}, is_key=role == "key")

    def refusals(data: bytes) -> list[str]:
        with pytest.raises(DataException) as of_record:
            converter.to_connect_data("t", data)
        with pytest.raises(DataException) as of_column:
            converter.to_connect_column("t", pa.array([data]))
        return [of_record.value.message, of_column.value.message]

    for data in (b"hello", b" -", b"\x00\x00\x00\x00\x01a", b"\xff\xfe"):
        for message in refusals(data):
            assert message.startswith("Converting byte[] to Kafka Connect data failed due to serialization error: ")
            assert message.endswith("such as org.apache.kafka.connect.storage.StringConverter for plain text")
    for data in (b'{"schema"', b"[1,", b' "a'):  # JSON that is broken
        assert not any("StringConverter" in message for message in refusals(data))


def test_a_schema_that_is_not_json_is_no_record() -> None:
    with pytest.raises(ConfigException, match="for configuration schema") as caught:
        JsonConverter().configure({"schema.content": "hello", "converter.type": "value"})
    assert "StringConverter" not in caught.value.message


def test_wrong_settings_are_named() -> None:
    with pytest.raises(ConfigException, match=r"Invalid value x for configuration decimal.format: .*NUMERIC, BASE64"):
        JsonConverter().configure({"decimal.format": "x"}, is_key=False)
    with pytest.raises(ConfigException, match=r"schema\.content"):
        JsonConverter().configure({"schema.content": '{"type":"nope"}'}, is_key=False)


def test_schemaless_python_values() -> None:
    plain = converter(schemas_enable=False)
    value = {"b": [1, 2.0, 1e16, None, True, "é😀"], "a": {"x": b"hi"}, "n": float("nan")}
    text = '{"b":[1,2.0,1.0E16,null,true,"é\\uD83D\\uDE00"],"a":{"x":"aGk="},"n":"NaN"}'
    assert plain.from_connect_data("t", None, value) == text.encode()
    assert plain.from_connect_data("t", None, {1: "a"}) == b'[[1,"a"]]'
    assert plain.from_connect_data("t", None, None) is None
    assert plain.from_connect_column("t", None, pa.array([1.0, None, 1e-5])).to_pylist() == [b"1.0", None, b"1.0E-5"]


HALF = "\ud83dx"
WITH_HALVES: list[tuple[Schema | None, Any, str]] = [
    (STRING_SCHEMA, HALF, "the value"),
    (None, HALF, "the value"),
    (None, {"a": {"b": [1, HALF]}}, "an entry of field b of field a of the value"),
    (None, {HALF: 1}, "a key of the value"),
    (Schema.map(STRING_SCHEMA, STRING_SCHEMA), {"k": HALF}, "field k of the value"),
    (Schema.struct({"a": Schema.array(STRING_SCHEMA)}), {"a": ["ok", HALF]}, "an entry of field a of the value"),
]


@pytest.mark.parametrize(("schema", "value", "location"), WITH_HALVES)
@pytest.mark.parametrize("has_schemas", [True, False])
def test_half_a_surrogate_pair_is_refused_by_writer_and_reader(schema: Any, value: Any, location: str, has_schemas: bool) -> None:
    written = converter(schemas_enable=has_schemas)
    given = Struct(schema, value) if isinstance(value, dict) and schema is not None and schema.fields else value
    with pytest.raises(DataException, match=rf"Cannot write {location}, '\\ud83dx': it has half of a surrogate pair"):
        written.from_connect_data("t", schema, given)


def test_half_a_surrogate_pair_in_json_text_is_refused_by_writer_and_reader() -> None:
    """Sources of JSON lines send such columns."""
    plain, texts = converter(schemas_enable=False), [b'{"a":"\\uD83D\\uDE00"}', b'{"a":"\\uD83D"}']
    whole = json_column(pa.array(texts[:1], pa.binary()))
    assert plain.from_connect_column("t", None, whole).to_pylist() == texts[:1]
    with pytest.raises(DataException, match="Cannot write field a of the value"):
        plain.from_connect_column("t", None, json_column(pa.array(texts, pa.binary())))
    with pytest.raises(DataException, match="Half of a surrogate pair") as caught:
        plain.to_connect_column("t", pa.array(texts, pa.binary()))
    assert caught.value.record == 1


def test_numbers_that_would_fill_the_memory_do_not() -> None:
    number = "1e999999999"
    whole, decimal = (
        '{"type":"int32","optional":false}',
        '{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"}}',
    )
    assert converter().to_connect_data("t", envelope(whole, number)).value == 0
    assert converter().to_connect_data("t", envelope(whole, "1e-999999999")).value == 0
    schema, value = converter().to_connect_data("t", envelope(decimal, number))
    with pytest.raises(DataException):
        converter().from_connect_data("t", schema, value)
    with pytest.raises(DataException):
        converter().to_connect_column("t", pa.array([envelope(decimal, number)]))


def test_float_columns_are_written_as_java_writes_them() -> None:
    numbers = [0.0, -0.0, 1.0, 0.001, 0.00099, 9999999.0, 1e7, 123.456, float("nan"), float("inf"), -float("inf"), 1e300, 5e-324, -1.5]
    plain = converter(schemas_enable=False)
    assert [data.decode() for data in plain.from_connect_column("t", FLOAT64_SCHEMA, pa.array(numbers)).to_pylist()] == [
        "0.0", "-0.0", "1.0", "0.001", "9.9E-4", "9999999.0", "1.0E7", "123.456", '"NaN"', '"Infinity"', '"-Infinity"', "1.0E300",
        "4.9E-324", "-1.5",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "schema", [FLOAT32_SCHEMA, FLOAT64_SCHEMA, Schema.array(FLOAT64_SCHEMA), Schema.map(STRING_SCHEMA, FLOAT32_SCHEMA)]
)
def test_each_float_is_read_as_it_was_written(schema: Schema) -> None:
    floats = [1.5, float("nan"), float("inf"), -float("inf"), -0.0]
    values: list[Any] = [[number] if schema.value_schema else number for number in floats]
    if schema.key_schema is not None:
        values = [{"k": number} for number in floats]
    both = converter()
    data = both.from_connect_column("t", schema, column_of(values, schema))
    read = [value for run in both.to_connect_column("t", data) for value in values_of(run.column, run.schema)]
    assert repr(read) == repr([both.to_connect_data("t", record.as_py()).value for record in data]) == repr(values)


@pytest.mark.parametrize("text", ["-0.0", "-0.0e5"])
def test_a_negative_zero_without_a_schema_keeps_its_sign(text: str) -> None:
    plain = converter(schemas_enable=False)
    assert repr(plain.to_connect_data("t", text.encode()).value) == "-0.0"
    [run] = plain.to_connect_column("t", pa.array([text.encode()] * 2))
    assert repr(run.column.to_pylist()) == "[-0.0, -0.0]"


_TEXT = '{"type":"struct","fields":[{"field":"a","type":"string"},{"field":"n","type":"double","optional":true}]}'


@pytest.mark.parametrize("text", ["NaN", "Infinity", 'a \\" NaN', "\\\\", 'Inf\\\\\\"', "{NaN:", "\\nNaN"])
def test_no_number_inside_a_text_is_a_text(text: str) -> None:
    rows = [f'{{"a":"{text}","n":1.5}}', '{"a":"","n":null}', f'{{"n":2,"a":"{text}"}}']
    [run] = converter().to_connect_column("t", pa.array([envelope(_TEXT, row) for row in rows]))
    expected = json.loads(f'"{text}"')
    assert run.column.to_pylist() == [{"a": expected, "n": 1.5}, {"a": "", "n": None}, {"a": expected, "n": 2.0}]


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "Inf"])
@pytest.mark.parametrize("enable", [True, False])
def test_no_number_outside_a_text_is_refused_with_its_record(word: str, enable: bool) -> None:
    rows = ['{"a":"NaN \\"","n":1}'] * 5 + [f'{{"a":"b","n":{word}}}'] + ['{"a":"c","n":2}'] * 5
    data = [envelope(_TEXT, row) if enable else row.encode() for row in rows]
    with pytest.raises(DataException) as raised:
        converter(schemas_enable=enable).to_connect_column("t", pa.array(data))
    assert raised.value.record == 5


def test_texts_that_resemble_no_numbers_are_read_as_fast_as_others() -> None:
    def seconds(text: str) -> float:
        column = pa.array([envelope(_TEXT, f'{{"a":"{text} {number}","n":{number}.5}}') for number in range(20_000)])
        reader, before = converter(), time.process_time()
        assert [run.length for run in reader.to_connect_column("t", column)] == [20_000]
        return time.process_time() - before

    plain = min(seconds("plain") for _ in range(3))
    for word in ("NaN", "Infinity"):
        assert min(seconds(word) for _ in range(3)) < 5 * plain + 0.02


def test_payloads_alone_are_read_as_their_records_are() -> None:
    """Where a payload is not for Arrow's parser, the envelope's schema is not read again, unless the record holds more than these two."""
    kind = '{"type":"map","keys":{"type":"string"},"values":{"type":"int32"}}'
    good = envelope(kind, '{"a":1}')
    for odd in (
        b'{"schema":%s,"payload":{"a":1},"x":1}',
        b'{"schema":%s,"payload":{"a":1}',
        b'{"schema":%s,"payload":}',
        b'{"schema":%s,"payload":}}',
    ):
        column = pa.array([good, odd % kind.encode(), good])
        with pytest.raises(DataException) as alone:
            converter().to_connect_data("t", odd % kind.encode())
        with pytest.raises(DataException) as raised:
            converter().to_connect_column("t", column)
        assert (raised.value.record, str(raised.value)) == (1, str(alone.value))
    again = b'{"schema":%s,"payload":{"a":1},"payload":{"b":2} }' % kind.encode()
    behind = good[:-1] + b" } and more"
    runs = converter().to_connect_column("t", pa.array([good, again, behind]))
    assert [value for run in runs for value in values_of(run.column, run.schema)] == [{"a": 1}, {"b": 2}, {"a": 1}]


def test_far_times_are_read_value_by_value_as_well() -> None:
    """A map is not for Arrow's parser, and Python's dates end with the year 9999."""
    kinds = {"day": DATE_SCHEMA, "at": TIMESTAMP_SCHEMA, "clock": TIME_SCHEMA}
    days, instants, clocks = [2**31 - 1, -2440588, 0], [9223372036825200000, -210866803200000, 0], [86_400_000, 0, 86_399_999]
    columns = [
        pa.array(days, pa.int32()).cast(pa.date32()),
        pa.array(instants, pa.int64()).cast(pa.timestamp("ms", "UTC")),
        pa.array(clocks, pa.int32()).cast(pa.time32("ms")),
    ]
    counts = Schema.map(STRING_SCHEMA, INT32_SCHEMA)
    for schema, more in (
        (Schema.struct(kinds), []),
        (Schema.struct({**kinds, "counts": counts}), [column_of([{"a": 1}] * 3, counts)]),
    ):
        rows = pa.StructArray.from_arrays([*columns, *more], fields=list(arrow_type(schema)))
        read = converter(schemas_enable=True)
        [run] = read.to_connect_column("t", read.from_connect_column("t", schema, rows))
        found = run.column
        assert found.field("day").cast(pa.int32()).to_pylist() == days
        assert found.field("at").cast(pa.int64()).to_pylist() == instants
        assert found.field("clock").cast(pa.int32()).to_pylist() == clocks
