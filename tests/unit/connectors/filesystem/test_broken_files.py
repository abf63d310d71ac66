"""Files that are damaged: what is readable comes as rows, and what is not as exceptions that name it."""

from __future__ import annotations

import io
import itertools
import time
import uuid
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from airflow_provider_connect.connectors.filesystem.formats.content import Content
from airflow_provider_connect.connectors.filesystem.formats.contract import NonClosingFile
from airflow_provider_connect.connectors.filesystem.formats.file_format import file_format
from airflow_provider_connect.connectors.filesystem.formats.text import EXTENSIONS
from airflow_provider_connect.errors import DataException
from tests.samples import sample

COUNT = 150_000
SECONDS = 5.0  # of a processor; byte by byte it would be a minute
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


DAMAGED = [*itertools.product(("cut", "6 bytes missing", "trailing garbage"), ("json", "csv", "bytes"), CODECS)]


@pytest.mark.parametrize("case", sample(DAMAGED, *range(0, len(DAMAGED), 5)), ids="-".join)
def test_what_precedes_a_fault_of_the_compression_is_read(case: tuple[str, str, str]) -> None:
    damage, name, codec = case
    whole = compressed(ROWS if name == "csv" else LINES, codec)
    data = {"cut": whole[: len(whole) * 3 // 4], "6 bytes missing": whole[:-6], "trailing garbage": whole + b"garbage"}[damage]
    rows, [error] = read(name, data, codec)
    expected, nothing = read(name, ROWS if name == "csv" else LINES)
    assert nothing == []
    assert rows == expected[: len(rows)]
    assert len(rows) > (40_000 if damage == "cut" else 125_000)  # a library may lose the block that the fault is in
    assert error.startswith("The rest of the file cannot be read: ")


@pytest.mark.parametrize("codec", CODECS)
def test_a_fault_behind_very_many_bytes_takes_no_longer_than_they_do(codec: str) -> None:
    """A few kilobytes may become sixty megabytes, which were read byte by byte."""
    whole = bytearray(compressed(bytes(40 << 20), codec))
    for index in range(1, 9):
        whole[-index] ^= 0xFF
    begun = time.process_time()
    content = Content(NonClosingFile(io.BytesIO(whole + b"garbage")), codec, None)
    size = 0
    while data := content.read(1 << 20):
        size += len(data)
    assert content.fault is not None
    assert size > 30 << 20
    assert time.process_time() - begun < SECONDS


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


# Rows that are too long


LONG = b"x," * (9 << 20)


@pytest.mark.parametrize(
    ("before", "row", "after", "expected"),
    [
        (b"a,b\n1,x\n", b"2," + LONG, b"\n3,y\n", [("1", "x"), ("3", "y")]),
        (b"a,b\r\n1,x\r\n", b'2,"' + LONG + b'""\n"', b"\r\n3,y", [("1", "x"), ("3", "y")]),
        (b'a,b\n"1,""\n",x\n', b'"' + LONG + b'",2', b'\n"3","y""\n"\n', [('1,"\n', "x"), ("3", 'y"\n')]),
        (b"a\n1\n\n", b"x" * (18 << 20), b"\n2\n", [("1",), (None,), ("2",)]),
        (b"a,b\n" + (b"1," + b"x" * 96 + b"\n") * 100_000, b"2," + LONG, b"\n3,y\n", [("3", "y")]),
        (b"a,b\n1,x\n", b'2,"' + LONG, b"", [("1", "x")]),
    ],
)
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_row_of_csv_that_is_too_long_costs_itself_alone(
    before: bytes, row: bytes, after: bytes, expected: list[tuple[str, ...]], codec: str
) -> None:
    data = before + row + after
    rows, [error] = read("csv", data if codec == "none" else compressed(data, codec), codec)
    assert [tuple(row.values()) for row in rows[-len(expected) :]] == expected
    assert len(rows) == (100_001 if len(before) > 1000 else len(expected))
    assert error.startswith(f"The row at byte {len(before)} has ")
    assert "rows of up to 16777216 are read" in error


def test_rows_left_out_before_and_behind_a_long_one_are_each_reported_once() -> None:
    data = b"a,b\n" + b"1,x\n" * 10 + b"few\n2," + LONG + b"\n3,\xff\n4,y\nfew\n5,z\n"
    rows, errors = read("csv", data)
    assert [row["a"] for row in rows] == [*["1"] * 10, "4", "5"]
    kinds = ("The row at byte 48 has", "has 1 columns, not 2", "is not text in the encoding")
    assert [sum(kind in error for error in errors) for kind in kinds] == [1, 2, 1]
    assert len(errors) == 4


def test_a_record_that_is_too_long_is_named_with_its_size() -> None:
    rows, [error] = read("json", b'1\n"' + b"x" * (40 << 20) + b'"\n2\n')
    assert rows == ["1", "2"]
    assert error.startswith(f"The record at byte 2 has {(40 << 20) + 2} bytes, and records of up to 33554432 are read")
    assert read("json", b'1\n"' + b"x" * (40 << 20))[0] == ["1"]


# Columns


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


ABOVE = 1 << 63
"""The least whole number that int64 lacks."""


@pytest.mark.parametrize(
    ("good", "bad", "type"),
    [
        (1, ABOVE, pa.uint64()),
        ({"u": 1}, {"u": ABOVE}, pa.struct([("u", pa.uint64())])),
        ([1], [1, ABOVE], pa.list_(pa.uint64())),
        ([("k", 1)], [("k", ABOVE)], pa.map_(pa.string(), pa.uint64())),
    ],
)
def test_a_value_of_parquet_above_int64_costs_its_row_alone(good: Any, bad: Any, type: pa.DataType) -> None:
    values = [good] * 1000
    values[7] = values[998] = bad
    column = pa.field("c", type, nullable=False)
    table = pa.table([range(1000), pa.array(values, type)], pa.schema([pa.field("n", pa.int64()), column]))
    rows, errors = read("parquet", parquet(table, row_group_size=600))
    assert [row["n"] for row in rows] == [number for number in range(1000) if number not in (7, 998)]
    assert rows[0]["c"] == good
    assert [error.partition(":")[0] for error in errors] == ["Row 8, column c", "Row 999, column c"]
    assert all(str(ABOVE) in error for error in errors)


def test_columns_of_types_that_connect_lacks_are_read_as_their_file_stores_them() -> None:
    some = uuid.UUID(int=7)
    columns: dict[str, tuple[pa.Array, list[Any]]] = {
        "null": (pa.nulls(2), [None, None]),
        "nulls": (pa.array([[None], None], pa.list_(pa.null())), [[None], None]),
        "inner": (pa.array([{"x": None}, None], pa.struct([("x", pa.null())])), [{"x": None}, None]),
        "duration": (pa.array([5, None], pa.duration("us")), [5, None]),
        "json": (pa.array(["{}", None], pa.json_()), ["{}", None]),
        "uuid": (pa.array([some.bytes, None], pa.uuid()), [some.bytes, None]),
    }
    rows, errors = read("parquet", parquet(pa.table({name: column for name, (column, _) in columns.items()})))
    assert errors == []
    assert rows == [{name: values[row] for name, (_, values) in columns.items()} for row in range(2)]


def test_a_column_without_a_form_in_connect_is_named() -> None:
    """A struct within it has two fields of one name, which nobody's rows can have."""
    both = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])
    assert read("parquet", parquet(pa.table({"c": both})))[1] == [
        "The rest of the file cannot be read: Column c: Two fields of struct<x: int64, x: int64> have the same name"
    ]


