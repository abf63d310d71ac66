"""``@source``: a generator of rows as a source connector.

The decorator returns a connector class over the protocol of every source. Each of its tasks calls the function once for each source
partition that it has, at most, in a run; what the function yields becomes records, and the cursor of the last one the source offset.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from threading import Lock
from typing import Any, ClassVar, Final, overload

from airflow_provider_connect.errors import ConnectException, DataException, RetriableException
from airflow_provider_connect.sdk.arrow import pa, pc
from airflow_provider_connect.sdk.arrow_schema import arrow_type, schema_of
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import REQUIRED, Config, ConfigDef, ConfigKey, Importance, NonEmptyString, Type
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport, OffsetOf, SourceConnector
from airflow_provider_connect.sdk.functions.cursor import CURSOR, CursorOrder, cursor_of, offset_of
from airflow_provider_connect.sdk.functions.rows import RowSchema, decoded_schema, encoded_schema, given_schema
from airflow_provider_connect.sdk.functions.signature import Signature, called, parameters_of, refuse_unknown, types_of
from airflow_provider_connect.sdk.schema import Schema
from airflow_provider_connect.sdk.task import SourceTask

TOPIC, PARTITION, TASK_PARTITIONS = "topic", "partition", "task.partitions"
SCHEMA, FIELDS = "schema", "fields"
"""The source partition and offset that remember the fields of a partition's rows."""
WHOLE: Final = "all"
"""The source partition of a source that has no partitions."""
MOST_ROWS, MOST_SECONDS = 5_000, 1.0  # of single dicts that become one batch
_GIVEN: Final = (PARTITION, CURSOR, "context", "allowed_paths")
"""The parameters of a function that are not settings."""

Partition = str | int | Mapping[str, object]
Partitions = Sequence[Partition] | Callable[..., Iterable[Partition]]


@dataclass(frozen=True, slots=True)
class SourceFunction:
    """What the author declared."""

    function: Callable[..., Any]
    signature: Signature
    partitions: Partitions | None
    cursor: str | None
    key: str | Sequence[str] | None
    has_new_data: Callable[..., bool | None] | None
    schema: pa.Schema | type | None

    @property
    def has_cursor(self) -> bool:
        """Whether there is a position to resume from."""
        return self.cursor is not None or CURSOR in parameters_of(self.function)

    def partition_values(self, config: Config) -> list[Partition]:
        """The source partitions, each once, in the author's order."""
        if self.partitions is None:
            return [WHOLE]
        found = called(self.partitions, self.signature.arguments(config)) if callable(self.partitions) else self.partitions
        return list({text_of(value): value for value in found}.values())


def text_of(partition: Partition) -> str:
    """It as text, which identifies it."""
    return json.dumps(partition, sort_keys=True)


def source_partition_of(partition: Partition) -> dict[str, object]:
    """The source partition. One that is a dict is it itself: source partitions hold no nested values."""
    return dict(partition) if isinstance(partition, Mapping) else {PARTITION: partition}


class FunctionSourceTask(SourceTask):
    """Reads its partitions one after the other. A subclass for each function has ``declared``."""

    declared: ClassVar[SourceFunction]

    def __init__(self) -> None:
        self._rows: _PartitionRows | None = None
        self._before: _PartitionRows | None = None  # an earlier call for the same partition, which ended with RetriableException
        self._is_stopped = False
        self._reading = Lock()

    def start(self, config: Config) -> None:
        self._config = config
        self._left: list[Partition] = json.loads(config[TASK_PARTITIONS])

    def poll(self) -> list[Batch] | None:
        """What the function yields next; None behind the last partition."""
        with self._reading:
            try:
                while self._left and not self._is_stopped:
                    if self._rows is None:
                        self._rows = self._partition_rows(self._left[0])
                    batches = self._rows.next()
                    if batches is None:
                        self._close()
                        self._left.pop(0)
                        self._before = None
                    elif batches or self.context.stopping():
                        return batches
            except RetriableException as error:
                self._begin_again(error)
                raise
            finally:
                if self._is_stopped:
                    self._close()
        return None

    def stop(self) -> None:
        self._is_stopped = True
        if self._reading.acquire(blocking=False):  # else ``poll`` closes the rows
            try:
                self._close()
            finally:
                self._reading.release()

    def declared_for(self, partition: Partition) -> SourceFunction:
        """The function that reads a partition, where partitions have functions of their own."""
        return self.declared

    def topic_of(self, partition: Partition) -> str:
        """The topic of a partition's records."""
        topic: str = self._config[TOPIC]
        return topic

    def _partition_rows(self, partition: Partition) -> _PartitionRows:
        if self._before is not None:
            reached, schema = self._before.reached, self._before.schema
        else:
            reached, schema = cursor_of(self.context.offset(source_partition_of(partition))), self._row_schema(partition)
        return _PartitionRows(self, self._config, partition, reached=reached, schema=schema)

    def _row_schema(self, partition: Partition) -> _SavedSchema:
        """The fields that are given, or those of earlier runs."""
        source_partition: dict[str, object] = {SCHEMA: text_of(partition) if isinstance(partition, Mapping) else partition}
        fields = (self.context.offset(source_partition) or {}).get(FIELDS)
        remembered = None if fields is None else decoded_schema(fields)
        return _SavedSchema(source_partition, RowSchema(given_schema(self.declared_for(partition).schema), remembered=remembered))

    def _begin_again(self, error: RetriableException) -> None:
        """The function has ended by the error: the next ``poll`` calls it from the last cursor that was returned."""
        rows = self._rows
        self._close()
        if rows is not None and rows.has_returned and not rows.declared.has_cursor:
            raise ConnectException(f"{rows.title}: rows without a cursor cannot be resumed: {error}") from error
        self._before = rows or self._before

    def _close(self) -> None:
        rows, self._rows = self._rows, None
        if rows is not None:
            rows.close()


