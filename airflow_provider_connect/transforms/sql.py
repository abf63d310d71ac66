"""SqlTransform: computes fields of the value and drops records, with a SELECT over the batch. DuckDB runs it in a sandbox."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.arrow_schema import schema_of
from airflow_provider_connect.data.columns import row_numbers
from airflow_provider_connect.data.schema import Field, Schema, SchemaType
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException, SchemaException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, Range, Type
from airflow_provider_connect.sdk.required_packages import RequiredPackages
from airflow_provider_connect.transforms.one_side import OneSide, runs_of
from airflow_provider_connect.transforms.sql_query import ROW, TABLE, Plan, Statement, build_statement
from airflow_provider_connect.transforms.struct_columns import child, schema_like, struct_column

if TYPE_CHECKING:
    from airflow_provider_connect.transforms.sql_sandbox import Sandbox

PACKAGES: Final = RequiredPackages("SqlTransform", ("duckdb",), "sql")
SQL, TIMEOUT_MS = "sql", "timeout.ms"
MOST_BYTES: Final = 256 << 20
"""Maximum size, in bytes, of the values that one step of a statement may create, and of a batch's result."""
WHOLE: Final = "_value"
_MOST_CHARACTERS: Final = 10_000


def check_sql(name: str, value: str | None) -> None:
    """A validator: the statement must be valid and contain only allowed syntax. Columns are checked with the first batch."""
    if value is None:
        return
    sandbox = _sandbox()
    try:
        _statement(sandbox, name, value)
    finally:
        sandbox.close()


def _sandbox() -> Sandbox:
    PACKAGES.require(SQL, "SELECT …")
    from airflow_provider_connect.transforms.sql_sandbox import Sandbox

    return Sandbox()


def _statement(sandbox: Sandbox, name: str, text: str) -> Statement:
    if len(text) > _MOST_CHARACTERS:
        raise ConfigException.of(name, f"{text[:100]}…", f"{len(text)} characters; the limit is {_MOST_CHARACTERS}")
    return build_statement(name, text, sandbox.tree_of(text))


@dataclass(slots=True)
class _Bound:
    """A statement and its plan for values and keys of ``kinds``. ``after`` is the schema of results, which the first result sets."""

    kinds: tuple[object, object]
    plan: Plan
    text: str
    after: Schema | None = None


def _kinds(batch: Batch) -> tuple[object, object]:
    """The schemas of value and key, or the type of a column without a schema."""
    value, key = (None if column is None else column.type for column in (batch.value, batch.key))
    return batch.value_schema or value, batch.key_schema or key


