"""Files of a few kilobytes that become very much more, by format and codec, and what their reader makes of them in a process of its own.

``python -m tests.unit.connectors.filesystem.expansions`` prints a JSON object: for each file what was read, and what that took."""

from __future__ import annotations

import gzip
import io
import json
import os
import resource
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq

from airflow_provider_connect.connectors.filesystem.formats.file_format import file_format
from airflow_provider_connect.errors import DataException


def zipped(data: bytes) -> bytes:
    return gzip.compress(data, 9)


def packed(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


def avro_file(schema: object, count: int, records: bytes, codec: str = "deflate") -> bytes:
    """An Avro file of one block."""
    metadata = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec.encode()}
    entries = b"".join(_with_size(key) + _with_size(value) for key, value in metadata.items())
    data = packed(records) if codec == "zstandard" else zlib.compress(records, 9, -15)
    return b"Obj\x01" + _number(len(metadata)) + entries + _number(0) + b"s" * 16 + _number(count) + _with_size(data) + b"s" * 16


def _with_size(data: bytes) -> bytes:
    return _number(len(data)) + data


def _number(number: int) -> bytes:
    return _whole(number << 1)


def _whole(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes((*found, number))


def avro_record(types: Iterable[object]) -> object:
    return {"type": "record", "name": "R", "fields": [{"name": f"f{number}", "type": type} for number, type in enumerate(types)]}


def parquet_file(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, **{"store_schema": False, "compression": "zstd", "row_group_size": 1 << 30} | options)
    return file.getvalue()


def orc_file(table: pa.Table, count: int = 1, codec: str = "zstd") -> bytes:
    """An ORC file of one stripe, ``table`` so many times, texts in dictionaries."""
    file = io.BytesIO()
    options = {"compression": codec, "dictionary_key_size_threshold": 1.0, "stripe_size": 1 << 40, "compression_block_size": 1 << 22}
    with po.ORCWriter(file, **options) as writer:
        for _ in range(count):
            writer.write(table)
    return file.getvalue()


def orc_end(*parts: tuple[int, int | bytes]) -> bytes:
    """An ORC file of an end alone: what it describes, as fields of a message."""
    described = _message((1, 3), (2, 0), *parts, (6, 0))
    blocks = [zlib.compress(described[at : at + (1 << 22)], 9, -15) for at in range(0, len(described), 1 << 22)]
    footer = b"".join((len(block) << 1).to_bytes(3, "little") + block for block in blocks)
    script = _message((1, len(footer)), (2, 1), (3, 1 << 22), (4, b"\0\x0c"), (5, 0), (6, 6), (8000, b"ORC"))
    return b"ORC" + footer + script + bytes([len(script)])


def _message(*fields: tuple[int, int | bytes]) -> bytes:
    """Of Protocol Buffers: numbers, and texts."""
    return b"".join(
        _whole(field << 3) + _whole(value) if isinstance(value, int) else _whole(field << 3 | 2) + _whole(len(value)) + value
        for field, value in fields
    )


def same(value: object, type: pa.DataType, count: int) -> pa.Array:
    """Many times one value."""
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), pa.array([value], type))


def one_list(count: int) -> pa.Table:
    """A list of so many zeros, in one of many rows."""
    offsets = pa.array([0, *[count] * 1000], pa.int32())
    return pa.table({"a": pa.ListArray.from_arrays(offsets, pa.repeat(pa.scalar(0, pa.int64()), count))})


