"""The codecs of Avro's files: a block's bytes packed and unpacked, no further than ``MOST_BYTES``. Knows no schemas."""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.expansion import MOST_BYTES
from airflow_provider_connect.errors import DataException


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def _snappy(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="snappy", asbytes=True)) + zlib.crc32(data).to_bytes(4, "big")


def _unsnappy(data: bytes) -> bytes:
    size, shift = 0, 0
    for byte in data[:5]:  # the data begins with its length
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte <= 0x7F:
            break
    found = bytes(pa.decompress(data[:-4], decompressed_size=_bounded(size), codec="snappy", asbytes=True))
    if zlib.crc32(found) != int.from_bytes(data[-4:], "big"):
        raise DataException("The checksum of a block is another one")
    return found


def _unzstd(data: bytes) -> bytes:
    found = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(MOST_BYTES + 1)
    _bounded(len(found))
    return bytes(found)


def _inflated(unpacker: Any) -> Callable[[bytes], bytes]:  # Any: one of two libraries that are alike
    def unpack(data: bytes) -> bytes:
        found = unpacker().decompress(data, MOST_BYTES + 1)
        _bounded(len(found))
        return bytes(found)

    return unpack


def _bounded(size: int) -> int:
    if size > MOST_BYTES:
        raise DataException(f"A block has more than {MOST_BYTES} bytes after its compression")
    return size


PACK: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": lambda data: data,
    "deflate": _deflated,
    "snappy": _snappy,
    "zstandard": lambda data: bytes(pa.compress(data, codec="zstd", asbytes=True)),
    "bzip2": bz2.compress,
}
UNPACK: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": lambda data: data,
    "deflate": _inflated(lambda: zlib.decompressobj(-15)),
    "snappy": _unsnappy,
    "zstandard": _unzstd,
    "bzip2": _inflated(bz2.BZ2Decompressor),
}
