"""In which order each guarantee makes things durable, seen from the producer."""

from collections.abc import Iterable, Sequence
from types import SimpleNamespace

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord, TransactionalProducer
from airflow_provider_connect.runtime.worker.delivery.encoded_batch import EncodedBatch
from airflow_provider_connect.runtime.worker.delivery.kafka_writer import KafkaWriter
from airflow_provider_connect.runtime.worker.delivery.source_delivery import (
    AtLeastOnce,
    AtMostOnce,
    ExactlyOnce,
    SourceOffset,
)
from airflow_provider_connect.runtime.worker.delivery.transaction_boundary import IntervalBoundary, PollBoundary, RequestedBoundary
from tests.waiting import HANG_SECONDS


class Journal:
    """A producer that writes down its calls, and acknowledges everything at once."""

    def __init__(self, calls: list[str], name: str) -> None:
        self._calls, self._name = calls, name

    def __len__(self) -> int:
        return 0

    def __getattr__(self, call: str) -> object:
        def note(*args: object, **_: object) -> object:
            if call == "poll":
                return 0
            if call == "list_topics":  # every topic is there
                return SimpleNamespace(topics={args[0]: SimpleNamespace(partitions={0: None}, error=None)})
            what = f"{self._name}.{call}"
            if call == "produce_batch":
                what += f" {len(args[1])}"  # type: ignore[arg-type]
            if call == "produce":
                what += f" {args[0]}"
            self._calls.append(what)
            return len(args[1]) if call == "produce_batch" else 0  # type: ignore[arg-type]

        return note


@pytest.fixture
def calls() -> list[str]:
    return []


def encode(offsets: Iterable[SourceOffset]) -> Sequence[ProducerRecord]:
    return [ProducerRecord("offsets", 0, b"k", b"v") for _ in offsets]


BATCH = EncodedBatch("t", 3, pa.array([b"a", b"b", b"c"], pa.binary()))
OFFSET: SourceOffset = ({"f": "a"}, {"position": 3})


def owner(calls: list[str]) -> TransactionalProducer:
    return TransactionalProducer(Journal(calls, "owner"), timeout_seconds=HANG_SECONDS)  # type: ignore[arg-type]


def writer(calls: list[str], name: str) -> KafkaWriter:
    return KafkaWriter(Journal(calls, name))  # type: ignore[arg-type]


def test_exactly_once_has_records_and_offsets_in_one_transaction(calls: list[str]) -> None:
    delivery = ExactlyOnce(owner(calls), writer(calls, "owner"), encode, boundary=PollBoundary(0, lambda: 0.0), flush_seconds=1)
    delivery.deliver([BATCH], [OFFSET])
    assert delivery.is_due()
    assert delivery.commit()
    assert calls == ["owner.begin_transaction", "owner.produce_batch 3", "owner.produce offsets", "owner.commit_transaction"]


def test_exactly_once_joins_polls_that_come_within_the_linger_and_writes_the_last_offset_only(calls: list[str]) -> None:
    clock = iter([0.0, 0.1, 0.3])
    delivery = ExactlyOnce(owner(calls), writer(calls, "owner"), encode, boundary=PollBoundary(0.2, lambda: next(clock)), flush_seconds=1)
    delivery.deliver([BATCH], [OFFSET])
    assert not delivery.is_due()
    delivery.deliver([BATCH], [({"f": "a"}, {"position": 6})])
    assert delivery.is_due()
    delivery.commit()
    assert calls.count("owner.begin_transaction") == calls.count("owner.produce offsets") == calls.count("owner.commit_transaction") == 1


def test_nothing_read_commits_nothing(calls: list[str]) -> None:
    delivery = ExactlyOnce(owner(calls), writer(calls, "owner"), encode, boundary=PollBoundary(0, lambda: 0.0), flush_seconds=1)
    assert not delivery.is_due()
    assert not delivery.commit()
    assert calls == []


def test_exactly_once_by_interval_counts_from_the_commit_before(calls: list[str]) -> None:
    clock = iter([0.0, 0.5, 1.0, 1.2, 1.9])
    delivery = ExactlyOnce(
        owner(calls), writer(calls, "owner"), encode, boundary=IntervalBoundary(1.0, lambda: next(clock)), flush_seconds=1
    )
    delivery.deliver([BATCH], [OFFSET])
    assert not delivery.is_due()
    delivery.deliver([BATCH], [OFFSET])
    assert delivery.is_due()
    delivery.commit()
    delivery.deliver([BATCH], [OFFSET])
    assert not delivery.is_due()


def test_dropped_records_leave_their_offsets_to_the_next_commit_or_take_them_along(calls: list[str]) -> None:
    delivery = ExactlyOnce(owner(calls), writer(calls, "owner"), encode, boundary=RequestedBoundary(), flush_seconds=1)
    delivery.deliver([BATCH], [OFFSET])
    assert delivery.drop(with_offsets=False)
    assert delivery.commit()
    assert calls[2:] == [
        "owner.flush",
        "owner.abort_transaction",
        "owner.begin_transaction",
        "owner.produce offsets",
        "owner.commit_transaction",
    ]
    assert not delivery.drop(with_offsets=False), "there is no transaction"
    delivery.deliver([BATCH], [OFFSET])
    assert delivery.drop(with_offsets=True)
    assert not delivery.commit()


def test_at_least_once_acknowledges_records_before_their_offsets(calls: list[str]) -> None:
    delivery = AtLeastOnce(owner(calls), writer(calls, "data"), encode, interval_seconds=60, flush_seconds=1, now=lambda: 0.0)
    delivery.deliver([BATCH], [OFFSET])
    assert not delivery.is_due()
    assert delivery.commit()
    assert calls == ["data.produce_batch 3", "data.flush", "owner.begin_transaction", "owner.produce offsets", "owner.commit_transaction"]


def test_at_most_once_commits_offsets_before_their_records(calls: list[str]) -> None:
    delivery = AtMostOnce(owner(calls), writer(calls, "data"), encode, flush_seconds=1)
    delivery.deliver([BATCH], [OFFSET])
    assert calls == ["owner.begin_transaction", "owner.produce offsets", "owner.commit_transaction", "data.produce_batch 3"]


@pytest.mark.parametrize("guarantee", ["at least once", "at most once"])
def test_a_batch_log_that_does_not_answer_fails_no_run_whose_records_are_delivered(calls: list[str], guarantee: str) -> None:
    """A bulk read has no offsets: it would be written again by a retry."""

    class Silent(Journal):
        def __getattr__(self, call: str) -> object:
            if call == "commit_transaction":
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            return super().__getattr__(call)

    silent = TransactionalProducer(Silent(calls, "owner"), timeout_seconds=HANG_SECONDS)  # type: ignore[arg-type]
    closing = [ProducerRecord("batches", 0, b"k", b"v")]
    if guarantee == "at most once":
        AtMostOnce(silent, writer(calls, "data"), encode, flush_seconds=1).commit(closing)
    else:
        delivery = AtLeastOnce(silent, writer(calls, "data"), encode, interval_seconds=60, flush_seconds=1, now=lambda: 0.0)
        delivery.deliver([BATCH], [])
        assert delivery.commit(closing)
        delivery.deliver([BATCH], [OFFSET])
        with pytest.raises(RetriableException):
            delivery.commit(closing)
    assert "owner.abort_transaction" in calls