def test_a_damaged_row_group_costs_no_other() -> None:
    data = bytearray(parquet(pa.table({"n": range(3000)}), row_group_size=1000, use_dictionary=False, compression="gzip"))
    metadata = pq.ParquetFile(io.BytesIO(bytes(data))).metadata
    begin = metadata.row_group(1).column(0).data_page_offset
    end = metadata.row_group(2).column(0).data_page_offset
    data[begin:end] = bytes(end - begin)
    rows, [error] = read("parquet", bytes(data))
    assert [row["n"] for row in rows] == [*range(1000), *range(2000, 3000)]
    assert error.startswith("Row group 1, rows 1001 to 2000, cannot be read: ")


def test_a_stripe_of_orc_that_cannot_be_read_costs_no_other() -> None:
    """Arrow reads instants of ORC in nanoseconds; 9999-12-31 is none of them, and its library returns no row of the stripe."""
    sink = io.BytesIO()
    writer = orc.ORCWriter(sink, stripe_size=1 << 16, compression="uncompressed")
    count, far = 100_000, 253_402_214_400_000_000
    for number in range(3):
        instants = [far if number == 1 and row == 5 else row * 7919 for row in range(count)]
        writer.write(pa.table({"n": range(number * count, (number + 1) * count), "at": pa.array(instants, pa.timestamp("us"))}))
    writer.close()
    stripes = orc.ORCFile(io.BytesIO(sink.getvalue())).nstripes
    assert stripes >= 3
    rows, errors = read("orc", sink.getvalue())
    assert [error.partition(" cannot")[0] for error in errors] == [f"Stripe {stripes // 3}, column at,"]
    assert {*range(count), *range(2 * count, 3 * count)} <= {row["n"] for row in rows}


