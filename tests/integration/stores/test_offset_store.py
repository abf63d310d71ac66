import threading
import tracemalloc
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import StoreException, StoreTimeoutException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.ids import partition_for
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.stores import offset_store
from airflow_provider_connect.runtime.stores.batch_log import BatchLog
from airflow_provider_connect.runtime.stores.offset_store import OffsetStore, ProducedOffset
from tests.integration.stores.conftest import Produce
from tests.kafka_topics import settle
from tests.waiting import HANG_SECONDS, wait_until

FILE, OTHER = {"filename": "/a"}, {"filename": "/b"}


@pytest.fixture
def task(settings: WorkerSettings) -> Iterator[Producer]:
    """A task's transactional producer, whose transactions last as long as a broker allows."""
    names = {"bootstrap.servers": settings.bootstrap_servers, "transactional.id": f"{settings.group_id}-c-0"}
    producer = Producer({**names, "partitioner": "murmur2_random", "transaction.timeout.ms": 900_000})
    producer.init_transactions(HANG_SECONDS)
    yield producer
    producer.purge()


def _send(producer: Producer, topic: str, records: list[ProducedOffset]) -> None:
    for partition, key, value in records:
        producer.produce(topic, value, key, partition)
    producer.flush(HANG_SECONDS)


def _commit(producer: Producer, topic: str, records: list[ProducedOffset]) -> None:
    producer.begin_transaction()
    _send(producer, topic, records)
    producer.commit_transaction(HANG_SECONDS)


def _abort(producer: Producer, topic: str, records: list[ProducedOffset]) -> None:
    producer.begin_transaction()
    _send(producer, topic, records)
    producer.abort_transaction(HANG_SECONDS)


