"""How late a record arrives where both sides stay warm, and what waiting costs: connectors of a shared application without Spark in a real
Airflow, and of a real Kafka Connect worker on the same broker."""

import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import median

import httpx
import psutil
from confluent_kafka import Producer

from airflow_provider_connect.client.rest_client import ConnectClient
from airflow_provider_connect.dev.airflow_server import USERNAME
from airflow_provider_connect.dev.own_server import LOOPBACK
from airflow_provider_connect.dev.postgres_server import USER, PostgresServer
from airflow_provider_connect.dev.stack import Stack
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.model.ids import application_dag_id
from airflow_provider_connect.runtime.model.run import PID_FILE
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime
from tests.benchmark.arrivals import Arrivals, FileArrivals, TableArrivals, TopicArrivals, latencies
from tests.benchmark.connect_peer import ConnectWorker
from tests.benchmark.measure import cpu_seconds_of, proportional_bytes, with_descendants
from tests.benchmark.race import Run
from tests.benchmark.topics import QUIET, Topics
from tests.benchmark.works import STRINGS
from tests.waiting import HANG_SECONDS

WORK, TITLE = "staying", "staying: how late records arrive in runs that stay, and what 30 sinks at rest cost"
CONNECT, OURS, OURS_AND_TASK, SERVICES = "connect-default", "ours", "ours, with Airflow's task", "Airflow's services"
SINKS = int(os.environ.get("CONNECT_BENCH_SINKS", "30"))
_APPLICATION = "bench"
_REST_SECONDS, _MEASURED_SECONDS = 120.0, 60.0
_WARM_UP, _WARM_UP_RATE, _FIRST = range(5), 5.0, 1000
_RECORDS = {1: 10, 100: 500}  # by records a second
_POSTS = 5
_SINK, _TABLE, _SOURCE, _SOURCE_X, _POST = (
    "topic → file",
    "topic → PostgreSQL, exactly once",
    "file → topic, at least once",
    "file → topic, exactly once",
    "POST of a sink → its first record",
)
_AIMS: Mapping[str, tuple[float, float | None]] = {  # ms at the median, and that 99 of 100 records take at most
    _SINK: (10, 50),
    _TABLE: (20, 100),
    _SOURCE: (20, None),
    _SOURCE_X: (50, None),
    _POST: (1000, None),
}
_ROW = '{"schema":{"type":"struct","optional":false,"fields":[{"field":"id","type":"int64","optional":false}]},"payload":{"id":%s}}'
_JSON = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "true",
}


@dataclass(frozen=True, slots=True)
class _Side:
    """A REST API whose workers are warm. ``more`` is added to each config. ``processes`` returns the ids of the processes that the
    connectors need, by what they are."""

    name: str
    client: ConnectClient
    more: Mapping[str, str]
    processes: Callable[[], Mapping[str, set[int]]]

    @contextmanager
    def connectors(self, configs: Mapping[str, Mapping[str, str]]) -> Iterator[None]:
        """The connectors by their names, RUNNING, for the time of the ``with``."""
        try:
            for name, config in configs.items():
                self.client.create_connector(name, {**config, **self.more})
            _wait_until(lambda: configs.keys() <= self._running(), f"{len(configs)} connectors of {self.name} run")
            yield
        finally:
            for name in configs:
                self.client.delete_connector(name)
            _wait_until(lambda: not configs.keys() & set(self.client.connectors()), f"connectors of {self.name} are gone")

    def _running(self) -> set[str]:
        found = self.client.statuses()
        return {name for name, status in found.items() if [task.state for task in status.tasks] == ["RUNNING"]}


_Pair = tuple[Callable[[str], object], Arrivals]
_Way = AbstractContextManager[_Pair]
"""A connector that runs: what sends a number into it, and where the numbers arrive."""


