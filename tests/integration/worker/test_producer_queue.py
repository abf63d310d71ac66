"""Columns that go straight into librdkafka's queue arrive as they would by way of Python."""

import logging
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.errors import ConnectException, DataException, FencedException, StoreException
from airflow_provider_connect.runtime.stores.kafka_errors import TopicMissingException
from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord, TransactionalProducer, take_over
from airflow_provider_connect.runtime.worker.delivery.encoded_batch import EncodedBatch
from airflow_provider_connect.runtime.worker.delivery.kafka_writer import KafkaWriter
from airflow_provider_connect.runtime.worker.delivery.librdkafka import load_librdkafka
from airflow_provider_connect.runtime.worker.delivery.producer_queue import ProducerQueue
from airflow_provider_connect.runtime.worker.delivery.raw_batch import HEADERS_TYPE
from tests.kafka_topics import create_topic
from tests.waiting import HANG_SECONDS


@pytest.fixture
def topic(bootstrap: str, unique: str) -> str:
    create_topic(bootstrap, unique, 3)
    return unique


@pytest.fixture
def producer(bootstrap: str) -> Iterator[Producer]:
    made = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "enable.gapless.guarantee": True, "partitioner": "murmur2_random"}
    )
    yield made
    made.close()


def native(producer: Producer) -> ProducerQueue:
    queue = ProducerQueue.open(producer, load_librdkafka(), reads_reports=True)
    assert queue is not None, "the pinned release of confluent-kafka must be a known one"
    return queue


def records(bootstrap: str, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "native", "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(3)])
    found, left = [], 3
    while left:
        message = consumer.poll(HANG_SECONDS)
        assert message is not None
        if message.error():
            left -= 1
        else:
            found.append((message.partition(), message.key(), message.value()))
    consumer.close()
    return found  # type: ignore[return-value]


VALUES = [b"a", None, b"", b"\x00\xff", b"x" * 5000, b"end"]
KEYS = [None, b"k1", b"k2", b"", b"k1", b"k5"]


def test_nulls_empties_and_keys_arrive_as_by_way_of_python(bootstrap: str, topic: str, producer: Producer) -> None:
    value, key = pa.array(VALUES, pa.binary()), pa.array(KEYS, pa.binary())
    batch = EncodedBatch(topic, len(VALUES), value, key)
    by_native = KafkaWriter(producer, native=native(producer))
    by_native.write(batch)
    by_native.flush(HANG_SECONDS)
    by_columns = records(bootstrap, topic)
    KafkaWriter(producer).write(batch)
    producer.flush(HANG_SECONDS)
    by_python = list(records(bootstrap, topic))
    for found in by_columns:
        by_python.remove(found)
    with_key = [found for found in by_columns if found[1]]
    assert sorted(with_key, key=str) == sorted((found for found in by_python if found[1]), key=str)  # the partitions, too
    assert sorted(map(str, (value for _, _, value in by_columns))) == sorted(map(str, VALUES))


def test_slices_and_forced_partitions_keep_their_order(bootstrap: str, topic: str, producer: Producer) -> None:
    column = pa.array([b"%05d" % number for number in range(30_000)], pa.binary())
    writer = KafkaWriter(producer, native=native(producer))
    for start in range(0, 30_000, 7_001):
        piece = column.slice(start, 7_001)
        writer.write(EncodedBatch(topic, len(piece), piece, kafka_partition=1))
    writer.flush(HANG_SECONDS)
    found = records(bootstrap, topic)
    assert {partition for partition, _, _ in found} == {1}
    assert [value for _, _, value in found] == column.to_pylist()


def test_a_column_of_nulls_is_tombstones(bootstrap: str, topic: str, producer: Producer) -> None:
    writer = KafkaWriter(producer, native=native(producer))
    writer.write(EncodedBatch(topic, 2, None, pa.array([b"a", b"b"], pa.binary())))
    writer.flush(HANG_SECONDS)
    assert sorted((key, value) for _, key, value in records(bootstrap, topic)) == [(b"a", None), (b"b", None)]


def test_a_record_that_is_too_large_is_refused(topic: str, producer: Producer) -> None:
    with pytest.raises(KafkaException) as refused:
        native(producer).put(topic, None, pa.array([b"ok", b"x" * 2_000_000], pa.binary()), None, 2)
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_record_that_the_broker_refuses_ends_the_client(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique, max_message_bytes="1000")
    quiet = {"log_level": 0, "logger": _quiet_logger(), "error_cb": lambda _: None}
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "enable.gapless.guarantee": True, **quiet})
    writer = KafkaWriter(producer, native=native(producer))
    with pytest.raises(Exception, match=r"(?i)gapless|too large|fatal|fenced|refused"):  # noqa: PT012  (by the write or by the flush)
        writer.write(EncodedBatch(unique, 1, pa.array([b"x" * 100_000], pa.binary())))
        writer.flush(HANG_SECONDS)
    producer.close()


