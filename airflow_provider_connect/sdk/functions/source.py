"""``@source`` turns a generator of rows into a source connector.

The decorator returns an ordinary connector class. In each run, each task calls the function once for each of its source partitions, and
again after a RetriableException. The rows that the function yields become records; the cursor of the last row becomes the source offset.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, ClassVar, Final, overload

from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.errors import ConnectException, RetriableException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import REQUIRED, Config, ConfigDef, ConfigKey, Importance, NonEmptyString, Type
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport, OffsetReader, SourceConnector
from airflow_provider_connect.sdk.functions.cursor import CURSOR, NullCursor, cursor_of, refuse_unknown_null_cursor
from airflow_provider_connect.sdk.functions.overlap import Width, is_overlap, reached_of
from airflow_provider_connect.sdk.functions.partition_rows import (
    FIELDS,
    PARTITION,
    SCHEMA,
    TOPIC,
    WHOLE,
    Partition,
    PartitionRows,
    Partitions,
    SavedSchema,
    SourceFunction,
    cursor_argument,
    schema_partition_of,
    source_partition_of,
)
from airflow_provider_connect.sdk.functions.signature import Signature, call_with, parameters_of, refuse_unknown
from airflow_provider_connect.sdk.rows import RowSchema, arrow_schema_of, decode_schema
from airflow_provider_connect.sdk.task import SourceTask

__all__ = [
    "FIELDS",
    "PARTITION",
    "SCHEMA",
    "TASK_PARTITIONS",
    "TOPIC",
    "FunctionSource",
    "FunctionSourceTask",
    "Partition",
    "SourceFunction",
    "source",
    "source_partition_of",
]

TASK_PARTITIONS: Final = "task.partitions"
_POLL_SECONDS: Final = 1.0
_GIVEN: Final = (PARTITION, CURSOR, "context", "allowed_paths")
"""The parameters that the framework fills; all others are settings."""


class FunctionSourceTask(SourceTask):
    """Reads its partitions one after another. Each function has its own subclass, with ``declared``."""

    declared: ClassVar[SourceFunction]

    def __init__(self) -> None:
        self._rows: PartitionRows | None = None
        self._before: PartitionRows | None = None  # the previous call for the same partition, which raised RetriableException
        self._is_stopped = False
        self._reading = Lock()

    def start(self, config: Config) -> None:
        self._config = config
        self._left: list[Partition] = json.loads(config[TASK_PARTITIONS])

    def poll(self) -> list[Batch] | None:
        """The next batches of the function; empty after a second without rows; None after the last partition."""
        until = time.monotonic() + _POLL_SECONDS
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
                    elif batches or self.context.stopping() or time.monotonic() > until:
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
        if self._reading.acquire(blocking=False):  # otherwise ``poll`` closes the rows
            try:
                self._close()
            finally:
                self._reading.release()

    def declared_for(self, partition: Partition) -> SourceFunction:
        """The function that reads a partition. A subclass may have a function for each partition."""
        return self.declared

    def topic_of(self, partition: Partition) -> str:
        """The topic of a partition's records."""
        topic: str = self._config[TOPIC]
        return topic

    def _partition_rows(self, partition: Partition) -> PartitionRows:
        if self._before is not None:
            reached, schema = self._before.reached, self._before.schema
        else:
            reached, schema = cursor_of(self.context.offset(source_partition_of(partition))), self._row_schema(partition)
        declared, topic = self.declared_for(partition), self.topic_of(partition)
        return PartitionRows(self, declared, self._config, partition, topic=topic, reached=reached, schema=schema)

    def _row_schema(self, partition: Partition) -> SavedSchema:
        """The declared schema, or the schema of earlier runs."""
        source_partition = schema_partition_of(partition)
        fields = (self.context.offset(source_partition) or {}).get(FIELDS)
        remembered = None if fields is None else decode_schema(fields)
        return SavedSchema(source_partition, RowSchema(arrow_schema_of(self.declared_for(partition).schema), remembered=remembered))

    def _begin_again(self, error: RetriableException) -> None:
        """Let the next ``poll`` call the function again, from the cursor of the last returned batch."""
        rows = self._rows
        self._close()
        if rows is not None and rows.has_returned and not rows.declared.has_cursor:
            raise ConnectException(f"{rows.title}: rows without a cursor cannot be resumed after an error: {error}") from error
        self._before = rows or self._before

    def _close(self) -> None:
        rows, self._rows = self._rows, None
        if rows is not None:
            rows.close()


