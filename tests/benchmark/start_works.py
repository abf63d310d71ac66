"""The start-up ladder: what a run costs that has nothing to do, and one that has a single record."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from airflow_provider_connect.dev.airflow_client import AirflowClient, DagRun
from airflow_provider_connect.dev.airflow_server import USERNAME
from airflow_provider_connect.dev.stack import Stack
from airflow_provider_connect.runtime.model.ids import dag_id_for
from tests.benchmark.destinations import TopicDestination
from tests.benchmark.measure import tree_seconds
from tests.benchmark.ours import OurContestant
from tests.benchmark.race import Run
from tests.benchmark.topics import Topics
from tests.benchmark.works import WORKS

WORK, TITLE = "start", "start: what a small run costs"
NOTHING, SUBMIT, ONE = "nothing to do: trigger to end", "one record: spark-submit", "one record: trigger to success"
_LINE = "one line"
_CONNECTOR = _TOPIC = "ladder"
_DAG_FILE = """\
from airflow_provider_connect import ConnectorDag

ConnectorDag({name!r}, {config!r}, schedule=None)
"""
_PAUSE_SECONDS = 3.0  # a run is over by then, as a rule; no request before that, for requests cost the API server
_PAUSES_AT_REST = 7
_LIMIT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of the ladder and what we aim at. ``cpu_seconds`` None: no aim."""

    name: str
    seconds: float
    cpu_seconds: float | None


RUNGS = (Rung(NOTHING, 1.0, 0.2), Rung(SUBMIT, 1.8, 1.8), Rung(ONE, 3.5, None))


def submit_runs(bootstrap_servers: str, scratch: Path, cache: Path, runs: int) -> list[Run]:
    """spark-submit with one line to move, from its start to the end of its last process. One run before the others is left out."""
    contestant = OurContestant(SUBMIT, scratch / "start", cache, bootstrap_servers, exactly_once=True)
    lines = scratch / "one-line.txt"
    lines.write_text(f"{_LINE}\n")
    measured = []
    for number in range(runs + 1):
        with Topics(bootstrap_servers).topic(f"start-{number}") as topic:
            destination = TopicDestination(bootstrap_servers, topic, records=1, is_last=_LINE.encode().__eq__)
            started = time.monotonic()
            cost = contestant.send(topic, WORKS["W1x"].config(str(lines), topic)).end()
            seconds = time.monotonic() - started
            measured.append(Run(WORK, SUBMIT, 1, round(seconds, 3), round(cost.cpu_seconds, 3), cost.peak_rss_bytes, destination.count()))
            destination.close()
    return measured[1:]


def airflow_runs(scratch: Path, cache: Path, runs: int, notify: Callable[[str], None]) -> list[Run]:
    """Runs that a real Airflow starts, timed by its own record of each: first with one new line each, then with none."""
    lines = scratch / "ladder.txt"
    lines.write_text(f"{_LINE}\n")
    stack = Stack(scratch / "stack", cache=cache, allowed=scratch, notify=notify)
    stack.dags_folder.mkdir(parents=True, exist_ok=True)
    config = WORKS["W1x"].config(str(lines), _TOPIC)
    (stack.dags_folder / "ladder.py").write_text(_DAG_FILE.format(name=_CONNECTOR, config=config))
    with stack, Topics(_bootstrap_servers(stack)).topic(_TOPIC) as topic:
        ladder = _Ladder(stack, topic)
        ladder.climb_once()

        def append_line() -> None:
            with lines.open("a") as file:
                file.write(f"{_LINE}\n")

        return ladder.one_record(runs, append_line) + ladder.nothing(2 * runs)


class _Ladder:
    """Triggers runs of the connector's DAG and reads what Airflow notes of them."""

    def __init__(self, stack: Stack, topic: str) -> None:
        assert stack.airflow is not None
        self._pids = [process.pid for process in stack.airflow.processes.values()]
        self._client = AirflowClient(stack.airflow.url, USERNAME, stack.airflow.password)
        self._dag_id = dag_id_for(_CONNECTOR)
        self._destination = TopicDestination(_bootstrap_servers(stack), topic, records=0, is_last=b"".__eq__)

    def climb_once(self) -> None:
        """The first run, which makes topics and fills caches, and is not measured."""
        self._client.wait_for_dag(self._dag_id)
        self._client.unpause(self._dag_id)
        self._last = self._ended(self._client.trigger(self._dag_id))

    def one_record(self, runs: int, append_line: Callable[[], None]) -> list[Run]:
        """Runs with one new line each. What they cost is not measured here, and written as 0: no run waits for pyspark's daemon."""
        seconds = []
        before = self._destination.count()
        for _ in range(runs):
            append_line()
            seconds.append(self._run_after_pause())
        delivered = (self._destination.count() - before) // runs
        return [Run(WORK, ONE, 1, round(taken, 3), 0.0, 0, delivered) for taken in seconds]

    def nothing(self, runs: int) -> list[Run]:
        """Runs without a new line. CPU is that of all of them above Airflow's at rest, by their number: one alone is lost in the noise."""
        resting = self._resting_share()
        before, started = self._cpu_seconds(), time.monotonic()
        seconds = [self._run_after_pause() for _ in range(runs)]
        used, elapsed = self._cpu_seconds() - before, time.monotonic() - started
        resting = (resting + self._resting_share()) / 2
        cpu_seconds = round((used - resting * elapsed) / runs, 3)
        return [Run(WORK, NOTHING, 0, round(taken, 3), cpu_seconds, 0, 0) for taken in seconds]

    def _run_after_pause(self) -> float:
        """Triggers a run and returns how long it took. Leaves it alone meanwhile, and asks once, as a rule."""
        self._last = self._client.trigger(self._dag_id)
        time.sleep(_PAUSE_SECONDS)
        return self._ended(self._last).seconds

    def _resting_share(self) -> float:
        """CPU seconds that Airflow uses in a second without runs, asked as often as it is with them."""
        before, started = self._cpu_seconds(), time.monotonic()
        for _ in range(_PAUSES_AT_REST):
            time.sleep(_PAUSE_SECONDS)
            self._ended(self._last)
        return (self._cpu_seconds() - before) / (time.monotonic() - started)

    def _cpu_seconds(self) -> float:
        return sum(tree_seconds(pid) for pid in self._pids)

    def _ended(self, triggered: DagRun) -> DagRun:
        until = time.monotonic() + _LIMIT_SECONDS
        for run in self._client.watch(triggered):
            if time.monotonic() > until:
                raise TimeoutError(f"{run.dag_id} is {run.state} after {_LIMIT_SECONDS:.0f} s")
            ended = run
        if ended.state != "success":
            raise RuntimeError(f"{ended.dag_id} ended as {ended.state}")
        return ended


def _bootstrap_servers(stack: Stack) -> str:
    assert stack.kafka is not None
    return stack.kafka.bootstrap_servers


def ladder_table(runs: Sequence[Run]) -> str:
    """The rungs as a Markdown table."""
    lines = ["| run | runs | seconds (range) | aim | CPU-s | aim |", "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for rung in RUNGS:
        measured = [run for run in runs if run.contestant == rung.name]
        if not measured:
            continue
        seconds = [run.seconds for run in measured]
        cpu = f"{median(run.cpu_seconds for run in measured):.2f} | ≤ {rung.cpu_seconds}" if rung.cpu_seconds else " | "
        typical = f"{median(seconds):.2f} ({min(seconds):.2f}–{max(seconds):.2f})"
        lines.append(f"| {rung.name} | {len(measured)} | {typical} | ≤ {rung.seconds} | {cpu} |")
    return "\n".join(lines) + "\n"