def test_a_partition_that_is_not_there_is_refused(topic: str, producer: Producer) -> None:
    """The queue itself would take its records, and give them up when it learns of the topic's partitions."""
    with pytest.raises(StoreException, match=r"Invalid partition given with record: 77 is not in the range \[0...\d+\) of topic"):
        KafkaWriter(producer, native=native(producer)).write(EncodedBatch(topic, 1, pa.array([b"a"], pa.binary()), kafka_partition=77))


def test_records_of_a_topic_deleted_meanwhile_fail_the_flush(bootstrap: str, topic: str, producer: Producer) -> None:
    """The broker creates it again, with fewer partitions: what is written to the others is dropped by the client."""
    writer = KafkaWriter(producer, native=native(producer))
    writer.write(EncodedBatch(topic, 1, pa.array([b"before"], pa.binary())))
    writer.flush(HANG_SECONDS)
    _delete(bootstrap, topic)
    with pytest.raises(TopicMissingException, match=r"_UNKNOWN_(PARTITION|TOPIC)"):
        _write_on(writer, topic, 2)


def test_a_transaction_with_records_of_a_topic_deleted_meanwhile_is_not_committed(bootstrap: str, topic: str) -> None:
    """Records of a partition that is there again are taken: the broker knows no topic's former life."""
    names = {"bootstrap.servers": bootstrap, "transactional.id": topic, "allow.auto.create.topics": False}  # the test creates it
    producer = Producer({**names, "logger": _quiet_logger()})
    owner = TransactionalProducer(producer, timeout_seconds=HANG_SECONDS)
    owner.take_over()
    owner.begin()
    writer = KafkaWriter(producer, native=ProducerQueue.open(producer, load_librdkafka()))
    writer.write(EncodedBatch(topic, 1, pa.array([b"before"], pa.binary()), kafka_partition=2))
    _delete(bootstrap, topic)
    create_topic(bootstrap, topic, 1)
    with pytest.raises(ConnectException, match=r"_UNKNOWN_PARTITION|_INCONSISTENT"):  # noqa: PT012  (by a write, the flush or the commit)
        _write_on(writer, topic, 2)
        owner.commit()


