"""Decimals and bytes as base64, by column, against the same value by value."""

import base64
from decimal import Decimal, localcontext

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_connect.codecs.json.base64_column import base64_text, bytes_of, decimal_bytes, decimals_of
from airflow_provider_connect.codecs.json.values import decimal_base64

EDGES = [0, 1, -1, 127, 128, -128, -129, 255, 256, -256, 32767, 32768, -32768, -32769, 10**37, -(10**37)]


@pytest.mark.parametrize("kind", [pa.decimal128(38, 2), pa.decimal256(76, 2)], ids=str)
@settings(deadline=None, max_examples=40)
@given(numbers=st.lists(st.integers(-(10**38) + 1, 10**38 - 1)))
def test_decimals_take_as_few_bytes_as_hold_them(kind: pa.DataType, numbers: list[int]) -> None:
    with localcontext(prec=80):
        column = pa.array([Decimal(number).scaleb(-2) for number in [5, *EDGES, *numbers]], kind).slice(1)
    text = base64_text(decimal_bytes(column))
    assert text.to_pylist() == [decimal_base64(number) for number in [*EDGES, *numbers]]
    data = bytes_of(text)
    assert data is not None
    assert decimals_of(data, kind).equals(column)


@settings(deadline=None, max_examples=40)
@given(values=st.lists(st.binary(max_size=40)))
def test_bytes_and_slices_of_them(values: list[bytes]) -> None:
    column = pa.array([b"left out", *values], pa.binary()).slice(1)
    text = base64_text(column)
    assert text.to_pylist() == [base64.b64encode(value).decode() for value in values]
    data = bytes_of(text)
    assert data is not None
    assert data.to_pylist() == values


@pytest.mark.parametrize("text", ["A", "AA", "AA=", "A===", "AA==AA==", "A\nA==", "AB==", "é", "_w==", " AA=="])
def test_what_is_no_base64_of_ours_is_left_to_others(text: str) -> None:
    assert bytes_of(pa.array(["AA==", text])) is None


@pytest.mark.parametrize("data", [b"", b"\x7f" + b"\xff" * 15, b"\x00" * 17])
def test_decimals_that_do_not_fit_are_refused(data: bytes) -> None:
    with pytest.raises(pa.ArrowInvalid):
        decimals_of(pa.array([b"\x01", data], pa.binary()), pa.decimal128(38, 0))
