"""Gzip files that are whole, cut, changed and appended to: what can be read of each, whatever is asked for at once."""

from __future__ import annotations

import gzip
import io
import random
import zlib

import pytest

from airflow_provider_connect.connectors.logs.gzip_content import DamagedException, GzipContent

TEXT = "".join(f"line {number} {random.Random(number).random()}\n" for number in range(20_000)).encode()
PACKED = gzip.compress(TEXT)


def read_in(data: bytes, count: int) -> tuple[bytes, GzipContent]:
    content = GzipContent(io.BytesIO(data))
    return b"".join(iter(lambda: content.available(count), b"")), content


@pytest.mark.parametrize("count", [1000, 65_536, 4 << 20])
@pytest.mark.parametrize(
    "more", [b"", b"\0" * 1000, gzip.compress(b"more\n") + b"\0\0", gzip.compress(b"")], ids=["none", "zeros", "member", "empty member"]
)
def test_what_gzip_reads_is_read(count: int, more: bytes) -> None:
    found, content = read_in(PACKED + more, count)
    assert found == gzip.decompress(PACKED + more)
    assert content.damage is None


@pytest.mark.parametrize("count", [1000, 65_536, 4 << 20])
@pytest.mark.parametrize(
    ("data", "length", "at", "reason"),
    [
        (PACKED[:-6], len(TEXT), len(PACKED) - 6, "ends before"),
        (PACKED[:-8] + b"\1\2\3\4" + PACKED[-4:], len(TEXT), len(PACKED) - 4, "checksum"),
        (PACKED[:-4] + b"\1\2\3\4", len(TEXT), len(PACKED), "checksum"),
        (PACKED + b"garbage", len(TEXT), len(PACKED) + 2, "not compressed"),
        (b"plain text\n", 0, 2, "not gzip"),
        (PACKED[:5], 0, 5, "ends before"),
        (PACKED[:-8] + b"\1\2\3\4" + PACKED[-4:] + PACKED, 2 * len(TEXT), len(PACKED) - 4, "checksum"),
    ],
    ids=["bytes missing", "sum", "length", "trailing", "text", "header", "sum of the first"],
)
def test_all_that_comes_out_of_a_damaged_file_is_read(data: bytes, length: int, at: int, reason: str, count: int) -> None:
    found, content = read_in(data, count)
    assert found == (TEXT + TEXT)[:length]
    assert content.damage is not None
    assert (content.damage.at, content.damage.is_complete) == (at, "sum" in reason or "compressed" in reason)
    assert reason in content.damage.reason


def inflated(data: bytes) -> bytes:
    """What zlib itself makes of a part of a file, a byte at a time."""
    member, found = zlib.decompressobj(31), []
    for index in range(len(data)):
        try:
            found.append(member.decompress(data[index : index + 1]))
        except zlib.error:
            break
    return b"".join(found)


@pytest.mark.parametrize("count", [1000, 4 << 20])
@pytest.mark.parametrize("cut", [30, 70_001, len(PACKED) // 2])
def test_a_file_that_is_cut_or_overwritten_is_read_up_to_there(cut: int, count: int) -> None:
    found, content = read_in(PACKED[:cut], count)
    assert found == inflated(PACKED[:cut])
    assert content.damage is not None
    assert content.damage.at == cut
    overwritten = PACKED[:cut] + b"\xff" * 100 + PACKED[cut + 100 :]
    found, content = read_in(overwritten, count)
    assert found == inflated(overwritten)
    assert found.startswith(inflated(PACKED[:cut]))
    assert content.damage is not None
    assert cut <= content.damage.at <= len(overwritten)


def test_a_reader_goes_back_and_on_and_raises_where_bytes_are_missing() -> None:
    content = GzipContent(io.BytesIO(PACKED[: len(PACKED) // 2]))
    assert content.read(10) == TEXT[:10]
    assert content.seek(1000) == 1000
    assert content.read(10) == TEXT[1000:1010]
    assert content.seek(5) == 5
    assert content.read(10) == TEXT[5:15]
    with pytest.raises(DamagedException):
        content.read(len(TEXT))
    assert content.seek(len(TEXT)) == len(inflated(PACKED[: len(PACKED) // 2]))
    assert content.seek(0) == 0
    assert content.read(5) == b"line "


def test_an_empty_file_is_no_damage() -> None:
    found, content = read_in(b"", 10)
    assert (found, content.damage) == (b"", None)
