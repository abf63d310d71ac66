"""``parquet``: structs as columns. The file stores the whole schema. The fields are in the metadata of Arrow's schema. The struct's name,
version, doc, parameters and default are in the metadata of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, BinaryIO, Final

from airflow_provider_connect.connectors.filesystem.formats.contract import (
    BROKEN,
    CHUNK_BYTES,
    CountingFile,
    NonClosingFile,
    Piece,
    Split,
    check_codec,
    check_struct,
    group_splits,
    struct_columns,
    unreadable_error,
)
from airflow_provider_connect.connectors.filesystem.formats.file_columns import struct_metadata, struct_pieces, table_schema
from airflow_provider_connect.connectors.filesystem.formats.orc_runs import varint
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.arrow_schema import arrow_field
from airflow_provider_connect.data.expansion import MOST_BYTES, MOST_MADE, check_unpacked
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import DataException

ROW_GROUP_BYTES: Final = 32 << 20  # in memory; about a fifth of this in the file
_EXTENSIONS: Final = {"snappy": ".snappy", "gzip": ".gz", "zstd": ".zstd", "lz4": ".lz4", "brotli": ".br", "none": ""}  # as in parquet-java


class Parquet:
    """Structs with at least one field."""

    def __init__(self, codec: str | None, options: Mapping[str, str]) -> None:
        self._codec = check_codec(codec, tuple(_EXTENSIONS), "snappy")

    @property
    def extension(self) -> str:
        return f"{_EXTENSIONS[self._codec]}.parquet"

    def accepts(self, schema: Schema | None, arrow_type: pa.DataType) -> None:
        check_struct(schema, "Parquet")
        refused = _unsupported_part(arrow_type, "value")
        if refused:
            raise DataException(f"Parquet files cannot hold {refused}")

    def writer(self, file: BinaryIO, schema: Schema | None, arrow_type: pa.DataType) -> ParquetWriter:
        self.accepts(schema, arrow_type)
        return ParquetWriter(file, self._codec, check_struct(schema, "Parquet"))

    def read(self, file: BinaryIO, split: Split | None) -> Iterator[Piece]:
        kept = NonClosingFile(file)
        try:
            source = _open_file(kept)
            schema = table_schema(source.schema_arrow)
            groups = range(source.num_row_groups) if split is None else range(split.begin, min(split.end, source.num_row_groups))
            first = 1 + sum(source.metadata.row_group(group).num_rows for group in range(groups.start))
            for group in groups:
                yield from _group_pieces(kept, source, group, schema, first)
                first += source.metadata.row_group(group).num_rows
        except (pa.ArrowException, *BROKEN) as error:
            yield unreadable_error(kept, error)

    def splits(self, file: BinaryIO, size: int, wanted_bytes: int) -> list[Split]:
        """Groups of row groups of about ``wanted_bytes``."""
        return group_splits(file, wanted_bytes, _group_sizes)


def _group_pieces(file: NonClosingFile, source: Any, group: int, schema: Schema, first_row: int) -> Iterator[Piece]:
    """The rows of one group. A damaged group loses its remaining rows; other groups are not affected."""
    found = source.metadata.row_group(group)
    end, packed, made = first_row + found.num_rows, compressed_bytes(source, group), 0
    try:
        for batch in source.iter_batches(rows_per_read(source, file, group), row_groups=[group], use_threads=False):
            made += batch.nbytes
            check_unpacked(packed, made, MOST_MADE)
            yield from struct_pieces(batch.columns, schema, first_row)
            first_row += batch.num_rows
    except (pa.ArrowException, *BROKEN) as error:
        yield unreadable_error(file, error, f"Row group {group}, rows {first_row} to {end - 1},")


def _group_sizes(file: NonClosingFile) -> list[int]:
    metadata = _open_file(file).metadata
    return [metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups)]


def _open_file(file: NonClosingFile) -> Any:  # Any: pyarrow has no types
    return import_module("pyarrow.parquet").ParquetFile(file, arrow_extensions_enabled=False)


def _unsupported_part(type: pa.DataType, path: str) -> str | None:
    """The part of a type that Parquet does not support, for a message: empty structs, decimals with a scale below 0 or above the
    precision."""
    if pa.types.is_struct(type) and not type.num_fields:
        return f"the struct {path}, which has no fields"
    if pa.types.is_decimal(type) and (type.scale < 0 or type.scale > type.precision):
        return f"the decimal {path} of scale {type.scale}"
    found = (_unsupported_part(type.field(index).type, f"{path}.{type.field(index).name}") for index in range(type.num_fields))
    return next((each for each in found if each), None)


class ParquetWriter:
    """Buffers values until they fill a row group."""

    def __init__(self, file: BinaryIO, codec: str, schema: Schema) -> None:
        field = arrow_field("value", schema)
        self._columns = pa.schema(list(field.type), metadata=struct_metadata(schema, field.metadata or {}))
        self._schema = schema
        self._file = CountingFile(file)
        self._writer = import_module("pyarrow.parquet").ParquetWriter(self._file, self._columns, compression=codec)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0

    @property
    def bytes_written(self) -> int:
        return self._file.count + self._waiting_bytes

    def write(self, values: pa.Array) -> None:
        batch = pa.RecordBatch.from_arrays(struct_columns(values, self._schema, "Parquet"), schema=self._columns)
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= ROW_GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self._columns)
            self._waiting, self._waiting_bytes = [], 0
            try:
                self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
            except pa.ArrowException as error:
                raise DataException(f"Values cannot be written to a Parquet file: {error}") from error


# The number of rows of a Parquet row group to read at a time. The expanded size of its pages is computed before they are read. A page of a
# few bytes may expand to a million nulls, or to a million copies of a long text. So the size of a group in the file does not show the size
# of its rows.
_WIDTHS: Final = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8, "BYTE_ARRAY": 4}
_MADE_BYTES: Final = 8 * CHUNK_BYTES
_PROBED_BYTES: Final = 4 << 20  # of a group; a larger group cannot expand as much
_BY_PREFIX: Final = "DELTA_BYTE_ARRAY"


def rows_per_read(source: Any, file: NonClosingFile, group: int) -> int:  # Any: pyarrow has no types
    """The number of rows that have about ``CHUNK_BYTES`` in the file, and not much more in memory.

    Raises DataException for a group whose lists may exceed ``MOST_BYTES``, because one row may contain all lists."""
    found = source.metadata.row_group(group)
    columns = [found.column(number) for number in range(found.num_columns)]
    packed = compressed_bytes(source, group)
    check_unpacked(packed, found.total_byte_size)
    count = max(found.num_rows, 1)
    rows: int = count * CHUNK_BYTES // max(found.total_byte_size, CHUNK_BYTES)
    lengths = [_WIDTHS.get(column.physical_type) or source.schema.column(number).length for number, column in enumerate(columns)]
    if packed < _PROBED_BYTES and found.num_rows:
        check_unpacked(packed, sum(uncompressed_bytes(file, column) for column in columns))
        texts = _longest(file, source, group, [column for column in columns if column.physical_type == "BYTE_ARRAY"], rows)
        lengths = [length + texts.get(column.path_in_schema, 0) for length, column in zip(lengths, columns, strict=True)]
        lists = [column.num_values * length for column, length in zip(columns, lengths, strict=True) if column.num_values > count]
        if sum(lists) > MOST_BYTES:
            raise DataException(f"Its lists may need {sum(lists)} bytes in memory, and a row may have at most {MOST_BYTES}")
    row_bytes = sum(column.num_values * length for column, length in zip(columns, lengths, strict=True)) / count
    return max(1, min(rows, int(_MADE_BYTES / max(row_bytes, 1))))


def compressed_bytes(source: Any, group: int) -> int:
    """The size of a group's pages in the file, in bytes."""
    found = source.metadata.row_group(group)
    return sum(found.column(number).total_compressed_size for number in range(found.num_columns))


