"""``avro``: Avro container files. Schemas are converted as in the well-known Avro converter for Connect (``codecs.avro``)."""

from __future__ import annotations

import bz2
import io
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, BinaryIO, Final

from airflow_provider_connect.codecs.avro.avro_type import AvroType, parse_avro
from airflow_provider_connect.codecs.avro.connect_schemas import DEFAULT_PRECISION, avro_schema_text, connect_schema
from airflow_provider_connect.codecs.avro.decoder import decode_records
from airflow_provider_connect.codecs.avro.encoder import AvroWriting, encode_records
from airflow_provider_connect.connectors.filesystem.formats.contract import (
    BROKEN,
    FORMAT,
    CountingFile,
    NonClosingFile,
    Piece,
    Split,
    check_codec,
    unreadable_error,
)
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.columns import cast_to_schema
from airflow_provider_connect.data.expansion import MOST_BYTES, check_unpacked, is_wrong_format, wrong_format
from airflow_provider_connect.data.schema import DECIMAL, PRECISION, Schema, SchemaType
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.required_packages import RequiredPackages

AVRO_PACKAGES: Final = RequiredPackages("Reading Avro files", ("fastavro",), "filesystem")
_NAME: Final = re.compile(r"[^\W\d]\w*+")
_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_BLOCK_BYTES: Final = 1 << 20
_FREE_BYTES: Final = 8 << 20  # of an uncompressed block, for any compressed size
_RECORDS_AT_ONCE: Final = _BLOCK_BYTES // 64
_MAX_RECORDS: Final = 1 << 20  # in a block whose records have no bytes
_EMPTY_A_BYTE: Final = 16  # values of zero bytes in a block, per byte of the block


class Avro:
    """Values of any type that have a schema."""

    def __init__(self, codec: str | None, options: Mapping[str, str]) -> None:
        self._codec = check_codec(codec, [*PACK], "null")

    @property
    def extension(self) -> str:
        return ".avro"

    def accepts(self, schema: Schema | None, arrow_type: pa.DataType) -> None:
        _written_type(schema)

    def writer(self, file: BinaryIO, schema: Schema | None, arrow_type: pa.DataType) -> AvroWriter:
        return AvroWriter(file, self._codec, schema)

    def read(self, file: BinaryIO, split: Split | None) -> Iterator[Piece]:
        """Small blocks are decoded together. A damaged block loses only its records after the damage."""
        kept = NonClosingFile(file)
        try:
            header = _Header(kept)
            schema = connect_schema(header.type)
            values = _Values(header.type, schema)
            waiting: list[bytes] = []
            for block in header.blocks(kept):
                waiting += block.records
                if block.error is not None or block.size >= _BLOCK_BYTES or len(waiting) >= _RECORDS_AT_ONCE:
                    yield from values.pieces(waiting)
                    waiting = []
                if block.error is not None:
                    yield unreadable_error(kept, block.error, block.part)
            yield from values.pieces(waiting)
        except (pa.ArrowException, zlib.error, *BROKEN) as error:
            yield unreadable_error(kept, error)

    def splits(self, file: BinaryIO, size: int, wanted_bytes: int) -> list[Split]:
        return [Split(0, size)]


class _Values:
    """Decodes the records of one file and counts failures."""

    def __init__(self, type: AvroType, schema: Schema) -> None:
        self._type, self._schema = type, schema
        self._good = self._bad = self._read_bytes = self._made_bytes = 0

    def pieces(self, records: list[bytes]) -> Iterator[Piece]:
        """The values of records in order, with an exception in place of each record that does not match the schema. Raises DataException if
        nearly all records fail, or if the values are much larger than the records."""
        if not records:
            return
        try:
            values = decode_records(self._type, self._schema, pa.array(records, pa.binary()))
        except DataException as error:
            if len(records) > 1:
                half = len(records) // 2
                yield from self.pieces(records[:half])
                yield from self.pieces(records[half:])
                return
            self._bad += 1
            yield DataException(f"A record of {len(records[0])} bytes cannot be read: {error.message}")
            if is_wrong_format(self._bad, self._good):
                raise wrong_format(self._bad, self._good) from error
            return
        self._good += len(values)
        self._read_bytes += sum(map(len, records))
        self._made_bytes += values.nbytes
        check_unpacked(self._read_bytes, self._made_bytes, MOST_BYTES)
        yield values, self._schema