# Avro


SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}, {"name": "text", "type": ["null", "string"]}]}


def avro(codec: str = "null", count: int = 90) -> tuple[bytearray, list[int]]:
    """Thirty records a block, and where each block begins."""
    sink = io.BytesIO()
    writer = fastavro.write.Writer(sink, fastavro.parse_schema(SCHEMA), codec=codec, sync_interval=1 << 20)
    begins = []
    for number in range(count):
        if number % 30 == 0:
            writer.flush()
            begins.append(sink.tell())
        writer.write({"n": number, "text": f"text {number:02d}"})
    writer.flush()
    return bytearray(sink.getvalue()), begins


def numbers(rows: list[Any]) -> list[int]:
    return [row["n"] for row in rows]


def test_a_text_of_avro_that_is_not_utf_8_costs_its_record_alone() -> None:
    data, _ = avro()
    at = data.index(b"text 40")
    data[at] = 0xFF
    rows, [error] = read("avro", bytes(data))
    assert numbers(rows) == [number for number in range(90) if number != 40]
    assert error.startswith("A record of 10 bytes cannot be read: ")


def test_a_broken_record_of_avro_costs_the_rest_of_its_block() -> None:
    data, begins = avro()
    data[data.index(b"text 40") - 2] = 14  # a branch of the union that there is not
    rows, [error] = read("avro", bytes(data))
    assert numbers(rows) == [*range(40), *range(60, 90)]
    assert error.startswith(f"The block at byte {begins[1]}, from its record 11 of 30, cannot be read: ")


@pytest.mark.parametrize("codec", ["null", "deflate"])
@pytest.mark.parametrize("damage", ["size", "content", "mark", "missing bytes"])
def test_blocks_of_avro_behind_a_damaged_one_are_read(codec: str, damage: str) -> None:
    data, begins = avro(codec)
    if damage == "size":
        data[begins[1] + 1 : begins[1] + 3] = b"\xff\x7f"
    elif damage == "content":
        data[begins[1] + 3 : begins[2] - 16] = bytes(0x80 for _ in range(begins[1] + 3, begins[2] - 16))
    elif damage == "mark":
        data[begins[2] - 1] ^= 1
    else:
        del data[begins[1] + 20 : begins[1] + 30]
    rows, [error] = read("avro", bytes(data))
    assert numbers(rows)[:30] == list(range(30))
    assert numbers(rows)[-30:] == list(range(60, 90)) or damage == "mark"  # whose next mark is behind the next block
    assert f"block at byte {begins[1]}" in error