def staying_runs(scratch: Path, cache: Path, java: JavaRuntime, notify: Callable[[str], None], note: Callable[[list[Run]], None]) -> None:
    """Notes the runs of each series as it ends: one for each record, whose ``records`` is how many came a second; or for each group of
    processes at rest, whose ``records`` is the number of sinks, ``peak_rss_bytes`` proportional and ``delivered`` the number of
    processes."""
    variables = {
        "AIRFLOW__CONNECT__AIRFLOW_ALLOWED_APPLICATIONS": "*",
        f"AIRFLOW__CONNECT__AIRFLOW_APPLICATION_{_APPLICATION.upper()}_ENGINE": "process",
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "1",  # Airflow's default: at the stack's 0.1 an idle one takes a fifth of a core
    }
    with ExitStack() as opened:
        postgres = opened.enter_context(PostgresServer())
        stack = opened.enter_context(Stack(scratch / "staying", cache=cache, allowed=scratch, variables=variables, notify=notify))
        assert stack.kafka is not None
        bootstrap = stack.kafka.bootstrap_servers
        course = _Course(bootstrap, scratch, postgres, notify)
        ours = _our_side(stack)
        keeper = opened.enter_context(course.topics.topic("keeper"))
        opened.enter_context(ours.connectors({"keeper": course.sink(keeper, "keeper")}))  # without connectors, the application would end
        with ConnectWorker(scratch / "staying-worker", cache, java, bootstrap, exactly_once=False).started() as warm:
            theirs = _their_side(warm)
            note(course.at_rest([theirs, ours]))
            for side in (theirs, ours):
                note(course.posts(side))
                note(course.series(side, _SINK, course.to_file))
                note(course.series(side, _SOURCE, course.from_file))
        note(course.series(ours, _TABLE, course.to_table))
        with ConnectWorker(scratch / "staying-worker-x", cache, java, bootstrap, exactly_once=True).started() as warm:
            for side in (_their_side(warm), ours):
                note(course.series(side, _SOURCE_X, course.from_file_exactly_once))


