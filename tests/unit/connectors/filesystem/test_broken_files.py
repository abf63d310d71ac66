"""Files that are damaged: what is readable comes as rows, and what is not as exceptions that name it."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.connectors.filesystem.formats.file_format import file_format
from airflow_provider_connect.connectors.filesystem.formats.text import EXTENSIONS
from airflow_provider_connect.errors import DataException

COUNT = 150_000
CODECS = [codec for codec in EXTENSIONS if codec != "none"]


def read(name: str, data: bytes, codec: str | None = None, **options: str) -> tuple[list[Any], list[str]]:
    """The rows, and what is wrong with others."""
    rows: list[Any] = []
    errors: list[str] = []
    given = {key.replace("_", "."): value for key, value in options.items()}
    for piece in file_format(name, codec, given).read(io.BytesIO(data), None):
        if isinstance(piece, DataException):
            errors.append(piece.message)
        else:
            rows += piece[0].to_pylist()
    return rows, errors


def compressed(data: bytes, codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return bytes(sink.getvalue())


LINES = b"".join(b'{"n":%d}\n' % number for number in range(COUNT))
ROWS = b"n,text\n" + b"".join(b"%d,row %d\n" % (number, number) for number in range(COUNT))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", ["json", "csv", "bytes"])
@pytest.mark.parametrize("damage", ["cut", "6 bytes missing", "trailing garbage"])
def test_what_precedes_a_fault_of_the_compression_is_read(name: str, codec: str, damage: str) -> None:
    whole = compressed(ROWS if name == "csv" else LINES, codec)
    data = {"cut": whole[: len(whole) * 3 // 4], "6 bytes missing": whole[:-6], "trailing garbage": whole + b"garbage"}[damage]
    rows, [error] = read(name, data, codec)
    expected, nothing = read(name, ROWS if name == "csv" else LINES)
    assert nothing == []
    assert rows == expected[: len(rows)]
    assert len(rows) > (40_000 if damage == "cut" else 125_000)  # a library may lose the block that the fault is in
    assert error.startswith("The rest of the file cannot be read: ")


def test_a_wrong_checksum_costs_no_row() -> None:
    whole = bytearray(compressed(LINES, "gzip"))
    whole[-7] ^= 1
    rows, [error] = read("json", bytes(whole), "gzip")
    assert len(rows) == COUNT
    assert "incorrect data check" in error


def test_a_row_of_csv_that_is_not_text_costs_itself_alone() -> None:
    rows, [error] = read("csv", ROWS.replace(b"\n50000,row", b"\n50000,r\xffw"))
    assert [row["n"] for row in rows] == [str(number) for number in range(COUNT) if number != 50_000]
    assert error.startswith("Row 50002 is not text in the encoding of the file: [b'50000', b'r\\xffw")


@pytest.mark.parametrize("data", [b'a,b\n1,x\n2,"open\n3,y\n', b'a,b\n1,x\n"2,open\n3,y\n'])
def test_a_quote_that_is_not_closed_is_an_exception_and_no_value(data: bytes) -> None:
    rows, [error] = read("csv", data)
    assert rows == [{"a": "1", "b": "x"}]
    assert error.startswith("Row 3 has a quote that is not closed")


def test_the_last_row_needs_no_line_end_where_the_file_is_whole() -> None:
    for data in (b"a,b\n1,x", b"a,b\r\n1,x\r\n", b"a,b\n\n1,x\n\n"):
        assert read("csv", data) == ([{"a": "1", "b": "x"}], [])
    assert read("csv", b"a\n1\n\n2") == ([{"a": "1"}, {"a": None}, {"a": "2"}], [])


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize(
    ("encoding", "setting"),
    [
        ("windows-1252", "windows-1252"),
        ("iso8859-15", "ISO-8859-15"),
        ("utf-16", "utf-16"),
        ("utf-16-be", "utf-16-be"),
        ("utf-16", "utf-8"),  # the mark decides
        ("utf-8-sig", "utf-8"),
        ("utf-8-sig", "latin-1"),
        ("utf-32", "utf-8"),
    ],
)
@pytest.mark.parametrize("name", ["csv", "json"])
def test_files_in_other_encodings(name: str, codec: str, encoding: str, setting: str) -> None:
    text, value = {"csv": ("a,b\n1,\u00e9\u20ac\n", {"a": "1", "b": "\u00e9\u20ac"}), "json": ('"\u00e9\u20ac"\n', '"\u00e9\u20ac"')}[name]
    data = text.encode(encoding)
    assert read(name, data if codec == "none" else compressed(data, codec), codec, encoding=setting) == ([value], [])


def test_a_character_that_an_encoding_lacks_costs_its_row_alone() -> None:
    rows, [error] = read("csv", b"a,b\n1,\x81\n2,\x80\n", encoding="windows-1252")
    assert rows == [{"a": "2", "b": "\u20ac"}]
    assert error.startswith("Row 2 is not text in the encoding of the file")
    assert [len(part) for part in read("json", b'"\x81"\n"\x80"\n', encoding="windows-1252")] == [1, 1]


@pytest.mark.parametrize(("data", "encoding"), [("1\n2\n".encode("utf-16-le"), "utf-16"), ("1\n2\n".encode("utf-16"), "utf-8")])
def test_characters_of_several_bytes_are_not_cut_into_splits(data: bytes, encoding: str) -> None:
    assert len(file_format("json", None, {"encoding": encoding}).splits(io.BytesIO(data), len(data), 2)) == 1


@pytest.mark.parametrize("delimiter", [" ", "\t", "\\t"])
def test_a_delimiter_may_be_white_space(delimiter: str) -> None:
    space = "\t" if "t" in delimiter else delimiter
    assert read("csv", f"a{space}b\n1{space}2\n".encode(), csv_delimiter=delimiter) == ([{"a": "1", "b": "2"}], [])
