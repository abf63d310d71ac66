"""``@transformation`` turns a function of values, or an Arrow expression, into a transformation.

It changes values and drops records. It keeps keys, headers, topics and null values. The function is not called for null values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, overload

from airflow_provider_connect.data.arrow import acero, pa, pc
from airflow_provider_connect.data.arrow_schema import schema_of
from airflow_provider_connect.data.columns import cast_to_schema, column_of, is_json
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config
from airflow_provider_connect.sdk.functions.forms import VALUE, form_of, table_of_values, values_of_batch
from airflow_provider_connect.sdk.functions.signature import Signature, parameters_of
from airflow_provider_connect.sdk.rows import RowSchema, table_of
from airflow_provider_connect.sdk.transformations import Transformation

MOST_KEPT: Final = 1_000
"""The number of cached schemas, by topic and type. Without a limit, one topic per customer could exhaust memory."""


class FunctionTransformation(Transformation):
    """Applies one function. Each function has its own subclass, with ``function``, ``signature`` and ``is_expression``."""

    function: ClassVar[Callable[..., Any]]
    """The author's function, for unit tests."""
    signature: ClassVar[Signature]
    is_expression: ClassVar[bool]

    def configure(self, config: Config) -> None:
        self._arguments = self.signature.arguments(config)
        self._rows: dict[tuple[str, pa.DataType], RowSchema] = {}  # by topic and input type, least recently used first
        if self.is_expression:
            self._expression = self.function(**self._arguments)
        else:
            self._name, self._form = form_of(self.function)

    def apply_batch(self, batch: Batch) -> Batch | list[Batch] | None:
        if batch.value is None or batch.value.null_count == len(batch):
            return batch
        if self.is_expression:
            return self._by_expression(batch)
        if self._form is values_of_batch:
            return self._by_value(batch, batch.value.type)
        changed = self.function(**{**self._arguments, self._name: self._form(batch)})
        if changed is None or isinstance(changed, Batch) or (isinstance(changed, list) and all(isinstance(b, Batch) for b in changed)):
            result: Batch | list[Batch] | None = changed
            return result
        if isinstance(changed, pa.Array | pa.ChunkedArray):
            return _kept(batch, changed)
        return _with_table(batch, table_of(changed))

    def _by_expression(self, batch: Batch) -> Batch:
        table = table_of_values(batch)
        if not isinstance(self._expression, Mapping):
            return _kept(batch, _evaluated(table, {"kept": self._expression}).column(0))
        computed = _evaluated(table, self._expression)
        if batch.value is not None and is_json(batch.value.type):  # keep the object's other keys
            changed = [
                value if value is None else {**value, **row} if isinstance(value, dict) else row.get(VALUE, value)
                for value, row in zip(values_of_batch(batch), computed.to_pylist(), strict=True)
            ]
            return batch.replace(value=column_of(changed, None))
        for name, column in zip(self._expression, computed.columns, strict=True):
            index = table.schema.get_field_index(name)
            table = table.append_column(name, column) if index < 0 else table.set_column(index, name, column)
        return _with_table(batch, table)

    def _by_value(self, batch: Batch, type: pa.DataType) -> Batch:
        """Call the function for each value that is not null. A result of None drops the record."""
        values = values_of_batch(batch)
        changed: list[Any] = []
        for number, value in enumerate(values):
            try:
                changed.append(None if value is None else self.function(**{**self._arguments, self._name: value}))
            except DataException as error:
                error.record = number if error.record is None else error.record
                raise
        mask = [before is None or after is not None for before, after in zip(values, changed, strict=True)]
        kept = batch if all(mask) else batch.filter(pa.array(mask))
        left = [value for value, is_kept in zip(changed, mask, strict=True) if is_kept]
        if batch.value_schema is None:
            return kept.replace(value=column_of(left, None))
        if not all(value is None or isinstance(value, Mapping) for value in left):
            return kept.replace(value=column_of(left, batch.value_schema))
        rows = self._row_schema(batch.topic, type)
        if not rows.known.names and all(value is None for value in left):  # no row yet from which to infer fields
            return kept
        return _with_table(kept, rows.table([value or {} for value in left]))

    def _row_schema(self, topic: str, type: pa.DataType) -> RowSchema:
        """The schema of the changed values of a topic, by their original type."""
        rows = self._rows.pop((topic, type), None)
        if rows is None:
            rows = RowSchema(like=pa.schema(list(type)) if pa.types.is_struct(type) else None)
            if len(self._rows) == MOST_KEPT:
                self._rows.pop(next(iter(self._rows)))
        self._rows[topic, type] = rows
        return rows