def _written_type(schema: Schema | None) -> tuple[Schema, str, AvroType]:
    if schema is None:
        raise DataException(
            "Avro files need values with a schema, and these have none. Use a converter that reads schemas, or the format json"
        )
    _reject_unreadable(schema, "value")
    text = avro_schema_text(schema)
    return schema, text, parse_avro(text)


def _reject_unreadable(schema: Schema, path: str) -> None:
    """Raise DataException for schemas that Avro readers reject. These have decimals with a scale below 0 or above the precision, or names
    with characters other than letters, digits and underscores."""
    if schema.logical_name == DECIMAL:
        precision = int((schema.parameters or {}).get(PRECISION, DEFAULT_PRECISION))
        if not 0 <= schema.scale <= precision:
            raise DataException(f"Avro files cannot hold the decimal {path} of scale {schema.scale} and precision {precision}")
    own = (schema.name or "").rpartition(".")[2] if schema.type is SchemaType.STRUCT else ""
    for name in filter(None, [own, *(field.name or " " for field in schema.fields)]):
        if not _NAME.fullmatch(name):
            raise DataException(f"Avro files cannot hold the name {name!r} of or in {path}: Java's readers reject it. Rename it")
    for field in schema.fields:
        _reject_unreadable(field.schema, f"{path}.{field.name}")
    for name, inner in (("key", schema.key_schema), ("item", schema.value_schema)):
        if inner is not None:
            _reject_unreadable(inner, f"{path}.{name}")


