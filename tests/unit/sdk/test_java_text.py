"""Text, numbers and hashes as Java has them, against what a real Java has printed."""

import math
import struct
import sys
from pathlib import Path

import pytest

from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.java_text import (
    double_text,
    double_texts,
    in_hash_order,
    parse_double,
    parse_integer,
    single_text,
    text_of,
)
from airflow_provider_connect.runtime.wire import compact_json

KNOWN_FAULTS = 8  # among those that were recorded
RECORDED = Path(__file__).with_name("doubles_java_17.txt")
"""Bits and ``Double.toString`` of extreme, random, subnormal and everyday numbers and single digits at all exponents; OpenJDK 17.0.15."""


def recorded() -> list[tuple[float, str]]:
    rows = (line.split() for line in RECORDED.read_text().splitlines())
    return [(struct.unpack(">d", bytes.fromhex(bits.zfill(16)))[0], text) for bits, text in rows]


def digits(text: str) -> int:
    return len(text.partition("E")[0].strip("-").replace(".", "").strip("0"))


def test_doubles_are_printed_as_java_17_does_but_for_its_known_fault() -> None:
    """JDK-4511638, fixed in JDK 19: for some numbers there are more digits than needed, or not the nearest ones."""
    found = [(value, double_text(value), text) for value, text in recorded()]
    assert len(found) > 2_500
    others = [(value, ours, text) for value, ours, text in found if ours != text]
    assert len(others) == KNOWN_FAULTS
    for value, ours, text in others:
        assert float(ours) == float(text) == value, "both read back"
        assert digits(ours) <= max(digits(text), 2)


def test_columns_are_printed_as_single_numbers_are() -> None:
    values = [None, 0.0, -0.0, math.nan, math.inf, *(value for value, _ in recorded())]
    assert double_texts(pa.array(values, pa.float64())).to_pylist() == [None if v is None else double_text(v) for v in values]
    singles = pa.array([1e-3, 0.1, 16777216.0, 3.4e38, 1e-45, math.nan, None], pa.float32())
    assert double_texts(singles).to_pylist() == [None if v is None else single_text(v) for v in singles.to_pylist()]
    assert double_texts(pa.nulls(2, pa.float64())).to_pylist() == [None, None]
    assert double_texts(pa.array([], pa.float32())).to_pylist() == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5e-324, "4.9E-324"),
        (-5e-324, "-4.9E-324"),
        (1e-323, "9.9E-324"),
        (2e23, "2.0E23"),
        (1e23, "1.0E23"),
        (8.41e21, "8.41E21"),
        (2.2250738585072014e-308, "2.2250738585072014E-308"),
    ],
)
def test_where_java_17_differs_it_is_as_by_java_19(value: float, text: str) -> None:
    """Wherever a number is printed: configs and messages, topics, values."""
    assert double_text(value) == text_of(value) == compact_json.dumps(value).decode() == text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12),
        ("-0012", -12),
        ("+7", 7),
        ("32767", 32767),
        ("32768", None),
        ("-32768", -32768),
        ("1_000", None),
        (" 1", None),
        ("", None),
    ],
)
def test_integers_are_read_as_java_reads_them(text: str, number: int | None) -> None:
    assert parse_integer(text, 16) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (" 1.5 ", 1.5),
        ("1.", 1.0),
        (".5e1d", 5.0),
        ("-Infinity", -math.inf),
        ("1e999", math.inf),
        ("0x1p3f", 8.0),
        ("inf", None),
        ("NaNf", None),
        ("1_0", None),
        ("1e", None),
    ],
)
def test_doubles_are_read_as_java_reads_them(text: str, number: float | None) -> None:
    assert parse_double(text) == number


def test_entries_stand_in_the_order_of_a_java_map() -> None:
    # the keys of task configs and offsets as a real worker wrote them
    assert list(in_hash_order((key, 0) for key in ["kafka_topic", "kafka_partition"])) == ["kafka_partition", "kafka_topic"]
    words = ["connector.class", "file", "task.class", "tasks.max", "name", "topic"]
    assert list(in_hash_order((word, 0) for word in sorted(words))) == words
    assert list(in_hash_order((str(number), 0) for number in range(13)))[:4] == ["11", "12", "0", "1"]


def test_long_keys_are_not_kept() -> None:
    long = "".join(map(str, range(1000)))
    before = sys.getrefcount(long)
    in_hash_order([("b", 1), (long, 2), ("a", 3)])
    after = sys.getrefcount(long)
    assert after == before
