"""The dead letter queue of a sink task: failed records as Kafka stores them, with Connect's headers about the failure (contract §13.2).

Dead-letter records are written just before the commit of the records that were read with them. So if a run is killed, the next run reads no
record again that already has a dead-letter record. The exception is a run that is killed between the two writes.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final, Protocol

from airflow_provider_connect import errors
from airflow_provider_connect.codecs.dead_letters import PREFIX
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConnectException, RetriableException, StoreException
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin, TopicSpec
from airflow_provider_connect.runtime.worker.errors.failures import ConsumedRecord, Failure
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics

_PARTITIONS = 1
_JAVA_ERRORS: Final = ("ConnectException", "DataException", "NotFoundException", "RetriableException")

HeaderList = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One record for the queue. ``record`` has the position at which it was read."""

    record: ConsumedRecord
    headers: HeaderList


class DeadLetterProducer(Protocol):
    """``send`` returns when all records are durable, and raises if one is missing."""

    def send(self, topic: str, dead_letters: Sequence[DeadLetter]) -> None: ...


class DeadLetterQueue:
    """The dead-letter records of one task. ``writes_through``: each is written immediately, so that the queue also contains the record that
    fails the task. Not thread-safe."""

    def __init__(
        self,
        topic: str,
        producer: DeadLetterProducer,
        *,
        headers: Callable[[Failure], HeaderList],
        metrics: TaskMetrics,
        writes_through: bool = False,
    ) -> None:
        self._topic = topic
        self._producer = producer
        self._headers = headers
        self._metrics = metrics
        self._waiting: dict[tuple[TopicPartition, int], DeadLetter] = {}
        self._through: list[DeadLetter] = []
        self._is_gathering = False
        self.waiting_bytes = 0
        self.writes_through = writes_through

    def add(self, failure: Failure) -> None:
        """Add a record. If not ``writes_through``, ``write_due`` writes it later. A record that is added twice is written once."""
        record = failure.record
        assert isinstance(record, ConsumedRecord)
        dead_letter = DeadLetter(record, [*record.headers, *self._headers(failure)])
        if self.writes_through:
            self._through.append(dead_letter)
            if not self._is_gathering:
                self._send_through()
            return
        position = TopicPartition(record.topic, record.partition), record.offset
        if position not in self._waiting:
            self.waiting_bytes += record.num_bytes
        self._waiting[position] = dead_letter

    @contextlib.contextmanager
    def write_together(self) -> Iterator[None]:
        """Within the ``with`` block, collect the records that would otherwise be written immediately. Write them together at the end of the
        block, even if it raises."""
        self._is_gathering = True
        try:
            yield
        finally:
            self._is_gathering = False
            self._send_through()

    def _send_through(self) -> None:
        dead_letters, self._through = self._through, []
        if dead_letters:
            self._send(dead_letters)

    def write_due(self, positions: Mapping[TopicPartition, int]) -> None:
        """Write the dead-letter records of all records before ``positions``, ordered by partition and offset. Keep later dead-letter
        records."""
        due = {
            position: dead_letter
            for position, dead_letter in sorted(self._waiting.items(), key=_position)
            if position[1] < positions.get(position[0], 0)
        }
        if due:
            self._send(list(due.values()))
        self._waiting = {position: dead_letter for position, dead_letter in self._waiting.items() if position not in due}
        self.waiting_bytes = sum(dead_letter.record.num_bytes for dead_letter in self._waiting.values())

    def _send(self, dead_letters: Sequence[DeadLetter]) -> None:
        self._metrics.dead_letters += len(dead_letters)
        try:
            self._producer.send(self._topic, dead_letters)
        except BaseException:
            self._metrics.dead_letter_failures += len(dead_letters)
            raise


def _position(entry: tuple[tuple[TopicPartition, int], DeadLetter]) -> tuple[TopicPartition, int]:
    return entry[0]


def context_headers(failure: Failure, connector: str, task: int, mask: Callable[[str], str] = str) -> HeaderList:
    """Connect's headers about a failure, in Connect's order. Class names are Java's if Connect has the class, else Python's. ``mask`` masks
    secrets in the messages of exceptions."""
    record, operation, error = failure.record, failure.operation, failure.error
    named = {"topic": record.topic, "partition": record.partition, "offset": record.offset} if isinstance(record, ConsumedRecord) else {}
    named |= {
        "connector.name": connector,
        "task.id": task,
        "stage": operation.stage,
        "class.name": operation.class_name,
        "exception.class.name": error_class_name(error),
        "exception.message": mask(str(error)) or None,
        "exception.stacktrace": mask(_stack_trace(error)),
    }
    texts = {name: None if value is None else str(value).encode("utf-8", "replace") for name, value in named.items()}
    return [(f"{PREFIX}{name}", text) for name, text in texts.items()]


def error_class_name(error: BaseException) -> str:
    """``org.apache.kafka.connect.errors.…`` for exceptions that Connect has under the same name, else module and class."""
    for kind in type(error).__mro__:
        if kind.__module__ == errors.__name__:
            if kind.__name__ in _JAVA_ERRORS and kind is type(error):
                return f"org.apache.kafka.connect.errors.{kind.__name__}"
            break
    return f"{type(error).__module__}.{type(error).__qualname__}"


def _stack_trace(error: BaseException) -> str:
    """The exception and its causes as Java prints them. Python's own form reads and parses source files, which takes a millisecond."""
    lines: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        lines.append(f"{'Caused by: ' if lines else ''}{error_class_name(cause)}: {cause}")
        frames = [(frame.f_globals.get("__name__"), frame.f_code, line) for frame, line in traceback.walk_tb(cause.__traceback__)]
        for module, code, line in reversed(frames):
            lines.append(f"\tat {module}.{code.co_qualname}({PurePath(code.co_filename).name}:{line})")
        cause = cause.__cause__
    return "\n".join(lines) + "\n"


def ensure_topic(admin: TopicAdmin, topic: str, replication_factor: int) -> None:
    """Create the queue's topic, with one partition, if it does not exist."""
    try:
        if topic not in admin.partitions([topic]):
            admin.create(TopicSpec(topic, _PARTITIONS, replication_factor))
    except ConnectException as error:
        kind = RetriableException if error.retriable else StoreException
        key = "errors.deadletterqueue.topic.replication.factor"
        hint = "" if error.retriable else f"; {key} is {replication_factor}, and -1 takes the brokers' default"
        raise kind(f"Could not initialize dead letter queue with topic={topic}: {error}{hint}") from error