class AvroWriter:
    """Writes one or more blocks for each call of ``write``."""

    def __init__(self, file: BinaryIO, codec: str, schema: Schema | None) -> None:
        self._schema, text, self._type = _written_type(schema)
        self._file = CountingFile(file)
        self._pack = PACK[codec]
        self._sync = os.urandom(_SYNC_BYTES)
        metadata = {b"avro.schema": text.encode(), b"avro.codec": codec.encode()}
        entries = b"".join(_with_size(key) + _with_size(value) for key, value in metadata.items())
        self._file.write(_MAGIC + _varint(len(metadata)) + entries + _varint(0) + self._sync)

    @property
    def bytes_written(self) -> int:
        return self._file.count

    def write(self, values: pa.Array) -> None:
        column = cast_to_schema(values, self._schema)
        records = encode_records(self._type, self._schema, column, AvroWriting(keeps_nulls=True))
        rows = max(1, len(records) * _BLOCK_BYTES // max(records.nbytes, _BLOCK_BYTES))
        for start in range(0, len(records), rows):
            block = records.slice(start, rows)
            offsets = memoryview(block.buffers()[1]).cast("i")[block.offset : block.offset + len(block) + 1]
            data = self._pack(block.buffers()[2].slice(offsets[0], offsets[-1] - offsets[0]).to_pybytes())
            self._file.write(b"".join((_varint(len(block)), _with_size(data), self._sync)))

    def close(self) -> None:
        """Does nothing, because each write completes its blocks."""


@dataclass(frozen=True, slots=True)
class _Block:
    """The records of a block of ``size`` bytes. ``error`` is the reason why records in ``part`` of the file cannot be read."""

    records: list[bytes]
    size: int
    part: str = ""
    error: Exception | None = None


class _Header:
    """The header of a file. If the file is not Avro, raises one of the exceptions that ``read`` catches."""

    def __init__(self, file: NonClosingFile) -> None:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise DataException("It does not begin like an Avro file")
        metadata: dict[bytes, bytes] = {}
        while count := _read_varint(file):
            if count < 0:  # the block's size follows
                _read_varint(file)
            metadata |= {_read_sized(file): _read_sized(file) for _ in range(min(abs(count), _MAX_RECORDS))}
        text = metadata[b"avro.schema"].decode()
        self.type = parse_avro(text)
        _reject_empty_entries(self.type)
        self._empty = _empty_values(self.type)
        self._unpack = UNPACK.get(metadata.get(b"avro.codec", b"null").decode())
        if self._unpack is None:
            raise DataException(f"Its codec {metadata[b'avro.codec']!r} is not one of {', '.join(UNPACK)}")
        self._sync = _read_exactly(file, _SYNC_BYTES)
        schema = _without_annotations(json.loads(text) if text.lstrip().startswith(("{", "[", '"')) else text)
        AVRO_PACKAGES.require(FORMAT, "avro")
        fastavro = import_module("fastavro")
        self._skip: Callable[..., Any] = fastavro.schemaless_reader
        try:
            self._schemas = fastavro.parse_schema(schema), fastavro.parse_schema(_without_annotations(schema, keeps_fields=False))
        except fastavro.schema.SchemaParseException as error:
            raise DataException(f"Its schema cannot be read: {error}") from error

    def blocks(self, file: NonClosingFile) -> Iterator[_Block]:
        """The blocks. After a damaged block, reading continues after the next sync marker."""
        while first := file.read(1):
            begin = file.tell()
            try:
                count = _read_varint(file, first)
                data = _read_sized(file)
                if _read_exactly(file, _SYNC_BYTES) != self._sync:
                    raise DataException("It does not end with the file's sync marker")
            except BROKEN as error:
                yield _Block([], 0, f"The block at byte {begin - 1}", error)
                if not self._seek_marker(file, begin):
                    return
                continue
            yield from self._block(count, data, begin - 1)

    def _block(self, count: int, packed: bytes, begin: int) -> Iterator[_Block]:
        """The records of a block, some thousands at a time. Records have no length prefix, so a reader without fields skips them to find
        their ends."""
        assert self._unpack is not None
        records: list[bytes] = []
        first = 0
        try:
            data = self._unpack(packed)
            check_unpacked(len(packed), len(data), _FREE_BYTES)
            if not 0 <= count <= max(len(data), _MAX_RECORDS) or count * self._empty > _MAX_RECORDS + _EMPTY_A_BYTE * len(data):
                raise DataException(f"A block of {len(data)} bytes cannot have {count} records")
            stream, begun, start = io.BytesIO(data), 0, 0
            for number in range(count):
                self._skip(stream, *self._schemas)
                end = stream.tell()
                records.append(data[start:end])
                start = end
                if len(records) == _RECORDS_AT_ONCE or start - begun >= _BLOCK_BYTES:
                    yield _Block(records, start - begun)
                    records, first, begun = [], number + 1, start
            if start < len(data):
                raise DataException(f"{len(data) - start} bytes are left after its last record")
        except (pa.ArrowException, zlib.error, *BROKEN) as error:
            part = f"The block at byte {begin}, from its record {first + len(records) + 1} of {count},"
            yield _Block(records, 0, part, error)
            return
        yield _Block(records, start - begun)

    def _seek_marker(self, file: NonClosingFile, begin: int) -> bool:
        """Seek to the end of the next sync marker. False if there is no marker."""
        file.seek(begin)
        data = b""
        while piece := file.read(_BLOCK_BYTES):
            data = data[-_SYNC_BYTES:] + piece
            at = data.find(self._sync)
            if at >= 0:
                file.seek(at + _SYNC_BYTES - len(data), os.SEEK_CUR)
                return True
        return False


def _without_annotations(schema: Any, *, keeps_fields: bool = True) -> Any:  # Any: an Avro schema in JSON
    """The parts of a schema that determine the size of values. With logical types, the library would need hours to skip a large decimal."""
    if isinstance(schema, list):
        return [_without_annotations(branch, keeps_fields=keeps_fields) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        key: _without_annotations(schema[key])
        for key in ("type", "name", "namespace", "symbols", "size", "items", "values")
        if key in schema
    }
    if "fields" in schema:
        found["fields"] = (
            [{"name": field["name"], "type": _without_annotations(field["type"])} for field in schema["fields"]] if keeps_fields else []
        )
    return found


def _reject_empty_entries(type: AvroType) -> None:
    """Raise DataException for arrays of zero-byte values, because a small file could claim any number of them."""
    inner = [field.type for field in type.fields] + list(type.branches) + ([] if type.items is None else [type.items])
    if type.kind == "array" and type.items is not None and _is_empty(type.items):
        raise DataException("An array of zero-byte values cannot be read")
    for each in inner:
        _reject_empty_entries(each)


def _is_empty(type: AvroType) -> bool:
    is_empty_record = type.kind == "record" and all(_is_empty(field.type) for field in type.fields)
    return type.kind == "null" or is_empty_record or (type.kind == "fixed" and not type.size)


def _empty_values(type: AvroType) -> int:
    """The minimum number of zero-byte values in a value of ``type``."""
    if type.kind == "record":
        return sum(_empty_values(field.type) for field in type.fields)
    return int(_is_empty(type))


def _varint(number: int) -> bytes:
    number = number << 1 if number >= 0 else (-number << 1) - 1
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


def _with_size(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _read_varint(file: NonClosingFile, first: bytes = b"") -> int:
    number = shift = 0
    byte = (first or _read_exactly(file, 1))[0]
    while byte > 0x7F:
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift > 63:
            raise DataException("A number has more than 64 bits")
        byte = _read_exactly(file, 1)[0]
    number |= byte << shift
    return (number >> 1) ^ -(number & 1)


def _read_sized(file: NonClosingFile) -> bytes:
    size = _read_varint(file)
    if not 0 <= size <= MOST_BYTES:
        raise DataException(f"It has a part of {size} bytes, and at most {MOST_BYTES} are read")
    return _read_exactly(file, size)


def _read_exactly(file: NonClosingFile, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        piece = file.read(min(size - len(found), 1 << 20))
        if not piece:
            raise EOFError("The file ends within a block")
        found += piece
    return bytes(found)


def _deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def _snappy(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="snappy", asbytes=True)) + zlib.crc32(data).to_bytes(4, "big")


def _decompress_snappy(data: bytes) -> bytes:
    size, shift = 0, 0
    for byte in data[:5]:  # the data starts with its length
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte <= 0x7F:
            break
    found = bytes(pa.decompress(data[:-4], decompressed_size=_check_size(size), codec="snappy", asbytes=True))
    if zlib.crc32(found) != int.from_bytes(data[-4:], "big"):
        raise DataException("The checksum of a block is wrong")
    return found


def _decompress_zstd(data: bytes) -> bytes:
    found = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(MOST_BYTES + 1)
    _check_size(len(found))
    return bytes(found)


def _decompressor(unpacker: Any) -> Callable[[bytes], bytes]:  # Any: zlib and bz2 have the same interface
    def unpack(data: bytes) -> bytes:
        found = unpacker().decompress(data, MOST_BYTES + 1)
        _check_size(len(found))
        return bytes(found)

    return unpack


def _check_size(size: int) -> int:
    if size > MOST_BYTES:
        raise DataException(f"A block has more than {MOST_BYTES} uncompressed bytes")
    return size


PACK: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": lambda data: data,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": lambda data: bytes(pa.compress(data, codec="zstd", asbytes=True)),
    "bzip2": bz2.compress,
}
UNPACK: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": lambda data: data,
    "deflate": _decompressor(lambda: zlib.decompressobj(-15)),
    "snappy": _decompress_snappy,
    "zstandard": _decompress_zstd,
    "bzip2": _decompressor(bz2.BZ2Decompressor),
}
