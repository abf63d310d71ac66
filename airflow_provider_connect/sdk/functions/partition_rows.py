"""One call of a source function: the rows of a source partition as batches with offsets."""

from __future__ import annotations

import inspect
import json
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.arrow_schema import arrow_type, schema_of
from airflow_provider_connect.data.columns import cast_to_schema
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import ConnectException, DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config
from airflow_provider_connect.sdk.functions.cursor import CURSOR, CursorOrder, NullCursor, cursor_of, offset_of
from airflow_provider_connect.sdk.functions.overlap import Overlap, Width, is_overlap, reached_of, since_of
from airflow_provider_connect.sdk.functions.signature import Signature, call_with, parameters_of, types_of
from airflow_provider_connect.sdk.rows import ClashException, NoFieldsException, RowSchema, arrow_schema_of, encode_schema
from airflow_provider_connect.sdk.task import SourceTask, SourceTaskContext

TOPIC, PARTITION = "topic", "partition"
SCHEMA, FIELDS = "schema", "fields"
"""Keys of the source partition and offset that store the schema of a partition's rows."""
WHOLE: Final = "all"
"""The source partition of a source without ``partitions=``."""
MOST_ROWS, MOST_BYTES, MOST_SECONDS = 5_000, 16 << 20, 1.0  # limits of single dicts in one batch
MOST_WAITING_ROWS: Final = 1_000_000
_PLAIN: Final = frozenset({int, float, bool, type(None)})
_OURS: Final = os.path.join(Path(__file__).resolve().parents[2], "")
Partition = str | int | Mapping[str, object]
Partitions = Sequence[Partition] | Callable[..., Iterable[Partition]]


@dataclass(frozen=True, slots=True)
class SourceFunction:
    """A function and the arguments of its decorator."""

    function: Callable[..., Any]
    signature: Signature
    partitions: Partitions | None
    cursor: str | None
    key: str | Sequence[str] | None
    has_new_data: Callable[..., bool | None] | None
    schema: pa.Schema | type | None
    overlap: Width | None = None
    on_null_cursor: NullCursor = "fail"

    @property
    def has_cursor(self) -> bool:
        """Whether a run can resume: the rows have a cursor."""
        return self.cursor is not None or CURSOR in parameters_of(self.function)

    @property
    def is_exact(self) -> bool:
        """Whether no run reads rows again that an earlier run has delivered."""
        return self.has_cursor and self.on_null_cursor != "deliver"

    def may_be_partition(self, source_partition: Mapping[str, object]) -> bool:
        """Whether ``partitions`` may contain ``source_partition``. True if ``partitions`` is a function, which is not called."""
        given = self.partitions
        return given is not None and (callable(given) or dict(source_partition) in list(given))

    def partition_values(self, config: Config) -> list[Partition]:
        """The source partitions without duplicates, in the author's order. Raises ConnectException for a string or ambiguous partitions."""
        if self.partitions is None:
            return [WHOLE]
        found = call_with(self.partitions, self.signature.arguments(config)) if callable(self.partitions) else self.partitions
        if isinstance(found, str | bytes):
            raise ConnectException(f"{self.function.__qualname__}: partitions are one string, {found!r:.80}; give a list")
        values = {text_of(value): value for value in found}
        sources: dict[str, Partition] = {}
        for value in values.values():
            for source in (source_partition_of(value), schema_partition_of(value)):
                other = sources.setdefault(text_of(source), value)
                if other is not value:
                    title = self.function.__qualname__
                    raise ConnectException(f"{title}: partitions {other!r:.80} and {value!r:.80} are the same source partition; rename one")
        return list(values.values())


def text_of(partition: Partition) -> str:
    """``partition`` as text that identifies it."""
    return json.dumps(partition, sort_keys=True)


def source_partition_of(partition: Partition) -> dict[str, object]:
    """The source partition. A dict is used as it is, because source partitions have no nested values."""
    return dict(partition) if isinstance(partition, Mapping) else {PARTITION: partition}


def schema_partition_of(partition: Partition) -> dict[str, object]:
    """The source partition whose offset stores the schema of the partition's rows."""
    return {SCHEMA: text_of(partition) if isinstance(partition, Mapping) else partition}


