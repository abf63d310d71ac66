"""Converters of plain values (contract §2.2): strings, bytes, numbers and booleans of fixed width, and headers.

StringConverter reads any bytes as text. SimpleHeaderConverter writes headers as text and infers their type when it reads them.
"""

from __future__ import annotations

import array
import codecs
import logging
import sys
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from airflow_provider_connect.codecs.values import convert_to_string, parse_string
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.data.columns import as_data_exception, is_json, values_of
from airflow_provider_connect.data.java_text import decode_utf8, text_of
from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    NULL,
    STRING_SCHEMA,
    Schema,
    SchemaAndValue,
    SchemaType,
)
from airflow_provider_connect.errors import ConfigException, DataException
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, Type, Width
from airflow_provider_connect.sdk.converter import ColumnRun, Converter, HeaderConverter

CONVERTER_TYPE: Final = "converter.type"
TYPE_KEY: Final = ConfigKey(CONVERTER_TYPE, Type.STRING, importance=Importance.LOW, doc="How this converter will be used.")


class DataConverter(Converter, HeaderConverter):
    """Base of the converters in this module. Converts headers in the same way as values. ``config_def`` parses ``settings``."""

    config_def = ConfigDef(TYPE_KEY)
    settings: Config

    def configure(self, config: Mapping[str, str], *, is_key: bool | None = None) -> None:
        """Read the settings. ``is_key`` is None for headers. Raises one ConfigException with all errors."""
        role = "header" if is_key is None else "key" if is_key else "value"
        self.is_key = bool(is_key)
        self.settings = self.config_def.parse({**config, CONVERTER_TYPE: role})

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return self.from_connect_data(topic, schema, value)

    def from_connect_header_column(self, topic: str, key: str, schema: Schema | None, column: pa.Array) -> pa.Array:
        return self.from_connect_column(topic, schema, column)

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        return self.to_connect_data(topic, data)


ENCODING: Final = "converter.encoding"


