"""``python -m tests.integration.worker.reads_a_deleted_topic SERVERS TOPIC WAY``: reads a topic, deletes it after its first records, and
prints the errors that it gets until they name the topic as unknown. WAY is ``direct`` or ``objects``."""

from __future__ import annotations

import sys
import time

from confluent_kafka import Consumer, KafkaError
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.worker.delivery.kafka_reader import ENDLESS, READER_SETTINGS, KafkaReader
from airflow_provider_connect.runtime.worker.delivery.librdkafka import load_librdkafka
from tests.waiting import HANG_SECONDS

UNKNOWN = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}


def main(servers: str, topic: str, way: str) -> None:
    quick = {"topic.metadata.refresh.interval.ms": 200, "topic.metadata.propagation.max.ms": 500}
    heard: list[int] = []

    def hear(error: KafkaError) -> None:
        print("heard", error.name(), error.str(), flush=True)
        heard.append(error.code())

    consumer = Consumer({**READER_SETTINGS, **quick, "bootstrap.servers": servers, "group.id": topic, "error_cb": hear})
    library = load_librdkafka() if way == "direct" else None
    reader = KafkaReader(consumer, {TopicPartition(topic, 0): (0, ENDLESS)}, frozenset(), hear, library=library)
    is_deleted, deadline = False, time.monotonic() + HANG_SECONDS
    try:
        while not UNKNOWN & set(heard) and time.monotonic() < deadline:
            if reader.read(0.3) and not is_deleted:
                admin = AdminClient({"bootstrap.servers": servers})  # kept until the answer is there
                admin.delete_topics([topic])[topic].result(HANG_SECONDS)
                is_deleted = True
    except ConnectException as error:
        print("raised", error, flush=True)
    finally:
        reader.close()
        consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