class _Course:
    """What both sides are measured with. Topics, files and connectors of a series are gone when it is over."""

    def __init__(self, bootstrap_servers: str, scratch: Path, postgres: PostgresServer, notify: Callable[[str], None]) -> None:
        self.topics = Topics(bootstrap_servers)
        self._bootstrap_servers, self._scratch, self._postgres, self._notify = bootstrap_servers, scratch, postgres, notify
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0, **QUIET})
        self._numbers = itertools.count(1)

    def at_rest(self, sides: Sequence[_Side]) -> list[Run]:
        """Sinks of one silent topic, on all sides at the same time."""
        with ExitStack() as opened:
            topic = opened.enter_context(self.topics.topic("silent"))
            for side in sides:
                names = [f"rest-{side.name}-{number}" for number in range(SINKS)]
                opened.enter_context(side.connectors({name: self.sink(topic, name) for name in names}))
            self._notify(f"{WORK}: {SINKS} sinks rest for {_REST_SECONDS:.0f} s, then for {_MEASURED_SECONDS:.0f} s measured")
            time.sleep(_REST_SECONDS)
            before = {name: cpu_seconds_of(pids) for side in sides for name, pids in side.processes().items()}
            time.sleep(_MEASURED_SECONDS)
            runs = []
            for name, pids in [(name, pids) for side in sides for name, pids in side.processes().items()]:
                used = sum(seconds - before[name].get(pid, 0.0) for pid, seconds in cpu_seconds_of(pids).items())
                runs.append(Run(WORK, name, SINKS, _MEASURED_SECONDS, round(used, 3), proportional_bytes(pids), len(pids)))
                self._notify(f"{name}: {used:.3f} CPU-s, {runs[-1].peak_rss_bytes / 1e6:.0f} MB, {len(pids)} processes")
            return runs

    def posts(self, side: _Side) -> list[Run]:
        """From the request for a sink of a topic with one record to that record in the file."""
        seconds = []
        for _ in range(_POSTS + 1):
            name = self._name(side)
            with self.topics.topic(name) as topic:
                self._send(topic)("0")
                self._producer.flush(HANG_SECONDS)
                config = self.sink(topic, name)
                with closing(FileArrivals(Path(config["file"]))) as arrivals:
                    begun = time.monotonic()
                    side.client.create_connector(name, {**config, **side.more})
                    until = begun + HANG_SECONDS
                    while "0" not in arrivals.receive(0.5):
                        if time.monotonic() > until:
                            raise TimeoutError(f"{name} has delivered nothing")
                    seconds.append(time.monotonic() - begun)
                side.client.delete_connector(name)
                _wait_until(lambda: name not in side.client.connectors(), f"{name} is gone")  # noqa: B023
        return self._runs(side, _POST, 0, seconds[1:])

    def series(self, side: _Side, title: str, way: Callable[[_Side, str], _Way]) -> list[Run]:
        """Records at each rate, after some to warm up, over one connector."""
        runs = []
        name = self._name(side)
        with way(side, name) as (send, arrivals):
            latencies(send, arrivals, _WARM_UP, _WARM_UP_RATE)
            for rate, count in _RECORDS.items():
                first = _FIRST * rate
                runs += self._runs(side, title, rate, latencies(send, arrivals, range(first, first + count), rate))
        return runs

    def sink(self, topic: str, name: str) -> dict[str, str]:
        """A FileStreamSink with a folder of its own."""
        folder = self._scratch / "staying-files" / name
        folder.mkdir(parents=True)
        return {"connector.class": "FileStreamSink", "tasks.max": "1", "topics": topic, "file": str(folder / "lines.txt"), **STRINGS}

    @contextmanager
    def to_file(self, side: _Side, name: str) -> Iterator[_Pair]:
        with self.topics.topic(name) as topic:
            config = self.sink(topic, name)
            with closing(FileArrivals(Path(config["file"]))) as arrivals, side.connectors({name: config}):
                yield self._send(topic), arrivals

    @contextmanager
    def to_table(self, side: _Side, name: str) -> Iterator[_Pair]:
        """Ours alone: Kafka Connect has no connector for tables of its own."""
        table = name.replace("-", "_")
        url = f"jdbc:postgresql://{LOOPBACK}:{self._postgres.port}/postgres"
        with self.topics.topic(name) as topic, closing(TableArrivals(self._postgres, table)) as arrivals:
            write = {"insert.mode": "insert", "pk.mode": "none", "table.name.format": table}
            config = {"connector.class": "JdbcSink", "tasks.max": "1", "topics": topic, "connection.url": url, "connection.user": USER}
            with side.connectors({name: {**config, **write, **_JSON}}):
                yield self._send(topic, _ROW), arrivals

    def from_file(self, side: _Side, name: str) -> _Way:
        return self._from_file(side, name, {} if side.name == CONNECT else {"delivery.guarantee": "at_least_once"})

    def from_file_exactly_once(self, side: _Side, name: str) -> _Way:
        return self._from_file(side, name, {"exactly.once.support": "required"})

    @contextmanager
    def _from_file(self, side: _Side, name: str, more: Mapping[str, str]) -> Iterator[_Pair]:
        path = self._scratch / "staying-files" / f"{name}.txt"
        with self.topics.topic(name) as topic, path.open("w", buffering=1) as file:
            config = {"connector.class": "FileStreamSource", "tasks.max": "1", "topic": topic, "file": str(path), **STRINGS, **more}
            with closing(TopicArrivals(self._bootstrap_servers, topic)) as arrivals, side.connectors({name: config}):
                yield lambda number: file.write(f"{number}\n"), arrivals

    def _send(self, topic: str, form: str = "%s") -> Callable[[str], object]:
        def send(number: str) -> None:
            self._producer.produce(topic, (form % number).encode(), partition=0)
            self._producer.poll(0)

        return send

    def _name(self, side: _Side) -> str:
        return f"staying-{side.name}-{next(self._numbers)}"

    def _runs(self, side: _Side, title: str, rate: int, seconds: Sequence[float]) -> list[Run]:
        self._notify(f"{title}, {rate}/s, {side.name}: p50 {median(seconds) * 1000:.1f} ms, longest {max(seconds) * 1000:.1f} ms")
        return [Run(WORK, f"{title}: {side.name}", rate, round(taken, 5), 0.0, 0, 1) for taken in seconds]


