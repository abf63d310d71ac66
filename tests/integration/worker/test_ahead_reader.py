"""Reading ahead while the records before are worked on, on a real broker."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.worker.delivery.kafka_reader import (
    BATCH_BYTES,
    BATCH_RECORDS,
    FORCED_SETTINGS,
    READER_SETTINGS,
    AheadReader,
    KafkaReader,
)
from airflow_provider_connect.runtime.worker.delivery.librdkafka import load_librdkafka
from airflow_provider_connect.runtime.worker.delivery.raw_batch import RawBatch
from tests.integration.worker.environment import make_topic, send
from tests.kafka_topics import create_topic
from tests.waiting import HANG_SECONDS

RECORDS = 3 * BATCH_RECORDS


@pytest.fixture
def partitions(bootstrap: str, unique: str) -> list[TopicPartition]:
    """Two, each with ``RECORDS`` records that hold their number."""
    make_topic(bootstrap, unique, partitions=2)
    send(bootstrap, unique, [str(number // 2) for number in range(2 * RECORDS)], partitions=2)
    return [TopicPartition(unique, 0), TopicPartition(unique, 1)]


@pytest.fixture
def consumer(bootstrap: str, unique: str) -> Iterator[Consumer]:
    consumer = Consumer({**READER_SETTINGS, "bootstrap.servers": bootstrap, "group.id": unique})
    yield consumer
    consumer.close()


def ahead(consumer: Consumer, partitions: list[TopicPartition], records: int = RECORDS) -> AheadReader:
    return AheadReader(KafkaReader(consumer, dict.fromkeys(partitions, (0, records)), frozenset(), library=load_librdkafka()))


def numbers(raw: RawBatch) -> list[int]:
    return [int(value) for value in raw.value.to_pylist()]


def test_everything_comes_once_and_positions_are_of_what_was_handed_out(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    seen: dict[TopicPartition, list[int]] = {partition: [] for partition in partitions}
    with ahead(consumer, partitions) as reader:
        while not reader.exhausted:
            for raw in reader.read(HANG_SECONDS):
                seen[raw.partition] += numbers(raw)
            assert reader.positions == {partition: len(found) for partition, found in seen.items()}
    assert all(found == list(range(RECORDS)) for found in seen.values())


Read = Callable[..., KafkaReader]
"""Takes the ranges, and where the reader reports how many offsets are gone."""


@pytest.fixture(params=["direct", "objects"])
def strict(request: pytest.FixtureRequest, bootstrap: str, unique: str) -> Iterator[Read]:
    """Opens a reader on a consumer as runs have it, whatever their settings ask for."""
    library = load_librdkafka() if request.param == "direct" else None
    given = {"bootstrap.servers": bootstrap, "group.id": unique, "auto.offset.reset": "latest"}
    with closing(Consumer({**READER_SETTINGS, **given, **FORCED_SETTINGS})) as consumer:
        yield lambda ranges, on_lost=repr: KafkaReader(consumer, ranges, frozenset(), library=library, on_lost=on_lost)


@pytest.fixture
def few(bootstrap: str, unique: str) -> list[TopicPartition]:
    """Two, each with 100 records that hold their number."""
    make_topic(bootstrap, unique, partitions=2)
    send(bootstrap, unique, [str(number // 2) for number in range(200)], partitions=2)
    return [TopicPartition(unique, 0), TopicPartition(unique, 1)]


@pytest.mark.parametrize("end", [20, 100])
def test_records_that_expire_before_they_are_read_are_named(
    strict: Read,
    bootstrap: str,
    few: list[TopicPartition],
    caplog: pytest.LogCaptureFixture,
    end: int,
) -> None:
    """The range was chosen before retention removed its beginning."""
    first, other = few
    admin = AdminClient({"bootstrap.servers": bootstrap})  # kept until the answer is there
    admin.delete_records([ClientPartition(*first, 50)])[ClientPartition(*first, 50)].result(HANG_SECONDS)
    seen: dict[TopicPartition, list[int]] = {partition: [] for partition in few}
    lost: list[int] = []
    with closing(strict({first: (5, end), other: (0, 10)}, lost.append)) as reader:
        while not reader.exhausted:
            for raw in reader.read(HANG_SECONDS):
                seen[raw.partition] += numbers(raw)
        assert reader.positions == {first: end, other: 10}
    assert seen == {first: list(range(50, end)), other: list(range(10))}
    count = min(50, end) - 5
    assert f"{count} offsets of {first}, 5 to {count + 4}, are gone, and were not delivered" in caplog.text
    assert lost == [count]


def test_a_partition_that_ends_before_its_position_fails(strict: Read, few: list[TopicPartition]) -> None:
    """A topic that was created anew: nothing of it may count as what was to be read."""
    with closing(strict({few[0]: (200, 300)})) as reader:
        text = f"Offset 200 is after the end of {few[0]}, 100: the topic lost records"
        with pytest.raises(ConnectException, match=text):
            reader.read(HANG_SECONDS)


def test_a_seek_takes_back_what_was_read_ahead(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    first = partitions[0]
    with ahead(consumer, partitions) as reader:
        counts = positions(reader.read(HANG_SECONDS))
        reader.seek(first, 5)
        assert reader.positions[first] == 5
        counts = Counter((partition, number) for partition, number in counts if partition != first or number < 5)
        while not reader.exhausted:
            counts += positions(reader.read(HANG_SECONDS))
    missing = {(first, number) for number in range(5)} - counts.keys()
    assert counts == everything(partitions) - Counter(missing)


def test_nothing_of_a_partition_that_is_held_comes_until_it_is_let_go(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    held, other = partitions
    with ahead(consumer, partitions) as reader:
        counts = positions(reader.read(HANG_SECONDS))
        before = reader.positions[held]
        reader.hold(frozenset([held]))
        while not reader.exhausted:
            raws = reader.read(HANG_SECONDS)
            assert {raw.partition for raw in raws} <= {other}
            counts += positions(raws)
        assert reader.positions == {held: before, other: RECORDS}
        reader.hold(frozenset())
        while not reader.exhausted:
            counts += positions(reader.read(HANG_SECONDS))
    assert counts == everything(partitions)


def everything(partitions: list[TopicPartition]) -> Counter[tuple[TopicPartition, int]]:
    return Counter((partition, number) for partition in partitions for number in range(RECORDS))


def positions(raws: list[RawBatch]) -> Counter[tuple[TopicPartition, int]]:
    return Counter((raw.partition, number) for raw in raws for number in numbers(raw))


def test_batches_are_bounded_by_bytes_too(bootstrap: str, unique: str) -> None:
    """600 records of 200 kB, small ones before and behind them, and some just below 1 MiB: 150 MB, of which each read gives a part."""
    sizes = [10] * 2_000 + [200_000] * 600 + [1_000_000] * 20 + [10] * 2_000
    create_topic(bootstrap, unique)
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 1_048_576, "compression.type": "lz4", "linger.ms": 5})
    for number, size in enumerate(sizes):
        producer.produce(unique, b"%06d" % number + b"x" * (size - 6))
        if number % 100 == 0:
            producer.flush()
    assert producer.flush(HANG_SECONDS) == 0
    consumer = Consumer({**READER_SETTINGS, "bootstrap.servers": bootstrap, "group.id": unique})
    seen: list[int] = []
    with ahead(consumer, [TopicPartition(unique, 0)], len(sizes)) as reader:
        while not reader.exhausted:
            raws = reader.read(HANG_SECONDS)
            assert sum(raw.num_bytes for raw in raws) < 2 * BATCH_BYTES, "what sizes change to is known only when it is read"
            seen += [int(value[:6]) for raw in raws for value in raw.value.to_pylist()]
    consumer.close()
    assert seen == list(range(len(sizes)))
