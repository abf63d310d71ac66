"""What arrived: the multiset of records at a destination, against what was sent."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.final_failures import DoubledRecords, LostRecords
from tests.kafka_topics import settle
from tests.waiting import HANG_SECONDS


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many records are missing, and how many are there more often than they should."""

    sent: int
    lost: int
    doubled: int

    def holds_for(self, guarantee: str) -> bool:
        if guarantee == "exactly_once":
            return self.lost == self.doubled == 0
        return self.lost == 0 if guarantee == "at_least_once" else self.doubled == 0

    def expect(self, guarantee: str) -> None:
        """Raises LostRecords or DoubledRecords if the guarantee does not hold."""
        if not self.holds_for(guarantee):
            is_lost = self.lost and guarantee != "at_most_once"
            raise (LostRecords if is_lost else DoubledRecords)(f"{guarantee}: {self}")


def judge(sent: Iterable[bytes], arrived: Iterable[bytes]) -> Verdict:
    """Records that were never sent (a line cut in two by a crash) are left out: their whole is either there or lost."""
    expected, found = Counter(sent), Counter(arrived)
    lost = sum((expected - found).values())
    doubled = sum(max(0, found[record] - count) for record, count in expected.items())
    return Verdict(sum(expected.values()), lost, doubled)


def topic_records(bootstrap: str, topic: str, *, read_committed: bool = True) -> list[bytes]:
    """Every value of every partition of ``topic``, to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "oracle",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
        }
    )
    try:
        found = consumer.list_topics(topic, timeout=HANG_SECONDS).topics[topic]
        if found.error is not None:
            return []
        left = set(found.partitions)
        if read_committed:
            settle(bootstrap, topic, len(left))
        consumer.assign([TopicPartition(topic, number, 0) for number in left])
        values: list[bytes] = []
        heard = time.monotonic()
        while left:
            messages = consumer.consume(1000, 0.1)  # which waits its full time for the thousandth
            heard = time.monotonic() if messages else heard
            assert time.monotonic() < heard + HANG_SECONDS, f"partitions {left} of {topic} never end"
            for message in messages:
                error = message.error()
                if error is None:
                    values.append(message.value() or b"")
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition() or 0)
                else:
                    raise AssertionError(error)
        return values
    finally:
        consumer.close()


def file_records(path: Path) -> list[bytes]:
    """The lines of a file."""
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []
