"""The text of lines as columns, and the times in it."""

from __future__ import annotations

import json
import time
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.connectors.logs import formats
from airflow_provider_connect.connectors.logs.settings import CONFIG_DEF, LineSettings
from airflow_provider_connect.data.columns import values_of
from airflow_provider_connect.data.schema import Struct
from airflow_provider_connect.errors import ConfigException

COMBINED = '10.0.0.1 - - [02/Jan/2026:03:04:05 +0100] "GET /\\"a\\" HTTP/1.1" 200 - "-" "curl/8 (x)"'


def settings(**given: str) -> LineSettings:
    config = {"paths": "/x/*.log", "topic": "t", **{key.replace("_", "."): value for key, value in given.items()}}
    return LineSettings.of(CONFIG_DEF.parse(config))


def parsed(lines: list[str | None], **given: str) -> tuple[list[Any], list[int]]:
    """The values of lines, and which of them are errors."""
    lines_settings = settings(**given)
    found = lines_settings.format.parse(pa.array(lines, pa.string()), None if lines_settings.time is None else lines_settings.time.field)
    errors = sorted(set(found.errors) - set(found.blank))
    if found.schema is None:
        values = [None if row in found.errors else json.loads(text) for row, text in enumerate(found.value.storage.to_pylist())]
    else:
        values = [value.as_dict() if isinstance(value, Struct) else value for value in values_of(found.value, found.schema)]
    return [value for row, value in enumerate(values) if row not in {*found.errors, *found.blank}], errors


def times(lines: list[str | None], **given: str) -> list[int | None]:
    line_settings = settings(**given)
    assert line_settings.time is not None
    column = pa.array(lines, pa.string())
    found: list[int | None] = line_settings.time.of(column, line_settings.format.parse(column, line_settings.time.field)).to_pylist()
    return found


def test_json_lines_are_schemaless() -> None:
    lines = ['{"a": 1, "b": {"c": "\N{EURO SIGN}"}}', "[1]", "5", "{", '{"a":1} x', "", None, '{"a":1e3}']
    values = [{"a": 1, "b": {"c": "\N{EURO SIGN}"}}, [1], {"a": 1000.0}]
    assert parsed(lines, line_format="json") == (values, [2, 3, 4, 6])


def test_logfmt_lines_are_maps() -> None:
    lines = ['level=info msg="it \\"works\\"\\n" n=1 flag empty= n=2', "", 'broken="x', None, 'back="a\\\\n"', "url=http://x/?a=b"]
    assert parsed(lines, line_format="logfmt") == (
        [
            {"level": "info", "msg": 'it "works"\n', "flag": None, "empty": "", "n": "2"},
            {"back": "a\\n"},
            {"url": "http://x/?a=b"},
        ],
        [2, 3],
    )


def test_csv_lines_are_structs_each_on_its_own() -> None:
    lines = ['1,"a ""b"", c",x', "2,,", '3,"open', "4,too,many,fields", "five,a,b", "", None, "-,b,c"]
    given = {"line_format": "csv", "csv_fields": "id,name,rest", "line_types": "id:integer"}
    assert parsed(lines, **given) == (
        [{"id": 1, "name": 'a "b", c', "rest": "x"}, {"id": 2, "name": "", "rest": ""}, {"id": None, "name": "b", "rest": "c"}],
        [2, 3, 4, 6],
    )
    assert parsed(["a\tb"], line_format="csv", csv_fields="x,y", csv_delimiter="\\t") == ([{"x": "a", "y": "b"}], [])


def test_lines_of_web_servers_have_types_and_times() -> None:
    [value], errors = parsed([COMBINED, "nonsense"], line_format="combined")
    assert errors == [1]
    assert (value["status"], value["size"], value["request"], value["agent"]) == (200, None, 'GET /\\"a\\" HTTP/1.1', "curl/8 (x)")
    assert times([COMBINED, "nonsense"], line_format="combined") == [1767319445000, None]
    assert parsed([COMBINED], line_format="common")[1] == []


def test_named_groups_are_fields() -> None:
    given = {"line_format": "pattern", "line_pattern": r"^(?P<level>\w+) (?:(?P<ms>[\d.]+)ms )?(?P<ok>true|false)?"}
    types = {"line_types": "ms:number,ok:boolean"}
    assert parsed(["info 1.5ms true", "warn x", "-"], **given, **types) == (
        [{"level": "info", "ms": 1.5, "ok": True}, {"level": "warn", "ms": None, "ok": None}],
        [2],
    )


