"""Topics that are deleted in the middle of runs which write to them, and records of up to a mebibyte. The runs are in this process."""

from __future__ import annotations

import random
import threading
import time
import uuid
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.runtime.model.run import RunResult, RunState
from tests.conftest import worker_properties
from tests.e2e.chaos.tally import Tally
from tests.e2e.faults.environments import make_topic
from tests.e2e.faults.oracle import file_records, judge, topic_records
from tests.integration.worker.environment import PLAIN, RunEnvironment
from tests.waiting import HANG_SECONDS

GUARANTEES = ("at_least_once", "exactly_once")
LINES = 120_000
RUNS = 6
LARGE = (1, 200_000, 999_000, 1_000_000, 1_000_001, 1_048_000, 1_048_400)


class TopicStorm:
    """``deletions`` in turn under each guarantee, then large records from a file into a topic and on into a file."""

    def __init__(self, folder: Path, bootstrap: str, tally: Tally, chance: random.Random) -> None:
        folder.mkdir(parents=True)
        self._folder, self._bootstrap, self._tally, self._chance = folder, bootstrap, tally, chance
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def run(self, deletions: int) -> None:
        for number in range(deletions):
            if self._tally.is_over:
                return
            guarantee = GUARANTEES[number % len(GUARANTEES)]
            try:
                self._deletion(guarantee)
            except Exception as error:  # (an environment that cannot be played to its end is a violation too, and the others go on)
                self._tally.broken(f"topic deleted, {guarantee}: {error!r}")
        for guarantee in GUARANTEES:
            self._large(guarantee)

    def _deletion(self, guarantee: str) -> None:
        """What was committed before the deletion went with the topic. Behind the first record that is there no other may be missing."""
        environment = self._environment()
        topic = f"topic-{environment.connector}"
        make_topic(self._bootstrap, topic, partitions=3)
        lines = [b"%06d %b" % (number, b"x" * 90) for number in range(LINES)]
        environment.file.write_bytes(b"".join(line + b"\n" for line in lines))
        config = environment.file_source(topic, delivery_guarantee=guarantee, batch_size="500")
        late = threading.Thread(target=self._delete, args=(topic, self._chance.uniform(0.2, 1.5)))
        late.start()
        results = [environment.run(config)]
        late.join()
        results += self._until_done(environment, lines)
        arrived = topic_records(self._bootstrap, topic)
        first = min((int(line[:6]) for line in arrived), default=LINES)
        verdict = judge(lines[first:], arrived)
        states = ", ".join(result.state for result in results)
        self._tally.judged(f"topic deleted, {LINES - first} of {LINES} behind it; runs {states}", guarantee, verdict)
        self._tally.accounted(f"topic deleted: the last line is there, {guarantee}", is_right=bool(arrived))

    def _until_done(self, environment: RunEnvironment, lines: list[bytes]) -> list[RunResult]:
        """Runs until one is done, with some lines more: the topic may have been deleted behind the last commit of the first."""
        new = [b"%06d more" % number for number in range(LINES, LINES + 10)]
        lines += new
        with environment.file.open("ab") as file:
            file.write(b"".join(line + b"\n" for line in new))
        results: list[RunResult] = []
        while not results or results[-1].state is not RunState.DONE:
            if len(results) == RUNS:
                raise AssertionError(f"no run reached its end: {results[-1].error}")
            results.append(environment.run())
        return results

    def _delete(self, topic: str, seconds: float) -> None:
        time.sleep(seconds)
        try:
            self._admin.delete_topics([topic])[topic].result(HANG_SECONDS)
        except KafkaException as error:
            self._tally.broken(f"topic {topic} could not be deleted: {error}")

    def _large(self, guarantee: str) -> None:
        """Nothing in them that could be compressed."""
        source, sink = self._environment(), self._environment()
        topic = f"topic-{source.connector}"
        make_topic(self._bootstrap, topic, partitions=1)
        lines = [self._chance.randbytes(size // 2 + 1).hex().encode()[:size] for size in LARGE * 10]
        source.file.write_bytes(b"".join(line + b"\n" for line in lines))
        results = [
            source.run(source.file_source(topic, delivery_guarantee=guarantee)),
            sink.run(sink.file_sink(topic, delivery_guarantee=guarantee)),
        ]
        is_right = file_records(sink.file) == lines and all(result.state is RunState.DONE for result in results)
        self._tally.accounted(f"{len(lines)} records of up to {max(LARGE)} bytes, there and back, {guarantee}", is_right=is_right)

    def _environment(self) -> RunEnvironment:
        name = f"c-{uuid.uuid4().hex[:8]}"
        return RunEnvironment(worker_properties(self._bootstrap, name) | PLAIN, name, self._folder)
