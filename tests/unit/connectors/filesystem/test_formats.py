"""Formats of files: what is written is read back, by us and by others' readers; what is broken is named."""

import gzip
import io
import json
import lzma
import math
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.connectors.filesystem.formats import avro, parquet, text
from airflow_provider_connect.connectors.filesystem.formats.file_format import FORMATS, FileFormat, Split, codec_of, file_format
from airflow_provider_connect.connectors.filesystem.formats.text import EXTENSIONS
from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.data.columns import column_of, json_column, values_of
from airflow_provider_connect.data.schema import BYTES_SCHEMA, INT64_SCHEMA, STRING_SCHEMA, Schema, SchemaType, Struct, decimal_schema
from airflow_provider_connect.errors import ConfigException, DataException
from tests.unit.connectors.filesystem.values import COLUMN, SCHEMA, without

CODECS = {
    "json": ("none", "gzip", "zstd", "lz4", "bz2"),
    "csv": ("none", "gzip", "zstd", "lz4", "bz2"),
    "bytes": ("none", "gzip", "zstd", "lz4", "bz2"),
    "parquet": ("snappy", "gzip", "zstd", "lz4", "brotli", "none"),
    "avro": ("null", "deflate", "snappy", "zstandard", "bzip2"),
    "orc": ("none", "snappy", "zlib", "lz4", "zstd"),
}
NUMBERS = Schema.struct({"n": INT64_SCHEMA, "t": STRING_SCHEMA})
EVERY = [(name, codec) for name, codecs in CODECS.items() for codec in codecs]


def written(format: FileFormat, schema: Schema | None, *columns: pa.Array) -> bytes:
    file = io.BytesIO()
    writer = format.writer(file, schema, columns[0].type)
    for column in columns:
        writer.write(column)
    writer.close()
    assert writer.bytes_written == len(file.getvalue())
    return file.getvalue()


def pieces(format: FileFormat, data: bytes, split: Split | None = None) -> Iterator[tuple[pa.Array, Schema | None]]:
    for piece in format.read(io.BytesIO(data), split):
        assert not isinstance(piece, DataException), piece
        yield piece


def values(format: FileFormat, data: bytes, split: Split | None = None) -> list[object]:
    return [value for column, schema in pieces(format, data, split) for value in values_of(column, schema)]


def rows_of(query: str) -> list[tuple[object, ...]]:
    found = duckdb.sql(query)
    assert found is not None
    return found.fetchall()


def numbers(begin: int, end: int) -> pa.Array:
    return column_of([{"n": n, "t": f"text of {n}"} for n in range(begin, end)], NUMBERS)


def value_column(name: str, begin: int, end: int) -> tuple[pa.Array, Schema]:
    if name == "bytes":
        return pa.array([b"text of %d" % n for n in range(begin, end)]), BYTES_SCHEMA
    return numbers(begin, end), NUMBERS


@pytest.mark.parametrize(("name", "codec"), EVERY)
def test_each_codec_is_read_back(name: str, codec: str) -> None:
    format = file_format(name, codec, {})
    first, schema = value_column(name, 0, 1000)
    data = written(format, schema, first, value_column(name, 1000, 1500)[0])
    found = values(format, data)
    assert len(found) == 1500
    assert "text of 1499" in str(found[-1])
    assert codec in ("none", "null") or len(data) < 20_000


@pytest.mark.parametrize(("name", "codec"), EVERY)
def test_a_file_is_read_by_the_end_of_its_name(name: str, codec: str) -> None:
    format = file_format(name, codec, {})
    column, schema = value_column(name, 0, 10)
    found = values(file_format(name, codec_of(name, f"a{format.extension}"), {}), written(format, schema, column))
    assert len(found) == 10
    assert "text of 9" in str(found[-1])


def test_the_table_of_codecs_is_whole() -> None:
    assert CODECS.keys() <= FORMATS.keys()
    for name, codecs in CODECS.items():
        with pytest.raises(ConfigException, match=f"compression: Files of this format support: .*{codecs[-1]}"):
            file_format(name, "zip", {})


