"""Producers of bytes that no store would write."""

from collections.abc import Callable, Iterable

import pytest
from confluent_kafka import KafkaError, Producer

from tests.waiting import HANG_SECONDS

Produce = Callable[..., None]


@pytest.fixture
def produce(bootstrap: str) -> Produce:
    """Writes records as they are: (key, value) or (key, value, headers)."""

    def write(
        topic: str,
        records: Iterable[tuple[bytes | None, bytes | None] | tuple[bytes | None, bytes | None, list[tuple[str, str | bytes | None]]]],
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
        assert producer.flush(HANG_SECONDS) == 0
        assert errors == []

    return write
