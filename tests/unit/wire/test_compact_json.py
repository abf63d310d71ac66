"""JSON text to the byte; the expected texts are those of a real JsonConverter (see also tests/contract/golden/json_converter.jsonl)."""

import contextlib
import math
import subprocess
import sys

import numpy as np
import pytest

from airflow_provider_connect.data.java_text import wrapped
from airflow_provider_connect.data.json_text import MAX_DEPTH
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.runtime.wire.compact_json import dumps, loads


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (0, "0"),
        (-5, "-5"),
        ({}, "{}"),
        ([], "[]"),
        ((), "[]"),
        ({"b": 1, "a": [None, False, {"x": []}]}, '{"b":1,"a":[null,false,{"x":[]}]}'),
        ("a/b é 漢 \x7f\u2028", '"a/b é 漢 \x7f\u2028"'),
        ('"\\\b\t\n\f\r', '"\\"\\\\\\b\\t\\n\\f\\r"'),
        ("\x00\x1f", '"\\u0000\\u001F"'),
        ("😀", '"\\uD83D\\uDE00"'),
        ("\ud800", '"\\uD800"'),
        (b"\x00\xff", '"AP8="'),
        (1.5, "1.5"),
        (math.nan, '"NaN"'),
        (math.inf, '"Infinity"'),
        (-math.inf, '"-Infinity"'),
    ],
)
def test_value_has_the_text_of_a_real_worker(value: object, text: str) -> None:
    assert dumps(value) == text.encode()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1e10, "1.0E10"),
        (12345678.9, "1.23456789E7"),
        (1e-3, "0.001"),
        (0.00123, "0.00123"),
        (9.9e-4, "9.9E-4"),
        (5e-324, "4.9E-324"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (-1234.5678, "-1234.5678"),
        (1e22, "1.0E22"),
    ],
)
def test_double_is_printed_as_java_does(value: float, text: str) -> None:
    assert dumps(value) == text.encode()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("007", 7),
        ('{"a":-01,"b":[00.5]}', {"a": -1, "b": [0.5]}),
        ('{"01":"002","-03":"x\\"04"}', {"01": "002", "-03": 'x"04'}),
        ("[1.05,1e05,1e-05,100]", [1.05, 1e5, 1e-5, 100]),
        ("9223372036854775808", -(2**63)),
        ("-9223372036854775809", 2**63 - 1),
        ('{"a":1,"b":2,"a":3}', {"a": 3, "b": 2}),
        ("{} trailing", {}),
        ("\ufeff[1]", [1]),
        (" \t\r\n[1]", [1]),
        ("", None),
        ("1e999", math.inf),
        ('"\\ud83d\\ude00"', "😀"),
    ],
)
def test_text_is_read_as_leniently_as_a_real_worker_reads_it(text: str, value: object) -> None:
    assert loads(text.encode()) == value


def test_map_keeps_the_order_of_its_text() -> None:
    assert dumps(loads(b'{"b":1,"c":2,"a":3}')) == b'{"b":1,"c":2,"a":3}'


@pytest.mark.parametrize(
    "text",
    [b"NaN", b"[Infinity]", b"-Infinity", b"{'a':1}", b"[1,]", b'"a\tb"', b"\x00", b"tru", b"[1,2", b"+1", b".5", b"\xff", b"9" * 1001],
)
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(DataException):
        loads(text)


@pytest.mark.parametrize("value", [object(), {1: 2}, {None: 1}, [{"a": {1, 2}}], 1j, 2**63, {"n": -(2**63) - 1}])
def test_what_json_cannot_express_is_refused(value: object) -> None:
    with pytest.raises(DataException, match="JSON"):
        dumps(value)


def test_a_number_of_numpy_is_written_as_the_number_it_is() -> None:
    values = [np.float64(0.5), np.float64(1e300), np.float64("nan")]
    assert loads(dumps(values)) == [0.5, 1e300, "NaN"]


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def test_nesting_is_read_and_written_up_to_its_limit() -> None:
    assert dumps(loads(nested(MAX_DEPTH))) == nested(MAX_DEPTH)


@pytest.mark.parametrize("levels", [MAX_DEPTH + 2, 990, 100_000])
def test_nesting_beyond_the_limit_is_refused(levels: int) -> None:
    with pytest.raises(DataException, match="nested deeper"):
        loads(nested(levels))


def test_many_lists_side_by_side_are_not_nested() -> None:
    data = b"[" + b",".join([b"[]"] * 1000) + b"]"
    assert dumps(loads(data)) == data


@pytest.mark.timeout(120)
def test_megabytes_of_rubbish_are_refused_in_no_time() -> None:
    for rubbish in (b'"' + b'\\"' * 500_000, b'01"' + b'\\"' * 500_000, b"[01," * 250_000, b'{"a":' * 250_000, b"0" * 1_000_000 + b"1x"):
        with contextlib.suppress(DataException):
            loads(rubbish)


def test_endless_nesting_is_refused_in_writing_too() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(DataException, match="nested deeper"):
        dumps(endless)


@pytest.mark.parametrize(("number", "expected"), [(2**63, -(2**63)), (2**64, 0), (-(2**63) - 1, 2**63 - 1), (5, 5), (-5, -5)])
def test_number_wraps_to_64_bits(number: int, expected: int) -> None:
    assert wrapped(number, 64) == expected


def test_the_depth_is_checked_without_numpy() -> None:
    """A plugin may bring another version of it, and is imported after the configs were read."""
    script = (
        "import sys; from airflow_provider_connect.runtime.wire.compact_json import loads; "
        "loads(b'[' + b'[],' * 300 + b'[]]'); print('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "False\n"
