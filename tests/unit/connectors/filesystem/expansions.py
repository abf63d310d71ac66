"""Files of a few kilobytes that become very much more, by format and codec, and what their reader makes of them in a process of its own.

``python -m tests.unit.connectors.filesystem.expansions`` prints a JSON object: for each file what was read, and what that took."""

from __future__ import annotations

import gzip
import io
import json
import os
import resource
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import pyarrow as pa

from airflow_provider_connect.connectors.filesystem.formats.file_format import file_format
from airflow_provider_connect.errors import DataException


def zipped(data: bytes) -> bytes:
    return gzip.compress(data, 9)


def packed(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


def avro_file(schema: object, count: int, records: bytes, codec: str = "deflate") -> bytes:
    """An Avro file of one block."""
    metadata = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec.encode()}
    entries = b"".join(_sized(key) + _sized(value) for key, value in metadata.items())
    data = packed(records) if codec == "zstandard" else zlib.compress(records, 9, -15)
    return b"Obj\x01" + _number(len(metadata)) + entries + _number(0) + b"s" * 16 + _number(count) + _sized(data) + b"s" * 16


def _sized(data: bytes) -> bytes:
    return _number(len(data)) + data


def _number(number: int) -> bytes:
    number, found = number << 1, bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes((*found, number))


def avro_record(types: Iterable[object]) -> object:
    return {"type": "record", "name": "R", "fields": [{"name": f"f{number}", "type": type} for number, type in enumerate(types)]}


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
    "Avro that unpacks without end": ("avro", None, lambda: avro_file("boolean", 200_000_000, bytes(200_000_000), "zstandard")),
    "Avro of records of a byte": ("avro", None, lambda: avro_file("boolean", 2 * MANY, bytes(2 * MANY))),
    "Avro of records that are none": ("avro", None, lambda: avro_file("string", MANY, b"\x02\xff" * MANY)),
    "Avro of nulls": ("avro", None, lambda: avro_file(avro_record(["null"] * 100), 1_000_000, b"")),
    "Avro of empty records": (
        "avro",
        None,
        lambda: avro_file(avro_record({"type": "fixed", "name": f"F{i}", "size": 0} for i in range(100)), 1_000_000, b""),
    ),
    "Avro of long symbols": ("avro", None, lambda: avro_file(LONG_ENUM, MANY, bytes(MANY))),
    "Avro of one list of long symbols": (
        "avro",
        None,
        lambda: avro_file({"type": "array", "items": LONG_ENUM}, 1, _number(1_000_000) + bytes(1_000_001)),
    ),
}


def _read(name: str) -> dict[str, object]:
    """What there is: rows, faults, the last fault, the largest piece."""
    format, codec, make = FILES[name]
    data = make()
    rows = faults = largest = 0
    last = ""
    for piece in file_format(format, codec, {}).read(io.BytesIO(data), None):
        if isinstance(piece, DataException):
            faults, last = faults + 1, piece.message
        else:
            rows, largest = rows + len(piece[0]), max(largest, piece[0].nbytes)
    return {"size": len(data), "rows": rows, "faults": faults, "last": last, "largest": largest}


def _read_apart(name: str) -> dict[str, object]:
    """In a child, whose memory and processor time are its own. It makes the file itself, which takes some of both."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, json.dumps(_read(name)).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        text = pipe.read()
    used = os.wait4(child, 0)[2]
    unit = 1 if sys.platform == "darwin" else 1024
    found = json.loads(text) if text else {}
    return {**found, "seconds": used.ru_utime + used.ru_stime, "most": used.ru_maxrss * unit}


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print(json.dumps({name: _read_apart(name) for name in FILES}))