def _longest(file: NonClosingFile, source: Any, group: int, columns: list[Any], rows: int) -> dict[str, int]:
    """The maximum size of a value in each column, in bytes, for columns with dictionary or prefix encoding."""
    if rows * sum(column.total_uncompressed_size for column in columns) <= _MADE_BYTES:
        return {}
    found = {column.path_in_schema: column.total_uncompressed_size for column in columns if _BY_PREFIX in column.encodings}
    shared = [column.path_in_schema for column in columns if column.has_dictionary_page]
    if shared:
        probe = import_module("pyarrow.parquet").ParquetFile(
            file, metadata=source.metadata, read_dictionary=shared, arrow_extensions_enabled=False
        )
        tops = list(dict.fromkeys(path.partition(".")[0] for path in shared))
        batch = next(probe.iter_batches(1, row_groups=[group], columns=tops, use_threads=False))
        longest = max((_longest_entry(column) for column in batch.columns), default=0)
        found |= {path: max(longest, found.get(path, 0)) for path in shared}
    return found


def _longest_entry(column: pa.Array) -> int:
    """The longest entry of the dictionaries in a column."""
    if pa.types.is_dictionary(column.type):
        return pc.max(pc.binary_length(column.dictionary)).as_py() or 0
    if pa.types.is_struct(column.type):
        return max((_longest_entry(column.field(number)) for number in range(column.type.num_fields)), default=0)
    if pa.types.is_map(column.type):
        return max(_longest_entry(column.keys), _longest_entry(column.items))
    return _longest_entry(column.values) if pa.types.is_list(column.type) else 0