class _SavedSchema:
    """The fields of a source partition, and the source partition in whose offset they are remembered."""

    def __init__(self, source_partition: Mapping[str, object], rows: RowSchema) -> None:
        self.rows = rows
        self._source_partition = source_partition
        self._saved = rows.known

    def changed(self, first: Batch) -> list[Batch]:
        """What remembers the fields if they are new: no record, and an offset that is committed with those of ``first``."""
        if self.rows.known is self._saved:
            return []
        self._saved = self.rows.known
        offset = {FIELDS: encoded_schema(self._saved)}
        return [first.slice(0, 0).replace(source_partition=self._source_partition, source_offset=offset)]


class _PartitionRows:
    """One call of the function: the rows of a source partition as batches."""

    def __init__(
        self,
        task: FunctionSourceTask,
        config: Config,
        partition: Partition,
        *,
        reached: Any,
        schema: _SavedSchema,
    ) -> None:
        declared = task.declared_for(partition)
        self.title = f"{declared.function.__qualname__}, partition {partition}"
        self.reached = reached
        self.schema = schema
        self.has_returned = False
        self.declared = declared
        self._topic = task.topic_of(partition)
        self._source_partition = source_partition_of(partition)
        self._order = None if declared.cursor is None else CursorOrder(declared.cursor, reached, self.title)
        self._columns: dict[pa.DataType, tuple[Schema, pa.DataType]] = {}
        given = {**declared.signature.arguments(config), "context": task.context, "allowed_paths": task.allowed_paths}
        given[PARTITION] = partition
        if CURSOR in parameters_of(declared.function):
            given |= _cursor_argument(declared.function, reached)
        self._groups = _grouped(_yielded(declared.function, given), task.context.stopping)

    def next(self) -> list[Batch] | None:
        """The batches of the next rows, which may be none; None at the end."""
        try:
            group = next(self._groups, None)
            if group is not None:
                batches = self._batches(*group)
            else:
                batches = [] if self._order is None else [self._batch(*waited) for waited in self._order.rest()]
        except DataException as error:  # a tolerated one would lose what follows: a generator that raised has ended
            raise ConnectException(f"{self.title}: {error}") from error
        for batch in batches:
            self.has_returned = True
            self.reached = self.reached if batch.source_offset is None else cursor_of(batch.source_offset)
        if group is None and not batches:
            return None
        return [*self.schema.changed(batches[0]), *batches] if batches else []

    def close(self) -> None:
        """End the function where it stands: its ``finally`` blocks run."""
        self._groups.close()

    def _batches(self, rows: Any, cursor: Any) -> list[Batch]:
        if isinstance(rows, Batch):
            offset = rows.source_offset if cursor is None else offset_of(cursor)
            found = [rows.replace(source_partition=self._source_partition, source_offset=offset)]
        else:
            table = self.schema.rows.table(rows)
            if self._order is not None:
                return [self._batch(*ready) for ready in self._order.ready(table)]
            found = [self._batch(table, cursor)] if len(table) or cursor is not None else []
        if self.declared.has_cursor and any(batch.source_offset is None for batch in found):
            raise DataException("rows come without a cursor: yield them as a pair, rows and cursor, or name their field as the cursor")
        return found

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
        """The key's field, or a struct of several."""
        named = self.declared.key
        if named is None:
            return None, None
        names = [named] if isinstance(named, str) else list(named)
        missing = [name for name in names if name not in table.column_names or table.column(name).null_count]
        if missing:
            raise DataException(f"field {missing[0]!r}, of the key, is missing or null in a row")
        return self._column(table.column(named) if isinstance(named, str) else table.select(names).to_struct_array())

    def _column(self, values: pa.ChunkedArray) -> tuple[pa.Array, Schema]:
        """The values as one array, and their required schema. Digits of times below a millisecond are cut off, as Connect's have none."""
        column = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
        if column.type not in self._columns:
            schema = schema_of(pa.field("rows", column.type, nullable=False))
            self._columns[column.type] = schema, arrow_type(schema)
        schema, wanted = self._columns[column.type]
        if column.type.equals(wanted):
            return column, schema
        return pc.cast(column, options=pc.CastOptions(wanted, allow_time_truncate=True)), schema


