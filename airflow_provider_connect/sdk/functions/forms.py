"""The forms in which functions get the values of a batch. The annotation of the first parameter selects the form."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import chain
from typing import Any, Final

from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.columns import is_json, values_of
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.functions.signature import parameters_of, types_of

VALUE: Final = "value"
"""The column name for values that are not structs."""

Form = Callable[[Batch], Any]  # Any: the argument of the author's function


def form_of(function: Callable[..., Any]) -> tuple[str, Form]:
    """The name of the first parameter, and the function that creates the argument from a batch.

    Raises TypeError for an annotation that cannot be evaluated."""
    name = next(iter(parameters_of(function)))
    for type in types_of(function, name):
        if type is Batch:
            return name, lambda batch: batch
        if type is pa.Table:
            return name, table_of_values
        if getattr(type, "__name__", "") == "DataFrame":
            return name, _pandas if type.__module__.startswith("pandas") else lambda batch, type=type: type(table_of_values(batch))
    return name, values_of_batch


def values_of_batch(batch: Batch) -> list[Any]:
    """The values one by one. Structs and maps are dicts; a null value is None."""
    if batch.value is None:
        return [None] * len(batch)
    if is_json(batch.value.type):
        return values_of(batch.value, None)
    values: list[Any] = batch.value.to_pylist(maps_as_pydicts="strict")
    return values


def table_of_values(batch: Batch) -> pa.Table:
    """The values as a table: a column for each field of structs and of schemaless objects, else one column ``VALUE``.

    A null value becomes a row of nulls. Raises DataException for schemaless objects whose values have no common type."""
    column = pa.nulls(len(batch)) if batch.value is None else batch.value
    if is_json(column.type):
        values = values_of(column, None)
        if not all(value is None or isinstance(value, dict) for value in values):
            values = [{VALUE: value} for value in values]
        rows = [value or {} for value in values]
        names = dict.fromkeys(chain.from_iterable(rows))
        try:
            return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})
        except (pa.ArrowException, OverflowError) as error:
            raise DataException(f"Values without a schema cannot be columns: {error}") from error
    if not pa.types.is_struct(column.type):
        return pa.table({VALUE: column})
    return pa.Table.from_arrays(column.flatten(), schema=pa.schema([field.with_nullable(True) for field in column.type]))


def _pandas(batch: Batch) -> Any:
    """A pandas frame with Arrow's types. NumPy's types would turn integers and booleans with nulls into floats, and round them."""
    return table_of_values(batch).to_pandas(types_mapper=sys.modules["pandas"].ArrowDtype)  # the annotation has imported it
