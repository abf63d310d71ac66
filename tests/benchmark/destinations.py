"""Where the records arrive: asked while a race runs whether the last one is there, and counted afterwards."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.benchmark.topics import QUIET
from tests.waiting import HANG_SECONDS

_TAIL = 8  # records read back to see whether the last one is among them; the marker of a transaction takes an offset too
_AT_ONCE = 2000
_SILENCE_SECONDS = 30.0


class Destination(Protocol):
    """A topic or a file."""

    def is_complete(self) -> bool:
        """Whether the last record has arrived. Asked every few milliseconds, so it costs next to nothing while the answer is no."""

    def count(self) -> int:
        """How many records are there. Reads all of them."""

    def close(self) -> None: ...


class TopicDestination:
    """A topic of one partition, as a reader with ``read_committed`` sees it. ``is_last`` knows the value of the last of its ``records``."""

    def __init__(self, bootstrap_servers: str, topic: str, *, records: int, is_last: Callable[[bytes | None], bool]) -> None:
        self._topic, self._records, self._is_last = topic, records, is_last
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, **QUIET})
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": f"count-{topic}",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 10,
                "fetch.queue.backoff.ms": 2,
                "queued.min.messages": 1_000_000,
                **QUIET,
            }
        )
        self.count()  # a consumer's first read of a topic takes up to a second, which must not fall into the time of a race

    def is_complete(self) -> bool:
        end = self._end()
        if end < self._records:
            return False
        tail = self._messages(max(0, end - _TAIL))
        return any(self._is_last(message.value()) for messages in tail for message in messages)

    def count(self) -> int:
        return sum(len(messages) for messages in self._messages(0))

    def close(self) -> None:
        self._consumer.close()

    def _end(self) -> int:
        """The last stable offset: records of an open transaction are not there yet."""
        partition = TopicPartition(self._topic, 0)
        newest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = self._admin.list_offsets({partition: newest}, isolation_level=IsolationLevel.READ_COMMITTED)
        return int(asked[partition].result(HANG_SECONDS).offset)

    def _messages(self, first: int) -> Iterator[list[Message]]:
        """All records from an offset to the end. Nothing is fetched before and after, in the time of a race."""
        self._consumer.assign([TopicPartition(self._topic, 0, first)])
        try:
            while (next_one := self._consumer.poll(_SILENCE_SECONDS)) is not None:
                messages = [next_one, *self._consumer.consume(_AT_ONCE, 0)]  # with a time to wait it waits for as many
                error = messages[-1].error()
                if error is None:
                    yield messages
                elif error.code() == KafkaError._PARTITION_EOF:
                    yield messages[:-1]
                    return
                else:
                    raise KafkaException(error)
            raise TimeoutError(f"nothing came from {self._topic} for {_SILENCE_SECONDS:.0f} s, and its end was not reached")
        finally:
            self._consumer.unassign()


class FileDestination:
    """A file that lines are written to. It is complete at the size of the file that the lines came from."""

    def __init__(self, path: Path, *, size: int) -> None:
        self._path, self._size = path, size

    def is_complete(self) -> bool:
        return self._path.exists() and self._path.stat().st_size >= self._size

    def count(self) -> int:
        with self._path.open("rb") as file:
            return sum(part.count(b"\n") for part in iter(lambda: file.read(1 << 22), b""))

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