def _delete(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(HANG_SECONDS)


def _write_on(writer: KafkaWriter, topic: str, partition: int) -> None:
    column = pa.array([b"%03d" % number for number in range(300)], pa.binary())
    deadline = time.monotonic() + HANG_SECONDS
    while time.monotonic() < deadline:
        writer.write(EncodedBatch(topic, len(column), column, kafka_partition=partition))
        time.sleep(0.1)
    writer.flush(HANG_SECONDS)


def test_records_with_timestamps_or_headers_follow_those_of_the_native_queue(bootstrap: str, topic: str, producer: Producer) -> None:
    writer = KafkaWriter(producer, native=native(producer))
    value = pa.array([b"%05d" % number for number in range(12_000)], pa.binary())
    headers = pa.array([[{"key": "k", "value": b"v"}]] * 2_000, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    writer.write(EncodedBatch(topic, 5_000, value.slice(0, 5_000), kafka_partition=1))
    stamps = pa.array([1_700_000_000_000] * 5_000, pa.int64())
    writer.write(EncodedBatch(topic, 5_000, value.slice(5_000, 5_000), timestamp=stamps, kafka_partition=1))
    writer.write(EncodedBatch(topic, 2_000, value.slice(10_000), headers=headers, kafka_partition=1))
    writer.flush(HANG_SECONDS)
    assert [found for _, _, found in records(bootstrap, topic)] == value.to_pylist()


HEADERS: list[list[tuple[str, bytes | None]] | None] = [
    [],
    [("one", b"1")],
    [("twice", b"a"), ("twice", b""), ("none", None)],
    None,
    [("Grüße", b"\x00\xff"), ("", b"no name")],
    [(f"h{number}", b"%d" % number) for number in range(300)],
]


@pytest.mark.parametrize("reads_reports", [False, True])
def test_headers_and_timestamps_arrive_as_by_way_of_python(bootstrap: str, topic: str, reads_reports: bool) -> None:
    names = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "enable.gapless.guarantee": True}
    fast, slow = (Producer(names) for _ in range(2))
    headers = pa.array([row if row is None else [{"key": k, "value": v} for k, v in row] for row in HEADERS], HEADERS_TYPE)
    now = int(time.time() * 1000)  # the broker deletes older records
    stamps = pa.array([now - number * 1_000 for number in range(6)], pa.int64())
    columns = {"value": pa.array(VALUES, pa.binary()), "key": pa.array(KEYS, pa.binary()), "timestamp": stamps}
    for given in ({**columns, "headers": headers}, columns, {"value": columns["value"], "headers": headers.slice(0, 6)}):
        batch = EncodedBatch(topic, len(VALUES), **given, kafka_partition=0)
        by_native = KafkaWriter(fast, native=ProducerQueue.open(fast, load_librdkafka(), reads_reports=reads_reports))
        by_native.write(batch)
        by_native.write(batch.slice(2, 3))  # columns that begin within their buffers
        by_native.flush(HANG_SECONDS)
        KafkaWriter(slow).write(EncodedBatch(topic, batch.num_records, **given, kafka_partition=1))
        KafkaWriter(slow).write(EncodedBatch(topic, batch.num_records, **given, kafka_partition=1).slice(2, 3))
        assert slow.flush(HANG_SECONDS) == 0
    found = {number: whole_records(bootstrap, TopicPartition(topic, number)) for number in (0, 1)}
    assert [record[:3] for record in found[0]] == [record[:3] for record in found[1]]
    assert [record[3] for record in found[0][:18]] == [record[3] for record in found[1][:18]]  # of the rest it is the time of writing
    assert found[0][2][2] == [("twice", b"a"), ("twice", b""), ("none", None)]


def whole_records(bootstrap: str, partition: TopicPartition) -> list[tuple[object, ...]]:
    """Key, value, headers and timestamp of every record."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "native", "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(partition.topic, partition.partition, 0)])
    found: list[tuple[object, ...]] = []
    while (message := consumer.poll(HANG_SECONDS)) is not None and not message.error():
        found.append((message.key(), message.value(), message.headers() or [], message.timestamp()[1]))
    consumer.close()
    return found


def test_a_header_with_a_zero_byte_is_refused_by_name(topic: str, producer: Producer) -> None:
    headers = pa.array([[{"key": "a\0b", "value": b""}]], HEADERS_TYPE)
    with pytest.raises(DataException, match="zero byte"):
        native(producer).put(topic, 0, None, None, 1, headers=headers)


@pytest.mark.parametrize(
    "kind", [pa.binary(3), pa.binary_view(), pa.string_view(), pa.large_binary(), pa.string(), pa.large_string()], ids=str
)
def test_values_and_keys_of_any_layout_arrive(bootstrap: str, topic: str, producer: Producer, kind: pa.DataType) -> None:
    """A cast makes new buffers, which must live until the client has copied them; views and fixed sizes have no offsets to read."""
    texts = [f"{number % 1000:03d}" for number in range(20_000)]
    column = pa.array(texts if "string" in str(kind) else [text.encode() for text in texts], kind)
    batch = EncodedBatch(topic, len(texts), column, column, kafka_partition=2)
    assert batch.num_bytes == 2 * 3 * len(texts)
    writer = KafkaWriter(producer, native=native(producer))
    writer.write(batch)
    writer.flush(HANG_SECONDS)
    assert records(bootstrap, topic) == [(2, text.encode(), text.encode()) for text in texts]


def test_the_queue_itself_keeps_what_a_cast_made(bootstrap: str, topic: str, producer: Producer) -> None:
    column = pa.array([b"%06d" % number for number in range(90_000)], pa.binary(6))
    queue = native(producer)
    queue.put(topic, 0, column, column, len(column))
    assert queue.drain(60) == 0
    assert [value for _, _, value in records(bootstrap, topic)] == column.to_pylist()


def _quiet_logger() -> object:
    logger = logging.getLogger("tests.native")
    logger.setLevel(logging.CRITICAL + 1)
    return logger


@pytest.mark.parametrize("by", ["native", "python", "offsets"])
def test_a_fenced_producer_reports_fenced_whichever_call_finds_it_out(bootstrap: str, topic: str, by: str) -> None:
    """librdkafka ends a client as soon as a broker refuses one of its records; queueing the next one reports only that it has ended."""
    older, newer = (Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "linger.ms": 0}) for _ in range(2))
    owner = TransactionalProducer(older, timeout_seconds=HANG_SECONDS)
    owner.take_over()
    owner.begin()
    writer = KafkaWriter(older, native=ProducerQueue.open(older, load_librdkafka()) if by == "native" else None)
    batch = EncodedBatch(topic, 1, pa.array([b"value"], pa.binary()))
    writer.write(batch)
    writer.flush(HANG_SECONDS)
    take_over(newer, HANG_SECONDS)
    deadline = time.monotonic() + HANG_SECONDS

    def send_on() -> None:
        while time.monotonic() < deadline:
            owner.send([ProducerRecord(topic, 0, b"key", b"value")]) if by == "offsets" else writer.write(batch)
            time.sleep(0.01)

    with pytest.raises(FencedException):
        send_on()
    with pytest.raises(FencedException):
        owner.commit()
