"""StringConverter: a value's text in some encoding; reads any bytes as text."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Any, Final

from airflow_provider_connect.converters.data_converter import TYPE_KEY, DataConverter
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.arrow import pa, pc
from airflow_provider_connect.sdk.columns import as_data_exception, is_json, values_of
from airflow_provider_connect.sdk.config_def import ConfigDef, ConfigKey, Importance, Type, Width
from airflow_provider_connect.sdk.converter import ColumnRun, SchemaAndValue
from airflow_provider_connect.sdk.java_text import decode_utf8, text_of
from airflow_provider_connect.sdk.schema import OPTIONAL_STRING_SCHEMA, Schema

ENCODING: Final = "converter.encoding"


class StringConverter(DataConverter):
    """Writes what Java's ``toString`` makes of a value, reads optional strings. UTF-8 columns of text change their type and nothing else.

    Encodings have Java's names. What an encoding cannot express becomes ``?``; malformed bytes read as the replacement character.
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
            raise ConfigException.of(ENCODING, name, "There is no encoding of this name") from error

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        return None if value is None else self._encode(text_of(value, schema))

    def to_connect_data(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return SchemaAndValue(OPTIONAL_STRING_SCHEMA, None if data is None else self._decode(data))

    def from_connect_column(self, topic: str, schema: Schema | None, column: pa.Array) -> pa.Array:
        text = _text_column(column, schema)
        if self._encoding == "utf-8":
            return text.cast(pa.binary())
        return pa.array([None if value is None else self._encode(value) for value in text.to_pylist()], type=pa.binary())

    def to_connect_column(self, topic: str, column: pa.Array) -> list[ColumnRun]:
        if len(column) == 0:
            return []
        return [ColumnRun(len(column), OPTIONAL_STRING_SCHEMA, self._decoded(column))]

    def _decoded(self, column: pa.Array) -> pa.Array:
        if self._encoding == "utf-8":
            try:
                return column.cast(pa.string())
            except pa.ArrowInvalid:  # not UTF-8
                pass
        return pa.array([None if data is None else self._decode(data) for data in column.to_pylist()], type=pa.string())

    def _encode(self, text: str) -> bytes:
        if self._encoding == "utf-16":  # Java's has a byte order mark and is big-endian, whatever the machine
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