@pytest.mark.parametrize(
    ("text", "given", "instant"),
    [
        ("2026-01-02T03:04:05Z", {}, 1767323045000),
        ("2026-01-02 03:04:05,678", {}, 1767323045678),
        ("2026-01-02T03:04:05.678901+01:00", {}, 1767319445678),
        ("2026-01-02 03:04:05", {"timestamp_timezone": "Europe/Paris"}, 1767319445000),
        ("2026-03-29 02:30:00", {"timestamp_timezone": "Europe/Paris"}, None),
        ("2026-10-25 02:30:00", {"timestamp_timezone": "Europe/Paris"}, 1792888200000),
        ("2026-01-02T03:04:05,678-07", {}, 1767348245678),
        ("2026-01-02 03:04:05.678 +01", {}, 1767319445678),
        ("2026-01-02 03:04:05.678 UTC", {"timestamp_timezone": "Europe/Paris"}, 1767323045678),
        ("2026-01-02t03:04:05z", {"timestamp_timezone": "Europe/Paris"}, 1767323045000),
        ("2026-01-02T03:04+01:00", {}, 1767319440000),
        ("2026-01-02 03:04", {"timestamp_timezone": "Europe/Paris"}, 1767319440000),
        ("20260102T030405,678+0100", {}, 1767319445678),
        ("20260102T0304Z", {}, 1767323040000),
        ("2026-01-02", {}, None),
        ("2026-01-02T03:04:05 CET", {}, None),
        ("1767323045", {"timestamp_format": "epoch"}, 1767323045000),
        ("1767323045.678", {"timestamp_format": "epoch"}, 1767323045678),
        ("1767323045678", {"timestamp_format": "epoch_ms"}, 1767323045678),
        ("02.01.2026 03:04", {"timestamp_format": "%d.%m.%Y %H:%M"}, 1767323040000),
        ("02/Jan/2026:03:04:05 +0100", {"timestamp_format": "%d/%b/%Y:%H:%M:%S %z"}, 1767319445000),
        ("yesterday", {}, None),
    ],
)
def test_times_of_lines(text: str, given: dict[str, str], instant: int | None) -> None:
    assert times([f"[{text}] x", "none", None], timestamp_pattern=r"^\[([^\]]+)\]", **given) == [instant, None, None]


def test_times_of_one_column_may_have_several_forms() -> None:
    lines = ["2026-01-02T03:04:05Z x", "2026-01-02T03:04:05+00 x", None, "x", "20260102T030405Z x"]
    assert times(lines, timestamp_pattern=r"^(\S+) ") == [1767323045000, 1767323045000, None, None, 1767323045000]


def test_times_of_fields() -> None:
    assert times(['{"@t": {"at": "2026-01-02T03:04:05Z"}}', "[]"], line_format="json", timestamp_field="@t.at") == [1767323045000, None]
    assert times(["at=2026-01-02T03:04:05Z", "x=1"], line_format="logfmt", timestamp_field="at") == [1767323045000, None]


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ("line.pattern", {"line_format": "pattern"}),
        ("line.pattern", {"line_format": "pattern", "line_pattern": "no groups"}),
        ("line.pattern", {"line_format": "pattern", "line_pattern": "(?P<a>x)(?=y)"}),
        ("line.pattern", {"line_format": "pattern", "line_pattern": "(?P<a>" + "x" * 3000}),
        ("line.pattern", {"line_format": "pattern", "line_pattern": "(?P<a>((x{1000}){1000}){1000})"}),
        ("multiline.start.pattern", {"multiline_start_pattern": "("}),
        ("csv.fields", {"line_format": "csv"}),
        ("csv.fields", {"line_format": "csv", "csv_fields": "a,b c"}),
        ("csv.delimiter", {"line_format": "csv", "csv_fields": "a", "csv_delimiter": '"'}),
        ("line.types", {"line_format": "csv", "csv_fields": "a", "line_types": "b:integer"}),
        ("line.types", {"line_format": "csv", "csv_fields": "a", "line_types": "a:date"}),
        ("timestamp.field", {"line_format": "csv", "csv_fields": "a", "timestamp_field": "b"}),
        ("timestamp.field", {"timestamp_field": "a"}),
        ("timestamp.field", {"line_format": "json", "timestamp_field": "a'] | x"}),
        ("timestamp.pattern", {"timestamp_pattern": "no group"}),
        ("timestamp.timezone", {"timestamp_pattern": "(.*)", "timestamp_timezone": "../../etc/passwd"}),
        ("timestamp.timezone", {"timestamp_pattern": "(.*)", "timestamp_timezone": "Mars/Olympus"}),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(key: str, given: dict[str, str]) -> None:
    with pytest.raises(ConfigException, match=rf"configuration {key}"):
        settings(**given)


def test_a_hostile_pattern_takes_no_time() -> None:
    begun = time.process_time()
    value, errors = parsed(["a" * 100_000 + "!"], line_format="pattern", line_pattern="^(?P<all>(a|aa|a?a)+)[^a]$")
    assert (len(value), errors) == (1, [])
    assert time.process_time() - begun < 60  # without a bound it never ends


def test_every_type_that_the_page_names_is_one() -> None:
    assert set(formats.TYPES) == {"string", "integer", "number", "boolean"}