def _yielded(function: Callable[..., Any], given: Mapping[str, Any]) -> Generator[Any]:
    """What the function yields; one that returns rows yields them once."""
    result = called(function, given)
    if isinstance(result, Iterator) and not hasattr(result, "__arrow_c_stream__"):
        yield from result
    elif result is not None:
        yield result


def _grouped(yielded: Generator[Any], stopping: Callable[[], bool]) -> Generator[tuple[Any, Any]]:
    """Rows and the cursor that came with them. Single dicts are collected until there are many, or a second has passed."""
    single: list[Any] = []
    last: Any = None
    begun = time.monotonic()
    with closing(yielded):
        for each in yielded:
            rows, cursor = each if _is_pair(each) else (each, None)
            if isinstance(rows, Mapping):
                single.append(rows)
                last = cursor
                if len(single) < MOST_ROWS and time.monotonic() - begun < MOST_SECONDS and not stopping():
                    continue
                rows, single = single, []
            elif single:
                yield single, last
                single = []
            yield rows, cursor
            begun = time.monotonic()
    if single:
        yield single, last


def _is_pair(yielded: Any) -> bool:
    """Rows and a cursor; two dicts are two rows, and two record batches are rows as well."""
    if not isinstance(yielded, tuple) or len(yielded) != 2:
        return False
    return not isinstance(yielded[1], pa.RecordBatch) and not all(isinstance(each, Mapping) for each in yielded)


def _cursor_argument(function: Callable[..., Any], reached: Any) -> dict[str, Any]:
    """The parameter ``cursor``: its own default where there is no offset yet; times and decimals as its annotation has them."""
    parameter = parameters_of(function)[CURSOR]
    if reached is None:
        return {} if parameter.default is not parameter.empty else {CURSOR: None}
    parse = next((_PARSERS[type] for type in types_of(function, CURSOR) if type in _PARSERS), None)
    return {CURSOR: parse(reached) if parse is not None and isinstance(reached, str) else reached}


_PARSERS: Final[Mapping[object, Callable[[str], object]]] = {
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    Decimal: Decimal,
}


class FunctionSource(SourceConnector):
    """A connector whose tasks call one function. A subclass for each function has ``declared``."""

    declared: ClassVar[SourceFunction]
    function: ClassVar[Callable[..., Any]]
    """The author's function, for tests of its own."""
    task_class: ClassVar[type[SourceTask]]

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        """The partitions in turn: the first to the first task, the second to the second."""
        partitions = self.declared.partition_values(self.config)
        count = min(max_tasks, len(partitions))
        shares = [partitions[number::count] for number in range(count)]
        return [{**self.config.originals, TASK_PARTITIONS: json.dumps(share)} for share in shares]

    def output_topics(self, config: Mapping[str, str]) -> list[str]:
        return [self.config_def.parse(config)[TOPIC]]

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Supported by a cursor; without one each run reads everything again."""
        return ExactlyOnceSupport.SUPPORTED if self.declared.has_cursor else ExactlyOnceSupport.UNSUPPORTED

    def has_new_data(self, config: Config, offsets: OffsetOf) -> bool | None:
        """Asks the author's function for each partition, until one has new data."""
        check = self.declared.has_new_data
        if check is None:
            return None
        arguments = {**self.declared.signature.arguments(config), "allowed_paths": self.allowed_paths}
        answers: list[bool | None] = []
        for partition in self.declared.partition_values(config):
            reached = cursor_of(offsets(source_partition_of(partition)))
            cursor = _cursor_argument(check, reached) if CURSOR in parameters_of(check) else {}
            answers.append(called(check, {**arguments, **cursor, PARTITION: partition}))
            if answers[-1]:
                return True
        return None if None in answers else False

    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:  # Any: JSON from a user, checked here
        """Refuses partitions and offsets of another form than this source writes."""
        for partition, offset in offsets.items() if isinstance(offsets, Mapping) else offsets:
            if offset is None:
                continue
            whole = {PARTITION: WHOLE}
            is_fields = isinstance(partition, Mapping) and set(partition) == {SCHEMA}
            if not is_fields and self.declared.partitions is None and partition != whole:
                raise ConnectException(f"The source partition of this connector is {whole}, got {partition}")
            wanted = FIELDS if is_fields else CURSOR
            if (is_fields or self.declared.cursor is not None) and set(offset) != {wanted}:
                raise ConnectException(f"An offset of {partition} has the key '{wanted}' alone, got {dict(offset)}")
        return True


