"""The cases of Apache's connect/transforms tests for times, headers, topics, paths and predicates, as inputs and outcomes."""

import datetime
from typing import Any

import pytest

from airflow_provider_connect.data.records import Headers, SourceRecord
from airflow_provider_connect.data.schema import (
    DATE_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaType,
    Struct,
)
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.transformations import Predicate, Transformation
from airflow_provider_connect.transforms.headers import DropHeaders, HeaderFromKey, HeaderFromValue, InsertHeader
from airflow_provider_connect.transforms.predicates import HasHeaderKey, RecordIsTombstone, TopicNameMatches
from airflow_provider_connect.transforms.routing import RegexRouter, TimestampRouter
from airflow_provider_connect.transforms.structs import ExtractFieldValue
from airflow_provider_connect.transforms.timestamp_converter import TimestampConverterKey, TimestampConverterValue
from tests.unit.transforms.test_apache_cases import applied, configured, struct

FORMAT = "yyyy MM dd HH mm ss SSS z"
AT = datetime.datetime(1970, 1, 2, 0, 0, 1, 234000, datetime.UTC)
UNIX, TEXT = 86_401_234, "1970 01 02 00 00 01 234 UTC"
DAY, TIME = AT.date(), datetime.time(0, 0, 1, 234000)
AS_DAY, AS_TIME = datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC), datetime.datetime(1970, 1, 1, 0, 0, 1, 234000, datetime.UTC)
SCHEMAS = {"Timestamp": TIMESTAMP_SCHEMA, "Date": DATE_SCHEMA, "Time": TIME_SCHEMA, "unix": INT64_SCHEMA, "string": STRING_SCHEMA}


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"target_type": "invalid"},
        {"target_type": "unix", "unix_precision": "invalid"},
        {"target_type": "string"},
        {"target_type": "string", "format": "bad-format"},
    ],
)
def test_a_wrong_conversion_is_refused(config: dict[str, str]) -> None:
    with pytest.raises(ConfigException):
        configured(TimestampConverterValue, **config)


CONVERTED: list[tuple[str, Any, str, Any]] = [
    ("Timestamp", AT, "Timestamp", AT),
    ("Timestamp", AT, "Date", DAY),
    ("Timestamp", AT, "Time", TIME),
    ("Timestamp", AT, "unix", UNIX),
    ("Timestamp", AT, "string", TEXT),
    ("Date", DAY, "Timestamp", AS_DAY),
    ("Time", TIME, "Timestamp", AS_TIME),
    ("unix", UNIX, "Timestamp", AT),
    ("string", TEXT, "Timestamp", AT),
]


@pytest.mark.parametrize(("before", "value", "target", "wanted"), CONVERTED)
def test_a_time_is_converted(before: str, value: Any, target: str, wanted: Any) -> None:
    schema, config = SCHEMAS[before], {"target_type": target, "format": FORMAT}
    assert applied(TimestampConverterValue, schema, value, **config) == (SCHEMAS[target], wanted)
    row = struct(ts=(schema, value), other=(STRING_SCHEMA, "test"))
    after, made = applied(TimestampConverterValue, row.schema, row, field="ts", **config)
    assert (after, made.as_dict()) == (Schema.struct({"ts": SCHEMAS[target], "other": STRING_SCHEMA}), {"ts": wanted, "other": "test"})
    if before in ("unix", "string") and target == "Timestamp":  # without a schema, times are numbers here, as JSON has them
        to_unix = {**config, "target_type": "unix"}
        assert applied(TimestampConverterKey, None, value, **to_unix) == (None, UNIX)
        assert applied(TimestampConverterValue, None, {"ts": value}, field="ts", **to_unix) == (None, {"ts": UNIX})