class StringConverter(DataConverter):
    """Writes values as Java's ``toString`` does, and reads optional strings. Columns of UTF-8 text are only cast.

    Encodings have Java's names. Characters that an encoding cannot represent become ``?``. Malformed bytes become the replacement
    character.
    """

    class_name = "org.apache.kafka.connect.storage.StringConverter"
    aliases = ("StringConverter", "String")
    config_def = ConfigDef(
        TYPE_KEY,
        ConfigKey(
            ENCODING,
            Type.STRING,
            "UTF-8",
            importance=Importance.HIGH,
            doc="The name of the Java character set to use for encoding strings as byte arrays.",
            width=Width.MEDIUM,
            display_name="Encoding",
        ),
    )

    def configure(self, config: Mapping[str, str], *, is_key: bool | None = None) -> None:
        super().configure(config, is_key=is_key)
        name: str = self.settings[ENCODING]
        try:
            self._encoding = codecs.lookup(name).name
        except LookupError as error:
            raise ConfigException.of(ENCODING, name, "This encoding does not exist") from error

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        return None if value is None else self._encode(text_of(value, schema))

    def to_connect_data(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return SchemaAndValue(STRING_SCHEMA.as_optional(), None if data is None else self._decode(data))

    def from_connect_column(self, topic: str, schema: Schema | None, column: pa.Array) -> pa.Array:
        text = _text_column(column, schema)
        if self._encoding == "utf-8":
            return text.cast(pa.binary())
        return pa.array([None if value is None else self._encode(value) for value in text.to_pylist()], type=pa.binary())

    def to_connect_column(self, topic: str, column: pa.Array) -> list[ColumnRun]:
        if len(column) == 0:
            return []
        return [ColumnRun(len(column), STRING_SCHEMA.as_optional(), self._decoded(column))]

    def _decoded(self, column: pa.Array) -> pa.Array:
        if self._encoding == "utf-8":
            try:
                return column.cast(pa.string())
            except pa.ArrowInvalid:  # not UTF-8
                pass
        return pa.array([None if data is None else self._decode(data) for data in column.to_pylist()], type=pa.string())

    def _encode(self, text: str) -> bytes:
        if self._encoding == "utf-16":  # Java's UTF-16 has a byte order mark and is always big-endian
            return codecs.BOM_UTF16_BE + text.encode("utf-16-be", "replace")
        return text.encode(self._encoding, "replace")

    def _decode(self, data: bytes) -> str:
        return decode_utf8(data) if self._encoding == "utf-8" else data.decode(self._encoding, "replace")


def _text_column(column: pa.Array, schema: Schema | None) -> pa.Array:
    """The text of each value; null stays null."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_null(kind):
        return column.cast(pa.string())
    if (pa.types.is_integer(kind) and not pa.types.is_unsigned_integer(kind)) or pa.types.is_boolean(kind):
        return pc.cast(column, pa.string())
    values = values_of(column, schema)
    inner = None if is_json(kind) else schema
    with as_data_exception():
        return pa.array([None if value is None else text_of(value, inner) for value in values], type=pa.string())


class ByteArrayConverter(DataConverter):
    """Writes BYTES or schemaless bytes, and refuses everything else. Reads optional bytes. Copies nothing."""

    class_name = "org.apache.kafka.connect.converters.ByteArrayConverter"
    aliases = ("ByteArrayConverter", "ByteArray")

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        _refuse_other_schema(schema)
        if value is not None and not isinstance(value, bytes | bytearray | memoryview):
            raise DataException(f"ByteArrayConverter is not compatible with objects of type {type(value).__name__}")
        return None if value is None else bytes(value)

    def to_connect_data(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return SchemaAndValue(BYTES_SCHEMA.as_optional(), data)

    def from_connect_column(self, topic: str, schema: Schema | None, column: pa.Array) -> pa.Array:
        _refuse_other_schema(schema)
        if not pa.types.is_binary(column.type) and not pa.types.is_null(column.type):
            raise DataException(f"ByteArrayConverter is not compatible with objects of type {column.type}")
        return column.cast(pa.binary())

    def to_connect_column(self, topic: str, column: pa.Array) -> list[ColumnRun]:
        return [ColumnRun(len(column), BYTES_SCHEMA.as_optional(), column)] if len(column) else []


def _refuse_other_schema(schema: Schema | None) -> None:
    if schema is not None and schema.type is not SchemaType.BYTES:
        raise DataException(f"Invalid schema type for ByteArrayConverter: {schema.type.name}")


_CODES: Final = {2: "h", 4: "i", 8: "q"}


class NumberConverter(DataConverter):
    """Base of the number converters. Swaps the byte order of a whole column in one step."""

    type_name: ClassVar[str]
    data_schema: ClassVar[Schema]
    width: ClassVar[int]
    deserializer: ClassVar[str]  # Kafka's class, in the message for a wrong length

    def __init_subclass__(cls, *, schema: Schema, width: int) -> None:
        short = cls.__name__.removesuffix("Converter")
        cls.class_name, cls.aliases = f"org.apache.kafka.connect.converters.{cls.__name__}", (cls.__name__, short)
        cls.type_name, cls.data_schema, cls.width = short.lower(), schema.as_optional(), width
        cls.deserializer = "Deserializer" if short in ("Float", "Double") else f"{short}Deserializer"

    def from_connect_column(self, topic: str, schema: Schema | None, column: pa.Array) -> pa.Array:
        if len(column) == 0 or pa.types.is_null(column.type):
            return pa.nulls(len(column), pa.binary())
        return self._to_bytes(self._checked(schema, column)).cast(pa.binary())

    def to_connect_column(self, topic: str, column: pa.Array) -> list[ColumnRun]:
        if len(column) == 0:
            return []
        lengths = pc.min_max(pc.binary_length(column)).as_py()
        if lengths["min"] is None:
            return [ColumnRun(len(column), self.data_schema, pa.nulls(len(column), arrow_type(self.data_schema)))]
        if lengths != {"min": self.width, "max": self.width}:
            raise DataException(f"Failed to deserialize {self.type_name}: Size of data received by {self.deserializer} is not {self.width}")
        if column.null_count:  # fill nulls with values of the same width, so that all values have this width
            filled = pc.fill_null(column, bytes(self.width)).cast(pa.binary(self.width))
            values = pc.if_else(pc.is_valid(column), self._from_bytes(filled), None)
        else:
            values = self._from_bytes(column.cast(pa.binary(self.width)))
        return [ColumnRun(len(column), self.data_schema, values)]

    def _checked(self, schema: Schema | None, column: pa.Array) -> pa.Array:
        """The column cast to the written type. Schemaless integers and floats may have any width, but their values must fit."""
        wanted = arrow_type(self.data_schema)
        if schema is not None and (schema.type is not self.data_schema.type or schema.logical_name is not None):
            raise DataException(f"Failed to serialize to {self.type_name} (was {schema.name or schema.type})")
        is_number = pa.types.is_floating if pa.types.is_floating(wanted) else pa.types.is_integer
        if is_json(column.type) or not (column.type.equals(wanted) or (schema is None and is_number(column.type))):
            raise DataException(f"Failed to serialize to {self.type_name} (was {column.type})")
        try:
            return column.cast(wanted)
        except pa.ArrowInvalid as error:
            raise DataException(f"Failed to serialize to {self.type_name}: {error}") from error

    def _to_bytes(self, column: pa.Array) -> pa.Array:
        validity, data = column.buffers()
        buffers: list[Any] = [validity, pa.py_buffer(self._turned(data, column.offset + len(column)))]
        return pa.Array.from_buffers(pa.binary(self.width), len(column), buffers, offset=column.offset)

    def _from_bytes(self, column: pa.Array) -> pa.Array:
        _, data = column.buffers()
        buffers: list[Any] = [None, pa.py_buffer(self._turned(data, column.offset + len(column)))]
        return pa.Array.from_buffers(arrow_type(self.data_schema), len(column), buffers, offset=column.offset)

    def _turned(self, data: pa.Buffer, count: int) -> bytes:
        numbers = array.array(_CODES[self.width])
        numbers.frombytes(memoryview(data)[: count * self.width])
        if sys.byteorder == "little":
            numbers.byteswap()
        return numbers.tobytes()


class ShortConverter(NumberConverter, schema=INT16_SCHEMA, width=2):
    """INT16 in two bytes."""


class IntegerConverter(NumberConverter, schema=INT32_SCHEMA, width=4):
    """INT32 in four bytes."""


class LongConverter(NumberConverter, schema=INT64_SCHEMA, width=8):
    """INT64 in eight bytes."""


class FloatConverter(NumberConverter, schema=FLOAT32_SCHEMA, width=4):
    """FLOAT32 in four bytes."""


class DoubleConverter(NumberConverter, schema=FLOAT64_SCHEMA, width=8):
    """FLOAT64 in eight bytes."""


class BooleanConverter(NumberConverter, schema=BOOLEAN_SCHEMA, width=1):
    """BOOLEAN in one byte, 0 or 1."""

    def _checked(self, schema: Schema | None, column: pa.Array) -> pa.Array:
        if schema is not None and schema.type is not self.data_schema.type:
            raise DataException(f"Invalid schema type for BooleanConverter: {schema.type.name}")
        if not pa.types.is_boolean(column.type):
            raise DataException(f"BooleanConverter is not compatible with objects of type {column.type}")
        return column

    def _to_bytes(self, column: pa.Array) -> pa.Array:
        codes = pc.cast(column, pa.uint8())
        return pa.Array.from_buffers(pa.binary(1), len(codes), codes.buffers(), offset=codes.offset)

    def _from_bytes(self, column: pa.Array) -> pa.Array:
        codes = pa.Array.from_buffers(pa.int8(), len(column), [None, column.buffers()[1]], offset=column.offset)
        wrong = codes.filter(pc.invert(pc.is_in(codes, value_set=pa.array([0, 1], pa.int8()))))
        if len(wrong):
            raise DataException(f"Failed to deserialize boolean: Unexpected byte received by BooleanDeserializer: {wrong[0]}")
        return pc.cast(codes, pa.bool_())


_PRINTED_BY_ARROW: Final = frozenset(
    {SchemaType.STRING, SchemaType.BOOLEAN, SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64}
)

log = logging.getLogger(__name__)


class SimpleHeaderConverter(HeaderConverter):
    """Kafka Connect's default header converter. A header that it cannot read stays bytes."""

    class_name = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    aliases = ("SimpleHeaderConverter", "Simple")

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return None if value is None else convert_to_string(schema, value).encode("utf-8", "replace")

    def from_connect_header_column(self, topic: str, key: str, schema: Schema | None, column: pa.Array) -> pa.Array:
        if schema is None or schema.logical_name is not None or schema.type not in _PRINTED_BY_ARROW:
            return super().from_connect_header_column(topic, key, schema, column)
        return column.cast(pa.string()).cast(pa.binary())

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        try:
            return parse_string(decode_utf8(data))
        except (ValueError, ArithmeticError, RecursionError) as error:
            log.warning("Failed to deserialize value for header '%s' on topic '%s', so using byte array: %s", key, topic, error)
            return SchemaAndValue(BYTES_SCHEMA, data)
