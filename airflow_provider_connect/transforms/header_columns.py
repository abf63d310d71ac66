"""Headers of many records changed at once, as they lie in ``Batch.headers``: lists of keys and bytes."""

from __future__ import annotations

from collections.abc import Collection

from airflow_provider_connect.sdk.arrow import pa, pc
from airflow_provider_connect.sdk.batch import headers_type
from airflow_provider_connect.sdk.columns import row_numbers


def with_header(headers: pa.Array | None, key: str, values: pa.Array) -> pa.Array:
    """The headers with one more behind those of each record; ``values`` (binary) has one for each."""
    type = headers_type()
    keys = pa.repeat(pa.scalar(key, pa.string()), len(values))
    added = pa.StructArray.from_arrays([keys, values], fields=list(type.value_type))
    rows = row_numbers(len(values) + 1).cast(pa.int32())
    if headers is None:
        return pa.ListArray.from_arrays(rows, added, type=type)
    offsets, entries = _dense(headers)
    parents = pc.list_parent_indices(pa.ListArray.from_arrays(offsets, entries))
    order = pc.array_sort_indices(pa.concat_arrays([parents, rows[:-1].cast(parents.type)]))  # stable: what is added comes last
    return pa.ListArray.from_arrays(pc.add(offsets, rows), pa.concat_arrays([entries, added]).take(order), type=type)


def without_headers(headers: pa.Array, keys: Collection[str]) -> pa.Array:
    """The headers without those of these keys."""
    offsets, entries = _dense(headers)
    kept = pc.invert(pc.is_in(pc.struct_field(entries, "key"), value_set=pa.array(list(keys), pa.string())))
    counts = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(kept.cast(pa.int32()))])
    return pa.ListArray.from_arrays(counts.take(offsets), entries.filter(kept), type=headers_type())


def have_header(headers: pa.Array, key: str) -> pa.BooleanArray:
    """Which records have a header of this key."""
    offsets, entries = _dense(headers)
    wanted = pc.equal(pc.struct_field(entries, "key"), key).cast(pa.int32())
    counts = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(wanted)]).take(offsets)
    return pc.greater(pc.subtract(counts[1:], counts[:-1]), 0)


def _dense(headers: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Offsets from 0 on (one more than records) and the entries that they point into."""
    lengths = pc.list_value_length(headers).fill_null(0).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    return offsets, pc.list_flatten(headers).cast(headers_type().value_type)
