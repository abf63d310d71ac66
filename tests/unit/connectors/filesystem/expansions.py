"""Files of a few kilobytes that become very much more, by format and codec, and what their reader makes of them in a process of its own.

``python -m tests.unit.connectors.filesystem.expansions`` prints a JSON object: for each file what was read, and what that took."""

from __future__ import annotations

import gzip
import io
import json
import os
import resource
import sys
from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa

from airflow_provider_connect.connectors.filesystem.formats.file_format import file_format
from airflow_provider_connect.errors import DataException


def zipped(data: bytes) -> bytes:
    return gzip.compress(data, 9)


def packed(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


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