def test_an_unknown_format_names_the_setting() -> None:
    with pytest.raises(ConfigException, match="Invalid value xml for configuration format: The supported formats are json, csv"):
        file_format("xml", None, {})


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("csv", "csv.delimiter", ";;"),
        ("csv", "csv.header", "maybe"),
        ("json", "json.decimal.format", "hex"),
        ("bytes", "format.bytearray.separator", ""),
    ],
)
def test_a_wrong_option_names_the_setting(name: str, key: str, value: str) -> None:
    with pytest.raises(ConfigException, match=f"configuration {key}:"):
        file_format(name, None, {key: value})


# Parquet and ORC


def test_parquet_keeps_all_of_a_schema() -> None:
    format = file_format("parquet", None, {})
    [(column, schema)] = pieces(format, written(format, SCHEMA, COLUMN))
    assert schema == SCHEMA
    assert str(values_of(column, schema)) == str(values_of(COLUMN, SCHEMA))  # NaN is not equal to itself


def test_parquet_keeps_that_values_are_optional_and_their_default() -> None:
    given = Schema.struct({"n": INT64_SCHEMA}).as_optional()
    format = file_format("parquet", None, {})
    [(_, schema)] = pieces(format, written(format, given, column_of([{"n": 1}], given)))
    assert schema == given


def test_other_readers_read_our_parquet(tmp_path: Path) -> None:
    file = tmp_path / "values.parquet"
    file.write_bytes(written(file_format("parquet", "zstd", {}), SCHEMA, COLUMN))
    assert pq.read_table(file).column("text").to_pylist() == ['quo"te,\r\n\x00€𝄞', ""]
    [row, *_] = rows_of(f'SELECT whole, price, day, inners, counts, "data", v."inner".z, text FROM \'{file}\' AS v')
    assert (row[0], str(row[1]), str(row[2]), row[3], row[5], row[6]) == (
        2**63 - 1,
        "-1.20",
        "9999-12-31",
        [{"z": 1}, {"z": -1}],
        b"\x00\xff",
        127,
    )


def test_parquet_of_others_is_read(tmp_path: Path) -> None:
    file = tmp_path / "others.parquet"
    query = (
        "SELECT 1::UTINYINT AS a, 'x'::BLOB AS b, TIMESTAMP '2020-01-02 03:04:05.678901' AS c, uuid() AS d, [1, NULL] AS e, "
        "{'f': 1.50::DECIMAL(4, 2), 'at': TIME '01:02:03.004005'} AS g"
    )
    duckdb.execute(f"COPY ({query}) TO '{file}' (FORMAT parquet)")
    [(column, schema)] = pieces(file_format("parquet", None, {}), file.read_bytes())
    assert schema is not None
    assert [field.schema.type for field in schema.fields][:3] == [SchemaType.INT16, SchemaType.BYTES, SchemaType.INT64]
    [value] = values_of(column, schema)
    assert (value["a"], value["b"], str(value["c"]), value["e"]) == (1, b"x", "2020-01-02 03:04:05.678000+00:00", [1, None])
    assert (str(value["g"]["f"]), str(value["g"]["at"])) == ("1.50", "01:02:03.004000")


def test_parquet_row_groups_are_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 1000)
    format = file_format("parquet", "none", {})
    data = written(format, NUMBERS, *(numbers(first, first + 100) for first in range(0, 1000, 100)))
    splits = format.splits(io.BytesIO(data), len(data), 1)
    assert splits == [Split(n, n + 1) for n in range(10)]
    assert [len(values(format, data, split)) for split in splits] == [100] * 10
    assert format.splits(io.BytesIO(data), len(data), 1 << 30) == [Split(0, 10)]


def test_a_large_row_group_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "CHUNK_BYTES", 5000)
    format = file_format("parquet", "none", {})
    found = list(pieces(format, written(format, NUMBERS, numbers(0, 5000))))
    assert len(found) > 5
    assert sum(len(column) for column, _ in found) == 5000


