"""Blocks of headers as any producer may write them: whole ones are read, others are null, and none takes long."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from airflow_provider_connect.runtime.worker.delivery.header_blocks import MOST_HEADERS, headers_of_blocks
from tests.raw_batches import varint

Header = tuple[bytes, bytes | None]


def block(headers: Sequence[Header], count: int | None = None) -> bytes:
    found = varint(len(headers) if count is None else count)
    for key, value in headers:
        found += varint(len(key)) + key + (varint(-1) if value is None else varint(len(value)) + value)
    return found


def decoded(blocks: list[bytes]) -> list[list[Header] | None]:
    found = headers_of_blocks(pa.array(blocks, pa.binary()))
    if found is None:
        return [[] for _ in blocks]
    found.validate(full=True)
    return [None if row is None else [(each["key"].encode(), each["value"]) for each in row] for row in found.to_pylist()]


def some_headers(chance: random.Random) -> list[Header]:
    def part() -> bytes:
        return "".join(chance.choices("aé本", k=chance.choice((0, 1, 5, 40)))).encode()

    return [
        (part(), None if chance.random() < 0.2 else chance.randbytes(chance.choice((0, 3, 12, 13, 300))))
        for _ in range(chance.choice(NUMBERS))
    ]


NUMBERS = (0, 0, 1, 2, 31, 32, 33, 70)


def test_whole_blocks_are_read() -> None:
    chance = random.Random(7)
    rows = [some_headers(chance) for _ in range(300)]
    assert decoded([block(row) for row in rows]) == rows
    assert decoded([b"", block([]), block([(b"k", b"v")])]) == [[], [], [(b"k", b"v")]]
    assert headers_of_blocks(pa.array([b"", b"\0"], pa.binary())) is None


@pytest.mark.parametrize(
    "bad",
    [
        block([(b"k", b"v")], count=2),
        block([(b"k", b"v")], count=-1),
        block([(b"k", b"v")], count=2**31 - 1),
        block([(b"k", b"v")])[:-1],
        varint(1) + varint(-1) + varint(-1),
        varint(1) + varint(1) + b"k" + varint(-2),
        varint(1) + varint(2**31 - 1) + b"k" + varint(0),
        varint(1) + varint(1) + b"k" + varint(2**31 - 1),
        b"\xff" * 12,
        block([(b"\xff\xfe", b"v")]),
        block([(b"k", b"v")] * 33 + [(b"\xff", b"v")]),
        block([(b"k", b"v")] * 40)[:-1],
        block([(b"k", b"v")] * 40, count=41) + varint(1),
        block([(b"k", b"v")] * 40, count=41) + varint(-1) + varint(-1),
    ],
    ids=range(14),
)
def test_a_block_that_is_not_whole_is_null_and_the_others_are_read(bad: bytes) -> None:
    good: list[Header] = [(b"k", b"value"), (b"", None)]
    assert decoded([block(good), bad, block([]), block(good)]) == [good, None, [], good]
    assert decoded([bad]) == [None]
    assert decoded([block(good), bad]) == [good, None]


def test_random_changes_of_blocks_change_no_other_record() -> None:
    chance = random.Random(11)
    for _ in range(200):
        rows = [some_headers(chance) for _ in range(5)]
        blocks = [bytearray(block(row)) for row in rows]
        hit = chance.randrange(5)
        for _ in range(3):
            blocks[hit][chance.randrange(len(blocks[hit]))] = chance.randrange(256)
        found = decoded([bytes(each) for each in blocks])
        assert found[:hit] + found[hit + 1 :] == rows[:hit] + rows[hit + 1 :]


def test_a_record_with_very_many_headers_is_read_in_seconds() -> None:
    many: list[Header] = [(b"", None)] * 400_000
    started = time.process_time()
    assert decoded([block([(b"k", b"v")]), block(many)]) == [[(b"k", b"v")], many]
    assert time.process_time() - started < 20


def test_more_headers_than_a_record_may_have_are_not_read_and_many_take_little_memory() -> None:
    """A header of two bytes takes a hundred times as many as an object."""
    most, more = (varint(count) + b"\0\1" * count for count in (MOST_HEADERS, MOST_HEADERS + 1))
    found = headers_of_blocks(pa.array([most, more, block([(b"k", b"v")])], pa.binary()))
    assert found is not None
    assert pc.list_value_length(found).to_pylist() == [MOST_HEADERS, None, 1]
    blocks = pa.array([varint(33) + b"\0\1" * 33] * 10_000, pa.binary())
    tracemalloc.start()
    try:
        headers = headers_of_blocks(blocks)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert headers is not None
    assert len(headers.flatten()) == 33 * 10_000
    assert peak < 50_000_000  # bytes; all at once take 88 million
