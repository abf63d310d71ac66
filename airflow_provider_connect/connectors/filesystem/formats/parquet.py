"""``parquet``: structs as columns. All of a schema is in the file: Arrow's schema has it in the metadata of fields, and the struct's own
name, version, doc, parameters and default are the file's metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, BinaryIO, Final

from airflow_provider_connect.connectors.filesystem.formats.contract import (
    BROKEN,
    CountedFile,
    KeptOpen,
    Piece,
    Split,
    check_codec,
    check_struct,
    splits_of_groups,
    struct_columns,
    unreadable,
)
from airflow_provider_connect.connectors.filesystem.formats.file_columns import struct_metadata, struct_pieces, table_schema
from airflow_provider_connect.connectors.filesystem.formats.parquet_rows import compressed_bytes, rows_at_once
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.arrow_schema import arrow_field
from airflow_provider_connect.data.expansion import MOST_MADE, check_unpacked
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import DataException

ROW_GROUP_BYTES: Final = 32 << 20  # in memory; about a fifth of it in the file
_EXTENSIONS: Final = {"snappy": ".snappy", "gzip": ".gz", "zstd": ".zstd", "lz4": ".lz4", "brotli": ".br", "none": ""}  # parquet-java's


class Parquet:
    """Structs with at least one field."""

    def __init__(self, codec: str | None, options: Mapping[str, str]) -> None:
        self._codec = check_codec(codec, tuple(_EXTENSIONS), "snappy")

    @property
    def extension(self) -> str:
        return f"{_EXTENSIONS[self._codec]}.parquet"

    def accepts(self, schema: Schema | None, arrow_type: pa.DataType) -> None:
        check_struct(schema, "Parquet")
        refused = _refused(arrow_type, "value")
        if refused:
            raise DataException(f"Parquet files cannot hold {refused}")

    def writer(self, file: BinaryIO, schema: Schema | None, arrow_type: pa.DataType) -> ParquetWriter:
        self.accepts(schema, arrow_type)
        return ParquetWriter(file, self._codec, check_struct(schema, "Parquet"))

    def read(self, file: BinaryIO, split: Split | None) -> Iterator[Piece]:
        kept = KeptOpen(file)
        try:
            source = _opened(kept)
            schema = table_schema(source.schema_arrow)
            groups = range(source.num_row_groups) if split is None else range(split.begin, min(split.end, source.num_row_groups))
            first = 1 + sum(source.metadata.row_group(group).num_rows for group in range(groups.start))
            for group in groups:
                yield from _group_pieces(kept, source, group, schema, first)
                first += source.metadata.row_group(group).num_rows
        except (pa.ArrowException, *BROKEN) as error:
            yield unreadable(kept, error)

    def splits(self, file: BinaryIO, size: int, wanted_bytes: int) -> list[Split]:
        """Row groups, as many together as have ``wanted_bytes``."""
        return splits_of_groups(file, wanted_bytes, _group_sizes)


def _group_pieces(file: KeptOpen, source: Any, group: int, schema: Schema, first_row: int) -> Iterator[Piece]:
    """The rows of one group. Damage of a group costs its other rows, and no other group."""
    found = source.metadata.row_group(group)
    end, packed, made = first_row + found.num_rows, compressed_bytes(source, group), 0
    try:
        for batch in source.iter_batches(rows_at_once(source, file, group), row_groups=[group], use_threads=False):
            made += batch.nbytes
            check_unpacked(packed, made, MOST_MADE)
            yield from struct_pieces(batch.columns, schema, first_row)
            first_row += batch.num_rows
    except (pa.ArrowException, *BROKEN) as error:
        yield unreadable(file, error, f"Row group {group}, rows {first_row} to {end - 1},")


def _group_sizes(file: KeptOpen) -> list[int]:
    metadata = _opened(file).metadata
    return [metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups)]


def _opened(file: KeptOpen) -> Any:  # Any: pyarrow has no types
    return import_module("pyarrow.parquet").ParquetFile(file, arrow_extensions_enabled=False)


def _refused(type: pa.DataType, path: str) -> str | None:
    """What Parquet has no type for: structs without fields, decimals with digits before the point left out."""
    if pa.types.is_struct(type) and not type.num_fields:
        return f"the struct {path}, which has no fields"
    if pa.types.is_decimal(type) and (type.scale < 0 or type.scale > type.precision):
        return f"the decimal {path} of scale {type.scale}"
    found = (_refused(type.field(index).type, f"{path}.{type.field(index).name}") for index in range(type.num_fields))
    return next((each for each in found if each), None)


class ParquetWriter:
    """Values wait until they fill a row group."""

    def __init__(self, file: BinaryIO, codec: str, schema: Schema) -> None:
        field = arrow_field("value", schema)
        self._columns = pa.schema(list(field.type), metadata=struct_metadata(schema, field.metadata or {}))
        self._schema = schema
        self._counted = CountedFile(file)
        self._writer = import_module("pyarrow.parquet").ParquetWriter(self._counted, self._columns, compression=codec)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0

    @property
    def bytes_written(self) -> int:
        return self._counted.count + self._waiting_bytes

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
