"""Settings with their topics made, and producers of bytes that no store would write."""

from collections.abc import Callable, Iterable

import pytest
from confluent_kafka import KafkaError, Producer

from airflow_provider_connect.settings import WorkerSettings
from airflow_provider_connect.stores.topic_admin import TopicAdmin

Produce = Callable[..., None]


@pytest.fixture
def settings(worker_settings: Callable[..., dict[str, str]]) -> WorkerSettings:
    """Settings of this test alone; the internal topics exist."""
    made = WorkerSettings.of(worker_settings())
    TopicAdmin(made).ensure_internal_topics()
    return made


@pytest.fixture
def produce(bootstrap: str) -> Produce:
    """Writes records as they are: (key, value) or (key, value, headers)."""

    def write(
        topic: str,
        records: Iterable[tuple[bytes | None, bytes | None] | tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]],
        partition: int = -1,
    ) -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
        errors: list[KafkaError] = []
        for key, value, *headers in records:
            producer.produce(
                topic,
                value,
                key,
                partition,
                headers=headers[0] if headers else [],
                on_delivery=lambda error, _: errors.extend([error] if error else []),
            )
        assert producer.flush(20) == 0
        assert errors == []

    return write