@pytest.mark.parametrize("target", SCHEMAS)
def test_null_stays_null_with_the_schema_of_the_target(target: str) -> None:
    config = {"target_type": target, "format": FORMAT}
    for field in ({}, {"field": "ts"}):
        assert applied(TimestampConverterValue, None, None, **config, **field) == (None, None)
    for before in SCHEMAS.values():
        after = SCHEMAS[target].as_optional()
        assert applied(TimestampConverterValue, before.as_optional(), None, **config) == (after, None)
        row = struct(ts=(before.as_optional(), None), other=(STRING_SCHEMA, "test"))
        schema, made = applied(TimestampConverterValue, row.schema, row, field="ts", **config)
        wanted = Schema.struct({"ts": after, "other": STRING_SCHEMA})
        assert (schema, made.get("ts")) == (wanted, None)
        assert applied(TimestampConverterValue, row.schema.as_optional(), None, field="ts", **config) == (wanted.as_optional(), None)


@pytest.mark.parametrize(("replace", "wanted"), [("true", datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)), ("false", None)])
def test_the_default_of_a_number_is_converted(replace: str, wanted: Any) -> None:
    row = struct(ts=(Schema(SchemaType.INT64, True, 0), None))
    config = {"target_type": "Timestamp", "field": "ts", "replace_null_with_default": replace}
    after, made = applied(TimestampConverterValue, row.schema, row, **config)
    assert (after, made.get("ts")) == (Schema.struct({"ts": TIMESTAMP_SCHEMA.as_optional()}), wanted)


@pytest.mark.parametrize(
    ("precision", "given", "read", "written"),
    [
        ("seconds", 86_401, AT.replace(microsecond=0), 86_401),
        ("milliseconds", UNIX, AT, UNIX),
        ("microseconds", UNIX * 1000 + 123, AT, UNIX * 1000),
        ("nanoseconds", UNIX * 1_000_000 + 123_456, AT, UNIX * 1_000_000),
    ],
)
def test_unix_time_has_a_precision(precision: str, given: int, read: datetime.datetime, written: int) -> None:
    row = struct(ts=(INT64_SCHEMA, given))
    _, made = applied(TimestampConverterValue, row.schema, row, target_type="Timestamp", field="ts", unix_precision=precision)
    assert made.get("ts") == read
    assert applied(TimestampConverterValue, None, TEXT, target_type="unix", format=FORMAT, unix_precision=precision) == (None, written)


def after_headers(kind: type[Transformation], value: Any, schema: Schema | None, given: Headers, **config: str) -> SourceRecord:
    sides = {"key": value, "key_schema": schema} if kind is HeaderFromKey else {"value": value, "value_schema": schema}
    made = configured(kind, **config).apply(SourceRecord(None, None, "t", headers=given, **sides))
    assert isinstance(made, SourceRecord)
    return made


ROW = struct(f1=(STRING_SCHEMA, "v1"), f2=(STRING_SCHEMA, "v2"))
HEADERS_FROM: list[tuple[dict[str, str], list[tuple[str, str]], list[str]]] = [
    ({"fields": "f1", "headers": "new", "operation": "copy"}, [("new", "v1")], ["f1", "f2"]),
    ({"fields": "f1", "headers": "new", "operation": "move"}, [("new", "v1")], ["f2"]),
    ({"fields": "f1", "headers": "old", "operation": "copy"}, [("old", "v1")], ["f1", "f2"]),
    ({"fields": "f1,f1", "headers": "a,b", "operation": "move"}, [("a", "v1"), ("b", "v1")], ["f2"]),
    ({"fields": "f1,f2", "headers": "a,a", "operation": "move"}, [("a", "v1"), ("a", "v2")], []),
]


@pytest.mark.parametrize("kind", [HeaderFromKey, HeaderFromValue])
@pytest.mark.parametrize(("config", "added", "left"), HEADERS_FROM)
def test_fields_become_headers(kind: type[Transformation], config: dict[str, str], added: list[tuple[str, str]], left: list[str]) -> None:
    for value, schema in ((ROW, ROW.schema), ({"f1": "v1", "f2": "v2"}, None)):
        given = Headers().add("old", "x", STRING_SCHEMA)
        made = after_headers(kind, value, schema, given, **config)
        assert [(header.key, header.value) for header in made.headers] == [("old", "x"), *added]
        row = made.key if kind is HeaderFromKey else made.value
        assert list(row) == left