@pytest.mark.parametrize("name", ["parquet", "orc", "csv"])
def test_columns_need_structs_with_a_schema(name: str) -> None:
    format = file_format(name, None, {})
    for schema, column in (
        (None, json_column(["{}"])),
        (STRING_SCHEMA, pa.array(["x"])),
        (Schema.struct({}), pa.array([{}], pa.struct([]))),
    ):
        with pytest.raises(DataException, match="files need structs with"):
            format.accepts(schema, column.type)
        with pytest.raises(DataException, match="files need structs with"):
            format.writer(io.BytesIO(), schema, column.type)


@pytest.mark.parametrize("name", ["parquet", "orc", "csv"])
def test_columns_have_no_null_values(name: str) -> None:
    writer = file_format(name, None, {}).writer(io.BytesIO(), NUMBERS, arrow_type(NUMBERS))
    with pytest.raises(DataException, match=r"hold null values.*behavior\.on\.null\.values"):
        writer.write(column_of([{"n": 1, "t": ""}, None], NUMBERS))


@pytest.mark.parametrize(
    ("name", "schema"),
    [("parquet", decimal_schema(-2)), ("orc", decimal_schema(-2)), ("orc", decimal_schema(50)), ("parquet", Schema.struct({}))],
)
def test_what_a_format_has_no_type_for_is_refused_before_anything_is_written(name: str, schema: Schema) -> None:
    whole = Schema.struct({"inner": Schema.struct({"d": Schema.array(schema)})})
    with pytest.raises(DataException, match=r"Parquet files cannot hold the (decimal|struct) value\.inner\.d|ORC files support decimals"):
        file_format(name, None, {}).accepts(whole, arrow_type(whole))


def test_orc_keeps_fields_but_not_that_they_are_required() -> None:
    schema, column = without("wide")
    format = file_format("orc", "zstd", {})
    [(found, read)] = pieces(format, written(format, schema, column))
    assert read is not None
    assert [field.schema.as_required() for field in read.fields][1:6] == [field.schema.as_required() for field in schema.fields][1:6]
    assert [field.schema.logical_name for field in read.fields] == [field.schema.logical_name for field in schema.fields]
    assert str(found.to_pylist()) == str(column.to_pylist())


def test_other_readers_read_our_orc() -> None:
    schema, column = without("wide")
    table = pyarrow.orc.read_table(io.BytesIO(written(file_format("orc", None, {}), schema, column)))
    assert table.column("text").to_pylist() == ['quo"te,\r\n\x00€𝄞', ""]
    assert table.column("time").to_pylist() == [86_399_999, 0]


@pytest.mark.parametrize("name", ["parquet", "orc"])
def test_an_empty_file_of_columns_is_read_as_no_values(name: str) -> None:
    format = file_format(name, None, {})
    assert values(format, written(format, NUMBERS, numbers(0, 0))) == []


# Avro


def test_avro_keeps_all_of_a_schema() -> None:
    schema, column = without("wide")  # whose parameter is not Connect's
    format = file_format("avro", None, {})
    [(found, read)] = pieces(format, written(format, schema, column))
    assert read == schema
    assert str(values_of(found, read)) == str(values_of(column, schema))


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2"])
def test_fastavro_reads_our_avro(codec: str) -> None:
    data = written(file_format("avro", codec, {}), *without("wide"))
    rows: list[Any] = list(fastavro.reader(io.BytesIO(data)))
    first, second = rows
    assert (first["whole"], str(first["price"]), first["day"].isoformat(), first["inner"]) == (2**63 - 1, "-1.20", "9999-12-31", {"z": 127})
    assert (second["text"], second["inners"], second["price"]) == ("", [], None)


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2"])
def test_avro_of_fastavro_is_read(codec: str) -> None:
    schema = {
        "type": "record",
        "name": "a.B",
        "doc": "b",
        "fields": [
            {"name": "n", "type": "long"},
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["X", "Y"]}},
            {"name": "m", "type": {"type": "map", "values": ["null", "string"]}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {
                "name": "next",
                "type": ["null", {"type": "record", "name": "C", "fields": [{"name": "f", "type": "float"}]}],
                "default": None,
            },
        ],
    }
    rows = [{"n": n, "e": "XY"[n % 2], "m": {"k": None, "l": str(n)}, "at": n, "next": {"f": 0.5} if n % 3 else None} for n in range(5000)]
    file = io.BytesIO()
    fastavro.writer(file, schema, rows, codec=codec)
    found = [value for column, _ in pieces(file_format("avro", None, {}), file.getvalue()) for value in column.to_pylist()]
    assert len(found) == 5000
    assert (found[4]["n"], found[4]["e"], dict(found[4]["m"]), found[4]["next"]) == (4, "X", {"k": None, "l": "4"}, {"f": 0.5})