def lying_parquet(size: int) -> bytes:
    """A Parquet file of one text of so many zeros, in a page of brotli, whose end claims that it has no more bytes than the file."""
    begun = size.to_bytes(4, "little")
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "brotli") as stream:
        for piece in (begun, *[bytes(1 << 20)] * (size >> 20), bytes(size & ((1 << 20) - 1))):
            stream.write(piece)
    page = bytes(sink.getvalue())
    data = _thrift((1, _I32, _number(1)), (2, _I32, _number(0)), (3, _I32, _number(3)), (4, _I32, _number(3)))
    chunk = _thrift((1, _I32, _number(0)), (2, _I32, _number(size + 4)), (3, _I32, _number(len(page))), (5, _STRUCT, data)) + page
    total, name = _number(len(chunk)), _whole(1) + b"a"
    plain = bytes([1 << 4 | _I32]) + _number(0)
    column = _thrift(
        *((1, _I32, _number(6)), (2, _LIST, plain), (3, _LIST, bytes([1 << 4 | _BINARY]) + name), (4, _I32, _number(4))),
        *((5, _I64, _number(1)), (6, _I64, total), (7, _I64, total), (9, _I64, _number(4))),
    )
    group = _thrift(
        (1, _LIST, bytes([1 << 4 | _STRUCT]) + _thrift((2, _I64, _number(4)), (3, _STRUCT, column))),
        (2, _I64, total),
        (3, _I64, _number(1)),
    )
    schema = _thrift((4, _BINARY, _whole(1) + b"s"), (5, _I32, _number(1))) + _thrift(
        (1, _I32, _number(6)), (3, _I32, b"\0"), (4, _BINARY, name)
    )
    end = _thrift(
        *((1, _I32, _number(1)), (2, _LIST, bytes([2 << 4 | _STRUCT]) + schema), (3, _I64, _number(1))),
        (4, _LIST, bytes([1 << 4 | _STRUCT]) + group),
    )
    return b"PAR1" + chunk + end + len(end).to_bytes(4, "little") + b"PAR1"


_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12


def _thrift(*fields: tuple[int, int, bytes]) -> bytes:
    """A struct of Thrift's compact protocol."""
    found, before = b"", 0
    for number, kind, value in fields:
        found += bytes([number - before << 4 | kind]) + value
        before = number
    return found + b"\0"


LONG_ENUM: Final = {"type": "enum", "name": "E", "symbols": ["x" * 5000]}
MANY: Final = 4_000_000
FILES: Final[Mapping[str, tuple[str, str | None, Callable[[], bytes]]]] = {
    "CSV of a row of commas": ("csv", "gzip", lambda: zipped(b"," * MANY)),
    "CSV of a second row of commas": ("csv", "gzip", lambda: zipped(b"a,b\n" + b"," * MANY)),
    "CSV of rows with too few columns": ("csv", "gzip", lambda: zipped(b"a,b,c\n" + b"x\n" * MANY)),
    "CSV of rows that are no text": ("csv", "gzip", lambda: zipped(b"a\n" + b"\xff\n" * MANY)),
    "CSV of empty rows": ("csv", "gzip", lambda: zipped(b"a\n" + b"\n" * 2 * MANY)),
    "CSV of a quote that stays open": ("csv", "gzip", lambda: zipped(b'a,b\n"' + b"x" * 2 * MANY)),
    "CSV that unpacks without end": ("csv", "zstd", lambda: packed(b"a,b\n" + b"1,2\n" * 30_000_000)),
    "JSON of lines that are none": ("json", "gzip", lambda: zipped(b"x\n" * MANY)),
    "JSON of brackets": ("json", "gzip", lambda: zipped((b"[" * MANY + b"\n") * 2)),
    "JSON of empty lines": ("json", "gzip", lambda: zipped(b"\n" * 2 * MANY)),
    "JSON of one number": ("json", "gzip", lambda: zipped(b"9" * 2 * MANY)),
    "JSON that unpacks without end": ("json", "zstd", lambda: packed(b"0" * 500_000_000)),
    "bytes of empty lines": ("bytes", "gzip", lambda: zipped(b"\n" * 2 * MANY)),
    "bytes that unpack without end": ("bytes", "zstd", lambda: packed(b"x" * 500_000_000)),
    "Parquet of nulls": ("parquet", None, lambda: parquet_file(pa.table({"a": pa.nulls(2 * MANY, pa.int64())}))),
    "Parquet of copies of one text": ("parquet", None, lambda: parquet_file(pa.table({"a": same("x" * 100_000, pa.string(), MANY)}))),
    "Parquet of texts that begin alike": (
        "parquet",
        None,
        lambda: parquet_file(
            pa.table({"a": pa.array(["x" * 100_000] * 3000)}), use_dictionary=False, column_encoding={"a": "DELTA_BYTE_ARRAY"}
        ),
    ),
    "Parquet of copies in lists": (
        "parquet",
        None,
        lambda: parquet_file(
            pa.table({"a": pa.ListArray.from_arrays(pa.array(range(0, MANY + 1, 10), pa.int32()), pa.array(["x" * 10] * MANY))})
        ),
    ),
    "Parquet of one list": ("parquet", None, lambda: parquet_file(one_list(40_000_000))),
    "Parquet of one text": ("parquet", None, lambda: parquet_file(pa.table({"a": pa.array(["x" * 200_000_000])}), use_dictionary=False)),
    "Parquet whose end lies": ("parquet", None, lambda: lying_parquet(1_900_000_000)),
    "ORC of copies of one text": ("orc", None, lambda: orc_file(pa.table({"a": ["x" * 100_000] * 100}), 300)),
    "ORC of copies of one long text": ("orc", None, lambda: orc_file(pa.table({"a": ["x" * 4_000_000] * 10}), 60)),
    "ORC of copies in lists": ("orc", None, lambda: orc_file(pa.table({"a": [["x" * 1000] * 10] * 1000}), 40)),
    "ORC of one list": ("orc", None, lambda: orc_file(one_list(40_000_000).slice(0, 1))),
    "ORC of zeros": ("orc", None, lambda: orc_file(pa.table({"a": pa.repeat(pa.scalar(0, pa.int64()), MANY)}), 5)),
    "ORC of nulls": ("orc", None, lambda: orc_file(pa.table({"a": pa.nulls(MANY, pa.int64())}), 5)),
    "ORC of stripes that are none": ("orc", None, lambda: orc_end(*[(3, _message((1, 3)))] * 2_000_000, (4, _message((1, 12))))),
    "ORC of types within types": (
        "orc",
        None,
        lambda: orc_end(*((4, _message((1, 12), (2, number + 1), (3, b"a"))) for number in range(10_000)), (4, _message((1, 4)))),
    ),
    "Avro that unpacks without end": ("avro", None, lambda: avro_file("boolean", 200_000_000, bytes(200_000_000), "zstandard")),
    "Avro of records of a byte": ("avro", None, lambda: avro_file("boolean", 2 * MANY, bytes(2 * MANY))),
    "Avro of records that are none": ("avro", None, lambda: avro_file("string", MANY, b"\x02\xff" * MANY)),
    "Avro of nulls": ("avro", None, lambda: avro_file(avro_record(["null"] * 100), 1_000_000, b"")),
    "Avro of empty records": (
        "avro",
        None,
        lambda: avro_file(avro_record({"type": "fixed", "name": f"F{i}", "size": 0} for i in range(100)), 1_000_000, b""),
    ),
    "Avro of a long decimal": (
        "avro",
        None,
        lambda: avro_file({"type": "bytes", "logicalType": "decimal", "precision": 10**8}, 1, _number(MANY) + b"\x7f" + bytes(MANY - 1)),
    ),
    "Avro of a decimal that is none": (
        "avro",
        None,
        lambda: avro_file({"type": "fixed", "name": "F", "size": 8, "logicalType": "decimal", "precision": 10**9}, 1, bytes(8)),
    ),
    "Avro of long symbols": ("avro", None, lambda: avro_file(LONG_ENUM, MANY, bytes(MANY))),
    "Avro of one list of long symbols": (
        "avro",
        None,
        lambda: avro_file({"type": "array", "items": LONG_ENUM}, 1, _number(1_000_000) + bytes(1_000_001)),
    ),
}