def _evaluated(table: pa.Table, expressions: Mapping[str, pc.Expression]) -> pa.Table:
    """A column for each expression. Raises DataException for an expression that cannot be evaluated on the table."""
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    project = acero.Declaration("project", acero.ProjectNodeOptions(list(expressions.values()), list(expressions)), [source])
    try:
        return project.to_table(use_threads=False)
    except (pa.ArrowException, KeyError) as error:
        raise DataException(f"Expressions {', '.join(map(str, expressions.values()))} cannot be evaluated: {error}") from error


def _kept(batch: Batch, mask: pa.Array) -> Batch:
    """The records whose mask is true, and the records with a null value."""
    if not pa.types.is_boolean(mask.type) or len(mask) != len(batch):
        raise DataException(f"A filter must return one boolean per record, got {len(mask)} of {mask.type} for {len(batch)} records")
    plain = mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask
    return batch.filter(pc.or_(pc.fill_null(plain, False), pc.is_null(batch.value)))


def _with_table(batch: Batch, table: pa.Table) -> Batch:
    """The batch with its values, except nulls, replaced by the rows of ``table``. The schema keeps its name, version and doc.

    Raises DataException for a table of another length."""
    if table.num_rows != len(batch):
        raise DataException(f"A transformation must return {len(batch)} rows, as it gets, not {table.num_rows}; use a mask to drop records")
    before, value = batch.value_schema, batch.value
    nulls = pc.is_null(value)
    if value is None or is_json(value.type):
        rows = [None if is_null else row for row, is_null in zip(table.to_pylist(), nulls.to_pylist(), strict=True)]
        return batch.replace(value=column_of(rows, None))
    if not pa.types.is_struct(value.type) and table.column_names == [VALUE]:
        column = table.column(VALUE).combine_chunks()
    else:
        chunks = [column.combine_chunks() for column in table.columns]
        column = pa.StructArray.from_arrays(chunks, fields=list(table.schema), mask=nulls)
    if before is None:
        return batch.replace(value=column)
    schema = schema_of(pa.field("value", column.type, nullable=before.optional))
    if before.type is schema.type:
        schema = dataclasses.replace(schema, name=before.name, version=before.version, doc=before.doc, parameters=before.parameters)
    return batch.replace(value=cast_to_schema(column, schema), value_schema=schema)


@overload
def transformation(function: Callable[..., Any], /) -> type[FunctionTransformation]: ...
@overload
def transformation() -> Callable[[Callable[..., Any]], type[FunctionTransformation]]: ...
def transformation(
    function: Callable[..., Any] | None = None, /
) -> type[FunctionTransformation] | Callable[[Callable[..., Any]], type[FunctionTransformation]]:
    """Turn a function into a transformation.

    If the result is annotated as ``pc.Expression``, all parameters are settings, and the function is called once per task. Records for
    which the expression is true are kept. With ``dict[str, pc.Expression]``, each expression adds or replaces the field of its name.

    Otherwise the first parameter gets the values, and the others are settings. The annotation of the first parameter determines the form.
    ``dict``, or no annotation: one value; the function returns the new value, or None to drop the record. ``pa.Table`` or a frame of polars
    or pandas: all values; the function returns a frame with as many rows, or an Arrow mask of the records to keep. ``Batch``: the function
    returns what ``Transformation.apply_batch`` returns.

    Raises TypeError for a function without parameters whose result is not an expression, and for a parameter that cannot be a setting.
    """
    return _transformation_class if function is None else _transformation_class(function)


def _transformation_class(author: Callable[..., Any]) -> type[FunctionTransformation]:
    result = author.__annotations__.get("return", "")
    is_expression = "Expression" in (result if isinstance(result, str) else repr(result))
    [first, *_] = [*parameters_of(author), ""]
    if not is_expression and not first:
        raise TypeError(f"{author.__qualname__}: a transformation needs a first parameter for the values, or must return an expression")
    signature = Signature.of(author, without=() if is_expression else (first,))
    body = {
        "__module__": author.__module__,
        "__qualname__": author.__qualname__,
        "__doc__": author.__doc__,
        "function": staticmethod(author),
        "signature": signature,
        "is_expression": is_expression,
        "config_def": signature.config_def,
    }
    return type(author.__name__, (FunctionTransformation,), body)
