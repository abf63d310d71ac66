"""Null lists and maps in pyiceberg's projection, which all rows pass on their way into a file and out of one.

Its own (0.12) builds a list or map of structs anew without its nulls: they become empty, in the files too. ``keep_nulls`` replaces the two
methods at fault, in the whole process. Loaded by tasks alone.
"""

from __future__ import annotations

from pyiceberg.io.pyarrow import ArrowProjectionVisitor
from pyiceberg.types import ListType, MapType

from airflow_provider_connect.data.arrow import pa


def keep_nulls() -> None:
    """Let pyiceberg write and read null lists and maps as null. Called once, before the first table."""
    ArrowProjectionVisitor.list = _list  # type: ignore[assignment, method-assign]
    ArrowProjectionVisitor.map = _map  # type: ignore[assignment, method-assign]


def _list(visitor: ArrowProjectionVisitor, type: ListType, array: pa.Array | None, values: pa.Array | None) -> pa.Array | None:
    if array is None or values is None:
        return None
    values = visitor._cast_if_needed(type.element_field, values)
    element = visitor._construct_field(type.element_field, values.type)
    if isinstance(array, pa.FixedSizeListArray):
        return array.cast(pa.list_(element))
    return _with_children(array, pa.large_list(element) if isinstance(array, pa.LargeListArray) else pa.list_(element), values)


def _map(
    visitor: ArrowProjectionVisitor, type: MapType, array: pa.Array | None, keys: pa.Array | None, values: pa.Array | None
) -> pa.Array | None:
    if array is None or keys is None or values is None:
        return None
    keys, values = visitor._cast_if_needed(type.key_field, keys), visitor._cast_if_needed(type.value_field, values)
    fields = [visitor._construct_field(type.key_field, keys.type), visitor._construct_field(type.value_field, values.type)]
    return _with_children(array, pa.map_(*fields), pa.StructArray.from_arrays([keys, values], fields=fields))


def _with_children(array: pa.Array, type: pa.DataType, children: pa.Array) -> pa.Array:
    """``array`` as one of ``type``: its nulls, lengths and slice, over other children."""
    return pa.Array.from_buffers(type, len(array), array.buffers()[:2], offset=array.offset, children=[children])