def _read(name: str, file: Path) -> dict[str, object]:
    """What there is: rows, faults, the last fault, the largest piece."""
    format, codec, _ = FILES[name]
    rows = faults = largest = 0
    last = ""
    with file.open("rb") as opened:
        for piece in file_format(format, codec, {}).read(opened, None):
            if isinstance(piece, DataException):
                faults, last = faults + 1, piece.message
            else:
                rows, largest = rows + len(piece[0]), max(largest, piece[0].nbytes)
    return {"size": file.stat().st_size, "rows": rows, "faults": faults, "last": last, "largest": largest}


def read_apart(name: str, folder: Path) -> dict[str, object]:
    """In a child, whose memory and processor time are its own. Another one makes the file."""
    file, found = folder / "file", folder / "found.json"
    _forked(lambda: file.write_bytes(FILES[name][2]()))
    found.unlink(missing_ok=True)
    used = _forked(lambda: found.write_text(json.dumps(_read(name, file))))
    unit = 1 if sys.platform == "darwin" else 1024
    read = json.loads(found.read_text()) if found.exists() else {}
    return {**read, "seconds": used.ru_utime + used.ru_stime, "most": used.ru_maxrss * unit}


def _forked(act: Callable[[], object]) -> resource.struct_rusage:
    child = os.fork()
    if not child:
        act()
        os._exit(0)
    return os.wait4(child, 0)[2]


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps({name: read_apart(name, Path(folder)) for name in FILES}))


if __name__ == "__main__":
    main()