class SqlTransform(OneSide):
    """Replaces values with the fields that a SELECT returns, and drops the records that its WHERE excludes. Null values are kept.

    Fields that the SELECT only names, or includes with ``*``, are not passed through DuckDB: the column, schema and default of such a field
    are unchanged.
    """

    side = "value"
    config_def = ConfigDef(
        ConfigKey(
            SQL,
            validator=check_sql,
            importance=Importance.HIGH,
            doc="<code>SELECT … FROM batch WHERE …</code> in DuckDB's SQL. Columns are the value's fields (<code>_value</code> if it has "
            "none), <code>_key</code>, <code>_topic</code>, <code>_partition</code>, <code>_offset</code>, <code>_timestamp</code>.",
        ),
        ConfigKey(
            TIMEOUT_MS,
            Type.LONG,
            10_000,
            validator=Range(at_least=1, at_most=60_000),
            doc="How long the statement may take for one batch. A batch that takes longer is tried in smaller parts.",
        ),
    )

    def configure(self, config: Config) -> None:
        self._sandbox = _sandbox()
        self._statement = _statement(self._sandbox, SQL, config[SQL])
        self._timeout_ms: int = config[TIMEOUT_MS]
        self._bound: _Bound | None = None

    def close(self) -> None:
        self._sandbox.close()

    def apply_batch(self, batch: Batch) -> Batch | list[Batch]:
        column = batch.value
        if column is None or not 0 < column.null_count < len(column):
            return super().apply_batch(batch)
        is_null = column.is_null()
        with self.translate_errors():  # one statement for all values, because each takes milliseconds even for few rows
            mask, result = self._selected(batch.filter(pc.invert(is_null)))
        pieces, seen, used = [], 0, 0
        for start, length, is_tombstone in runs_of(is_null):
            piece = batch.slice(start, length)
            if not is_tombstone:
                piece = piece if mask is None else piece.filter(mask.slice(seen, length))
                values = result.slice(used, piece.num_records)
                piece = piece.replace(value=values.value, value_schema=values.value_schema)
                seen, used = seen + length, used + piece.num_records
            pieces.append(piece)
        return pieces

    def change(self, batch: Batch) -> Batch:
        return self._selected(batch)[1]

    def _selected(self, batch: Batch) -> tuple[pa.BooleanArray | None, Batch]:
        """A mask of the records to keep (None: all), and a batch of these records."""
        bound, kinds = self._bound, _kinds(batch)
        if bound is None or bound.kinds != kinds:
            bound = self._bound = self._bind(batch, kinds)
        mask, result = None, None
        if bound.plan.tree is not None:
            result = self._computed(bound.text, _table(batch, bound.plan))
            mask = _mask(batch.num_records, result.column(result.num_columns - 1))
            batch = batch if mask is None else batch.filter(mask)
        if bound.after is None:
            bound.after = _schema_after(batch.value_schema, bound.plan, result)
        return mask, batch.replace(value=_value_after(batch, bound.plan, result, bound.after), value_schema=bound.after)

    def _computed(self, text: str, table: pa.Table) -> pa.Table:
        """Run the statement in parts whose result cannot exceed ``MOST_BYTES``.

        DuckDB checks time and memory only between steps of 2,048 rows. So a step whose strings grow could need any amount of memory.
        """
        rows, results, left, begun = max(table.num_rows, 1), list[pa.Table](), MOST_BYTES, time.monotonic()
        step = max(1, rows * MOST_BYTES // max(self._most_bytes_of(table), MOST_BYTES))
        for start in range(0, rows, step):
            part = table.slice(start, step)
            if len(part) == 1 and self._most_bytes_of(part) > MOST_BYTES:
                raise DataException(
                    f"SqlTransform: the columns of a record have {part.nbytes} bytes, from which the statement may create "
                    f"{self._most_bytes_of(part)}; the limit is {MOST_BYTES}"
                )
            if (time.monotonic() - begun) * 1000 > self._timeout_ms:
                raise DataException(f"SqlTransform: the statement took more than timeout.ms = {self._timeout_ms} ms")
            results.append(self._sandbox.rows(text, TABLE, part, self._timeout_ms))
            left -= results[-1].nbytes
            if left < 0 and rows > 1:
                raise DataException(f"SqlTransform: the statement creates more than {MOST_BYTES} bytes from {rows} records")
        return results[0] if len(results) == 1 else pa.concat_tables(results)

    def _most_bytes_of(self, table: pa.Table) -> int:
        return int(table.nbytes) * self._statement.expansion + len(table) * self._statement.row_bytes

    def _bind(self, batch: Batch, kinds: tuple[object, object]) -> _Bound:
        schema = batch.value_schema
        fields = [field.name for field in schema.fields] if _is_struct(schema) and schema is not None else []
        more = [name for name in _METADATA if name != WHOLE or not _is_struct(schema)]
        plan = self._statement.plan(fields, more)
        return _Bound(kinds, plan, "" if plan.tree is None else self._sandbox.text_of(plan.tree))


def _is_struct(schema: Schema | None) -> bool:
    return schema is not None and schema.type is SchemaType.STRUCT


def _repeated(batch: Batch, value: Any, type: pa.DataType) -> pa.Array:  # Any: a text or a number
    return pa.repeat(pa.scalar(value, type), batch.num_records)


def _timestamps(batch: Batch) -> pa.Array:
    type = pa.timestamp("ms", "UTC")
    return pa.nulls(batch.num_records, type) if batch.timestamp is None else batch.timestamp.cast(type)


_METADATA: Final[Mapping[str, Callable[[Batch], pa.Array]]] = {
    WHOLE: lambda batch: batch.value,
    "_key": lambda batch: _repeated(batch, None, pa.string()) if batch.key is None else batch.key,
    "_topic": lambda batch: _repeated(batch, batch.topic, pa.string()),
    "_partition": lambda batch: _repeated(batch, batch.kafka_partition, pa.int32()),
    "_offset": lambda batch: batch.kafka_offsets if batch.is_from_kafka else pa.nulls(batch.num_records, pa.int64()),
    "_timestamp": _timestamps,
}
"""The columns that are not fields of the value. A field of the same name hides the column."""


def _table(batch: Batch, plan: Plan) -> pa.Table:
    """A table of row numbers and the columns that the statement uses."""
    columns = [row_numbers(batch.num_records)]
    for name in plan.columns:
        field = batch.value_schema.field(name) if batch.value_schema is not None and _is_struct(batch.value_schema) else None
        columns.append(_METADATA[name](batch) if field is None else child(batch.value, field, fill=False))
    return pa.Table.from_arrays(columns, [ROW, *plan.columns])


def _mask(count: int, rows: pa.ChunkedArray) -> pa.BooleanArray | None:
    """A mask of the records that the statement kept (None: all).

    Raises ConnectException unless the result's rows are from the batch, each at most once, in order.
    """
    mask, kept = None, row_numbers(count)
    if len(rows) != count:
        mask = pc.is_in(kept, value_set=rows)
        kept = kept.filter(mask)
    if not rows.combine_chunks().equals(kept):
        raise ConnectException("SqlTransform: the statement returned rows that are not in the batch, or in another order")
    return mask


def _schema_after(before: Schema | None, plan: Plan, result: pa.Table | None) -> Schema:
    computed = iter(result.schema if result is not None else ())
    fields: list[tuple[str, Schema]] = []
    for output in plan.outputs:
        if output.field is not None and before is not None:
            fields.append((output.name, before.fields[output.field].schema))
            continue
        column = next(computed)
        try:
            fields.append((output.name, schema_of(pa.field(output.name, column.type))))
        except SchemaException as error:
            raise DataException(f"SqlTransform: {output.name} has the type {column.type}, which records do not support: CAST it") from error
    if before is None or not _is_struct(before):
        return Schema.struct(dict(fields))
    return schema_like(before, fields)


def _value_after(batch: Batch, plan: Plan, result: pa.Table | None, schema: Schema) -> pa.Array:
    computed = iter(result.columns if result is not None else ())
    columns = []
    for output, field in zip(plan.outputs, schema.fields, strict=True):
        if output.field is None:
            columns.append(next(computed))
        else:
            columns.append(child(batch.value, Field(output.name, output.field, field.schema), fill=False))
    return struct_column(schema, columns, row_numbers(batch.num_records))
