"""Cursors that are numbers or times in texts, as JSON has them: they are compared as what they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_connect.errors import ConnectException, DataException
from airflow_provider_connect.sdk import pa, source
from airflow_provider_connect.sdk.functions.text_order import keys_of
from airflow_provider_connect.sdk.testing import run
from tests.unit.sdk.functions.test_source import polled, task_of

NUMBERS = ["9", "10", "11", "100"]
TIMES = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.500Z", "2026-01-01T02:00:01+02:00", "2026-01-01 00:00:01.000001Z"]
NAMES = ["a", "b", "ba", "c"]


def read_one_by_one(texts: list[str], **declared: Any) -> list[str]:
    """What is delivered of rows that appear one by one, each read by a run of its own."""
    there: list[dict[str, Any]] = []

    @source(cursor="at", **declared)
    def rows() -> Iterator[Any]:
        yield list(there)

    delivered, offsets = [], None
    for text in texts:
        there.append({"at": text})
        done = run(rows(), {"topic": "t"}, offsets=offsets)
        delivered += [record.value["at"] for record in done.records]
        offsets = done.offsets
    return delivered


@pytest.mark.parametrize("texts", [NUMBERS, TIMES, NAMES], ids=["numbers", "times", "names"])
def test_rows_that_come_one_by_one_are_all_delivered(texts: list[str]) -> None:
    assert read_one_by_one(texts) == texts


@pytest.mark.parametrize("texts", [NUMBERS, TIMES, NAMES], ids=["numbers", "times", "names"])
def test_rows_of_one_table_are_in_order(texts: list[str]) -> None:
    @source(cursor="at")
    def rows() -> Iterator[Any]:
        yield [{"at": text} for text in texts[:2]]
        yield [{"at": text} for text in texts[2:]]

    assert [record.value["at"] for record in run(rows(), {"topic": "t"}).records] == texts


def test_rows_of_equal_times_stay_together() -> None:
    @source(cursor="at")
    def rows() -> Iterator[Any]:
        yield [{"at": "2026-01-01T00:00:00Z", "id": 1}]
        yield [{"at": "2026-01-01T01:00:00+01:00", "id": 2}, {"at": "2026-01-01T00:00:00.001Z", "id": 3}]

    assert [(len(values), offset["cursor"]) for values, offset in polled(task_of(rows))] == [
        (2, "2026-01-01T01:00:00+01:00"),
        (1, "2026-01-01T00:00:00.001Z"),
    ]


def test_numbered_texts_of_a_source_that_returns_only_new_rows_are_refused_instead_of_skipped() -> None:
    there = [{"at": "INV-999"}]

    @source(cursor="at")
    def rows() -> Iterator[Any]:
        yield list(there)

    done = run(rows(), {"topic": "t"})
    there[:] = [{"at": "INV-1000"}]
    with pytest.raises(ConnectException, match="declare the field as a string with schema="):
        run(rows(), {"topic": "t"}, offsets=done.offsets)


def test_numbered_texts_in_the_order_of_texts_are_read() -> None:
    texts = ["item-1", "item-10", "item-2"]
    assert read_one_by_one(["item-2"]) == ["item-2"]

    @source(cursor="at")
    def rows() -> Iterator[Any]:
        yield [{"at": text} for text in texts]

    done = run(rows(), {"topic": "t"})
    assert [record.value["at"] for record in done.records] == texts
    texts.append("item-20")
    assert [record.value["at"] for record in run(rows(), {"topic": "t"}, offsets=done.offsets).records] == ["item-20"]


def test_texts_that_a_schema_declares_have_the_order_of_texts() -> None:
    schema = pa.schema([("at", pa.string())])
    assert read_one_by_one(["10", "11", "9"], schema=schema) == ["10", "11", "9"]
    with pytest.raises(ConnectException, match="9 follows 11"):
        read_one_by_one(["10", "11", "9"])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["9", "1a0"], "the cursor 'at': '9' is a number, '1a0' is not"),
        (["2026-01-01T00:00:00Z", "yesterday"], "is a time, 'yesterday' is not"),
        (["2026-01-01T00:00:00Z", "2026-01-01T00:00:01"], "has an offset from UTC, .* has none"),
        (["2026-13-01"], "a time cannot be read"),
        (["INV-998", "INV-999", "INV-1000"], "the cursor 'at': 'INV-1000' is after 'INV-999' by its number, and before it as text"),
        (["v1.9.1", "v1.10"], "'v1.10' is after 'v1.9.1' by its number"),
    ],
)
def test_texts_without_a_common_order_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(ConnectException, match=message):
        read_one_by_one(texts)


@pytest.mark.parametrize(
    "texts",
    [
        ["-5", "-3", "7"],
        ["1600-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "9999-12-31T00:00:00Z"],
        ["2026-01-01", "2026-01-01T10:00", "2026-01-01T10:00:00,5"],
        ["64f1a0", "64f1aa", "651000"],
    ],
)
def test_texts_in_order(texts: list[str]) -> None:
    keys = keys_of(texts)
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)
    for other in ([*texts, 3], []):
        assert keys_of(other) == other


def test_values_of_mixed_kinds_are_told_from_each_other() -> None:
    with pytest.raises(DataException, match="declare the field as a string"):
        keys_of(["1", "x1"])


HALF = "2026-01-01\ud800"


def test_half_of_a_surrogate_pair_is_refused() -> None:
    for values in ([HALF], ["a", HALF], [1, HALF]):
        with pytest.raises(DataException, match=r"'2026-01-01\\ud800' has half of a surrogate pair"):
            keys_of(values)
    with pytest.raises(ConnectException, match=r"Field 'at' of row 0 is '2026-01-01\\ud800'"):
        read_one_by_one([HALF])

    @source
    def pairs(cursor: str | None) -> Iterator[Any]:
        yield [{"at": 1}], HALF

    with pytest.raises(ConnectException, match="has half of a surrogate pair"):
        polled(task_of(pairs))