def _as_a_worker_without_exactly_once_reads(settings: WorkerSettings) -> dict[bytes | None, bytes | None]:
    consumer = Consumer(
        {
            "bootstrap.servers": settings.bootstrap_servers,
            "group.id": "x",
            "isolation.level": "read_uncommitted",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    from confluent_kafka import TopicPartition as KafkaPartition

    consumer.assign([KafkaPartition(settings.offset_topic, partition, 0) for partition in range(5)])
    found: dict[bytes | None, bytes | None] = {}
    ends = 0
    while ends < 5:
        message = consumer.poll(HANG_SECONDS)
        assert message is not None
        if message.error() is not None:
            ends += 1
        else:
            found[message.key()] = message.value()
    consumer.close()
    return found


def test_offsets_are_read_as_connect_wrote_them(settings: WorkerSettings, produce: Produce) -> None:
    produce(
        settings.offset_topic,
        [
            (b'["c",{"filename":"/a"}]', b'{"position":3}'),
            (b'["c",{"filename":"/b"}]', b'{"position":9}'),
            (b'["c",{"filename":"/b"}]', None),
            (b'["other",{"filename":"/a"}]', b'{"position":5}'),
            (b'["c",{"filename":"/a"}]', b'{"position":4}'),
            (b'["c", {"filename": "/spaced"}]', b'{"position":4}'),
        ],
    )
    with OffsetStore(settings) as store:
        offsets = store.read("c")
        assert offsets.get(FILE) == {"position": 4}
        assert offsets.get(OTHER) is None
        assert ({"filename": "/spaced"}, None) in offsets.pairs()
        assert store.records("c", [(FILE, {"position": 5})]) == [
            ProducedOffset(partition_for(b'["c",{"filename":"/a"}]', 5), b'["c",{"filename":"/a"}]', b'{"position":5}')
        ]


def test_bad_records_do_not_stop_the_reader(settings: WorkerSettings, produce: Produce) -> None:
    produce(
        settings.offset_topic,
        [
            (b"\xff", b"{}"),
            (b'["c"]', b"{}"),
            (b'["c",{"filename":"/a"}]', b"no json"),
            (b'["c",7]', b"{}"),
            (b'["c",{"filename":"/b"}]', b'{"position":1}'),
        ],
    )
    with OffsetStore(settings) as store:
        assert store.read("c").partitions() == [OTHER]
        assert store.read("c").get(OTHER) == {"position": 1}
        assert store.skipped.count == 2  # those of no connector are not even decoded


@pytest.mark.soak
def test_nothing_is_kept_of_what_others_have_on_a_topic(settings: WorkerSettings, produce: Produce) -> None:
    """A config may name any topic for its offsets, and the server of all connectors reads it: it held all of it in memory."""
    value = b"x" * 1000
    produce(settings.offset_topic, [(b'["other",{"n":%d}]' % number, value) for number in range(20_000)])
    produce(settings.offset_topic, [(b'["c",{"filename":"/a"}]', b'{"position":3}')])
    with OffsetStore(settings) as store:
        tracemalloc.start()
        try:
            assert store.read("c").get(FILE) == {"position": 3}
            assert store.repair("c") == []
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert most < 12_000_000  # of twenty-seven
        assert len(store.read("other").by_key) == 0  # no JSON
        assert store.read("c").get(FILE) == {"position": 3}


def test_more_offsets_than_a_process_bears_are_refused(settings: WorkerSettings, produce: Produce, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_store, "MOST_BYTES", 1 << 20)
    produce(settings.offset_topic, [(b'["c",{"n":1}]', b'{"p":%d}' % number) for number in range(5000)])  # replaced each time
    with OffsetStore(settings) as store:
        assert store.read("c").get({"n": 1}) == {"p": 4999}
    produce(settings.offset_topic, [(b'["c",{"n":%d}]' % number, b'{"p":1}') for number in range(5000)])
    with (
        OffsetStore(settings) as store,
        pytest.raises(StoreException, match=r"Connector c has more than 1 MiB of offsets on topic .* Reset"),
    ):
        store.read("c")


def test_aborted_offsets_are_not_seen_and_are_written_over(settings: WorkerSettings, task: Producer) -> None:
    with OffsetStore(settings) as store:
        topic = store.topic
        _commit(task, topic, store.records("c", [(FILE, {"position": 10})]))
        _abort(task, topic, store.records("c", [(FILE, {"position": 1010}), (OTHER, {"position": 7})]))
        offsets = store.read("c")
        assert offsets.get(FILE) == {"position": 10}
        assert offsets.get(OTHER) is None
        keys = [record.key for record in store.records("c", [(FILE, None), (OTHER, None)])]
        believed = _as_a_worker_without_exactly_once_reads(settings)
        assert [believed[key] for key in keys] == [b'{"position":1010}', b'{"position":7}']

        again = store.repair("c")
        assert sorted(again) == sorted(
            [
                ProducedOffset(partition_for(keys[0], 5), keys[0], b'{"position":10}'),
                ProducedOffset(partition_for(keys[1], 5), keys[1], None),
            ]
        )
        assert store.repair("other") == []
        _commit(task, topic, again)
        believed = _as_a_worker_without_exactly_once_reads(settings)
        assert [believed[key] for key in keys] == [b'{"position":10}', None]
        assert store.repair("c") == []
        assert store.read("c").get(FILE) == {"position": 10}


def test_other_connectors_open_transaction_is_not_waited_for(settings: WorkerSettings, task: Producer) -> None:
    with OffsetStore(settings, timeout_seconds=HANG_SECONDS) as store:
        everywhere = [({"n": str(number)}, {"position": number}) for number in range(50)]
        task.begin_transaction()
        _send(task, store.topic, store.records("frozen", everywhere))  # open in every partition
        mine = Producer({"bootstrap.servers": settings.bootstrap_servers, "transactional.id": f"{settings.group_id}-d-0"})
        mine.init_transactions(HANG_SECONDS)
        assert store.read("d").partitions() == []  # it would fail if it waited: the transaction lasts longer than its limit
        task.abort_transaction(HANG_SECONDS)


def test_own_record_that_an_open_transaction_hides_is_waited_for(settings: WorkerSettings, task: Producer) -> None:
    with OffsetStore(settings, timeout_seconds=HANG_SECONDS) as store, OffsetStore(settings, settle_seconds=1.0) as hasty:
        task.begin_transaction()
        _send(task, store.topic, store.records("frozen", [({"n": str(number)}, {"position": number}) for number in range(50)]))
        mine = Producer({"bootstrap.servers": settings.bootstrap_servers, "transactional.id": f"{settings.group_id}-d-0"})
        mine.init_transactions(HANG_SECONDS)
        _commit(mine, store.topic, store.records("d", [(FILE, {"position": 3})]))  # committed, but hidden by the open one before it
        with pytest.raises(StoreTimeoutException, match="open transaction"):
            hasty.read("d")
        timer = threading.Timer(1, lambda: task.abort_transaction(HANG_SECONDS))
        timer.start()
        assert store.read("d").get(FILE) == {"position": 3}
        timer.join()


def test_batch_log_is_read_back(settings: WorkerSettings, task: Producer) -> None:
    positions = {"t": {"0": 5, "1": 7}}
    claim = Claim(3, "topic")
    entry = BatchLog.record(
        settings,
        connector="c",
        task=0,
        run="r",
        claim=claim,
        is_source=False,
        records=2,
        size=10,
        ranges={"t": {"0": [3, 5]}},
        positions=positions,
    )
    task.begin_transaction()
    task.produce(settings.batch_topic, entry[2], entry[1], entry[0])
    task.produce(settings.batch_topic, b"no json", b'["c",9]', 0)
    task.commit_transaction(HANG_SECONDS)
    settle(settings.bootstrap_servers, settings.batch_topic)
    with BatchLog(settings) as store:
        assert store.last("c") == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 7}
        assert store.entries("c")[0].ranges == {"t": {0: (3, 5)}}
        assert store.last("other") == {}
        assert store.skipped.count == 1
        tombstone = BatchLog.reset(settings, "c", 0)
        task.begin_transaction()
        task.produce(settings.batch_topic, tombstone[2], tombstone[1], tombstone[0])
        task.commit_transaction(HANG_SECONDS)
        wait_until(lambda: store.last("c") == {})
