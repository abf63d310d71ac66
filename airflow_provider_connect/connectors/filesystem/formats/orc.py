"""``orc``: structs as columns. ORC stores the schema's fields, but not whether they are required, nor the struct's name."""

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
from airflow_provider_connect.connectors.filesystem.formats.file_columns import struct_pieces, table_schema
from airflow_provider_connect.connectors.filesystem.formats.orc_rows import StripeRows, Tail, stripe_rows
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.arrow_schema import arrow_field
from airflow_provider_connect.data.columns import with_children
from airflow_provider_connect.data.expansion import MOST_MADE, check_unpacked
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import DataException

_CODECS: Final = {"none": "uncompressed", "snappy": "snappy", "zlib": "zlib", "lz4": "lz4", "zstd": "zstd"}
_MAX_DIGITS: Final = 38
_MAX_MS: Final = (1 << 63) // 1_000_000
"""Maximum distance of an instant from 1970, because Arrow reads ORC timestamps as 64-bit nanoseconds."""


class Orc:
    """Structs with at least one field. A Time is stored as a number of milliseconds."""

    def __init__(self, codec: str | None, options: Mapping[str, str]) -> None:
        self._codec = check_codec(codec, [*_CODECS], "none")

    @property
    def extension(self) -> str:
        return ".orc"

    def accepts(self, schema: Schema | None, arrow_type: pa.DataType) -> None:
        check_struct(schema, "ORC")
        _orc_type(arrow_type)

    def writer(self, file: BinaryIO, schema: Schema | None, arrow_type: pa.DataType) -> OrcWriter:
        self.accepts(schema, arrow_type)
        return OrcWriter(file, _CODECS[self._codec], check_struct(schema, "ORC"))

    def read(self, file: BinaryIO, split: Split | None) -> Iterator[Piece]:
        kept = NonClosingFile(file)
        try:
            tail = Tail(kept)
            source = _open_file(kept)
            schema = table_schema(source.schema)
            made = 0
            stripes = range(source.nstripes) if split is None else range(split.begin, min(split.end, source.nstripes))
            for stripe in stripe_rows(source, kept, tail, stripes):
                first = 1
                try:
                    for found in stripe.pieces:
                        made += found.nbytes
                        check_unpacked(tail.size, made, MOST_MADE)
                        rows = max(1, found.num_rows * CHUNK_BYTES // max(found.nbytes, CHUNK_BYTES))
                        for start in range(0, found.num_rows, rows):
                            piece = found.slice(start, rows)
                            yield from struct_pieces(piece.columns, schema, first, f"stripe {stripe.number}, ")
                            first += piece.num_rows
                except (pa.ArrowException, *BROKEN) as error:
                    yield unreadable_error(kept, error, f"Stripe {stripe.number}{_find_unreadable_column(source, stripe)}")
        except (pa.ArrowException, *BROKEN) as error:
            yield unreadable_error(kept, error)

    def splits(self, file: BinaryIO, size: int, wanted_bytes: int) -> list[Split]:
        """Groups of stripes of about ``wanted_bytes``, on the assumption that stripes have equal sizes."""

        def stripe_sizes(file: NonClosingFile) -> list[int]:
            Tail(file)  # validates the tail, because the library does not
            count = _open_file(file).nstripes
            return [size // max(count, 1)] * count

        return group_splits(file, wanted_bytes, stripe_sizes)


def _find_unreadable_column(source: Any, stripe: StripeRows) -> str:
    """The first column that cannot be read by itself, for a message. ``source``: pyarrow has no types."""
    if not stripe.is_whole:
        return ""
    for name in source.schema.names:
        try:
            source.read_stripe(stripe.number, columns=[name])
        except (pa.ArrowException, *BROKEN):
            return f", column {name},"
    return ""


def _open_file(file: NonClosingFile) -> Any:  # Any: pyarrow has no types
    return import_module("pyarrow.orc").ORCFile(file)


def _orc_type(type: pa.DataType) -> pa.DataType:
    """ORC's type for values of ``type``, with the metadata of fields. Raises DataException for an unsupported type."""
    types = pa.types
    if types.is_time(type):
        return pa.int32()
    if types.is_decimal(type) and (types.is_decimal256(type) or not 0 <= type.scale <= _MAX_DIGITS):
        raise DataException(f"ORC files support decimals of up to {_MAX_DIGITS} digits, not {type}")
    if types.is_struct(type):
        if not type.num_fields:
            raise DataException("ORC files need structs with at least one field, and a nested struct has none")
        return pa.struct([_orc_field(field) for field in type])
    if types.is_map(type):
        return pa.map_(_orc_field(type.key_field), _orc_field(type.item_field))
    return pa.list_(_orc_field(type.value_field)) if types.is_list(type) else type


def _orc_field(field: pa.Field) -> pa.Field:
    return field.with_type(_orc_type(field.type))


def _reject_far_times(column: pa.Array, path: str) -> None:
    """Raise DataException for an instant that Arrow could not read back."""
    if pa.types.is_timestamp(column.type):
        numbers = column.cast(pa.int64())
        far = numbers.filter(pc.or_(pc.greater(numbers, _MAX_MS), pc.less(numbers, -_MAX_MS)))
        if len(far):
            raise DataException(
                f"ORC files support timestamps of the years 1678 to 2261; the field {path} has {far[0].as_py()} ms from 1970. Use another "
                "format, or a string"
            )
    elif pa.types.is_struct(column.type):
        for number, child in enumerate(column.flatten()):
            _reject_far_times(child, f"{path}.{column.type.field(number).name}")
    elif pa.types.is_map(column.type):
        first, last = column.offsets[0].as_py(), column.offsets[len(column)].as_py()
        _reject_far_times(column.keys.slice(first, last - first), f"{path}.key")
        _reject_far_times(column.items.slice(first, last - first), f"{path}.value")
    elif pa.types.is_list(column.type):
        _reject_far_times(column.flatten(), f"{path}.item")


def _mask_nulls(column: pa.Array) -> pa.Array:
    """The column with null fields in null structs. Otherwise, Arrow's writer would shift their values to the next struct."""
    type = column.type
    if pa.types.is_struct(type):
        children = [_mask_nulls(child) for child in column.flatten()]
        fields = [field.with_type(child.type).with_nullable(True) for field, child in zip(type, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null() if column.null_count else None)
    if pa.types.is_map(type) or pa.types.is_list(type):
        entries = _mask_nulls(column.values)
        if pa.types.is_map(type):
            masked = pa.map_(entries.type.field(0).with_nullable(False), entries.type.field(1))
        else:
            masked = pa.list_(type.value_field.with_type(entries.type))
        return with_children(column, masked, entries)
    return column


class OrcWriter:
    """Writes structs. The library decides where a stripe ends."""

    def __init__(self, file: BinaryIO, codec: str, schema: Schema) -> None:
        self._schema = schema
        self._columns = pa.schema(list(_orc_type(arrow_field("value", schema).type)))
        self._file = CountingFile(file)
        self._writer = import_module("pyarrow.orc").ORCWriter(self._file, compression=codec)
        self._is_empty = True

    @property
    def bytes_written(self) -> int:
        return self._file.count

    def write(self, values: pa.Array) -> None:
        columns = struct_columns(values, self._schema, "ORC")
        for column, field in zip(columns, self._columns, strict=True):
            _reject_far_times(column, field.name)
        stored = [_mask_nulls(column.cast(field.type)) for column, field in zip(columns, self._columns, strict=True)]
        try:
            fields = [field.with_type(column.type) for column, field in zip(stored, self._columns, strict=True)]
            self._writer.write(pa.Table.from_arrays(stored, schema=pa.schema(fields)))
        except pa.ArrowException as error:
            raise DataException(f"Values cannot be written to an ORC file: {error}") from error
        self._is_empty = False

    def close(self) -> None:
        if self._is_empty:
            self.write(pa.array([], self._schema_type()))
        self._writer.close()

    def _schema_type(self) -> pa.DataType:
        return arrow_field("value", self._schema).type