@pytest.mark.parametrize("operation", ["copy", "move"])
def test_a_struct_and_a_null_become_headers(operation: str) -> None:
    inner = struct(foo=(STRING_SCHEMA, "x"))
    row = struct(s=(inner.schema, inner), n=(Schema(SchemaType.STRING, True, "d"), None))
    config = {"fields": "s,n", "headers": "a,b", "operation": operation, "replace_null_with_default": "false"}
    made = after_headers(HeaderFromValue, row, row.schema, Headers(), **config)
    assert [header.value for header in made.headers] == [{"foo": "x"}, None]  # as it reads once it was written
    assert isinstance(made.value, Struct)
    assert made.value.as_dict() == ({"s": inner, "n": "d"} if operation == "copy" else {})


@pytest.mark.parametrize(("fields", "headers"), [("foo", "foo,bar"), ("foo,bar", "foo"), ("", "")])
def test_fields_and_headers_go_in_pairs(fields: str, headers: str) -> None:
    with pytest.raises(ConfigException):
        configured(HeaderFromValue, fields=fields, headers=headers, operation="copy")


def test_headers_are_inserted_and_dropped() -> None:
    def keys(kind: type[Transformation], before: list[str], **config: str) -> list[tuple[str, object]]:
        given = Headers()
        for key in before:
            given.add(key, "x", STRING_SCHEMA)
        return [(header.key, header.value) for header in after_headers(kind, "value", None, given, **config).headers]

    assert keys(InsertHeader, ["a"], header="b", value_literal="new") == [("a", "x"), ("b", "new")]
    assert keys(InsertHeader, ["a"], header="a", value_literal="new") == [("a", "x"), ("a", "new")]
    assert keys(InsertHeader, ["a"], header="b", value_literal="1") == [("a", "x"), ("b", 1)]
    assert keys(DropHeaders, ["a", "b", "b"], headers="b") == [("a", "x")]
    assert keys(DropHeaders, ["a"], headers="b") == [("a", "x")]
    for kind, config in ((InsertHeader, {"header": "a"}), (InsertHeader, {"value_literal": "1"}), (DropHeaders, {"headers": ""})):
        with pytest.raises(ConfigException):
            configured(kind, **config)


@pytest.mark.parametrize(
    ("regex", "replacement", "topic", "wanted"),
    [
        ("foo", "bar", "foo", "bar"),
        ("foo", "bar", "orig", "orig"),
        ("(.*)", "$1", "orig", "orig"),
        ("(.*)", "prefix-$1", "orig", "prefix-orig"),
        ("(.*)", "$1-suffix", "orig", "orig-suffix"),
        (r"(.*)-(\d\d\d\d\d\d\d\d)", "$1", "index-20160117", "index"),
    ],
)
def test_topics_are_routed(regex: str, replacement: str, topic: str, wanted: str) -> None:
    made = configured(RegexRouter, regex=regex, replacement=replacement).apply(SourceRecord(None, None, topic, "v"))
    assert isinstance(made, SourceRecord)
    assert made.topic == wanted


def test_a_topic_gets_its_day() -> None:
    made = configured(TimestampRouter).apply(SourceRecord(None, None, "test", "v", timestamp=1_483_425_001_864))
    assert isinstance(made, SourceRecord)
    assert made.topic == "test-20170103"


PATHS: list[tuple[str, list[str]]] = [
    ("..", ["", "", ""]),
    ("foo..", ["foo", "", ""]),
    (".bar.", ["", "bar", ""]),
    ("foobarbaz", ["foobarbaz"]),
    ("foo.bar.baz", ["foo", "bar", "baz"]),
    ("foo`bar`baz", ["foo`bar`baz"]),
    ("`foo.bar.baz`", ["foo.bar.baz"]),
    ("foo.`bar.baz`", ["foo", "bar.baz"]),
    ("`foo.bar`.baz", ["foo.bar", "baz"]),
    ("foo.`bar`.baz", ["foo", "bar", "baz"]),
    ("foo.``bar.baz`", ["foo", "`bar.baz"]),
    ("foo.`bar.baz``", ["foo", "bar.baz`"]),
    ("foo.`ba`r.baz`", ["foo", "ba`r.baz"]),
    ("foo.ba`r.baz", ["foo", "ba`r", "baz"]),
    ("foo.``bar``.baz", ["foo", "`bar`", "baz"]),
    ("``foo.bar.baz``", ["`foo.bar.baz`"]),
    ("foo.`bar\\`.baz`", ["foo", "bar`.baz"]),
    ("foo.`bar.`baz`", ["foo", "bar.`baz"]),
    ("foo.`bar\\`.`baz`", ["foo", "bar`.`baz"]),
    ("foo.`bar\\\\`.\\`baz`", ["foo", "bar\\`.\\`baz"]),
]


