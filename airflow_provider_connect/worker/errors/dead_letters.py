"""The dead letter queue of a sink task: records that failed, as they lie in Kafka, with Connect's headers that say why (contract §13.2).

Letters wait until what they were read with is committed, and are written just before: a run that is killed leaves no letter about
records that the next run will read again, but for the moment between the two.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, Producer

from airflow_provider_connect import errors
from airflow_provider_connect.errors import ConnectException, FencedException, RetriableException, StoreException
from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.stores.kafka_errors import translated, translating
from airflow_provider_connect.stores.topic_admin import TopicAdmin, TopicSpec
from airflow_provider_connect.stores.transactional_producer import TransactionalProducer
from airflow_provider_connect.worker.errors.failures import ConsumedRecord, Failure
from airflow_provider_connect.worker.metrics import TaskMetrics

PREFIX: Final = "__connect.errors."
_PARTITIONS = 1
_JAVA_ERRORS: Final = ("ConnectException", "DataException", "NotFoundException", "RetriableException")

HeaderList = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One record for the queue; ``record`` says where it was read."""

    record: ConsumedRecord
    headers: HeaderList


class LetterProducer(Protocol):
    """Takes letters; they are durable when ``send`` returns. ``send`` raises if not a single one of them may be missing."""

    def send(self, topic: str, letters: Sequence[DeadLetter]) -> None: ...


class DeadLetterQueue:
    """The letters of one task. With ``writes_through`` a letter is written at once: what fails the task is in the queue by then, too.
    Not thread-safe."""

    def __init__(
        self,
        topic: str,
        producer: LetterProducer,
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
        """Take a letter, which waits for ``settle`` unless it is written through. The same record twice is one letter."""
        record = failure.record
        assert isinstance(record, ConsumedRecord)
        letter = DeadLetter(record, [*record.headers, *self._headers(failure)])
        if self.writes_through:
            self._through.append(letter)
            if not self._is_gathering:
                self._send_through()
            return
        place = TopicPartition(record.topic, record.partition), record.offset
        if place not in self._waiting:
            self.waiting_bytes += record.num_bytes
        self._waiting[place] = letter

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Letters that would be written at once are written when the ``with`` ends, however it does, all of them in one."""
        self._is_gathering = True
        try:
            yield
        finally:
            self._is_gathering = False
            self._send_through()

    def _send_through(self) -> None:
        letters, self._through = self._through, []
        if letters:
            self._send(letters)

    def settle(self, positions: Mapping[TopicPartition, int]) -> None:
        """Write the letters of all records before ``positions``, by partition and offset; those behind them wait on."""
        due = {place: letter for place, letter in sorted(self._waiting.items(), key=_place) if place[1] < positions.get(place[0], 0)}
        if due:
            self._send(list(due.values()))
        self._waiting = {place: letter for place, letter in self._waiting.items() if place not in due}
        self.waiting_bytes = sum(letter.record.num_bytes for letter in self._waiting.values())

    def _send(self, letters: Sequence[DeadLetter]) -> None:
        self._metrics.dead_letters += len(letters)
        try:
            self._producer.send(self._topic, letters)
        except BaseException:
            self._metrics.dead_letter_failures += len(letters)
            raise


def _place(entry: tuple[tuple[TopicPartition, int], DeadLetter]) -> tuple[TopicPartition, int]:
    return entry[0]


def context_headers(failure: Failure, connector: str, task: int, mask: Callable[[str], str] = str) -> HeaderList:
    """Connect's headers about a failure, in its order. Class names are Java's where Connect has the class, else Python's. ``mask`` takes
    secrets out of what exceptions say."""
    record, operation, error = failure.record, failure.operation, failure.error
    named = {"topic": record.topic, "partition": record.partition, "offset": record.offset} if isinstance(record, ConsumedRecord) else {}
    named |= {
        "connector.name": connector,
        "task.id": task,
        "stage": operation.stage,
        "class.name": operation.class_name,
        "exception.class.name": error_class_name(error),
        "exception.message": mask(str(error)),
        "exception.stacktrace": mask(_stack_trace(error)),
    }
    return [(f"{PREFIX}{name}", str(value).encode("utf-8", "replace")) for name, value in named.items()]


def error_class_name(error: BaseException) -> str:
    """``org.apache.kafka.connect.errors.…`` for the exceptions that Connect has under the same name, else module and class."""
    for kind in type(error).__mro__:
        if kind.__module__ == errors.__name__:
            if kind.__name__ in _JAVA_ERRORS and kind is type(error):
                return f"org.apache.kafka.connect.errors.{kind.__name__}"
            break
    return f"{type(error).__module__}.{type(error).__qualname__}"


def _stack_trace(error: BaseException) -> str:
    """The exception and its causes as Java prints them; Python's own form reads and parses source files, which takes a millisecond."""
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
    """Make the queue's topic, of one partition, where there is none."""
    try:
        if topic not in admin.partitions([topic]):
            admin.create(TopicSpec(topic, _PARTITIONS, replication_factor))
    except ConnectException as error:
        kind = RetriableException if error.retriable else StoreException
        hint = "" if error.retriable else "; it is made with errors.deadletterqueue.topic.replication.factor replicas"
        raise kind(f"Could not initialize dead letter queue with topic={topic}: {error}{hint}") from error


class FencedLetters:
    """Letters in transactions of the task's own id: what was fenced by a newer claim writes none. ``owner`` gives who has the id now."""

    def __init__(self, owner: Callable[[], TransactionalProducer], timeout_seconds: float) -> None:
        self._owner = owner
        self._timeout = timeout_seconds

    def send(self, topic: str, letters: Sequence[DeadLetter]) -> None:
        owner = self._owner()
        try:
            owner.begin()
            _write(owner.producer, topic, letters, self._timeout)
            owner.commit()
        except FencedException:
            raise
        except ConnectException:
            with contextlib.suppress(ConnectException):
                owner.abort()
            raise


class PlainLetters:
    """Letters by a producer of their own, for a queue on another cluster, or written as somebody else, than the group's offsets are."""

    def __init__(self, producer: Producer, timeout_seconds: float) -> None:
        self._producer = producer
        self._timeout = timeout_seconds

    def send(self, topic: str, letters: Sequence[DeadLetter]) -> None:
        _write(self._producer, topic, letters, self._timeout)


def _write(producer: Producer, topic: str, letters: Sequence[DeadLetter], timeout_seconds: float) -> None:
    """Produce the letters and wait until they are acknowledged."""
    refusals: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            refusals.append(error)

    with translating(f"writing to the dead letter queue {topic}", producer):
        for letter in letters:
            record = letter.record
            options: dict[str, Any] = {} if record.timestamp is None else {"timestamp": record.timestamp}  # Any: produce's arguments
            if letter.headers:
                options["headers"] = letter.headers
            producer.produce(topic, record.value, record.key, on_delivery=delivered, **options)
        left = producer.flush(timeout_seconds)
    if refusals:
        found = translated(refusals[0], f"writing to the dead letter queue {topic}")
        raise found if found.retriable else StoreException(f"The dead letter queue {topic} refused a record: {found}")
    if left:
        raise RetriableException(f"{left} records did not arrive in the dead letter queue {topic} within {timeout_seconds:g} s")
