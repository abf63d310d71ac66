"""The newest records of one writer, with markers of transactions and other writers' records between them."""

import weakref
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from airflow_provider_connect.errors import NotFoundException, StoreTimeoutException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.stores.last_records import RecordSearch
from airflow_provider_connect.runtime.stores.log_consumer import LogRecord
from tests.integration.stores.conftest import Produce
from tests.kafka_topics import create_topic, settle
from tests.waiting import HANG_SECONDS

CLOCK_SECONDS = 1000.0  # of the test's own clock, for each record

OWN, OTHER = b"own", b"other"


class Kept:
    """What a search keeps of a record; may be referred to weakly."""

    def __init__(self, text: str) -> None:
        self.text = text


@pytest.fixture
def queue(bootstrap: str, unique: str) -> Callable[..., str]:
    return lambda partitions=1: create_topic(bootstrap, f"queue-{unique}", partitions)


def own(record: LogRecord) -> bool:
    return record.key == OWN


def text(record: LogRecord) -> str:
    return (record.value or b"").decode()


def numbered(key: bytes, numbers: range) -> list[tuple[bytes | None, bytes | None]]:
    return [(key, str(number).encode()) for number in numbers]


def test_each_record_in_a_transaction_of_its_own_and_aborted_ones_between(
    settings: WorkerSettings, queue: Callable[..., str], unique: str
) -> None:
    topic = queue()
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers, "transactional.id": unique})
    producer.init_transactions(HANG_SECONDS)
    for number in range(6):
        for end in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            producer.produce(topic, f"{number}".encode(), OWN, 0)
            producer.flush(HANG_SECONDS)
            end(60)
    settle(settings.bootstrap_servers, topic)
    found = RecordSearch(5, own, text).run(settings, topic)
    assert (found.kept, found.is_whole) == (["1", "2", "3", "4", "5"], True)


def test_a_busy_neighbour_does_not_push_records_out(settings: WorkerSettings, queue: Callable[..., str], produce: Produce) -> None:
    topic = queue(2)
    produce(topic, numbered(OWN, range(3)), 0)
    produce(topic, numbered(OTHER, range(1000)), 0)
    produce(topic, numbered(OWN, range(3, 5)), 1)
    produce(topic, numbered(OTHER, range(1000)), 1)
    assert RecordSearch(10, own, text).run(settings, topic).kept == ["0", "1", "2", "3", "4"]
    assert RecordSearch(4, own, text).run(settings, topic).kept == ["1", "2", "3", "4"]


def test_a_partition_is_read_back_over_so_many_offsets_and_no_more(
    settings: WorkerSettings, queue: Callable[..., str], produce: Produce
) -> None:
    topic = queue()
    produce(topic, numbered(OWN, range(2)), 0)
    produce(topic, numbered(OTHER, range(99)), 0)
    assert RecordSearch(10, own, text, most_offsets=100).run(settings, topic).kept == ["1"]
    assert RecordSearch(10, own, text, most_offsets=99).run(settings, topic).kept == []


def test_no_more_than_the_newest_are_kept_while_reading(settings: WorkerSettings, queue: Callable[..., str], produce: Produce) -> None:
    topic, kept = queue(3), weakref.WeakSet[Kept]()
    for partition in range(3):
        produce(topic, numbered(OWN, range(partition * 10, partition * 10 + 10)), partition)
    most = 0

    def keep(record: LogRecord) -> Kept:
        nonlocal most
        most = max(most, len(kept))
        kept.add(made := Kept(text(record)))
        return made

    found = RecordSearch(2, own, keep).run(settings, topic)
    assert [each.text for each in found.kept] == ["28", "29"]
    assert most == 2


def test_what_was_found_when_the_time_was_over_is_returned(settings: WorkerSettings, queue: Callable[..., str], produce: Produce) -> None:
    topic, clock = queue(), [0.0]
    produce(topic, numbered(OWN, range(2)), 0)
    produce(topic, numbered(OTHER, range(4)), 0)
    produce(topic, numbered(OWN, range(2, 3)), 0)

    def pass_time(record: LogRecord) -> bool:
        clock[0] += CLOCK_SECONDS
        return own(record)

    found = RecordSearch(2, pass_time, text, now=lambda: clock[0]).run(settings, topic, timeout_seconds=CLOCK_SECONDS / 2)
    assert (found.kept, found.is_whole) == (["2"], False)
    with pytest.raises(StoreTimeoutException):
        RecordSearch(2, own, text).run(settings, topic, timeout_seconds=0.0)


def test_a_topic_that_is_not_there(settings: WorkerSettings, unique: str) -> None:
    with pytest.raises(NotFoundException, match="does not exist yet: no record has failed, or the sink could not create it"):
        RecordSearch(2, own, text).run(settings, f"none-{unique}")