class FunctionSource(SourceConnector):
    """A connector whose tasks call one function. ``@source`` creates a subclass for each function."""

    declared: ClassVar[SourceFunction]
    function: ClassVar[Callable[..., Any]]
    """The author's function, for unit tests."""
    task_class: ClassVar[type[SourceTask]]

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        """Distributes the partitions evenly over the tasks."""
        partitions = self.declared.partition_values(self.config)
        count = min(max_tasks, len(partitions))
        shares = [partitions[number::count] for number in range(count)]
        return [{**self.config.originals, TASK_PARTITIONS: json.dumps(share)} for share in shares]

    def output_topics(self, config: Mapping[str, str]) -> list[str]:
        return [self.config_def.parse(config)[TOPIC]]

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """SUPPORTED with a cursor. Each run reads rows without a cursor again."""
        return ExactlyOnceSupport.SUPPORTED if self.declared.is_exact else ExactlyOnceSupport.UNSUPPORTED

    def has_new_data(self, config: Config, offsets: OffsetReader) -> bool | None:
        """Calls the author's ``has_new_data`` for each partition, until one has new data."""
        check = self.declared.has_new_data
        if check is None:
            return None
        arguments = {**self.declared.signature.arguments(config), "allowed_paths": self.allowed_paths}
        answers: list[bool | None] = []
        for partition in self.declared.partition_values(config):
            reached = reached_of(cursor_of(offsets(source_partition_of(partition))))
            cursor = cursor_argument(check, reached) if CURSOR in parameters_of(check) else {}
            answers.append(call_with(check, {**arguments, **cursor, PARTITION: partition}))
            if answers[-1]:
                return True
        return None if None in answers else False

    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:  # Any: JSON from a user, checked here
        """Refuses partitions and offsets that this source would not write."""
        for partition, offset in offsets.items() if isinstance(offsets, Mapping) else offsets:
            if offset is None:
                continue
            whole = {PARTITION: WHOLE}
            is_fields = isinstance(partition, Mapping) and set(partition) == {SCHEMA}
            if is_fields and self.declared.may_be_partition(partition):
                is_fields = set(offset) == {FIELDS}
            if not is_fields and self.declared.partitions is None and partition != whole:
                raise ConnectException(f"The source partition of this connector is {whole}, got {partition}")
            wanted = FIELDS if is_fields else CURSOR
            if not is_fields and self.declared.overlap is not None and is_overlap(offset):
                continue
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
    overlap: Width | None = None,
    on_null_cursor: NullCursor = "fail",
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
    overlap: Width | None = None,
    on_null_cursor: NullCursor = "fail",
) -> type[FunctionSource] | Callable[[Callable[..., Any]], type[FunctionSource]]:
    """Turn a generator of rows into a source connector. The connector's settings are the function's parameters and ``topic``.

    The framework fills the parameters ``partition``, ``cursor``, ``context`` (the SourceTaskContext) and ``allowed_paths`` (the files that
    it may open), if the function has them. ``cursor`` is the last committed value, or in the first run the parameter's default or None. The
    function yields rows (see ``sdk.rows``), or pairs of rows and the cursor after them. A task calls the function in the task's own thread,
    once per partition and run, and again after a RetriableException.

    ``partitions``: the parts that can be read separately, as strings, numbers or dicts. It may also be a function of settings that returns
    these parts. Each partition has its own cursor. Partitions are distributed over at most ``tasks.max`` tasks. The function needs the
    parameter ``partition``.

    ``cursor``: the field by which rows are sorted within a partition, oldest first. Rows with the same value are delivered together. Rows
    up to the committed value are skipped.

    ``key``: the field or fields of the record's key. ``topic``: the default of the setting ``topic``.

    ``has_new_data``: a function that returns whether a run would find rows, or None if unknown. The parameters of this function are
    settings, ``partition``, ``cursor`` and ``allowed_paths``. It is called in the Airflow task process before each run.

    ``schema``: the fields of the rows, as an Arrow schema or a dataclass. Other fields are left out. Without ``schema``, the schema is
    inferred, can only widen, and is stored among the source offsets.

    ``overlap``: the greatest distance of late rows below the committed cursor: a number, or a timedelta for times. The function gets the
    cursor minus this distance. Each row in this range is delivered once. Needs ``cursor``.

    ``on_null_cursor``: the treatment of rows whose cursor is null. ``"fail"`` fails the task, ``"skip"`` leaves these rows out, with a
    warning, and ``"deliver"`` delivers them each time the function returns them, without moving the cursor. Needs ``cursor``.

    Raises TypeError for contradictory arguments, and for a parameter that cannot be a setting.
    """
    if overlap is not None and cursor is None:
        raise TypeError("overlap= needs cursor=, the field that it applies to")
    refuse_unknown_null_cursor("source", on_null_cursor)
    if on_null_cursor != "fail" and cursor is None:
        raise TypeError("on_null_cursor= needs cursor=, the field that it applies to")

    def declare(author: Callable[..., Any]) -> type[FunctionSource]:
        signature = Signature.of(author, without=_GIVEN)
        settings = [name for name in parameters_of(author) if name not in _GIVEN]
        if partitions is not None and PARTITION not in parameters_of(author):
            raise TypeError(
                f"{author.__qualname__}: a source with partitions= needs a parameter 'partition'; else all partitions have the same rows"
            )
        refuse_unknown(partitions if callable(partitions) else None, settings, "partitions")
        refuse_unknown(has_new_data, [*settings, PARTITION, CURSOR, "allowed_paths"], "has_new_data")
        declared = SourceFunction(author, signature, partitions, cursor, key, has_new_data, schema, overlap, on_null_cursor)
        return _connector_class(author, declared, topic)

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