@overload
def source(function: Callable[..., Any], /) -> type[FunctionSource]: ...
@overload
def source(
    *,
    partitions: Partitions | None = None,
    cursor: str | None = None,
    key: str | Sequence[str] | None = None,
    topic: str | None = None,
    has_new_data: Callable[..., bool | None] | None = None,
    schema: pa.Schema | type | None = None,
) -> Callable[[Callable[..., Any]], type[FunctionSource]]: ...
def source(
    function: Callable[..., Any] | None = None,
    /,
    *,
    partitions: Partitions | None = None,
    cursor: str | None = None,
    key: str | Sequence[str] | None = None,
    topic: str | None = None,
    has_new_data: Callable[..., bool | None] | None = None,
    schema: pa.Schema | type | None = None,
) -> type[FunctionSource] | Callable[[Callable[..., Any]], type[FunctionSource]]:
    """Makes a generator of rows a source connector, whose settings are the function's parameters and ``topic``.

    The function is called with those of these parameters that it has: ``partition``; ``cursor``, the last committed value, None or the
    parameter's default at first; ``context``, the SourceTaskContext; ``allowed_paths``, the files that it may open. It yields rows (see
    ``functions.rows``), or a pair of rows and the cursor behind them.

    ``partitions``: what can be read apart, as texts, numbers or dicts; or a function that returns them, by settings. They are spread over
    at most ``tasks.max`` tasks, and each has its own cursor. ``cursor``: the field by which rows are sorted within a partition, oldest
    first. Rows with the same value arrive together, and rows up to the committed one are left out. ``key``: the field, or fields, of the
    record's key. ``topic``: the default of the setting. ``has_new_data``: returns whether a run would find rows, by settings,
    ``partition``, ``cursor`` and ``allowed_paths``; None for unknown. It is called in the Airflow task process before each run.
    ``schema``: the fields of the rows, as an Arrow schema or a dataclass; other fields are left out. Without it they are inferred, only
    widen, and are remembered among the source offsets.
    """

    def declare(author: Callable[..., Any]) -> type[FunctionSource]:
        signature = Signature.of(author, without=_GIVEN)
        settings = [name for name in parameters_of(author) if name not in _GIVEN]
        refuse_unknown(partitions if callable(partitions) else None, settings, "partitions")
        refuse_unknown(has_new_data, [*settings, PARTITION, CURSOR, "allowed_paths"], "has_new_data")
        return _connector_class(author, SourceFunction(author, signature, partitions, cursor, key, has_new_data, schema), topic)

    return declare if function is None else declare(function)


def _connector_class(author: Callable[..., Any], declared: SourceFunction, topic: str | None) -> type[FunctionSource]:
    own = declared.signature.config_def
    default = REQUIRED if topic is None else topic
    to = ConfigKey(TOPIC, Type.STRING, default, validator=NonEmptyString(), importance=Importance.HIGH, doc="The topic to write to.")
    config_def = own if TOPIC in own.keys else ConfigDef(to, *own.keys.values())
    of_author = {"__module__": author.__module__, "__doc__": author.__doc__, "declared": declared}
    share = ConfigKey(TASK_PARTITIONS, Type.STRING, json.dumps([WHOLE]), doc="The source partitions of this task, as JSON.")
    task = {**of_author, "__qualname__": f"{author.__qualname__}Task", "config_def": config_def.with_keys(share)}
    connector = {
        **of_author,
        "__qualname__": author.__qualname__,
        "config_def": config_def,
        "function": staticmethod(author),
        "task_class": type(f"{author.__name__}Task", (FunctionSourceTask,), task),
    }
    return type(author.__name__, (FunctionSource,), connector)