def test_avro_holds_single_values_and_nulls() -> None:
    schema = STRING_SCHEMA.as_optional()
    format = file_format("avro", None, {})
    assert values(format, written(format, schema, pa.array(["x", None, ""]))) == ["x", None, ""]


def test_avro_needs_a_schema() -> None:
    with pytest.raises(DataException, match="Avro files need values with a schema"):
        file_format("avro", None, {}).accepts(None, pa.json_())


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"),  # 2**62 entries
        ({"type": "record", "name": "R", "fields": []}, b""),  # of which the block has as many
    ],
)
def test_an_avro_file_that_would_read_without_end_is_refused(schema: dict[str, object], data: bytes) -> None:
    text = json.dumps(schema).encode()
    varint = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
    header = b"Obj\x01\x02\x16avro.schema" + avro._varint(len(text)) + text + b"\x00" + b"s" * 16
    [bad] = file_format("avro", None, {}).read(io.BytesIO(header + varint + avro._varint(len(data)) + data + b"s" * 16), None)
    assert isinstance(bad, DataException)


def test_a_block_that_inflates_beyond_its_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro, "MOST_BYTES", 50_000)
    for codec in ("deflate", "snappy", "zstandard", "bzip2"):
        format = file_format("avro", codec, {})
        [bad] = format.read(io.BytesIO(written(format, STRING_SCHEMA, pa.array(["x" * 100_000]))), None)
        assert "more than 50000 uncompressed bytes" in str(bad)


# JSON


def test_json_is_what_the_converter_writes_without_schemas() -> None:
    lines = written(file_format("json", None, {"json.decimal.format": "numeric"}), SCHEMA, COLUMN).decode().splitlines()
    assert json.loads(lines[0])["price"] == -1.2
    assert json.loads(lines[0])["data"] == "AP8="
    assert json.loads(lines[0])["text"] == 'quo"te,\r\n\x00€𝄞'
    assert json.loads(lines[1]) | {"text": "", "single": "NaN", "inner": None, "inners": []} == json.loads(lines[1])


def test_duckdb_reads_our_json(tmp_path: Path) -> None:
    file = tmp_path / "values.json.gz"
    file.write_bytes(written(file_format("json", "gzip", {}), NUMBERS, numbers(0, 100)))
    assert rows_of(f"SELECT sum(n), max(t) FROM '{file}'") == [(4950, "text of 99")]


@pytest.mark.parametrize(
    ("column", "line"),
    [
        (json_column(['{"a":\n 1}', None]), b'{"a":  1}\nnull\n'),
        (pa.array([1, None]), b"1\nnull\n"),
        (
            column_of([{"a": math.inf, "b": "NaN"}, [-math.inf], {"a": "Infinity"}], None),
            b'{"a":"Infinity","b":"NaN"}\n["-Infinity"]\n{"a":"Infinity"}\n',
        ),
        (json_column(['{"a":1e400}']), b'{"a":1e400}\n'),
        (pa.array(["a\nb"]), b'"a\\nb"\n'),
        (pa.nulls(2), b"null\nnull\n"),
        (pa.array([b"\x00"]), b'"AA=="\n'),
    ],
)
def test_values_without_a_schema_are_one_line_each(column: pa.Array, line: bytes) -> None:
    assert written(file_format("json", None, {}), None, column) == line


def test_json_lines_are_read_as_texts() -> None:
    data = b'\xef\xbb\xbf{"a": 1}\r\n\n  \n[1, {"b": "x"}]\n"text"\n12\nnull\n123456789012345678901234567890'
    assert values(file_format("json", None, {}), data) == [{"a": 1}, [1, {"b": "x"}], "text", 12, None, 123456789012345678901234567890]


