"""Converters of numbers and booleans: fixed width, big-endian, null for null."""

from __future__ import annotations

import array
import sys
from typing import Any, ClassVar, Final

from airflow_provider_connect.converters.data_converter import DataConverter
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.arrow import pa, pc
from airflow_provider_connect.sdk.arrow_schema import arrow_type
from airflow_provider_connect.sdk.columns import is_json
from airflow_provider_connect.sdk.converter import ColumnRun
from airflow_provider_connect.sdk.schema import (
    OPTIONAL_BOOLEAN_SCHEMA,
    OPTIONAL_FLOAT32_SCHEMA,
    OPTIONAL_FLOAT64_SCHEMA,
    OPTIONAL_INT16_SCHEMA,
    OPTIONAL_INT32_SCHEMA,
    OPTIONAL_INT64_SCHEMA,
    Schema,
)

_CODES: Final = {2: "h", 4: "i", 8: "q"}


class NumberConverter(DataConverter):
    """What the number converters share; whole columns are turned over byte by byte in one go."""

    type_name: ClassVar[str]
    data_schema: ClassVar[Schema]
    width: ClassVar[int]
    deserializer: ClassVar[str]  # Kafka's class, named in the text for a wrong length

    def __init_subclass__(cls, *, schema: Schema, width: int) -> None:
        short = cls.__name__.removesuffix("Converter")
        cls.class_name, cls.aliases = f"org.apache.kafka.connect.converters.{cls.__name__}", (cls.__name__, short)
        cls.type_name, cls.data_schema, cls.width = short.lower(), schema, width
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
        if column.null_count:  # what stands for null has the width too, so that the bytes can be read at one stride
            filled = pc.fill_null(column, bytes(self.width)).cast(pa.binary(self.width))
            values = pc.if_else(pc.is_valid(column), self._from_bytes(filled), None)
        else:
            values = self._from_bytes(column.cast(pa.binary(self.width)))
        return [ColumnRun(len(column), self.data_schema, values)]

    def _checked(self, schema: Schema | None, column: pa.Array) -> pa.Array:
        """The column in the type that is written. Python's schemaless integers and floats are as wide as they come, and must fit."""
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


class ShortConverter(NumberConverter, schema=OPTIONAL_INT16_SCHEMA, width=2):
    """INT16 in two bytes."""


class IntegerConverter(NumberConverter, schema=OPTIONAL_INT32_SCHEMA, width=4):
    """INT32 in four bytes."""


class LongConverter(NumberConverter, schema=OPTIONAL_INT64_SCHEMA, width=8):
    """INT64 in eight bytes."""


class FloatConverter(NumberConverter, schema=OPTIONAL_FLOAT32_SCHEMA, width=4):
    """FLOAT32 in four bytes."""


class DoubleConverter(NumberConverter, schema=OPTIONAL_FLOAT64_SCHEMA, width=8):
    """FLOAT64 in eight bytes."""


class BooleanConverter(NumberConverter, schema=OPTIONAL_BOOLEAN_SCHEMA, width=1):
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
