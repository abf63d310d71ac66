"""Stopped connectors whose offsets are altered by a process that is killed in the middle: all of the change holds, or nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka import Producer

from tests.e2e.faults.environments import lines, make_topic
from tests.e2e.faults.oracle import Verdict, file_records, judge, topic_records
from tests.waiting import HANG_SECONDS

LINES = 60
Offsets = list[dict[str, Any]]
CONFIG = {"airflow.schedule": "none", "airflow.retries": "6", "airflow.retry.delay": "1 s", "delivery.guarantee": "exactly_once"}


@dataclass(slots=True)
class Altered:
    """``halves`` are two source partitions, or two partitions of a topic, that every change moves together. Every other change of a sink
    takes the second half's offset away, for which its group is deleted and made anew."""

    client: httpx.Client
    name: str
    bootstrap: str
    topic: str
    file: Path
    is_sink: bool
    sent: list[bytes]
    halves: list[dict[str, object]] = field(default_factory=list)
    at: int = 0
    tried: int = 0

    @classmethod
    def make(cls, client: httpx.Client, name: str, bootstrap: str, folder: Path, *, is_sink: bool) -> Altered:
        """Makes the connector, STOPPED, with its file or topic, and gives it its first offsets."""
        made = cls(client, name, bootstrap, f"topic-{name}", folder / f"{name}.txt", is_sink, lines(LINES))
        make_topic(bootstrap, made.topic, 2 if is_sink else 1)
        config = {"connector.class": "FileStreamSink" if is_sink else "FileStreamSource", "file": str(made.file), **CONFIG}
        if is_sink:
            made._produce()
            made.halves = [{"kafka_topic": made.topic, "kafka_partition": number} for number in range(2)]
        else:
            made.file.write_bytes(b"".join(line + b"\n" for line in made.sent))
            made.halves = [{"filename": str(path)} for path in (made.file, made.file.with_suffix(".other"))]
        config["topics" if is_sink else "topic"] = made.topic
        new = {"name": name, "config": config, "initial_state": "STOPPED"}
        client.post("/connect/connectors", json=new).raise_for_status()
        made.alter(made.next()).raise_for_status()
        assert made.is_at(made.tried), "the first change"
        return made

    def next(self) -> int:
        """Where the next change goes: never where one has gone before, so that it can be seen which of them holds."""
        self.tried += 1
        return self.tried

    def alter(self, to: int) -> httpx.Response:
        return self.client.patch(f"/connect/connectors/{self.name}/offsets", json={"offsets": self._given(to)})

    def outcome(self) -> str:
        """After a change that may have been killed: whether it holds. Raises AssertionError if it does in part."""
        for at, outcome in ((self.tried, "altered"), (self.at, "unaltered")):
            if self.is_at(at):
                return outcome
        raise AssertionError(f"{self.name}: offsets are neither those of change {self.at} nor of {self.tried}: {self._now()}")

    def is_at(self, at: int) -> bool:
        """Takes note of it, if so."""
        held = [offset for offset in self._given(at) if offset["offset"] is not None]
        if _sorted(self._now()) != _sorted(held):
            return False
        self.at = at
        return True

    def verdict(self) -> Verdict:
        """What arrived, against what lies behind the offsets."""
        if self.is_sink:
            second = 0 if self._takes_away(self.at) else self.at
            behind = [*self.sent[::2][self.at :], *self.sent[1::2][second:]]
            return judge(behind, file_records(self.file))
        return judge(self.sent[self.at :], topic_records(self.bootstrap, self.topic))

    def _now(self) -> Offsets:
        found = self.client.get(f"/connect/connectors/{self.name}/offsets").raise_for_status().json()["offsets"]
        return list(found)

    def _given(self, to: int) -> Offsets:
        """The body of the change."""
        offset = {"kafka_offset": to} if self.is_sink else {"position": to * (len(self.sent[0]) + 1)}
        first, second = self.halves
        return [{"partition": first, "offset": offset}, {"partition": second, "offset": None if self._takes_away(to) else offset}]

    def _takes_away(self, to: int) -> bool:
        return self.is_sink and to % 2 == 0

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        for number, line in enumerate(self.sent):
            producer.produce(self.topic, line, partition=number % 2)
        assert producer.flush(HANG_SECONDS) == 0


def _sorted(offsets: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(offset, sort_keys=True) for offset in offsets)