@pytest.mark.parametrize("line", [b"{", b'{"a": NaN}', b'{"a": "\xff"}', b"{} {}", b"[" * 300 + b"]" * 300, b"1" * 2000, b"{'a': 1}"])
def test_a_line_that_is_not_json_is_an_exception_among_the_others(line: bytes) -> None:
    found = list(file_format("json", None, {}).read(io.BytesIO(b'{"a":1}\n' + line + b'\n{"b":2}\n'), None))
    [good, bad] = found
    assert isinstance(good, tuple)
    assert values_of(good[0], None) == [{"a": 1}, {"b": 2}]
    assert isinstance(bad, DataException)


@pytest.mark.parametrize("chunk", [1, 7, 1000])
@pytest.mark.parametrize("wanted", [1, 10, 33, 5000])
def test_ranges_of_bytes_have_each_line_once(monkeypatch: pytest.MonkeyPatch, chunk: int, wanted: int) -> None:
    monkeypatch.setattr(text, "CHUNK_BYTES", chunk)
    data = b"".join(b'{"n":%d}\n' % n for n in (*range(20), 10**30, 5)) + b"7"
    format = file_format("json", None, {})
    splits = format.splits(io.BytesIO(data), len(data), wanted)
    assert [value for split in splits for value in values(format, data, split)] == values(format, data)
    assert len(values(format, data)) == 23


def test_a_compressed_text_is_one_split() -> None:
    assert file_format("json", "gzip", {}).splits(io.BytesIO(), 1000, 10) == [Split(0, 1000)]
    assert file_format("bytes", None, {"format.bytearray.separator": "\\r\\n"}).splits(io.BytesIO(), 1000, 10) == [Split(0, 1000)]


class Short(io.BytesIO):
    """Reads return at most seven bytes. ``requested`` counts the bytes read."""

    requested = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(7 if size is None or size < 0 else min(size, 7))
        self.requested += len(data)
        return data


@pytest.mark.parametrize("name", ["json", "csv", "bytes"])
@pytest.mark.parametrize("codec", [each for each in EXTENSIONS if each != "none"])
def test_a_compression_that_the_name_does_not_show_is_known_by_the_first_bytes(name: str, codec: str) -> None:
    schema, column = (BYTES_SCHEMA, pa.array([b"1", b"2"])) if name == "bytes" else (NUMBERS, numbers(0, 2000))
    data = written(file_format(name, codec, {}), schema, column)
    format = file_format(name, codec_of(name, "no-ending"), {})
    expected = values(file_format(name, codec, {}), data)
    assert values(format, data) == expected
    short = Short(data)
    assert [value for piece in format.read(short, None) if isinstance(piece, tuple) for value in values_of(*piece)] == expected
    assert name == "csv" or short.requested == len(data)  # no byte twice; the rows of csv are counted in advance
    assert format.splits(io.BytesIO(data), len(data), 10) == [Split(0, len(data))]


@pytest.mark.parametrize("codec", [each for each in EXTENSIONS if each != "none"])
def test_an_empty_text_is_known_as_compressed(codec: str) -> None:
    data = pa.BufferOutputStream()
    with pa.CompressedOutputStream(data, codec):
        pass
    assert values(file_format("json", None, {}), data.getvalue().to_pybytes()) == []


@pytest.mark.parametrize("start", [b"BZh9", b"BZh91AY&S", b"PK", b"(", b"\x1f\x8b", b"\x1f\x8b\x08\xff", b"\x04\x22\x4d", b""])
def test_a_text_that_begins_almost_like_a_compressed_one_is_read(start: bytes) -> None:
    assert values(file_format("bytes", None, {}), start + b"\n2") == [start, b"2"]


def test_a_text_that_begins_wholly_like_a_compressed_one_is_read_where_the_setting_denies_it() -> None:
    data = b"BZh91AY&SY\n2"
    [error] = file_format("bytes", None, {}).read(io.BytesIO(data), None)
    assert "cannot be read: it is not valid bz2: " in str(error)
    assert values(file_format("bytes", "none", {}), data) == [b"BZh91AY&SY", b"2"]
    assert len(file_format("bytes", "none", {}).splits(io.BytesIO(data), len(data), 6)) == 2