# The uncompressed size of a Parquet column's pages, from the page headers, because the footer may contain any number. With brotli, three
# kilobytes may be a page of two gigabytes, which the library decompresses in one step. Headers are messages in Thrift's compact protocol
# (parquet.thrift, PageHeader).
_UNPACKED, _PACKED = 2, 3  # fields of a header
_FLAGS: Final = (1, 2)
_BYTE, _INTEGERS, _DOUBLE, _BINARY, _STRUCT = 3, (4, 5, 6), 7, 8, 12
_MAX_LEVELS: Final = 20


def uncompressed_bytes(file: NonClosingFile, column: Any) -> int:  # Any: pyarrow has no types
    """The uncompressed size of a column's pages in a row group, in bytes. Reads the whole column. Raises DataException for invalid
    headers."""
    start = column.data_page_offset
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < start:
        start = column.dictionary_page_offset
    file.seek(max(start, 0))
    data, at, total = file.read(max(column.total_compressed_size, 0)), 0, 0
    try:
        while at < len(data):
            unpacked, packed, at = _header(data, at)
            total += unpacked
            at += packed
    except (LookupError, ValueError) as error:
        raise DataException("the header of one of its pages cannot be read") from error
    return total


def _header(data: bytes, at: int) -> tuple[int, int, int]:
    """The uncompressed and compressed sizes of the page after a header, in bytes, and the page's position."""
    sizes = {_UNPACKED: 0, _PACKED: 0}
    field = 0
    while head := data[at]:
        field, kind, at = _field(data, at, field, head)
        if kind in _INTEGERS and field in sizes:
            number, at = varint(data, at)
            sizes[field] = max(sizes[field], number >> 1) if field == _UNPACKED else number >> 1
            if number & 1:
                raise ValueError("a size below zero")
        else:
            at = _skip_value(data, at, kind, 0)
    return sizes[_UNPACKED], sizes[_PACKED], at + 1


def _field(data: bytes, at: int, before: int, head: int) -> tuple[int, int, int]:
    """The number and kind of a field, and the position of its value."""
    if head >> 4:
        return before + (head >> 4), head & 15, at + 1
    number, at = varint(data, at + 1)
    return number >> 1, head & 15, at


def _skip_value(data: bytes, at: int, kind: int, level: int) -> int:
    """The position after a value."""
    if level > _MAX_LEVELS:
        raise ValueError("too many nested levels")
    if kind in _FLAGS:
        return at
    if kind in (_BYTE, _DOUBLE):
        return at + (1 if kind == _BYTE else 8)
    if kind in _INTEGERS:
        return varint(data, at)[1]
    if kind == _BINARY:
        size, at = varint(data, at)
        return at + size
    if kind == _STRUCT:
        field = 0
        while head := data[at]:
            field, inner, at = _field(data, at, field, head)
            at = _skip_value(data, at, inner, level + 1)
        return at + 1
    raise ValueError("an unknown kind of field")
