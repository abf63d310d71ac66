"""A reader that reads the next records while those before are worked on. Knows nothing of what is done with them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.worker.delivery.kafka_reader import KafkaReader
from airflow_provider_connect.worker.delivery.raw_batch import RawBatch


class AheadReader:
    """As the ``KafkaReader`` that it is given, and one ``read`` ahead of it, in a thread of its own. ``positions`` and ``exhausted`` say
    what was handed out, not what was read. After ``with`` nothing is being read any more.
    """

    def __init__(self, reader: KafkaReader) -> None:
        self._reader = reader
        self._thread = ThreadPoolExecutor(1, "kafka-read-ahead")  # starts with the first work
        self._next: Future[list[RawBatch]] | None = None
        self._note()

    def __enter__(self) -> AheadReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._thread.shutdown()

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """Where each partition goes on after what was handed out."""
        return self._positions

    @property
    def exhausted(self) -> bool:
        """Whether every partition is done but those that are held."""
        return self._exhausted

    def read(self, timeout_seconds: float) -> list[RawBatch]:
        """As ``KafkaReader.read``; the time may have begun before the call."""
        pending, self._next = self._next, None
        raws = self._reader.read(timeout_seconds) if pending is None else pending.result()
        self._note()
        if not self._exhausted:
            self._next = self._thread.submit(self._reader.read, timeout_seconds)
        return raws

    def hold(self, partitions: frozenset[TopicPartition]) -> None:
        """Read nothing of exactly these partitions until the next call."""
        if partitions != self._reader.held:
            self._take_back()
            self._reader.hold(partitions)
            self._note()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read ``partition`` again from ``offset``."""
        self._take_back()
        self._reader.seek(partition, offset)
        self._note()

    def _take_back(self) -> None:
        """What was read and not handed out is to be read again."""
        pending, self._next = self._next, None
        if pending is not None:
            for partition in {raw.partition for raw in pending.result()}:
                self._reader.seek(partition, self._positions[partition])

    def _note(self) -> None:
        self._positions = dict(self._reader.positions)
        self._exhausted = self._reader.exhausted
