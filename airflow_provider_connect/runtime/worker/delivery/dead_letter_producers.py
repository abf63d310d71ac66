"""Writes dead-letter records, in transactions of the task's own id or with a separate producer. Error texts are shortened if the topic
refuses the record."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from confluent_kafka import KafkaError, Producer

from airflow_provider_connect.codecs.dead_letters import PREFIX
from airflow_provider_connect.errors import ConnectException, FencedException, RetriableException, StoreException
from airflow_provider_connect.runtime.stores.kafka_errors import kafka_error, translated, translating
from airflow_provider_connect.runtime.stores.transactional_producer import TransactionalProducer
from airflow_provider_connect.runtime.worker.delivery.record_limits import RECORD_HEAD, TOPIC_KEY, RecordLimits, size_of
from airflow_provider_connect.runtime.worker.errors.dead_letters import DeadLetter

_SHORTENED: Final = (f"{PREFIX}exception.stacktrace", f"{PREFIX}exception.message")
_MARK: Final = " … (shortened)".encode()


class FencedDeadLetterProducer:
    """Writes records in transactions of the task's own id, so a task that a newer claim has fenced writes nothing. ``owner`` returns the
    producer that owns the id now."""

    def __init__(self, owner: Callable[[], TransactionalProducer], limits: RecordLimits, timeout_seconds: float) -> None:
        self._owner = owner
        self._limits = limits
        self._timeout = timeout_seconds

    def send(self, topic: str, dead_letters: Sequence[DeadLetter]) -> None:
        owner = self._owner()
        try:
            owner.begin()
            _write(owner.producer, topic, dead_letters, self._limits, self._timeout)
            owner.commit()
        except FencedException:
            raise
        except ConnectException:
            with contextlib.suppress(ConnectException):
                owner.abort()
            raise


class PlainDeadLetterProducer:
    """A separate producer, for a queue on another cluster than the group's offsets, or for a queue that is written as another user."""

    def __init__(self, producer: Producer, limits: RecordLimits, timeout_seconds: float) -> None:
        self._producer = producer
        self._limits = limits
        self._timeout = timeout_seconds

    def send(self, topic: str, dead_letters: Sequence[DeadLetter]) -> None:
        _write(self._producer, topic, dead_letters, self._limits, self._timeout)


def _write(producer: Producer, topic: str, dead_letters: Sequence[DeadLetter], limits: RecordLimits, timeout_seconds: float) -> None:
    """Produce the records and wait for acknowledgements. At most as many records are in flight as the topic accepts in one batch."""
    room = limits.room(topic)
    for group in _groups([_within(dead_letter, room) for dead_letter in dead_letters], limits.batch_room(topic)):
        _write_group(producer, topic, group, limits, timeout_seconds)


def _groups(dead_letters: Sequence[DeadLetter], most: int | None) -> Iterator[list[DeadLetter]]:
    group: list[DeadLetter] = []
    size = 0
    for dead_letter in dead_letters:
        own = _size(dead_letter) + RECORD_HEAD
        if group and most is not None and size + own > most:
            yield group
            group, size = [], 0
        group.append(dead_letter)
        size += own
    yield group


def _write_group(producer: Producer, topic: str, dead_letters: Sequence[DeadLetter], limits: RecordLimits, timeout_seconds: float) -> None:
    refusals: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            refusals.append(error)

    try:
        with translating(f"writing to the dead letter queue {topic}", producer):
            for dead_letter in dead_letters:
                record = dead_letter.record
                options: dict[str, Any] = (
                    {} if record.timestamp is None else {"timestamp": record.timestamp or 1}
                )  # the client treats 0 as no timestamp. Any: produce's arguments
                if dead_letter.headers:
                    options["headers"] = dead_letter.headers
                producer.produce(topic, record.value, record.key, on_delivery=delivered, **options)
            left = producer.flush(timeout_seconds)
    except StoreException as error:
        refusal = None if error.__cause__ is None else kafka_error(error.__cause__)
        raise error if refusal is None else _refused(topic, refusal, dead_letters, limits) from error
    if refusals:
        raise _refused(topic, refusals[0], dead_letters, limits)
    if left:
        raise RetriableException(f"{left} records did not arrive in the dead letter queue {topic} within {timeout_seconds:g} s")


def _refused(topic: str, refusal: KafkaError, dead_letters: Sequence[DeadLetter], limits: RecordLimits) -> ConnectException:
    if refusal.code() != KafkaError.MSG_SIZE_TOO_LARGE:
        found = translated(refusal, f"writing to the dead letter queue {topic}")
        return found if found.retriable else StoreException(f"The dead letter queue {topic} refused a record: {found}")
    largest = max(dead_letters, key=_size)
    known = limits.topic_bytes(topic)
    takes = "less" if known is None else f"{known} in a batch"
    return StoreException(
        f"The dead letter queue {topic} refused a record: {largest.record.description()} has {_size(largest)} bytes with its headers, and "
        f"the queue takes {takes}. Raise {TOPIC_KEY} of topic {topic} above what that of topic {largest.record.topic} is"
    )


def _size(dead_letter: DeadLetter) -> int:
    return size_of(dead_letter.record.key, dead_letter.record.value, dead_letter.headers)


def _within(dead_letter: DeadLetter, room: int | None) -> DeadLetter:
    """The record, with its error texts shortened so that it has at most ``room`` bytes, if possible. ``room`` None: no limit."""
    for name in _SHORTENED:
        excess = 0 if room is None else _size(dead_letter) - room
        if excess <= 0:
            break
        headers = [(key, _shorter(text, excess) if key == name else text) for key, text in dead_letter.headers]
        dead_letter = replace(dead_letter, headers=headers)
    return dead_letter


def _shorter(text: bytes | None, excess: int) -> bytes | None:
    if text is None or len(text) <= len(_MARK):
        return text
    return text[: max(0, len(text) - excess - len(_MARK))].decode("utf-8", "ignore").encode() + _MARK
