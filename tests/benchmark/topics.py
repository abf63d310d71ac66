"""Topics of a race: one partition each, filled from a file, gone from the disk a second after they are deleted."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.waiting import HANG_SECONDS

_BUFFERED_LINES = 100_000
QUIET = {"log_level": 0}  # a client notes on standard error when its broker goes, as it does at the end of a race


class Topics:
    """Creates, fills and deletes topics of the broker at ``bootstrap_servers``."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, **QUIET})

    @contextmanager
    def topic(self, name: str) -> Iterator[str]:
        """A new topic for the time of the ``with``."""
        settings = {"file.delete.delay.ms": "1000"}
        self._admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1, config=settings)])[name].result(HANG_SECONDS)
        self._wait_until(name, exists=True)
        try:
            yield name
        finally:
            self._admin.delete_topics([name])[name].result(HANG_SECONDS)
            self._wait_until(name, exists=False)

    def fill(self, name: str, lines: Path) -> None:
        """Writes every line of a file as the value of a record, in batches as a well-tuned producer leaves them (lz4, 512 KiB)."""
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap_servers,
                "linger.ms": 20,
                "batch.size": 524288,
                "compression.type": "lz4",
                "enable.idempotence": True,
                "queue.buffering.max.messages": 10 * _BUFFERED_LINES,
                "queue.buffering.max.kbytes": 1 << 20,
                **QUIET,
            }
        )
        with lines.open("rb") as file:
            while texts := file.readlines(_BUFFERED_LINES * 100):
                producer.produce_batch(name, [{"value": text[:-1]} for text in texts])
                if producer.flush(HANG_SECONDS):
                    raise KafkaException(f"not every line of {lines} was written to {name}")

    def _wait_until(self, name: str, *, exists: bool) -> None:
        until = time.monotonic() + HANG_SECONDS
        while (name in self._admin.list_topics(timeout=10).topics) is not exists:
            if time.monotonic() > until:
                raise TimeoutError(f"topic {name} is {'not there' if exists else 'still there'} after 30 s")
            time.sleep(0.05)