class SavedSchema:
    """The schema of a source partition's rows, and the source partition whose offset stores it."""

    def __init__(self, source_partition: Mapping[str, object], rows: RowSchema) -> None:
        self.rows = rows
        self.source_partition = source_partition
        self._saved = rows.known

    def changed(self, first: Batch) -> list[Batch]:
        """If the schema has changed, an empty batch whose offset stores the schema. The batch is committed together with ``first``."""
        if self.rows.known is self._saved:
            return []
        self._saved = self.rows.known
        offset = {FIELDS: encode_schema(self._saved)}
        return [first.slice(0, 0).replace(source_partition=self.source_partition, source_offset=offset)]


Calls = list[Callable[[], None]]
"""Calls of ``SourceTaskContext.after_commit``."""


class FunctionContext:
    """The task's context, as the function gets it. Keeps the function's calls of ``after_commit`` until the rows that it yields next are
    returned."""

    def __init__(self, context: SourceTaskContext, refusal: str) -> None:
        self._context = context
        self._refusal = refusal
        self._calls: Calls = []

    def after_commit(self, call: Callable[[], None]) -> None:
        """See ``SourceTaskContext``. Raises ConnectException with ``refusal``, if it is not empty."""
        if self._refusal:
            raise ConnectException(self._refusal)
        self._calls.append(call)

    def take_calls(self) -> Calls:
        """The calls since the last one."""
        calls, self._calls = self._calls, []
        return calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class PartitionRows:
    """One call of the function: the rows of a source partition as batches."""

    def __init__(
        self,
        task: SourceTask,
        declared: SourceFunction,
        config: Config,
        partition: Partition,
        *,
        topic: str,
        reached: Any,
        schema: SavedSchema,
    ) -> None:
        self.title = f"{declared.function.__qualname__}, partition {partition}"
        self.reached = reached
        self.schema = schema
        self.has_returned = False
        self.declared = declared
        self._topic = topic
        self._source_partition = source_partition_of(partition)
        self._order = None if declared.cursor is None else self._order_of(declared.cursor, reached)
        self._waiting: list[tuple[pa.Table, Any]] = []  # rows of nulls with their cursors, until a field has a type
        self._columns: dict[pa.DataType, tuple[Schema, pa.DataType]] = {}
        self._task_context = task.context
        refusal = f"{self.title}: after_commit needs a source without cursor=, whose last rows wait for the next ones"
        self._context = FunctionContext(task.context, refusal if declared.cursor is not None else "")
        self._calls: Calls = []
        given = {**declared.signature.arguments(config), "context": self._context, "allowed_paths": task.allowed_paths}
        given[PARTITION] = partition
        if CURSOR in parameters_of(declared.function):
            given |= cursor_argument(declared.function, since_of(reached))
        self._yielded = _yielded(declared.function, given)
        self._groups = _grouped(self._yielded, self._context, can_resume=declared.has_cursor)

    def _order_of(self, column: str, reached: Any) -> CursorOrder:
        on_null = self.declared.on_null_cursor
        if self.declared.overlap is None:
            return CursorOrder(column, reached_of(reached), self.title, is_text=self._declares_text(column), on_null=on_null)
        offset = reached if is_overlap(reached) else None if reached is None else {CURSOR: reached}
        overlap = Overlap(column, self.declared.overlap, self.declared.key, offset, self.title)
        return CursorOrder(column, overlap.since, self.title, overlap, on_null=on_null)

    def _declares_text(self, field: str) -> bool:
        declared = arrow_schema_of(self.declared.schema)
        index = -1 if declared is None else declared.get_field_index(field)
        return declared is not None and index >= 0 and pa.types.is_string(declared.field(index).type)

    def next(self) -> list[Batch] | None:
        """The batches of the next rows; the list may be empty. None at the end."""
        try:
            group = next(self._groups, None)
        except DataException as error:  # tolerance would lose later rows, because the generator has ended
            raise ConnectException(f"{self.title}: {error}") from error
        try:
            if group is not None:
                rows, cursor, calls = group
                batches = self._batches(rows, cursor)
                self._calls += calls
            elif self._waiting:
                raise NoFieldsException(self._waiting[0][0])
            else:
                batches = [] if self._order is None else [self._batch(*waited) for waited in self._order.rest()]
        except DataException as error:
            raise ConnectException(f"{self.title}: {error}{self._remedy(error)}{self._line()}") from error
        for batch in batches:
            self.has_returned = True
            self.reached = self.reached if batch.source_offset is None else cursor_of(batch.source_offset)
        if not self._waiting:
            for call in (*self._calls, *(self._context.take_calls() if group is None else ())):
                self._task_context.after_commit(call)
            self._calls.clear()
        if group is None and not batches:
            return None
        return [*self.schema.changed(batches[0]), *batches] if batches else []

    def close(self) -> None:
        """End the function at its current ``yield``. Its ``finally`` blocks run."""
        self._groups.close()

    def _remedy(self, error: DataException) -> str:
        """The remedy for a type clash; empty for other errors."""
        if not isinstance(error, ClashException):
            return ""
        remedy = "; set its type with schema="
        if error.known is None:
            return remedy
        partition = json.dumps(self.schema.source_partition)
        return f"{remedy}, or, if all further rows have the new type, forget the old one: set the source offset of {partition} to null"

    def _line(self) -> str:
        """`` (file, line number)`` of the function's current ``yield`` or of the function; empty for functions of the framework."""
        frame = getattr(getattr(self._yielded, "gi_yieldfrom", None), "gi_frame", None)
        code = getattr(inspect.unwrap(self.declared.function), "__code__", None) if frame is None else frame.f_code
        if code is None or code.co_filename.startswith(_OURS):
            return ""
        return f" ({code.co_filename}, line {code.co_firstlineno if frame is None else frame.f_lineno})"

    def _batches(self, rows: Any, cursor: Any) -> list[Batch]:
        if isinstance(rows, Batch):
            if self._waiting:  # the new rows' offset would be after them
                raise NoFieldsException(self._waiting[0][0])
            offset = rows.source_offset if cursor is None else offset_of(cursor)
            found = [rows.replace(source_partition=self._source_partition, source_offset=offset)]
        else:
            try:
                table = self.schema.rows.table(rows)
            except NoFieldsException as error:
                self._wait(error, cursor)
                return []
            if self._order is not None and not len(table):
                return []
            known = self.schema.rows.known.names
            ready = [(table, cursor)] if self._order is None else self._order.ready(table, known)
            waited = ((self.schema.rows.table(nulls), position) for nulls, position in self._waiting)
            found = [self._batch(rows, position) for rows, position in (*waited, *ready) if len(rows) or position is not None]
            self._waiting.clear()
            if self._order is not None:
                return found
        if self.declared.has_cursor and any(batch.source_offset is None for batch in found):
            raise DataException("rows have no cursor: yield pairs of rows and a cursor, or name the cursor field with cursor=")
        return found

    def _wait(self, error: NoFieldsException, cursor: Any) -> None:
        self._waiting += [(error.table, cursor)] if self._order is None else self._order.ready(error.table)
        if sum(len(table) for table, _ in self._waiting) > MOST_WAITING_ROWS:
            raise DataException(f"more than {MOST_WAITING_ROWS} rows have no field with a value; set the types with schema=")

    def _batch(self, table: pa.Table, cursor: Any) -> Batch:
        value, value_schema = self._column(table.to_struct_array())
        key, key_schema = self._key(table)
        return Batch(
            self._topic,
            value,
            key,
            value_schema,
            key_schema,
            source_partition=self._source_partition,
            source_offset=None if cursor is None else offset_of(cursor),
        )

    def _key(self, table: pa.Table) -> tuple[pa.Array | None, Schema | None]:
        """The key: one field, or a struct of several fields."""
        named = self.declared.key
        if named is None:
            return None, None
        names = [named] if isinstance(named, str) else list(named)
        missing = [name for name in names if name not in table.column_names or table.column(name).null_count]
        if missing:
            raise DataException(f"field {missing[0]!r}, of the key, is missing or null in a row")
        return self._column(table.column(named) if isinstance(named, str) else table.select(names).to_struct_array())

    def _column(self, values: pa.ChunkedArray) -> tuple[pa.Array, Schema]:
        """The values as one array, and their required schema. Times are rounded down to milliseconds, as in Connect."""
        column = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
        if column.type not in self._columns:
            schema = schema_of(pa.field("rows", column.type, nullable=False))
            self._columns[column.type] = schema, arrow_type(schema)
        schema, wanted = self._columns[column.type]
        if column.type.equals(wanted):
            return column, schema
        return cast_to_schema(column, schema), schema


