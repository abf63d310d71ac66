"""The keys whose rows an upsert removes from an Iceberg table, and which of the table's files may have such rows. Loaded by tasks alone."""

from __future__ import annotations

import bisect
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, In, LessThanOrEqual
from pyiceberg.expressions.literals import literal
from pyiceberg.expressions.visitors import IN_PREDICATE_LIMIT
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, PrimitiveType

from airflow_provider_connect.connectors.lake.rows import without_keys
from airflow_provider_connect.data.arrow import pa, pc


class Keys:
    """The keys whose rows are removed. Files that may have such rows pass ``row_filter``, by which pyiceberg leaves out files,
    and then ``may_be_in``: pyiceberg itself leaves out none for more than 200 keys."""

    def __init__(self, schema: Schema, keys: pa.Table) -> None:
        self.names: list[str] = keys.column_names
        self._keys = keys
        self._sorted: list[tuple[int, PrimitiveType, pa.Array]] = []
        self.row_filter: BooleanExpression = AlwaysTrue()
        for name in self.names:
            field = schema.find_field(name)
            if not isinstance(field.field_type, PrimitiveType) or isinstance(field.field_type, FloatType | DoubleType):
                continue  # NaN has no order
            values = pc.unique(keys[name])
            values = values.take(pc.array_sort_indices(values))
            self._sorted.append((field.field_id, field.field_type, values))
            self.row_filter = And(self.row_filter, _range_of(name, values))

    def may_be_in(self, file: DataFile) -> bool:
        """False: the bounds of a column leave no key out of which the file could have a row."""
        for id, type, values in self._sorted:
            lower, upper = (file.lower_bounds or {}).get(id), (file.upper_bounds or {}).get(id)
            if lower is None or upper is None:
                continue

            def plain(value: pa.Scalar, type: PrimitiveType = type) -> Any:  # as bounds are
                return literal(value.as_py()).to(type).value

            index = bisect.bisect_left(values, from_bytes(type, lower), key=plain)
            if index == len(values) or plain(values[index]) > from_bytes(type, upper):
                return False
        return True

    def are_among(self, rows: pa.Table) -> bool:
        """Whether a row has one of the keys."""
        return bool(self.without(rows).num_rows < rows.num_rows)

    def without(self, rows: pa.Table) -> pa.Table:
        """The rows that stay."""
        return without_keys(rows, self._keys)


def _range_of(name: str, values: pa.Array) -> BooleanExpression:
    """A filter that sorted values pass, others too where they are many."""
    if len(values) <= IN_PREDICATE_LIMIT:
        return In(name, values.to_pylist())  # type: ignore[call-arg, arg-type]
    return And(GreaterThanOrEqual(name, values[0].as_py()), LessThanOrEqual(name, values[-1].as_py()))  # type: ignore[call-arg, arg-type]
