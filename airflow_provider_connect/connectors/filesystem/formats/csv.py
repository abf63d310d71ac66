"""``csv``: one column per field, with a header line. CSV has no types: all values are read as text.

Texts are quoted, so that empty text differs from null. Bytes are base64; nested arrays, maps and structs are JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import BinaryIO, Final

from airflow_provider_connect.codecs.json.base64_column import base64_text
from airflow_provider_connect.codecs.json.values import JsonRules
from airflow_provider_connect.codecs.json.writer import column_text
from airflow_provider_connect.connectors.filesystem.formats.content import NONE, content_encoding
from airflow_provider_connect.connectors.filesystem.formats.contract import (
    NonClosingFile,
    Piece,
    Split,
    check_codec,
    check_struct,
    struct_columns,
    unreadable_error,
)
from airflow_provider_connect.connectors.filesystem.formats.csv_rows import CsvRows
from airflow_provider_connect.connectors.filesystem.formats.text import EXTENSIONS, TextWriter
from airflow_provider_connect.connectors.text_encoding import ENCODING, UTF_8
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.data.schema import STRING_SCHEMA, Schema, SchemaType
from airflow_provider_connect.errors import ConfigException, DataException

DELIMITER, HEADER = "csv.delimiter", "csv.header"
_RULES: Final = JsonRules(is_numeric=True, fills_defaults=False)


class Csv:
    """By default, ``csv.delimiter`` is a comma. With ``csv.header=false``, there is no header line, and fields are named ``f0``, ``f1`` …
    when they are read."""

    def __init__(self, codec: str | None, options: Mapping[str, str]) -> None:
        self._codec = check_codec(codec, [*EXTENSIONS], NONE)
        self._read_codec = None if codec is None else self._codec
        self._delimiter = options.get(DELIMITER, ",").replace("\\t", "\t")
        if len(self._delimiter.encode()) != 1 or self._delimiter in '"\r\n':
            raise ConfigException.of(DELIMITER, self._delimiter, "Set one ASCII character that is neither a quote nor a line end.")
        header = options.get(HEADER, "true").lower()
        if header not in ("true", "false"):
            raise ConfigException.of(HEADER, header, "Set true or false.")
        self._has_header = header == "true"
        self._encoding = content_encoding(options.get(ENCODING, UTF_8))

    @property
    def extension(self) -> str:
        return f".csv{EXTENSIONS[self._codec]}"

    def accepts(self, schema: Schema | None, arrow_type: pa.DataType) -> None:
        check_struct(schema, "CSV")

    def writer(self, file: BinaryIO, schema: Schema | None, arrow_type: pa.DataType) -> CsvWriter:
        return CsvWriter(file, self._codec, check_struct(schema, "CSV"), delimiter=self._delimiter, has_header=self._has_header)

    def read(self, file: BinaryIO, split: Split | None) -> Iterator[Piece]:
        """A row that has a wrong number of columns, or is not text, becomes an exception after the rows of its block."""
        kept = NonClosingFile(file)
        rows = CsvRows(kept, self._read_codec, self._encoding, self._delimiter)
        try:
            names: list[str] | None = None
            for batch in rows:
                columns = batch
                if names is None:
                    names = _names(batch) if self._has_header else batch.schema.names
                    columns = batch.slice(1) if self._has_header else batch
                schema = Schema.struct({name: STRING_SCHEMA.as_optional() for name in names})
                if columns.num_rows:
                    yield pa.StructArray.from_arrays(columns.columns, fields=list(arrow_type(schema))), schema
                yield from rows.take_errors()
            yield from rows.take_errors()
            if rows.fault is not None:
                yield unreadable_error(kept, rows.fault)
        except (pa.ArrowException, OSError, DataException) as error:
            yield from rows.take_errors()
            yield unreadable_error(kept, error)

    def splits(self, file: BinaryIO, size: int, wanted_bytes: int) -> list[Split]:
        """One split, because only a reader from the start of the file can determine whether a line break is within quotes."""
        return [Split(0, size)]


def _names(rows: pa.RecordBatch) -> list[str]:
    """The names in the first row. Raises DataException for names that cannot be fields of a struct."""
    names = [column[0].as_py() or "" for column in rows.columns]
    if "" in names or len(set(names)) < len(names):
        raise DataException(f"The first line must name each column once (or set {HEADER}=false), got {names}")
    return names


class CsvWriter(TextWriter):
    """Writes the fields of structs as rows."""

    def __init__(self, file: BinaryIO, codec: str, schema: Schema, *, delimiter: str, has_header: bool) -> None:
        super().__init__(file, codec, b"\n")
        csv = import_module("pyarrow.csv")
        self._schema = schema
        types = [_written_type(field.schema) for field in schema.fields]
        self._columns = pa.schema([pa.field(field.name, type) for field, type in zip(schema.fields, types, strict=True)])
        options = csv.WriteOptions(include_header=has_header, delimiter=delimiter)
        self._writer = csv.CSVWriter(self.stream, self._columns, write_options=options)

    def write(self, values: pa.Array) -> None:
        columns = struct_columns(values, self._schema, "CSV")
        texts = [_convert_column(column, field.schema) for column, field in zip(columns, self._schema.fields, strict=True)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(texts, schema=self._columns))

    def close(self) -> None:
        self._writer.close()
        super().close()


def _written_type(schema: Schema) -> pa.DataType:
    """The column type to write. Numbers and booleans keep their type, which Arrow writes without quotes."""
    is_plain = schema.logical_name is None and schema.type not in _AS_TEXT
    return arrow_type(schema) if is_plain else pa.string()


_AS_TEXT: Final = (SchemaType.STRING, SchemaType.BYTES, SchemaType.STRUCT, SchemaType.ARRAY, SchemaType.MAP)


def _convert_column(column: pa.Array, schema: Schema) -> pa.Array:
    if _written_type(schema) == column.type:
        return column
    dense = column.drop_null()
    if schema.logical_name is not None:
        texts = dense.cast(pa.string())
    elif schema.type is SchemaType.BYTES:
        texts = base64_text(dense)
    else:
        texts = column_text(schema, dense, _RULES)
    return texts if not column.null_count else pc.replace_with_mask(pa.nulls(len(column), pa.string()), column.is_valid(), texts)