def _yielded(function: Callable[..., Any], given: Mapping[str, Any]) -> Generator[Any]:
    """The values that the function yields, or the rows that it returns."""
    result = call_with(function, given)
    if isinstance(result, Iterator) and not hasattr(result, "__arrow_c_stream__"):
        yield from result
    elif result is not None:
        yield result


def _grouped(yielded: Generator[Any], context: FunctionContext, *, can_resume: bool) -> Generator[tuple[Any, Any, Calls]]:
    """Groups of rows with their cursor and the calls before their ``yield``. Single dicts are collected for one second, or until there are
    many or they are large.

    With ``can_resume``, dicts that were collected before an exception are yielded first. Otherwise the next run reads them again.
    """
    single: list[Any] = []
    of_single: Calls = []
    size = 0
    last: Any = None
    begun = time.monotonic()
    with closing(yielded):
        while True:
            try:
                each = next(yielded)
            except StopIteration:
                break
            except Exception:
                if single and can_resume:
                    yield single, last, of_single
                raise
            calls = context.take_calls()
            rows, cursor = each if _is_pair(each) else (each, None)
            if isinstance(rows, Mapping):
                single.append(dict(rows))  # the author may reuse the dict
                of_single += calls
                last = cursor
                size += _rough_size(rows)
                if len(single) < MOST_ROWS and size < MOST_BYTES and time.monotonic() - begun < MOST_SECONDS and not context.stopping():
                    continue
                rows, single, calls, of_single = single, [], of_single, []
            elif single:
                yield single, last, of_single
                single, of_single = [], []
            yield rows, cursor, calls
            size = 0
            begun = time.monotonic()
    if single:
        yield single, last, of_single


