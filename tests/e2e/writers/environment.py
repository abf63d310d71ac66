"""One mode: a table that is written to while runs bring it into a topic and from there into another table; and its account."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.run import RunResult
from airflow_provider_connect.runtime.worker.application.readiness import WORK, check_readiness
from tests.e2e.faults.environments import make_topic
from tests.e2e.faults.oracle import Verdict
from tests.e2e.writers.agreement import TopicVerdict, judge_target, judge_topic
from tests.e2e.writers.modes import Mode, topic_of
from tests.e2e.writers.writers import OVERDUE, Writers, Written

LEAST_RUNS = 2
TRIES = 10
COMMIT_SECONDS = 3.0  # what a commit may take on a machine that is busy


class ConnectorRuns(Protocol):
    """All runs of one connector."""

    def run_once(self) -> None:
        """One run while others write, which something may happen to."""

    def ends_well(self) -> RunResult:
        """One run that nothing happens to, tried as often as Airflow would. Raises AssertionError if it does not end."""


MakeRuns = Callable[[Mapping[str, str]], ConnectorRuns]


@dataclass(slots=True)
class Account:
    """What was written and what arrived. ``runs`` are those in the meantime, of the source and of the sink, and those at the end."""

    mode: Mode
    written: Written
    target: Verdict
    topic: TopicVerdict
    runs: tuple[int, int, int]
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.written.late:
            self.problems.append("no transaction was late")
        if self.target.lost or self.target.doubled:
            self.problems.append("the tables differ")
        if self.topic.lost:
            self.problems.append("rows are not on the topic")
        if self.mode.is_exactly_once and (self.topic.doubled or self.topic.disordered):
            self.problems.append("records are doubled or out of order")

    def __str__(self) -> str:
        source, sink, last = self.runs
        target, topic = self.target, self.topic
        text = (
            f"{self.mode.name}: {self.written}; {source} runs of the source and {sink} of the sink in the meantime, {last} at the end; "
            f"on the topic {topic.records} records, {topic.lost} rows lost, {topic.doubled} doubled, {topic.disordered} out of order; "
            f"in the target {target.sent} rows expected, {target.lost} lost, {target.doubled} doubled"
        )
        return "; ".join([text, *self.problems])


class WriterEnvironment:
    """``make_runs`` gets a connector's config. ``settings`` are the worker's. No transaction is meant to take more than
    ``longest_seconds``."""

    def __init__(
        self, mode: Mode, settings: Mapping[str, str], postgres: PostgresServer, make_runs: MakeRuns, *, longest_seconds: float = 1.0
    ) -> None:
        name = f"written_{uuid.uuid4().hex[:8]}"
        self._mode, self._settings, self._longest_seconds = mode, settings, longest_seconds
        self._target = f"{name}_target"
        self._delay_seconds = OVERDUE * longest_seconds + COMMIT_SECONDS
        self._table = mode.table(postgres.uri(), name)
        source = mode.source_config(f"source-{name}", postgres.url(), name, round(self._delay_seconds * 1000))
        self._configs = (source, mode.sink_config(f"sink-{name}", postgres.url(), name, self._target))
        self._source, self._sink = map(make_runs, self._configs)
        self._runs = [0, 0, 0]
        self._is_over = False

    def live_through(self, seconds: float, seed: int) -> Account:
        """Runs follow, one after the other, for so long, and for the delay where there is one; then the writers end, and runs come until
        nothing is new."""
        self._table.make()
        make_topic(self._settings["bootstrap.servers"], topic_of(self._table.name), partitions=3)
        held_back = self._delay_seconds if self._mode.needs_delay else 0.0
        until = time.monotonic() + seconds + held_back
        with Writers(self._table, seed, self._longest_seconds) as writers, ThreadPoolExecutor(2) as pool, self._ended_early():
            going = [pool.submit(self._repeat, number, runs, until) for number, runs in enumerate((self._source, self._sink))]
            for each in going:
                each.result()
        time.sleep(held_back)
        problems = self._finish()
        target = judge_target(self._table, self._target, self._mode.compared)
        topic = judge_topic(self._settings["bootstrap.servers"], self._table, self._mode)
        source, sink, last = self._runs
        return Account(self._mode, writers.written, target, topic, (source, sink, last), problems)

    @contextmanager
    def _ended_early(self) -> Iterator[None]:
        """Let the threads of runs end after the run that they are at, if the block is left by an exception."""
        try:
            yield
        except BaseException:
            self._is_over = True
            raise

    def _repeat(self, number: int, runs: ConnectorRuns, until: float) -> None:
        while not self._is_over and (time.monotonic() < until or self._runs[number] < LEAST_RUNS):
            runs.run_once()
            self._runs[number] += 1

    def _finish(self) -> list[str]:
        """Runs of the source and then of the sink, as long as there is work; a bulk read is never without."""
        problems = []
        if self._mode.is_exactly_once:
            self._until_nothing_is_new(0, self._source)
        else:
            moved = sum(task.records for task in self._ends_well(self._source).tasks)
            [(rows,)] = self._table.do(f"SELECT count(*) FROM {self._table.name}")
            if moved != rows:
                problems.append(f"the last run moved {moved} of {rows} rows")
        self._until_nothing_is_new(1, self._sink)
        return problems

    def _until_nothing_is_new(self, number: int, runs: ConnectorRuns) -> None:
        config, settings = self._configs[number], WorkerSettings.of(dict(self._settings), {})
        for _ in range(TRIES):
            if check_readiness(settings, config["name"], define=config, secrets_of=lambda _: {}).state != WORK:
                return
            self._ends_well(runs)
        raise AssertionError(f"{config['name']} has still work after {TRIES} runs")

    def _ends_well(self, runs: ConnectorRuns) -> RunResult:
        self._runs[2] += 1
        return runs.ends_well()
