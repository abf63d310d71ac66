"""A failed record: its stage, its class, and the messages about it in Kafka Connect's words (contract §13.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from airflow_provider_connect.data.java_text import NULL, text_of
from airflow_provider_connect.data.records import SourceRecord
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import ConnectException, message_of, trace_of

SINK_TASK = "org.apache.kafka.connect.sink.SinkTask"
SOURCE_TASK = "org.apache.kafka.connect.runtime.WorkerSourceTask"


class RetriedByNextRunException(ConnectException):
    """Ends the task. The cause is retriable, but not in this run: some records of the ``put`` were already accepted."""

    retriable = True


class ErrorStage(StrEnum):
    """The stages in which a single record can fail."""

    TASK_POLL = "TASK_POLL"
    TASK_PUT = "TASK_PUT"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"


@dataclass(frozen=True, slots=True)
class Operation:
    """One step of a task's work, and the public name of the class that performs it. ``number`` distinguishes two steps of one class."""

    stage: ErrorStage
    class_name: str
    number: int = 0


PUT = Operation(ErrorStage.TASK_PUT, SINK_TASK)


class FailedRecord(Protocol):
    """The record of a failure. ``description`` names it without its contents. ``str`` includes the contents, for logs that may contain
    messages."""

    def description(self) -> str: ...

    def __str__(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    """A sink's record as Kafka stores it. ``timestamp`` is in ms. None: the record has no timestamp, or it was not read."""

    topic: str
    partition: int
    offset: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: int | None = None
    timestamp_type: str = "CreateTime"

    @property
    def num_bytes(self) -> int:
        return len(self.key or b"") + len(self.value or b"") + sum(len(key) + len(value or b"") for key, value in self.headers)

    def description(self) -> str:
        return f"offset {self.offset} of {self.topic}-{self.partition}"

    def __str__(self) -> str:
        time = "" if self.timestamp is None else f", timestamp={self.timestamp}, timestampType={self.timestamp_type}"
        return f", where consumed record is {{topic='{self.topic}', partition={self.partition}, offset={self.offset}{time}}}"


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """A source's record. Created only when its text is needed."""

    topic: str
    make: Callable[[], SourceRecord]

    def description(self) -> str:
        return f"a record for topic {self.topic}"

    def __str__(self) -> str:
        try:
            return f", where source record is = {_source_text(self.make())}"
        except Exception as error:  # the fault of the record may also prevent its formatting
            return f", where source record is one for topic {self.topic} that cannot be shown: {error}"


@dataclass(frozen=True, slots=True)
class UnreadRecord:
    """A record that its source could not read. The exception contains the record's position."""

    task: str

    def description(self) -> str:
        return f"a record that {self.task} could not read"

    def __str__(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class Failure:
    """One record, the operation, and the exception."""

    operation: Operation
    error: Exception
    record: FailedRecord

    def text(self, *, with_record: bool) -> str:
        """Connect's sentence about the failure. ``with_record`` adds the position of a consumed record, or the whole record of a source."""
        record = str(self.record) if with_record else ""
        return f"Executing stage '{self.operation.stage}' with class '{self.operation.class_name}'{record}."

    def summary(self) -> str:
        """Stage, record and message in one line. It may contain secrets."""
        message = " ".join(message_of(self.error).split())
        return f"{self.operation.stage} of {self.record.description()}: {type(self.error).__name__}: {message}"

    def trace(self) -> str:
        """Class and message of the exception, then Python's trace."""
        return trace_of(self.error)


def unread(task: str, error: Exception) -> Failure:
    """The failure of a record that the source task of this public name could not read."""
    return Failure(Operation(ErrorStage.TASK_POLL, task), error, UnreadRecord(task))


def _source_text(record: SourceRecord) -> str:
    """``SourceRecord.toString``."""
    key, value = text_of(record.key, record.key_schema), text_of(record.value, record.value_schema)
    schemas = [_schema_text(schema) for schema in (record.key_schema, record.value_schema)]
    partition, timestamp = (NULL if number is None else str(number) for number in (record.kafka_partition, record.timestamp))
    headers = ", ".join(f"ConnectHeader(key={h.key}, value={text_of(h.value, h.schema)})" for h in record.headers)
    return (
        f"SourceRecord{{sourcePartition={text_of(record.source_partition, None)}, sourceOffset={text_of(record.source_offset, None)}}} "
        f"ConnectRecord{{topic='{record.topic}', kafkaPartition={partition}, key={key}, keySchema={schemas[0]}, "
        f"value={value}, valueSchema={schemas[1]}, timestamp={timestamp}, headers=ConnectHeaders(headers=[{headers}])}}"
    )


def _schema_text(schema: Schema | None) -> str:
    """``ConnectSchema.toString``."""
    if schema is None:
        return NULL
    return f"Schema{{{f'{schema.name}:' if schema.name else ''}{schema.type.name}}}"
