"""What a list of all connectors with their configs and states costs: ours in Airflow's API server, a real Connect worker's beside it; and
what the list of the page costs, which has the runs of a day besides."""

import gzip
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection
from math import ceil
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from sqlalchemy import create_engine, insert

from airflow_provider_connect.dev.airflow_server import USERNAME
from airflow_provider_connect.dev.stack import Stack
from airflow_provider_connect.runtime.config.properties import parse_properties
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.ids import DAG_ID_PREFIX, ConnectorTaskId
from airflow_provider_connect.runtime.model.records import CommitRecord, ConfigRecord, ConnectorRecord, TargetStateRecord, TaskRecord
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import ConnectorStatus, TaskStatus
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime
from airflow_provider_connect.runtime.sql_mirror.tables import batch
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.status_store import StatusWriter
from tests.benchmark.connect_peer import ConnectWorker
from tests.benchmark.measure import tree_seconds
from tests.benchmark.race import Run
from tests.waiting import HANG_SECONDS

WORK, TITLE = "REST", "REST: every connector with its config and its state"
CONNECT, OURS, LIST = "connect-default", "ours", "ours, the page's list"
_PATH, _LIST_PATH = "/connectors?expand=status&expand=info", "/ui/connectors"
_RUNS, _HOUR_MS = 24, 3_600_000  # of each connector, one an hour
_THEIRS, _OURS = 200, (200, 1_000)
_WARM_UP, _REQUESTS = 50, 500
_TOPIC = "lines"
_LIMIT_SECONDS = 300.0
_REST_SECONDS = 10.0
_AIMS = {(OURS, 1_000): (0.020, 0.100), (LIST, 1_000): (0.100, 0.200)}  # seconds at the median, and that 99 of 100 requests take at most


@dataclass(frozen=True, slots=True)
class _Location:
    """A server that is asked: the base of its API, what goes with every request, and the process whose CPU is counted."""

    url: str
    headers: Mapping[str, str]
    pid: int

    def requests(self, contestant: str, connectors: int, path: str = _PATH) -> list[Run]:
        """One request after another on one connection, each timed to the answer's last byte. The CPU is that of all, shared evenly. The
        page's list is compressed, as for browsers."""
        headers = {**self.headers, "Accept-Encoding": "gzip" if path == _LIST_PATH else "identity"}
        base = urlsplit(self.url)
        connection = HTTPConnection(base.netloc, timeout=_LIMIT_SECONDS)
        seconds, delivered = [], set()
        for number in range(_WARM_UP + _REQUESTS):
            if number == _WARM_UP:
                cpu = tree_seconds(self.pid)
            started = time.perf_counter()
            connection.request("GET", f"{base.path}{path}", headers=headers)
            answer = connection.getresponse()
            body = answer.read()
            taken = time.perf_counter() - started
            if answer.status != 200:
                raise RuntimeError(f"{self.url}{path}: {answer.status} {body[:300]!r}")
            if number >= _WARM_UP:
                seconds.append(taken)
            if number in (0, _WARM_UP + _REQUESTS - 1):
                delivered.add(_listed(body, answer.headers))
        cpu = (tree_seconds(self.pid) - cpu) / _REQUESTS
        connection.close()
        return [Run(WORK, contestant, connectors, round(taken, 6), round(cpu, 6), 0, min(delivered)) for taken in seconds]


def connect_requests(bootstrap_servers: str, scratch: Path, cache: Path, java: JavaRuntime, notify: Callable[[str], None]) -> list[Run]:
    """A warm worker with its defaults and connectors that all run, each with a task and an empty file."""
    worker = ConnectWorker(scratch / "connect-rest", cache, java, bootstrap_servers, exactly_once=False)
    with worker.started():
        for number in range(_THEIRS):
            new = {"name": _name(number), "config": _config(_empty_file(scratch))}
            worker.request("POST", "/connectors", new)
        _wait_until(lambda: _running(worker.request("GET", _PATH)) == _THEIRS, f"all {_THEIRS} connectors run")
        notify(f"{WORK}: Kafka Connect has {_THEIRS} connectors")
        time.sleep(_REST_SECONDS)
        return _Location(worker.url, {}, worker.pid).requests(CONNECT, _THEIRS)


def our_requests(scratch: Path, cache: Path, notify: Callable[[str], None]) -> list[Run]:
    """Airflow with a DAG for each connector, its API server asked by a user who may read them all. The connectors are PAUSED."""
    measured = []
    with Stack(scratch / "rest-stack", cache=cache, notify=notify) as stack:
        assert stack.airflow is not None
        state = stack.state() or {}
        login = {"username": USERNAME, "password": stack.airflow.password}
        token = _ask(stack.airflow.url, "POST", "/auth/token", {}, login)["access_token"]
        headers = {"Authorization": f"Bearer {token}"}
        location = _Location(str(state["rest_url"]), headers, stack.airflow.processes["api-server"].pid)
        settings, there = WorkerSettings.of(parse_properties(stack.worker_properties.read_text())), 0
        for connectors in _OURS:
            _write(settings, range(there, connectors), _config(_empty_file(scratch)))
            there, path = connectors, f"/api/v2/dags?limit=1&dag_id_pattern={DAG_ID_PREFIX}%25"

            def all_known(path: str = path, wanted: int = connectors) -> bool:
                assert stack.airflow is not None
                return bool(_ask(stack.airflow.url, "GET", path, headers)["total_entries"] == wanted)

            _wait_until(all_known, f"{connectors} DAGs are there")
            notify(f"{WORK}: Airflow has {connectors} connectors")
            time.sleep(_REST_SECONDS)
            measured += location.requests(OURS, connectors)
        _record_runs(stack.airflow.home / "airflow.db", connectors)
        measured += location.requests(LIST, connectors, _LIST_PATH)
    return measured