@pytest.mark.parametrize(
    ("codec", "data"),
    [("xz", lzma.compress(b"1\n")), ("zip", b"PK\x03\x04\x14\x00" + bytes(30)), ("snappy", b"\xff\x06\x00\x00sNaPpY" + bytes(9))],
)
@pytest.mark.parametrize("name", ["json", "csv", "bytes"])
def test_a_compression_that_is_not_supported_is_named(name: str, codec: str, data: bytes) -> None:
    [error] = file_format(name, None, {}).read(io.BytesIO(data), None)
    assert str(error) == f"The rest of the file cannot be read: it is compressed with {codec}, which is not supported"


@pytest.mark.parametrize(("content", "likeness"), [(b"a\n1\n", "an uncompressed file"), (lzma.compress(b"1\n"), "xz")])
@pytest.mark.parametrize("name", ["json", "csv", "bytes"])
def test_a_file_that_is_not_what_its_name_shows_is_an_error_with_the_compression(name: str, content: bytes, likeness: str) -> None:
    [error] = file_format(name, codec_of(name, "a.GZ"), {}).read(io.BytesIO(content), None)
    assert str(error).startswith(f"The rest of the file cannot be read: it is not valid gzip, and begins like {likeness}: ")


def test_a_line_without_end_is_passed_over_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(text, "MAX_LINE_BYTES", 5000)
    data = gzip.compress(b"1\n" + b"9" * 100_000 + b"\n2\n")
    first, bad, last = file_format("json", "gzip", {}).read(io.BytesIO(data), None)
    assert isinstance(bad, DataException)
    assert "The record at byte 2 has 100000 bytes, and records of up to 5000 are read" in str(bad)
    assert isinstance(first, tuple)
    assert isinstance(last, tuple)
    assert values_of(last[0], None) == [2]


def test_gzip_files_that_were_joined_are_read_whole() -> None:
    assert values(file_format("json", "gzip", {}), gzip.compress(b"1\n") + gzip.compress(b"2\n")) == [1, 2]


# Bytes


def test_bytes_with_a_separator_of_their_own() -> None:
    format = file_format("bytes", None, {"format.bytearray.separator": "\\0"})
    data = written(format, BYTES_SCHEMA, pa.array([b"a\nb", b"", b"\xff"]))
    assert data == b"a\nb\0\0\xff\0"
    assert values(format, data) == [b"a\nb", b"", b"\xff"]


@pytest.mark.parametrize(
    ("column", "message"),
    [(pa.array([b"a", None]), "hold null values"), (pa.array([b"a", b"b\nc"]), r"Value 1 contains.*format\.bytearray\.separator")],
)
def test_bytes_that_would_not_come_back_are_refused(column: pa.Array, message: str) -> None:
    with pytest.raises(DataException, match=message):
        written(file_format("bytes", None, {}), BYTES_SCHEMA, column)


def test_numbers_are_no_bytes() -> None:
    with pytest.raises(DataException, match="ByteArrayConverter"):
        file_format("bytes", None, {}).accepts(INT64_SCHEMA, pa.int64())


# CSV


def test_csv_has_texts_in_quotes_so_that_an_empty_one_is_not_null() -> None:
    schema = Schema.struct({"a": STRING_SCHEMA.as_optional(), "b": INT64_SCHEMA.as_optional()})
    column = column_of([{"a": 'x"\n', "b": 1}, {"a": "", "b": None}, {"a": None, "b": 2}], schema)
    format = file_format("csv", None, {"csv.delimiter": "\\t"})
    data = written(format, schema, column)
    assert data == b'"a"\t"b"\n"x""\n"\t1\n""\t\n\t2\n'
    [(found, read)] = pieces(format, data)
    assert found.to_pylist() == [{"a": 'x"\n', "b": "1"}, {"a": "", "b": None}, {"a": None, "b": "2"}]
    assert read == Schema.struct({"a": STRING_SCHEMA.as_optional(), "b": STRING_SCHEMA.as_optional()})


