"""Numbers as Java prints them, against what a real Java has printed."""

import struct
from pathlib import Path

import pytest

from airflow_provider_connect.sdk.config_type import java_text
from airflow_provider_connect.sdk.java_numbers import double_text
from airflow_provider_connect.wire import compact_json

KNOWN_FAULTS = 8  # among those that were recorded
RECORDED = Path(__file__).with_name("doubles_java_17.txt")
"""Bits and ``Double.toString`` of extreme, random, subnormal and everyday numbers and single digits at all exponents; OpenJDK 17.0.15."""


def recorded() -> list[tuple[float, str]]:
    rows = (line.split() for line in RECORDED.read_text().splitlines())
    return [(struct.unpack(">d", bytes.fromhex(bits.zfill(16)))[0], text) for bits, text in rows]


def digits(text: str) -> int:
    return len(text.partition("E")[0].strip("-").replace(".", "").strip("0"))


def test_doubles_are_printed_as_java_17_does_but_for_its_known_fault() -> None:
    """JDK-4511638, mended in JDK 19: for some numbers there are more digits than needed, or not the nearest ones."""
    found = [(value, double_text(value), text) for value, text in recorded()]
    assert len(found) > 2_500
    others = [(value, ours, text) for value, ours, text in found if ours != text]
    assert len(others) == KNOWN_FAULTS
    for value, ours, text in others:
        assert float(ours) == float(text) == value, "both read back"
        assert digits(ours) <= max(digits(text), 2)


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
    assert double_text(value) == java_text(value) == compact_json.dumps(value).decode() == text