def _rough_size(row: Mapping[str, Any]) -> int:
    """The estimated bytes of a row: eight per value, plus one per character or byte. Called for each dict, so it must be fast."""
    size = 8 * len(row)
    for value in row.values():
        kind = value.__class__
        if kind is str:
            size += len(value)
        elif kind not in _PLAIN:
            size += _rough_size_within(value)
    return size


def _rough_size_within(value: Any) -> int:
    """The estimated bytes of a nested value. Stops after ``MOST_BYTES``."""
    size, left = 0, [value]
    while left and size < MOST_BYTES:
        value = left.pop()
        if isinstance(value, str | bytes | bytearray):
            size += len(value)
        elif isinstance(value, Mapping | list | tuple):
            size += 8 * len(value) + 8
            left += value.values() if isinstance(value, Mapping) else value
        else:  # an array has ``nbytes``
            size += getattr(value, "nbytes", 0)
    return size


def _is_pair(yielded: Any) -> bool:
    """Whether ``yielded`` is a pair of rows and a cursor. Two dicts or two record batches are rows, not such a pair."""
    if not isinstance(yielded, tuple) or len(yielded) != 2:
        return False
    return not isinstance(yielded[1], pa.RecordBatch) and not all(isinstance(each, Mapping) for each in yielded)


def cursor_argument(function: Callable[..., Any], reached: Any) -> dict[str, Any]:
    """The argument ``cursor``. Without an offset, it is the parameter's default or None. Times and decimals are parsed as the annotation
    asks."""
    parameter = parameters_of(function)[CURSOR]
    if reached is None:
        return {} if parameter.default is not parameter.empty else {CURSOR: None}
    parse = next((_PARSERS[type] for type in types_of(function, CURSOR) if type in _PARSERS), None)
    return {CURSOR: parse(reached) if parse is not None and isinstance(reached, str) else reached}


_PARSERS: Final[Mapping[object, Callable[[str], object]]] = {
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    time_of_day: time_of_day.fromisoformat,
    Decimal: Decimal,
}
