"""JsonConverter: values as JSON, with or without an envelope that contains the schema (contract §2.2, §11.2)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from airflow_provider_connect.codecs.json.reader import NotPlain, check_documents, json_column, read_column
from airflow_provider_connect.codecs.json.values import JsonRules, read_value, refuse_half_pairs, write_value
from airflow_provider_connect.codecs.json.writer import column_text, texts_of
from airflow_provider_connect.converters.json.schemas import schema_of_json, schema_text
from airflow_provider_connect.converters.json.text import (
    count_leading,
    envelope_of,
    find_odd_records,
    has_other_envelope,
    kinds_of,
    read_json,
    read_json_before,
    starts_document,
)
from airflow_provider_connect.converters.plain import TYPE_KEY, DataConverter
from airflow_provider_connect.converters.schema_cache import SchemaCache
from airflow_provider_connect.data.arrow import np, pa, pc
from airflow_provider_connect.data.arrow_schema import schema_of
from airflow_provider_connect.data.columns import cast_to_schema, is_json, values_of
from airflow_provider_connect.data.json_text import MAX_DEPTH
from airflow_provider_connect.data.schema import BOOLEAN_SCHEMA, INT64_SCHEMA, NULL, STRING_SCHEMA, Schema, SchemaAndValue, validate_value
from airflow_provider_connect.errors import ConfigException, DataException
from airflow_provider_connect.sdk.config_def import ConfigDef, ConfigKey, Importance, OneOf, Type, Width
from airflow_provider_connect.sdk.converter import ColumnRun, column_runs, interleaved_runs, joined_runs

SCHEMAS_ENABLE, CACHE_SIZE, SCHEMA_CONTENT = "schemas.enable", "schemas.cache.size", "schema.content"
DECIMAL_FORMAT, REPLACE_NULL = "decimal.format", "replace.null.with.default"

T = TypeVar("T")
_NO_ENVELOPE: Final = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields. '
    "If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)
_NOT_READ: Final = "Converting byte[] to Kafka Connect data failed due to serialization error: "
_NO_JSON: Final = (
    ". The record is not JSON. Set the converter for its format, such as org.apache.kafka.connect.storage.StringConverter for plain text"
)
_BEGINNINGS: Final = (b"{", b"[", b'"')
_NOT_WRITTEN: Final = "Converting Kafka Connect data to byte[] failed due to serialization error: "
_ODD_DISTANCE: Final = 64  # records between two that Arrow cannot parse; if there are fewer, more records are read one by one
_ODD_GROWTH: Final = 8
_SHORT: Final = 64  # records in a short run; after _SHORT_RUNS such runs, the next _WINDOW records are grouped by kind
_SHORT_RUNS, _WINDOW, _MOST_KINDS = 8, 8192, 16
_PRECHECKED_COLUMNS: Final = 1000  # columns to check before reading, after a column with an unreadable record
_NO_END: Final = (1 << 31) - 1  # because Arrow fails if the end is missing


@dataclass(frozen=True, slots=True)
class _Records:
    """Records whose values have the same ``schema``. Each of ``payloads`` is a value's text, followed by ``after``.

    ``after`` is empty, or the ``}`` of an envelope whose start was cut off.
    """

    whole: pa.Array
    payloads: pa.Array
    schema: Schema | None
    after: bytes = b""

    def slice(self, start: int, length: int) -> _Records:
        return _Records(self.whole.slice(start, length), self.payloads.slice(start, length), self.schema, self.after)


class JsonConverter(DataConverter):
    """JSON text, byte for byte as Kafka Connect writes it.

    With ``schemas.enable``, each record is ``{"schema":…,"payload":…}``. Consecutive records that start with the same bytes up to the
    payload are one group: the schema is parsed once, and all payloads as one column. Without ``schemas.enable``, values are schemaless: a
    column of strings, integers or booleans if all records of a batch have one of these types, otherwise the JSON text itself. Null without
    a schema is a tombstone.
    """

    class_name = "org.apache.kafka.connect.json.JsonConverter"
    aliases = ("JsonConverter", "Json")
    config_def = ConfigDef(
        TYPE_KEY,
        ConfigKey(
            SCHEMAS_ENABLE,
            Type.BOOLEAN,
            True,
            importance=Importance.HIGH,
            doc="Include schemas within each of the serialized values and keys.",
            group="Schemas",
            order=0,
            width=Width.MEDIUM,
            display_name="Enable Schemas",
        ),
        ConfigKey(
            CACHE_SIZE,
            Type.INT,
            1000,
            importance=Importance.HIGH,
            doc="The maximum number of schemas that can be cached in this converter instance.",
            group="Schemas",
            order=1,
            width=Width.MEDIUM,
            display_name="Schema Cache Size",
        ),
        ConfigKey(
            SCHEMA_CONTENT,
            Type.STRING,
            None,
            importance=Importance.HIGH,
            doc="When set, this is used as the schema for all messages, and the schemas within each of the message will be ignored."
            "Otherwise, the schema will be included in the content of each message. This configuration applies only 'schemas.enable' is "
            "true, and it exclusively affects the sink connector.",
            group="Schemas",
            order=2,
            width=Width.MEDIUM,
            display_name="Schema Content",
        ),
        ConfigKey(
            DECIMAL_FORMAT,
            Type.STRING,
            "BASE64",
            validator=OneOf("NUMERIC", "BASE64", case_sensitive=False),
            importance=Importance.LOW,
            doc="Controls which format this converter will serialize decimals in. This value is case insensitive and can be either "
            "'BASE64' (default) or 'NUMERIC'",
            group="Serialization",
            order=0,
            width=Width.MEDIUM,
            display_name="Decimal Format",
        ),
        ConfigKey(
            REPLACE_NULL,
            Type.BOOLEAN,
            True,
            importance=Importance.LOW,
            doc="Whether to replace fields that have a default value and that are null to the default value. When set to true, the default "
            "value is used, otherwise null is used.",
            group="Serialization",
            order=1,
            width=Width.MEDIUM,
            display_name="Replace null with default",
        ),
    )

    def configure(self, config: Mapping[str, str], *, is_key: bool | None = None) -> None:
        super().configure(config, is_key=is_key)
        self._has_schemas: bool = self.settings[SCHEMAS_ENABLE]
        self._rules = JsonRules(self.settings[DECIMAL_FORMAT].upper() == "NUMERIC", self.settings[REPLACE_NULL])
        self._column_rules = dataclasses.replace(self._rules, takes_far_times=True)
        most = self.settings[CACHE_SIZE]
        self._envelope = SchemaCache[str](self._new_envelope, most)
        self._schema_of = SchemaCache[Schema | None](self._parsed_schema, most)
        self._fixed = self._fixed_schema(self.settings[SCHEMA_CONTENT])
        self._has_envelopes = self._has_schemas and self._fixed is None
        self._prechecked = 0

    # Writing

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is None and value is None:
            return None
        text = self._write(schema, value)
        return bytes(texts_of([f"{self._envelope(schema)}{text}}}" if self._has_schemas else text])[0].as_py())

    def from_connect_column(self, topic: str, schema: Schema | None, column: pa.Array) -> pa.Array:
        if len(column) == 0:
            return pa.array([], type=pa.binary())
        before, after = (self._envelope(schema), "}") if self._has_schemas else ("", "")
        if schema is not None:
            return column_text(schema, cast_to_schema(column, schema), self._rules, before=before, after=after).cast(pa.binary())
        return self._from_schemaless(column, before, after)

    def _from_schemaless(self, column: pa.Array, before: str, after: str) -> pa.Array:
        if pa.types.is_null(column.type):
            return column.cast(pa.binary())
        if is_json(column.type):
            values = values_of(column, None)
            return texts_of(None if v is None else f"{before}{self._write(None, v)}{after}" for v in values)
        schema = schema_of(pa.field("value", column.type, nullable=True))
        texts = column_text(schema, cast_to_schema(column, schema), self._rules, before=before, after=after)
        return pc.if_else(column.is_valid(), texts.cast(pa.binary()), None) if column.null_count else texts.cast(pa.binary())

    def _new_envelope(self, schema: Schema | None) -> str:
        """The text of an envelope up to its payload."""
        return f'{{"schema":{schema_text(schema, self._write)},"payload":'

    def _write(self, schema: Schema | None, value: Any) -> str:
        try:
            if schema is not None and value is not None:
                validate_value(schema, value)
            text = write_value(schema, value, self._rules)
            if "\\uD" in text:
                refuse_half_pairs(value)
            return text
        except RecursionError as error:
            raise DataException(f"{_NOT_WRITTEN}Values are nested too deeply") from error

    # Reading

    def to_connect_data(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return self._connect_data(data, self._rules)

    def _connect_data(self, data: bytes | None, rules: JsonRules) -> SchemaAndValue:
        if data is None:
            return NULL
        node = self._node(data, MAX_DEPTH + self._has_envelopes, remedy=_NO_JSON)
        if not self._has_envelopes:
            return SchemaAndValue(self._fixed, self._read_node(self._fixed, node, rules))
        if not isinstance(node, dict) or node.keys() != {"schema", "payload"}:
            raise DataException(_NO_ENVELOPE)
        schema = schema_of_json(node["schema"], self._read_node)
        return SchemaAndValue(schema, self._read_node(schema, node["payload"], rules))

    def to_connect_column(self, topic: str, column: pa.Array) -> list[ColumnRun]:
        try:
            return self._runs(column)
        except DataException:
            self._prechecked = _PRECHECKED_COLUMNS
            raise

    def find_invalid_rows(self, topic: str, column: pa.Array) -> dict[int, Exception]:
        """The broken records among those that do not start or end like the others. Checks nothing before the first unreadable record."""
        if not self._prechecked:
            return {}
        self._prechecked -= 1
        found: dict[int, Exception] = {}
        try:
            odd = find_odd_records(column, self._prefix if self._has_envelopes else lambda record: record[:1])
        except DataException:  # the schema of the first record is invalid
            return {}
        for index in odd:
            try:
                self.to_connect_data(topic, column[index].as_py())
            except DataException as error:
                found[index] = error
        if found:
            self._prechecked = _PRECHECKED_COLUMNS
        return found

    def _runs(self, column: pa.Array) -> list[ColumnRun]:
        runs: list[ColumnRun] = []
        start, short, self._odd, self._most_short = 0, 0, 1, _SHORT_RUNS
        while start < len(column):
            rest = column.slice(start)
            with _counted_from(start):
                found = (self._interleaved(rest.slice(0, _WINDOW)) if short >= self._most_short else []) or self._next_runs(rest)
            count = sum(run.length for run in found)
            short = short + len(found) if count < _SHORT * len(found) else 0
            runs += found
            start += count
        return joined_runs(runs)

    def _interleaved(self, column: pa.Array) -> list[ColumnRun]:
        """The first runs (``ColumnRun``) of a column in which a few kinds of records alternate. The records of each kind are read as one
        column.

        Empty if they cannot be grouped.
        """
        if self._has_envelopes:
            kinds = kinds_of(column, self._prefix, _MOST_KINDS)
        else:
            kinds = column.is_valid().to_numpy(zero_copy_only=False).astype("int64")
        read, failed = dict[int, tuple[Schema | None, pa.Array]](), dict[int, DataException]()
        for number in np.unique(kinds).tolist():
            rows = np.flatnonzero(kinds == number)
            try:
                found = joined_runs(self._next_runs(column.take(pa.array(rows))))
            except DataException as error:
                if error.record is None:
                    raise
                error.record = int(rows[error.record])
                failed[error.record] = error
                continue
            if found[0].length < len(rows):
                self._most_short = _NO_END  # no second attempt with this column
                return []
            read[number] = found[0].schema, found[0].column
        if failed:
            raise failed[min(failed)]
        return interleaved_runs(kinds, read) if len(kinds) else []

    def _next_runs(self, column: pa.Array) -> list[ColumnRun]:
        """One or more runs from the start of a column."""
        if not column[0].is_valid:
            nulls = count_leading(column, pc.is_null)
            return [ColumnRun(nulls, None, pa.nulls(nulls))]
        if self._has_envelopes:
            prefix = self._prefix(column[0].as_py())
            if not prefix:
                written_otherwise = column.slice(0, count_leading(column, has_other_envelope))
                return list(column_runs(_each(written_otherwise.to_pylist(), self._connect_column_data)))
            run = column.slice(0, count_leading(column, lambda part: pc.fill_null(pc.starts_with(part, prefix), False)))
            payloads = pc.binary_slice(run, len(prefix), _NO_END)
            return self._read(_Records(run, payloads, self._schema_of(prefix), b"}"))
        run = column.slice(0, count_leading(column, pc.is_valid))
        return self._read(_Records(run, run, self._fixed))

    def _read(self, records: _Records) -> list[ColumnRun]:
        """Read the payloads of one schema as one column. If Arrow cannot parse them, read the records one by one."""
        count = len(records.whole)
        try:
            column = self._column(records)
        except NotPlain as odd:
            if odd.row is None or odd.row >= count:
                return self._exact(records)
            if records.schema is None and not starts_document(records.payloads):
                with _counted_from(odd.row):
                    self._exact(records.slice(odd.row, 1))  # raises if the record is unreadable
                return self._exact(records)  # scalars of several types are one column
            return self._around(records, odd.row)
        return [ColumnRun(count, records.schema, column)]

    def _around(self, records: _Records, at: int) -> list[ColumnRun]:
        """Read records of which Arrow cannot parse record ``at``. The records before record ``at`` are read as a column. Record ``at`` and
        some records after it are read one by one. The closer together unparsable records are, the more records are read one by one."""
        count = self._odd
        self._odd = min(count * _ODD_GROWTH, _NO_END) if at < _ODD_DISTANCE else 1
        with _counted_from(at):
            odd = self._exact(records.slice(at, count))
        before = self._read(records.slice(0, at)) if at else []
        return [*before, *odd]

    def _column(self, records: _Records) -> pa.Array:
        if records.schema is None:
            return self._plain_schemaless(records.payloads, records.after)
        return read_column(records.schema, records.payloads, self._rules, after=records.after)

    def _plain_schemaless(self, payloads: pa.Array, after: bytes) -> pa.Array:
        if starts_document(payloads):
            texts = pc.binary_slice(payloads, 0, -len(after)) if after else payloads
            check_documents(texts)
            return json_column(texts)
        first = payloads[0].as_py().lstrip()[:1]
        schema = (STRING_SCHEMA if first == b'"' else BOOLEAN_SCHEMA if first in (b"t", b"f") else INT64_SCHEMA).as_optional()
        return read_column(schema, payloads, self._rules, after=after)

    def _exact(self, records: _Records) -> list[ColumnRun]:
        """Read the records one by one. If their envelope is known, only the payloads are parsed."""
        if not records.after:
            return list(column_runs(_each(records.whole.to_pylist(), self._connect_column_data)))
        after = records.after.decode()

        def of(both: tuple[bytes, bytes]) -> SchemaAndValue:
            whole, payload = both
            try:
                node = read_json_before(payload, after)
            except (ValueError, RecursionError):  # broken, or an envelope with additional fields
                return self._connect_column_data(whole)
            return SchemaAndValue(records.schema, self._read_node(records.schema, node, self._column_rules))

        return list(column_runs(_each(zip(records.whole.to_pylist(), records.payloads.to_pylist(), strict=True), of)))

    def _connect_column_data(self, data: bytes | None) -> SchemaAndValue:
        return self._connect_data(data, self._column_rules)

    def _prefix(self, record: bytes) -> bytes:
        """The bytes of an envelope up to its payload, after a check of its schema. Empty if the record has another form."""
        envelope = envelope_of(record)
        if envelope is None:
            return b""
        self._schema_of(envelope.prefix)
        return envelope.prefix

    def _parsed_schema(self, prefix: bytes) -> Schema | None:
        envelope = envelope_of(prefix)
        return None if envelope is None else schema_of_json(self._node(envelope.schema), self._read_node)

    def _node(self, data: bytes, max_depth: int = MAX_DEPTH, *, remedy: str = "") -> Any:
        """The JSON of ``data``. ``remedy`` is added to the error for data that does not even begin like a document or a text."""
        text = data.strip(b" \t\r\n")
        if not text:
            if self._has_envelopes:
                raise DataException(_NO_ENVELOPE)
            return None
        try:
            return read_json(data, max_depth)
        except (ValueError, RecursionError) as error:
            raise DataException(f"{_NOT_READ}{error}{'' if text.startswith(_BEGINNINGS) else remedy}") from error

    def _read_node(self, schema: Schema | None, node: Any, rules: JsonRules | None = None) -> Any:
        try:
            return read_value(schema, node, rules or self._rules)
        except RecursionError as error:
            raise DataException(f"{_NOT_READ}Values are nested too deeply") from error

    def _fixed_schema(self, content: str | None) -> Schema | None:
        if not self._has_schemas or not content:
            return None
        try:
            return schema_of_json(self._node(content.encode()), self._read_node)
        except DataException as error:
            raise ConfigException.of(SCHEMA_CONTENT, content, error.message) from error


def _each(records: Iterable[T], read: Callable[[T], SchemaAndValue]) -> Iterator[SchemaAndValue]:
    """The result of ``read`` for each record. The record's index is added to a DataException."""
    for index, record in enumerate(records):
        try:
            yield read(record)
        except DataException as error:
            error.record = index
            raise


@contextmanager
def _counted_from(start: int) -> Iterator[None]:
    """Add ``start`` to the record index of a DataException from the block."""
    try:
        yield
    except DataException as error:
        error.record = None if error.record is None else start + error.record
        raise
