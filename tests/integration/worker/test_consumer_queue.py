"""Records by pointers of librdkafka and by confluent-kafka's objects, from a real broker: both ways return the same columns."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.worker.delivery.kafka_reader import READER_SETTINGS, KafkaReader
from airflow_provider_connect.runtime.worker.delivery.librdkafka import Librdkafka, load_librdkafka
from airflow_provider_connect.runtime.worker.delivery.raw_batch import RawBatch
from tests import raw_headers
from tests.conftest import CHECKOUT
from tests.kafka_topics import create_topic
from tests.waiting import HANG_SECONDS

ALL = frozenset({"key", "headers", "timestamp"})
SIZES = (0, 1, 7, 11, 12, 13, 100, 5_000)
Ranges = dict[TopicPartition, tuple[int, int]]


@contextmanager
def reader_of(bootstrap: str, ranges: Ranges, columns: frozenset[str] = ALL, *, library: Librdkafka | None) -> Iterator[KafkaReader]:
    settings = {**READER_SETTINGS, "bootstrap.servers": bootstrap, "group.id": "columns", "isolation.level": "read_committed"}
    with closing(Consumer(settings)) as consumer, closing(KafkaReader(consumer, ranges, columns, library=library)) as reader:
        yield reader


def rows_of(raw: RawBatch) -> Iterator[tuple[Any, ...]]:
    columns = [None if column is None else column.to_pylist() for column in (raw.key, raw.value, raw.headers, raw.timestamp)]
    for index, offset in enumerate(raw.offset_column().to_pylist()):
        key, value, headers, timestamp = (None if column is None else column[index] for column in columns)
        found = [] if raw.headers is None else headers
        yield raw.partition, offset, key, value, found, timestamp, raw.timestamp_type


def everything(bootstrap: str, ranges: Ranges, columns: frozenset[str] = ALL, *, library: Librdkafka | None) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    with reader_of(bootstrap, ranges, columns, library=library) as reader:
        deadline = time.monotonic() + HANG_SECONDS
        while not reader.exhausted:
            assert time.monotonic() < deadline, reader.positions
            found += [row for raw in reader.read(1.0) for row in rows_of(raw)]
    return sorted(found, key=lambda row: row[:2])


@pytest.fixture
def both(bootstrap: str) -> Callable[..., list[tuple[Any, ...]]]:
    """Reads ranges both ways, and returns what both have found."""

    def read(ranges: Ranges, columns: frozenset[str] = ALL) -> list[tuple[Any, ...]]:
        library = load_librdkafka()
        assert library is not None, "this release of confluent-kafka is not known: check the structures, then add it to KNOWN"
        found = everything(bootstrap, ranges, columns, library=library)
        assert everything(bootstrap, ranges, columns, library=None) == found
        return found

    return read


def sized(chance: random.Random, *, nulls: bool = True) -> bytes | None:
    return None if nulls and chance.random() < 0.15 else chance.randbytes(chance.choice(SIZES))


def headers_at(chance: random.Random) -> list[tuple[str, str | bytes | None]]:
    names = ("", "a", "Ünïcode", "name" * 40)
    return [(chance.choice(names), sized(chance)) for _ in range(chance.choice((0, 0, 0, 1, 2, 9)))]


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_any_keys_values_headers_and_timestamps(both: Callable[..., Any], bootstrap: str, unique: str, compression: str) -> None:
    chance = random.Random(20)
    topics = [f"{unique}-a", f"{unique}-b"]
    for topic in topics:
        create_topic(bootstrap, topic, partitions=2)
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": compression, "linger.ms": 50})
    sent: dict[TopicPartition, list[tuple[Any, ...]]] = {TopicPartition(topic, number): [] for topic in topics for number in (0, 1)}
    for number in range(3_000):
        partition = chance.choice(list(sent))
        key, value, headers, stamp = sized(chance), sized(chance), headers_at(chance), 1_700_000_000_000 + number
        producer.produce(partition.topic, value, key, partition.partition, timestamp=stamp, headers=headers)
        sent[partition].append((key, value, [{"key": name, "value": each} for name, each in headers], stamp))
        producer.poll(0)
    assert producer.flush(HANG_SECONDS) == 0
    found = both({partition: (0, len(rows)) for partition, rows in sent.items()})
    expected = [(partition, offset, *row, "CreateTime") for partition, rows in sent.items() for offset, row in enumerate(rows)]
    assert found == sorted(expected, key=lambda row: row[:2])
    first, rows = next(iter(sent.items()))
    some = both({first: (5, 17)}, frozenset())
    assert [row[1:4] for row in some] == [(offset, None, rows[offset][1]) for offset in range(5, 17)]
    assert all((row[4], row[5]) == ([], None) for row in some)


def test_offsets_have_gaps_where_transactions_end(both: Callable[..., Any], bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique})
    producer.init_transactions()
    for number in range(60):
        producer.begin_transaction()
        for part in range(number % 4):
            producer.produce(unique, f"{number}.{part}")
        (producer.abort_transaction if number % 5 == 0 else producer.commit_transaction)()
    found = both({TopicPartition(unique, 0): (0, 10_000)})  # the end of the partition ends the read
    assert [row[3].decode() for row in found] == [f"{number}.{part}" for number in range(60) if number % 5 for part in range(number % 4)]
    assert len({row[1] for row in found}) == len(found) < found[-1][1]


def test_a_topic_of_the_brokers_own_timestamps(both: Callable[..., Any], bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique, message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    send_all(bootstrap, unique, [b"one", b"two"])
    found = both({TopicPartition(unique, 0): (0, 2)})
    assert [(row[3], row[6]) for row in found] == [(b"one", "LogAppendTime"), (b"two", "LogAppendTime")]
    assert all(before <= row[5] <= time.time() * 1000 for row in found)


def test_headers_whose_name_is_not_utf8_are_null(both: Callable[..., Any], bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique)
    for number, names in enumerate(([b"fine"], [b"fine", raw_headers.NOT_UTF_8], [], [b"fine"])):
        raw_headers.produce(bootstrap, unique, b"%d" % number, [(name, b"x") for name in names])
    found = both({TopicPartition(unique, 0): (0, 4)})
    fine = [{"key": "fine", "value": b"x"}]
    assert [row[4] for row in found] == [fine, None, [], fine]


def test_a_reader_that_is_closed_early_leaves_nothing_that_the_consumers_end_waits_for(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique)
    send_all(bootstrap, unique, (b"%d" % number for number in range(20_000)))
    started = time.monotonic()
    with reader_of(bootstrap, {TopicPartition(unique, 0): (0, 20_000)}, library=load_librdkafka()) as reader:
        assert sum(raw.num_records for raw in reader.read(HANG_SECONDS)) < 20_000
    assert time.monotonic() - started < HANG_SECONDS
    with pytest.raises(ValueError, match="closed"):
        reader.read(1.0)


def send_all(bootstrap: str, topic: str, values: Iterable[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(HANG_SECONDS) == 0


@pytest.mark.parametrize("way", ["direct", "objects"])
def test_a_topic_that_is_deleted_while_it_is_read_does_not_end_the_process(bootstrap: str, unique: str, way: str) -> None:
    """librdkafka puts an error among the records then, and calls a callback."""
    create_topic(bootstrap, unique)
    send_all(bootstrap, unique, [b"one"])
    command = [sys.executable, "-m", "tests.integration.worker.reads_a_deleted_topic", bootstrap, unique, way]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search("^(heard|raised) .*(UNKNOWN_TOPIC_OR_PART|UNKNOWN_PARTITION|UNKNOWN_TOPIC|nknown topic)", done.stdout, re.MULTILINE), (
        done
    )
