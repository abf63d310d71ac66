"""ProtobufConverter: Protobuf's binary encoding, with schemas in a registry."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_provider_connect.codecs.protobuf.decoder import decode_records
from airflow_provider_connect.codecs.protobuf.encoder import encode_records
from airflow_provider_connect.codecs.protobuf.messages import ProtoMessage, parse_proto
from airflow_provider_connect.codecs.protobuf.schemas import ProtobufRules, connect_schema, proto_text
from airflow_provider_connect.codecs.record_bytes import Cursor, Pieces, to_zigzag
from airflow_provider_connect.converters.registry.converter import HEADER_BYTES, RegistryConverter, WriterSchema, schema_ids
from airflow_provider_connect.converters.registry.registry import SchemaText
from airflow_provider_connect.converters.registry.settings import (
    CACHE_SIZE,
    KEEPS_NULLS,
    KEEPS_NULLS_KEY,
    PROTOBUF_PACKAGES,
    REGISTRY_KEYS,
    URL,
    address_validator,
)
from airflow_provider_connect.converters.schema_cache import SchemaCache
from airflow_provider_connect.data.arrow import np, pa
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.sdk.config_def import ConfigKey, Importance, Type

if TYPE_CHECKING:
    from numpy.typing import NDArray

ENHANCED, SCRUB, INT_ENUMS = "enhanced.protobuf.schema.support", "scrub.invalid.names", "int.for.enums"
OPTIONAL, OPTIONAL_PROTO2 = "optional.for.nullables", "optional.for.proto2"
WRAPPER, RAW = "wrapper.for.nullables", "wrapper.for.raw.primitives"
STRUCTS, INDEXES, FLATTEN = "generate.struct.for.nulls", "generate.index.for.unions", "flatten.unions"
_MOST_LEVELS: Final = 30
_MOST_INDEXES: Final = 1000  # different message indexes in all records of a task
_SHIFT: Final = 32
_NO_INDEXES: Final = "The record has no message indexes after its schema id. Check who writes the topic."


@dataclass(frozen=True, slots=True)
class ProtobufType:
    """A message type, and the bytes of its indexes, which precede each record."""

    message: ProtoMessage
    indexes: bytes


class ProtobufConverter(RegistryConverter[ProtobufType]):
    """Protobuf, with the rules of Confluent's converter for schemas, tags, oneofs, wrappers and enums."""

    class_name = "io.confluent.connect.protobuf.ProtobufConverter"
    aliases = ("ProtobufConverter", "Protobuf")
    kind = "PROTOBUF"
    config_def = REGISTRY_KEYS.with_keys(
        dataclasses.replace(REGISTRY_KEYS.keys[URL], validator=address_validator(PROTOBUF_PACKAGES)),
        ConfigKey(ENHANCED, Type.BOOLEAN, False, doc="Whether names of schemas have the package of their message."),
        ConfigKey(SCRUB, Type.BOOLEAN, False, doc="Whether characters that Protobuf's names cannot have are replaced by underscores."),
        ConfigKey(INT_ENUMS, Type.BOOLEAN, False, doc="Whether enums are read as INT32, and not as STRING."),
        ConfigKey(OPTIONAL, Type.BOOLEAN, False, doc="Whether fields that may be null have the word optional, and no others may be null."),
        ConfigKey(OPTIONAL_PROTO2, Type.BOOLEAN, True, doc="Whether an optional field of proto2 without a value is null."),
        ConfigKey(
            WRAPPER, Type.BOOLEAN, False, doc="Whether fields that may be null are wrapper messages, as google.protobuf.StringValue."
        ),
        ConfigKey(RAW, Type.BOOLEAN, True, doc="Whether a record that is one wrapper message is read as its value."),
        ConfigKey(STRUCTS, Type.BOOLEAN, False, doc="Whether a missing message is read as one with defaults, and not as null."),
        ConfigKey(INDEXES, Type.BOOLEAN, True, doc="Whether the field of a oneof has its number: choice_0.", importance=Importance.LOW),
        ConfigKey(FLATTEN, Type.BOOLEAN, False, doc="Whether the fields of a oneof are fields of its message.", importance=Importance.LOW),
        KEEPS_NULLS_KEY,
    )

    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        super().configure(config, is_key=is_key)
        settings = self.settings
        self._rules = ProtobufRules(
            has_full_names=settings[ENHANCED],
            scrubs_names=settings[SCRUB],
            enums_are_numbers=settings[INT_ENUMS],
            optional_for_nullables=settings[OPTIONAL],
            optional_for_proto2=settings[OPTIONAL_PROTO2],
            wrapper_for_nullables=settings[WRAPPER],
            unwraps_values=settings[RAW],
            structs_for_nulls=settings[STRUCTS],
            indexes_unions=settings[INDEXES],
            flattens_unions=settings[FLATTEN],
            keeps_nulls=settings[KEEPS_NULLS],
        )
        self._file = SchemaCache(lambda text, references: parse_proto(text, dict(references)), settings[CACHE_SIZE])
        self._indexes: dict[bytes, int] = {b"\0": 0}

    # Reading

    def ids(self, column: pa.Array) -> tuple[NDArray[np.int64], dict[str, NDArray[np.int64]]]:
        """As in ``RegistryConverter``. The bits above the id identify the message's indexes."""
        found = schema_ids(column)
        numbers = self._message_numbers(found.behind)
        is_broken = numbers < 0
        found.ids[found.rows] += np.where(is_broken, 0, numbers << _SHIFT)
        if is_broken.any():
            found.refuse(found.rows[is_broken], _NO_INDEXES)
        return found.ids, found.broken

    def _message_numbers(self, cursor: Cursor) -> NDArray[np.int64]:
        """The number that identifies the message indexes at each row's position. -1 if there are no indexes."""
        first = np.where(cursor.at < cursor.ends, cursor.data[cursor.at], 1)
        numbers = np.where(first == 0, 0, -1)
        rows = np.flatnonzero(first > 1)
        is_short = (cursor.ends[rows] - cursor.at[rows] > 1) & (first[rows] == 2) & (cursor.data[cursor.at[rows] + 1] < 0x80)
        short = rows[is_short]  # a top-level message
        second = cursor.data[cursor.at[short] + 1]
        for index in np.unique(second).tolist():
            numbers[short[second == index]] = self._number(bytes([2, index]))
        for row in rows[~is_short].tolist():
            start, end = int(cursor.at[row]), int(cursor.ends[row])
            numbers[row] = self._number(_index_bytes(cursor.data[start : min(end, start + 10 * _MOST_LEVELS)].tobytes()))
        return numbers

    def _number(self, indexes: bytes) -> int:
        if indexes and len(self._indexes) < _MOST_INDEXES:
            return self._indexes.setdefault(indexes, len(self._indexes))
        return self._indexes.get(indexes, -1)

    def parse(self, text: SchemaText, version: int | None, part: int | str = 0) -> tuple[ProtobufType, Schema]:
        file = self._file(text.text, tuple(text.references.items()))
        if isinstance(part, str):
            indexes = file.indexes(part) or (0,)
            before = _written_indexes(indexes)
        else:
            before = next(each for each, number in self._indexes.items() if number == part)
            indexes = _read_indexes(before)
        message = file.message(indexes)
        return ProtobufType(message, before), connect_schema(message, self._rules, version=version)

    def decode(self, reader: WriterSchema[ProtobufType], column: pa.Array) -> pa.Array:
        return decode_records(reader.parsed.message, reader.schema, self._rules, column, HEADER_BYTES + len(reader.parsed.indexes))

    # Writing

    def schema_text(self, schema: Schema) -> tuple[str, str]:
        return proto_text(schema, self._rules)

    def encode(self, writer: WriterSchema[ProtobufType], schema: Schema, column: pa.Array) -> pa.Array:
        return encode_records(writer.parsed.message, schema, column, self._rules, writer.parsed.indexes)


def _written_indexes(indexes: tuple[int, ...]) -> bytes:
    """The bytes of message indexes: their count, then each index. For the first message, a single zero byte."""
    if indexes == (0,):
        return b"\0"
    return bytes(Pieces.of_varints(to_zigzag(np.array([len(indexes), *indexes], np.int64))).data)


def _read_indexes(data: bytes) -> tuple[int, ...]:
    return tuple(_numbers(data)[1:]) or (0,)


def _numbers(data: bytes) -> list[int]:
    """The consecutive zigzag integers, without an incomplete integer at the end."""
    found, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            found.append((value >> 1) ^ -(value & 1))
            value = shift = 0
    return found


def _index_bytes(data: bytes) -> bytes:
    """The bytes of the message indexes at the start of ``data``. Empty if there are no indexes."""
    numbers = _numbers(data[:10])
    if not numbers or not 0 < numbers[0] <= _MOST_LEVELS:
        return b""
    stops = [number for number, byte in enumerate(data) if byte < 0x80][: numbers[0] + 1]
    return data[: stops[-1] + 1] if len(stops) == numbers[0] + 1 else b""
