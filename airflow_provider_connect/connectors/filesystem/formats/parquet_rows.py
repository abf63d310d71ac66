"""How many rows of a Parquet row group to read at once: what its pages expand to is counted before it is made.

A page of a few bytes may stand for a million nulls, or for a million copies of one long text: then the bytes of a group do not say how much
its rows are.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from airflow_provider_connect.connectors.filesystem.formats.contract import CHUNK_BYTES, KeptOpen
from airflow_provider_connect.connectors.filesystem.formats.parquet_pages import unpacked_bytes
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.expansion import MOST_BYTES, check_unpacked
from airflow_provider_connect.errors import DataException

_WIDTHS: Final = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8, "BYTE_ARRAY": 4}
_MADE_BYTES: Final = 8 * CHUNK_BYTES
_PROBED_BYTES: Final = 4 << 20  # of a group: a larger one is what it seems to be
_BY_PREFIX: Final = "DELTA_BYTE_ARRAY"


def rows_at_once(source: Any, file: KeptOpen, group: int) -> int:  # Any: pyarrow has no types
    """Rows of about ``CHUNK_BYTES`` of the file, and of not many more in memory.

    Raises DataException for a group whose lists may have more than ``MOST_BYTES``: one row may have them all."""
    found = source.metadata.row_group(group)
    columns = [found.column(number) for number in range(found.num_columns)]
    packed = compressed_bytes(source, group)
    check_unpacked(packed, found.total_byte_size)
    count = max(found.num_rows, 1)
    rows: int = count * CHUNK_BYTES // max(found.total_byte_size, CHUNK_BYTES)
    lengths = [_WIDTHS.get(column.physical_type) or source.schema.column(number).length for number, column in enumerate(columns)]
    if packed < _PROBED_BYTES and found.num_rows:
        check_unpacked(packed, sum(unpacked_bytes(file, column) for column in columns))
        texts = _longest(file, source, group, [column for column in columns if column.physical_type == "BYTE_ARRAY"], rows)
        lengths = [length + texts.get(column.path_in_schema, 0) for length, column in zip(lengths, columns, strict=True)]
        lists = [column.num_values * length for column, length in zip(columns, lengths, strict=True) if column.num_values > count]
        if sum(lists) > MOST_BYTES:
            raise DataException(f"Lists in it may have {sum(lists)} bytes in memory, and a row has {MOST_BYTES} at most")
    row_bytes = sum(column.num_values * length for column, length in zip(columns, lengths, strict=True)) / count
    return max(1, min(rows, int(_MADE_BYTES / max(row_bytes, 1))))


def compressed_bytes(source: Any, group: int) -> int:
    """What the pages of a group have in the file."""
    found = source.metadata.row_group(group)
    return sum(found.column(number).total_compressed_size for number in range(found.num_columns))


def _longest(file: KeptOpen, source: Any, group: int, columns: list[Any], rows: int) -> dict[str, int]:
    """At most how many bytes a value of each column has, for those with values that are shared or begin as others do."""
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
    """Of the dictionaries in a column."""
    if pa.types.is_dictionary(column.type):
        return pc.max(pc.binary_length(column.dictionary)).as_py() or 0
    if pa.types.is_struct(column.type):
        return max((_longest_entry(column.field(number)) for number in range(column.type.num_fields)), default=0)
    if pa.types.is_map(column.type):
        return max(_longest_entry(column.keys), _longest_entry(column.items))
    return _longest_entry(column.values) if pa.types.is_list(column.type) else 0