@pytest.mark.parametrize(("path", "steps"), PATHS)
def test_a_path_has_steps(path: str, steps: list[str]) -> None:
    value: Any = 42
    for step in reversed(steps):
        value = {step: value}
    assert applied(ExtractFieldValue, None, value, field=path, field_syntax_version="V2") == (None, 42)
    assert applied(ExtractFieldValue, None, {path: 42}, field=path) == (None, 42)


@pytest.mark.parametrize(("path", "position"), [("`foo.bar.baz", 0), ("foo.`bar.baz", 4), ("foo.bar.`baz", 8), ("foo.bar.`baz\\`", 8)])
def test_a_backtick_without_its_pair_is_refused(path: str, position: int) -> None:
    with pytest.raises(ConfigException, match=f"backtick at position {position} to escape it"):
        configured(ExtractFieldValue, field=path, field_syntax_version="V2")


@pytest.mark.parametrize("version", ["V3", ""])
def test_an_unknown_syntax_of_paths_is_refused(version: str) -> None:
    with pytest.raises(ConfigException, match=r"field\.syntax\.version"):
        configured(ExtractFieldValue, field="a", field_syntax_version=version)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"foo": {"bar": 42, "baz": None}}, "foo.baz"),
        ({"foo": {"bar": 42, "baz": None}}, "un.known"),
        ({"foo": {"bar": 42, "baz": None}}, "foo.unknown"),
        ({"foo": {"bar": 42, "baz": None}}, "foo.baz.inner"),
    ],
)
def test_what_is_not_on_the_path_is_null(value: Any, path: str) -> None:
    assert applied(ExtractFieldValue, None, value, field=path, field_syntax_version="V2") == (None, None)


def predicate(kind: type[Predicate], **config: str) -> Predicate:
    made = kind()
    made.configure(made.config_def.parse(config))
    return made


def test_predicates() -> None:
    def of_headers(*keys: str) -> SourceRecord:
        headers = Headers()
        for key in keys:
            headers.add(key, None)
        return SourceRecord(None, None, "t", headers=headers)

    has = predicate(HasHeaderKey, name="foo")
    given = [("foo",), ("foo", "bar"), ("bar", "foo", "bar", "foo"), ("bar",), ("bar", "bar"), ()]
    assert [has.test(of_headers(*keys)) for keys in given] == [True, True, True, False, False, False]
    named = predicate(TopicNameMatches, pattern="my-prefix-.*")
    topics = ["my-prefix-", "my-prefix-foo", "x-my-prefix-", "x-my-prefix-foo", "your-prefix-"]
    assert [named.test(SourceRecord(None, None, topic)) for topic in topics] == [True, True, False, False, False]
    tombstone = predicate(RecordIsTombstone)
    assert [tombstone.test(SourceRecord(None, None, "t", value)) for value in (None, "x")] == [True, False]


@pytest.mark.parametrize(
    ("kind", "config", "message"),
    [
        (HasHeaderKey, {}, 'Missing required configuration "name"'),
        (HasHeaderKey, {"name": ""}, "String must be non-empty"),
        (TopicNameMatches, {}, 'Missing required configuration "pattern"'),
        (TopicNameMatches, {"pattern": ""}, "String must be non-empty"),
        (TopicNameMatches, {"pattern": "["}, "Invalid regex"),
        (TopicNameMatches, {"pattern": "*"}, "Invalid regex"),
    ],
)
def test_a_wrong_predicate_is_refused(kind: type[Predicate], config: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigException, match=message):
        predicate(kind, **config)
