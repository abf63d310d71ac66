"""Lengths of texts and lists in ORC files, counted without making them: the specification's examples, and what the library writes."""

from __future__ import annotations

import io
import random

import pyarrow as pa
import pytest
from pyarrow import orc

from airflow_provider_connect.connectors.filesystem.formats import orc_rows
from airflow_provider_connect.connectors.filesystem.formats.contract import NonClosingFile
from airflow_provider_connect.connectors.filesystem.formats.file_format import file_format
from airflow_provider_connect.connectors.filesystem.formats.orc_runs import all_runs, varint
from airflow_provider_connect.errors import DataException

PATCHED = [2030, 2000, 2020, 1_000_000, *range(2040, 2200, 10)]


@pytest.mark.parametrize(
    ("data", "is_first_version", "numbers"),
    [
        ("610007", True, [7] * 100),
        ("61ff64", True, range(100, 0, -1)),
        ("fb020304070b", True, [2, 3, 4, 7, 11]),
        ("0a2710", False, [10000] * 5),
        ("5e035ca1ab1edeadbeef", False, [23713, 43806, 57005, 48879]),
        ("8e132b2107d01e00147028323c46505a646e78828c96a0aab4befce8", False, PATCHED),
        ("c609020222424246", False, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
    ],
)
def test_runs_of_the_specification_are_counted(data: str, is_first_version: bool, numbers: list[int]) -> None:
    found = all_runs(bytes.fromhex(data), is_first_version=is_first_version)
    assert sum(numbers) <= found.total <= max(2 * sum(numbers), 10 * max(numbers))
    assert max(numbers) <= found.largest <= 2 * max(numbers)
    assert found.end == len(data) // 2


def test_a_stream_that_ends_early_ends_the_count() -> None:
    assert all_runs(bytes.fromhex("0a27105e"), is_first_version=False) == (50000, 10000, 3)


def test_a_number_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 64 bits"):
        varint(b"\x80" * 100, 0)


@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "zlib", "lz4", "zstd"])
@pytest.mark.parametrize("threshold", [0.0, 1.0], ids=["direct", "dictionary"])
def test_small_files_are_measured_by_what_they_hold(codec: str, threshold: float) -> None:
    """At least what the rows have in memory, and not many times as much: such files are read a stripe at once."""
    chance = random.Random(7)
    texts = ["x" * chance.randrange(300) for _ in range(2000)]
    lists = [[texts[chance.randrange(10)] for _ in range(chance.randrange(5))] for _ in texts]
    maps = [[(text, {"n": number})] for number, text in enumerate(texts)]
    types = pa.schema({"t": pa.string(), "l": pa.list_(pa.string()), "m": pa.map_(pa.string(), pa.struct({"n": pa.int64()}))})
    table = pa.table({"t": texts, "l": lists, "m": maps}, types)
    file = io.BytesIO()
    orc.write_table(table, file, compression=codec, dictionary_key_size_threshold=threshold)
    (measure,) = orc_rows._measures(orc_rows.Tail(NonClosingFile(file)), range(1)).values()
    assert measure.rows == 2000
    assert table.nbytes / 2 < measure.bytes < 4 * table.nbytes
    listed = table.select(["l", "m"]).nbytes
    assert listed / 2 < measure.listed < 4 * listed


def test_stripes_that_expand_are_read_in_pieces_and_others_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows keep their order and their stripe; lists that may be too much for one row cost their stripe alone."""
    file = io.BytesIO()
    with orc.ORCWriter(file, stripe_size=1 << 14, compression="uncompressed", dictionary_key_size_threshold=0.0) as writer:
        for number in range(6):
            lengths = [1 if number != 3 else 400] * 1000
            writer.write(pa.table({"n": range(number * 1000, number * 1000 + 1000), "l": [[number] * length for length in lengths]}))
    stripes = orc.ORCFile(io.BytesIO(file.getvalue())).nstripes
    monkeypatch.setattr(orc_rows, "MOST_BYTES", 1_000_000)
    monkeypatch.setattr(orc_rows, "_MADE_BYTES", 1000)
    pieces = list(file_format("orc", None, {}).read(file, None))
    errors = [piece.message for piece in pieces if isinstance(piece, DataException)]
    found = [n for piece in pieces if not isinstance(piece, DataException) for n in piece[0].field("n").to_pylist()]
    assert stripes > 2
    assert errors
    assert all("lists may need" in error for error in errors)
    assert found == sorted(set(found))
    assert {0, 2999, 5999} <= {*found}