def request_table(runs: Sequence[Run]) -> str:
    """A row for each server and number of connectors, as Markdown."""
    lines = [
        "| contestant | connectors | requests | p50 ms | aim | p99 ms | aim | longest ms | CPU-ms each |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for contestant, connectors in sorted({(run.contestant, run.records) for run in runs}):
        found = [run for run in runs if (run.contestant, run.records) == (contestant, connectors)]
        seconds = sorted(run.seconds for run in found)
        middle, most = median(seconds), seconds[ceil(0.99 * len(seconds)) - 1]
        aims = [f"≤ {aim * 1000:.0f}" for aim in _AIMS.get((contestant, connectors), ())] or ["", ""]
        wrong = "" if {run.delivered for run in found} == {connectors} else "!"
        cells = [contestant, f"{connectors:,}{wrong}", f"{len(found)}", f"{middle * 1000:.1f}", aims[0], f"{most * 1000:.1f}", aims[1]]
        lines.append(f"| {' | '.join([*cells, f'{seconds[-1] * 1000:.1f}', f'{found[0].cpu_seconds * 1000:.1f}'])} |")
    return "\n".join(lines) + "\n"


def _write(settings: WorkerSettings, numbers: range, config: Mapping[str, str]) -> None:
    """The records of connectors that have run and were paused: all that a worker would have written."""
    records: list[ConfigRecord] = []
    for name in map(_name, numbers):
        records += [ConnectorRecord(name, {**config, "name": name}), TargetStateRecord(name, TargetState.PAUSED)]
        records += [TaskRecord(ConnectorTaskId(name, 0), {**config, "task.class": "FileStreamSourceTask"}), CommitRecord(name, 1)]
    with ConfigStore(settings) as configs, StatusWriter(settings) as statuses:
        configs.change(lambda _: records)
        for name in map(_name, numbers):
            statuses.put_connector(ConnectorStatus(name, State.PAUSED, "127.0.0.1:8083", version="1.0"))
            statuses.put_task(TaskStatus(name, 0, State.PAUSED, "127.0.0.1:8083", version="1.0"))
        if not statuses.flush(HANG_SECONDS):
            raise RuntimeError("the statuses could not be written")


def _record_runs(database: Path, connectors: int) -> None:
    """The rows of runs that have delivered something in each of the last hours, in the mirror's table."""
    now_ms, values = int(time.time() * 1000), {"task": 0, "type": "source", "ranges": "[]", "seconds": 1.5, "cpu_seconds": 0.5}
    runs = [(name, hour, now_ms - hour * _HOUR_MS) for name in map(_name, range(connectors)) for hour in range(_RUNS)]
    engine = create_engine(f"sqlite:///{database}?timeout={_LIMIT_SECONDS}")
    with engine.begin() as connection:
        rows = [
            {**values, "connector": name, "claim": f"{number}", "run": f"run-{hour}", "records": 1_000, "bytes": 100_000}
            | {"first_ms": at_ms, "last_ms": at_ms}
            for number, (name, hour, at_ms) in enumerate(runs)
        ]
        connection.execute(insert(batch), rows)
    engine.dispose()


def _listed(body: bytes, headers: Message) -> int:
    """How many connectors are in the answer."""
    found = json.loads(gzip.decompress(body) if headers.get("Content-Encoding") == "gzip" else body)
    return len(found.get("connectors", found))


def _name(number: int) -> str:
    return f"connector-{number:04}"


def _config(file: Path) -> dict[str, str]:
    return {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": _TOPIC}


def _empty_file(scratch: Path) -> Path:
    file = scratch / "empty.txt"
    file.touch()
    return file


def _running(expanded: object) -> int:
    """How many connectors have a task that is RUNNING."""
    assert isinstance(expanded, dict)
    return sum([task["state"] for task in its["status"]["tasks"]] == ["RUNNING"] for its in expanded.values() if "status" in its)


def _ask(url: str, method: str, path: str, headers: Mapping[str, str], content: object = None) -> dict[str, object]:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=_LIMIT_SECONDS)
    try:
        body = None if content is None else json.dumps(content)
        connection.request(method, path, body, {**headers, "Content-Type": "application/json"})
        answer: dict[str, object] = json.loads(connection.getresponse().read())
        return answer
    finally:
        connection.close()


def _wait_until(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + _LIMIT_SECONDS
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"not within {_LIMIT_SECONDS:.0f} s: {what}")
        time.sleep(0.5)
