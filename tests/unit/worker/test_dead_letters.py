"""Dead-letter records wait for the commit of what they were read with; their headers are Connect's."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import DataException, RetriableException, SchemaException
from airflow_provider_connect.runtime.worker.errors.dead_letters import DeadLetter, DeadLetterQueue, context_headers, error_class_name
from airflow_provider_connect.runtime.worker.errors.failures import ConsumedRecord, ErrorStage, Failure, Operation
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics

JSON = Operation(ErrorStage.VALUE_CONVERTER, "org.apache.kafka.connect.json.JsonConverter")


class Written:
    """A producer that keeps what it is sent, or refuses it."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, ...]] = []
        self.refuses = False

    def send(self, topic: str, dead_letters: Sequence[DeadLetter]) -> None:
        if self.refuses:
            raise RetriableException(f"{topic} is away")
        self.sent.append(tuple(dead_letter.record.offset for dead_letter in dead_letters))


def failure(offset: int, partition: int = 0, error: Exception | None = None) -> Failure:
    return Failure(JSON, error or DataException("bad"), ConsumedRecord("t", partition, offset, b"k", b"v", [("own", b"1")]))


def queue(written: Written, **more: bool) -> tuple[DeadLetterQueue, TaskMetrics]:
    metrics = TaskMetrics(is_source=False)
    return DeadLetterQueue("dlq", written, headers=lambda _: [("why", b"x")], metrics=metrics, **more), metrics


def test_letters_wait_until_their_records_are_committed() -> None:
    written = Written()
    waiting, metrics = queue(written)
    for offset, partition in ((5, 0), (9, 0), (2, 1)):
        waiting.add(failure(offset, partition))
    waiting.add(failure(5))  # reported twice, as after a put that was tried again
    assert written.sent == []
    waiting.write_due({TopicPartition("t", 0): 9, TopicPartition("t", 1): 0})
    waiting.write_due({TopicPartition("t", 0): 10, TopicPartition("t", 1): 3})
    waiting.write_due({TopicPartition("t", 0): 10, TopicPartition("t", 1): 3})
    assert written.sent == [(5,), (9, 2)]
    assert (waiting.waiting_bytes, metrics.dead_letters, metrics.dead_letter_failures) == (0, 3, 0)


def test_letter_that_cannot_wait_is_written_at_once() -> None:
    written = Written()
    waiting, _ = queue(written, writes_through=True)
    waiting.add(failure(5))
    assert written.sent == [(5,)]


def test_letters_that_do_not_arrive_are_an_error_and_wait_on() -> None:
    written = Written()
    waiting, metrics = queue(written)
    waiting.add(failure(5))
    written.refuses = True
    with pytest.raises(RetriableException):
        waiting.write_due({TopicPartition("t", 0): 6})
    assert (metrics.dead_letters, metrics.dead_letter_failures) == (1, 1)
    written.refuses = False
    waiting.write_due({TopicPartition("t", 0): 6})
    assert written.sent == [(5,)]


def test_headers_are_connects_in_its_order() -> None:
    found = context_headers(
        failure(7, error=DataException("no JSON: pässword")), "c", 3, mask=lambda text: text.replace("pässword", "[hidden]")
    )
    assert [name for name, _ in found] == [
        f"__connect.errors.{name}"
        for name in (
            "topic",
            "partition",
            "offset",
            "connector.name",
            "task.id",
            "stage",
            "class.name",
            "exception.class.name",
            "exception.message",
            "exception.stacktrace",
        )
    ]
    assert [value for _, value in found[:9]] == [
        b"t",
        b"0",
        b"7",
        b"c",
        b"3",
        b"VALUE_CONVERTER",
        b"org.apache.kafka.connect.json.JsonConverter",
        b"org.apache.kafka.connect.errors.DataException",
        b"no JSON: [hidden]",
    ]
    assert found[9][1] is not None
    assert found[9][1].startswith(b"org.apache.kafka.connect.errors.DataException: no JSON: [hidden]\n")


def test_an_exception_without_a_message_has_none() -> None:
    headers = dict(context_headers(failure(7, error=ValueError()), "c", 3))
    assert headers["__connect.errors.exception.message"] is None
    assert (headers["__connect.errors.exception.stacktrace"] or b"").startswith(b"builtins.ValueError")


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (RetriableException("x"), "org.apache.kafka.connect.errors.RetriableException"),
        (SchemaException("x"), "airflow_provider_connect.errors.SchemaException"),
        (KeyError("x"), "builtins.KeyError"),
    ],
)
def test_exceptions_that_connect_does_not_have_keep_their_name(error: Exception, name: str) -> None:
    assert error_class_name(error) == name


def test_report_names_the_record_only_where_messages_may_be_shown() -> None:
    reported = Failure(JSON, DataException("bad"), ConsumedRecord("t", 0, 7, b"secret", b"secret", timestamp=12))
    head = "Executing stage 'VALUE_CONVERTER' with class 'org.apache.kafka.connect.json.JsonConverter'"
    assert reported.text(with_record=False) == f"{head}."
    location = "{topic='t', partition=0, offset=7, timestamp=12, timestampType=CreateTime}"
    assert reported.text(with_record=True) == f"{head}, where consumed record is {location}."