def test_csv_of_one_column_keeps_its_nulls() -> None:
    schema = Schema.struct({"a": STRING_SCHEMA.as_optional()})
    format = file_format("csv", None, {"csv.header": "false"})
    data = written(format, schema, column_of([{"a": "x"}, {"a": None}, {"a": ""}], schema))
    assert [value["f0"] for column, _ in pieces(format, data) for value in column.to_pylist()] == ["x", None, ""]


def test_other_readers_read_our_csv(tmp_path: Path) -> None:
    file = tmp_path / "values.csv"
    file.write_bytes(written(file_format("csv", None, {}), *without("text")))
    [row, *_] = rows_of(f"SELECT whole, price, data, inners, day FROM read_csv('{file}', all_varchar = true)")
    assert row == ("9223372036854775807", "-1.20", "AP8=", '[{"z":1},{"z":-1}]', "9999-12-31")


def test_a_row_of_another_width_is_an_exception_and_the_others_are_read() -> None:
    found = list(file_format("csv", None, {}).read(io.BytesIO(b"a,b\n1,2\n3\n4,5,6\n7,8\n"), None))
    assert isinstance(found[0], tuple)
    assert found[0][0].to_pylist() == [{"a": "1", "b": "2"}, {"a": "7", "b": "8"}]
    assert [str(each) for each in found[1:]] == ["Row 3 has 1 columns, not 2: 3", "Row 4 has 3 columns, not 2: 4,5,6"]


ROW = Schema.struct({"f0": STRING_SCHEMA.as_optional(), "f1": STRING_SCHEMA.as_optional()})


@pytest.mark.parametrize("text", ["a,b", '"a","b"'])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_single_row_of_csv_needs_no_line_end(text: str, encoding: str) -> None:
    """The library reads nothing of a block without one."""
    data = text.encode(encoding)
    assert values(file_format("csv", None, {}), data) == []
    found = values(file_format("csv", None, {"csv.header": "false"}), data)
    assert found == [Struct(ROW, {"f0": "a", "f1": "b"})]


def test_names_of_csv_columns_must_differ() -> None:
    [bad] = file_format("csv", None, {}).read(io.BytesIO(b"a,a\n1,2\n"), None)
    assert "csv.header=false" in str(bad)


# Broken files


@pytest.mark.parametrize(("name", "codec"), [each for each in EVERY if each not in (("json", "none"), ("csv", "none"), ("bytes", "none"))])
def test_a_file_that_is_cut_or_of_another_format_is_an_exception_and_no_crash(name: str, codec: str) -> None:
    format = file_format(name, codec, {})
    column, schema = value_column(name, 0, 20_000)
    data = written(format, schema, column)
    for broken in (data[: len(data) // 2], b"x" * 100):
        *_, last = format.read(io.BytesIO(broken), None)
        assert isinstance(last, DataException), last
        assert format.splits(io.BytesIO(broken), len(broken), 10)


@pytest.mark.parametrize("name", CODECS)
def test_files_with_changed_bytes_end_in_values_or_an_exception(name: str) -> None:
    random = Random(7)
    format = file_format(name, None, {})
    schema, column = (BYTES_SCHEMA, pa.array([b"x" * 50] * 20)) if name == "bytes" else without("wide")
    data = written(format, schema, column)
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(random.randint(1, 4)):
            changed[random.randrange(len(data))] = random.randrange(256)
        assert all(isinstance(piece, tuple | DataException) for piece in format.read(io.BytesIO(changed), None))


@pytest.mark.parametrize("name", ["json", "csv", "bytes"])
def test_an_empty_text_file_has_no_values(name: str) -> None:
    assert values(file_format(name, None, {}), b"") == []


def test_an_error_of_the_file_system_is_no_fault_of_the_file() -> None:
    class Failing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error")

    for name in CODECS:
        with pytest.raises(OSError, match="Input/output error"):
            list(file_format(name, "gzip" if name in ("json", "csv", "bytes") else None, {}).read(Failing(b"x" * 100), None))
    for name in ("parquet", "orc"):
        with pytest.raises(OSError, match="Input/output error"):
            file_format(name, None, {}).splits(Failing(b"x" * 100), 100, 10)