def staying_table(runs: Sequence[Run]) -> str:
    """Two tables as Markdown: latencies, then what rest costs."""
    lines = [
        "| way | records/s | contestant | records | p50 ms | aim | p99 ms | aim | longest ms |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for title, (middle, most) in _AIMS.items():
        for rate, side in itertools.product((0, *_RECORDS), (CONNECT, OURS)):
            seconds = sorted(run.seconds for run in runs if (run.contestant, run.records) == (f"{title}: {side}", rate))
            if seconds:
                p99 = seconds[ceil(0.99 * len(seconds)) - 1]
                aims = ["", ""] if side != OURS else [f"≤ {middle:g}", "" if most is None else f"≤ {most:g}"]
                measured = [f"{len(seconds)}", _ms(median(seconds)), aims[0], _ms(p99), aims[1], _ms(seconds[-1])]
                cells = [title, f"{rate or ''}", side, *measured]
                lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| at rest | sinks | processes | % of a core | MB (PSS) | aim |", "| --- | ---: | ---: | ---: | ---: | --- |"]
    for name in (CONNECT, OURS, OURS_AND_TASK, SERVICES):
        for run in (run for run in runs if run.contestant == name):
            share = 100 * run.cpu_seconds / run.seconds
            aim = f"less than {CONNECT}" if name in {OURS, OURS_AND_TASK} else ""
            lines.append(f"| {name} | {run.records} | {run.delivered} | {share:.1f} | {run.peak_rss_bytes / 1e6:.0f} | {aim} |")
    return "\n".join(lines) + "\n"


def _our_side(stack: Stack) -> _Side:
    assert stack.airflow is not None
    airflow, state = stack.airflow, stack.state() or {}
    login = {"username": USERNAME, "password": airflow.password}
    token = httpx.post(f"{airflow.url}/auth/token", json=login, timeout=HANG_SECONDS).json()["access_token"]

    def processes() -> Mapping[str, set[int]]:
        (file,) = (stack.folder / "runs").glob(f"{application_dag_id(_APPLICATION)}-*/*/try-*/{PID_FILE}")
        driver = psutil.Process(int(file.read_text()))
        application = with_descendants(driver.pid)
        task = application | {process.pid for process in driver.parents()[:2]}  # the task's process and its supervisor
        services = set[int]().union(*(with_descendants(process.pid) for process in airflow.processes.values()))
        return {OURS: application, OURS_AND_TASK: task, SERVICES: services - task}

    return _Side(OURS, ConnectClient.of(str(state["rest_url"]), token=token), {"airflow.application": _APPLICATION}, processes)


def _their_side(worker: ConnectWorker) -> _Side:
    return _Side(CONNECT, ConnectClient.of(worker.url), {}, lambda: {CONNECT: with_descendants(worker.pid)})


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"


def _wait_until(condition: Callable[[], bool], what: str) -> None:
    """Raises TimeoutError if it takes too long. A refusal of the API, for example during a rebalance, is no answer yet."""
    until = time.monotonic() + HANG_SECONDS
    while True:
        try:
            if condition():
                return
        except ConnectException as error:
            if time.monotonic() > until:
                raise TimeoutError(f"not within {HANG_SECONDS:.0f} s: {what}") from error
        if time.monotonic() > until:
            raise TimeoutError(f"not within {HANG_SECONDS:.0f} s: {what}")
        time.sleep(0.2)
