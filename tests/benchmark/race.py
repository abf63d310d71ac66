"""One race: a contestant, a work, so many records, from the request to the last record at the destination."""

import itertools
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.benchmark.contestants import Contestant
from tests.benchmark.data import last_line, lines_file
from tests.benchmark.destinations import Destination, FileDestination, TopicDestination
from tests.benchmark.measure import Cost
from tests.benchmark.topics import Topics
from tests.benchmark.works import Direction, Work

_POLL_SECONDS = 0.02
_SLOWEST_PER_SECOND = 20_000  # records; who is slower than this has stopped


@dataclass(frozen=True, slots=True)
class Run:
    """One measured run. ``delivered`` was counted at the destination afterwards."""

    work: str
    contestant: str
    records: int
    seconds: float
    cpu_seconds: float
    peak_rss_bytes: int
    delivered: int

    def __str__(self) -> str:
        return (
            f"{self.work}: {self.contestant} {self.records:,} records in {self.seconds:.2f} s, {self.cpu_seconds:.1f} CPU-s, "
            f"{self.peak_rss_bytes / 1e6:,.0f} MB, {self.delivered:,} delivered"
        )


class Course:
    """Where races are run: a broker, the data, a folder for what arrives. Topics and files of a race are gone when it is over."""

    def __init__(self, bootstrap_servers: str, data: Path, scratch: Path) -> None:
        self._bootstrap_servers, self._data, self._scratch = bootstrap_servers, data, scratch
        self._topics = Topics(bootstrap_servers)
        self._numbers = itertools.count(1)

    @contextmanager
    def source_topic(self, work: Work, records: int) -> Iterator[str]:
        """A topic for all races of a work: filled, where the work reads from it; else an empty name, for each race makes its own."""
        if work.direction is Direction.SOURCE:
            yield ""
            return
        with self._topics.topic(f"lines-{records}") as topic:
            self._topics.fill(topic, lines_file(self._data, records))
            yield topic

    def race(self, contestant: Contestant, work: Work, records: int, source_topic: str) -> Run:
        """Runs the contestant once. Raises what it fails with, and TimeoutError when the records do not arrive."""
        name = f"{work.name.lower()}-{contestant.name}-{next(self._numbers)}"
        with self._lane(name, contestant.name, work, records, source_topic) as lane:
            return run_in(lane, contestant, work.name, records, limit_seconds=60 + records / _SLOWEST_PER_SECOND)

    @contextmanager
    def _lane(self, name: str, contestant: str, work: Work, records: int, source_topic: str) -> Iterator["Lane"]:
        lines = lines_file(self._data, records)
        if work.direction is Direction.SINK:
            arrived = self._scratch / f"{name}.txt"
            to_file = FileDestination(arrived, size=lines.stat().st_size)
            with closing(to_file):
                yield Lane(name, work.config(str(arrived), source_topic), to_file)
            return
        mirrored = f"{name}.{source_topic}" if work.direction is Direction.MIRROR else name
        with self._topics.topic(mirrored) as topic:
            to_topic = TopicDestination(self._bootstrap_servers, topic, records=records, is_last=last_line(lines).__eq__)
            with closing(to_topic):
                if work.direction is Direction.MIRROR:
                    yield Lane(name, work.mirror_config(name, source_topic, self._bootstrap_servers), to_topic)
                else:
                    yield Lane(name, work.config(str(lines), topic, contestant), to_topic)


@dataclass(frozen=True, slots=True)
class Lane:
    """One race's own connector and its destination."""

    connector: str
    config: Mapping[str, str]
    destination: Destination


def run_in(lane: Lane, contestant: Contestant, work: str, records: int, *, limit_seconds: float) -> Run:
    """Runs the contestant once and counts what arrived."""
    seconds, cost = _timed(contestant, lane, limit_seconds=limit_seconds)
    delivered = lane.destination.count()
    return Run(work, contestant.name, records, round(seconds, 3), round(cost.cpu_seconds, 3), cost.peak_rss_bytes, delivered)


def _timed(contestant: Contestant, lane: Lane, *, limit_seconds: float) -> tuple[float, Cost]:
    """Seconds from the request to the last record at the destination, and what that has cost."""
    started = time.monotonic()
    running = contestant.send(lane.connector, lane.config)
    while not lane.destination.is_complete():
        running.check()
        if time.monotonic() - started > limit_seconds:
            running.end()
            raise TimeoutError(f"{lane.connector} did not deliver everything in {limit_seconds:.0f} s")
        time.sleep(_POLL_SECONDS)
    seconds = time.monotonic() - started
    return seconds, running.end()
