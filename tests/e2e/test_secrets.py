"""Secrets planted in a connector's config and in the worker's settings, searched for in everything that people or programs may see.

Four applications run at once: a source, a sink, a connector that cannot start and a task that fails, the last two with texts that hold
their secrets. While they run, their processes' command lines and environments are read, and their run directories; afterwards what they
printed, Spark's event logs, their results, and every record of the internal topics.
"""

from __future__ import annotations

import stat
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.run import RUN_FILE, RunState
from airflow_provider_connect.runtime.stores.status_store import StatusStore
from tests.conftest import WorkerSettings as MakeSettings
from tests.e2e.faults.environments import PLAIN
from tests.e2e.faults.runs import Runs, Submission
from tests.final_failures import expect_hidden
from tests.integration.worker import plugins
from tests.integration.worker.environment import make_topic, read_topic, send, values_of
from tests.waiting import wait_until

PROVIDERS = {
    "config.providers": "env,file",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    "config.providers.env.access..*": "CANARY_OF_TEST",
    "config.providers.airflow.access..*": "shop:password",
    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
}
NEEDED_IN_ENVIRONMENT = "CANARY_OF_TEST="


@dataclass(slots=True)
class Canaries:
    """One secret for each way in."""

    mark: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    @property
    def env(self) -> str:
        return f"env-{self.mark}-é'\"/x"  # what a text that quotes it would change

    @property
    def file(self) -> str:
        return f"file-{self.mark}"

    @property
    def airflow(self) -> str:
        return f"airflow-{self.mark}"

    @property
    def jaas(self) -> str:
        return f"jaas-{self.mark}"

    @property
    def converter(self) -> str:
        return f"converter-{self.mark}"

    def found_in(self, data: bytes) -> set[str]:
        """The canaries in some bytes; each is identified by its way and the mark, whatever was done to the rest."""
        ways = ("env", "file", "airflow", "jaas", "converter")
        return {way for way in ways if f"{way}-{self.mark}".encode() in data}


@dataclass(slots=True)
class Sightings:
    """What was checked, how often, and where a canary was found."""

    canaries: Canaries
    checked: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    found: set[str] = field(default_factory=set)

    def check(self, kind: str, where: str, data: bytes) -> None:
        self.checked[kind] += 1
        self.found |= {f"{way} in {kind} {where}" for way in self.canaries.found_in(data)}


def children_of(pids: set[int]) -> set[int]:
    """``pids`` and all that come of them."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    family = set(pids)
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return family


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # gone meanwhile
        return b""


def check_processes(sightings: Sightings, submissions: Mapping[str, Submission]) -> None:
    for pid in children_of({submission.process.pid for submission in submissions.values()}):
        command = read(Path(f"/proc/{pid}/cmdline"))
        name = command.replace(b"\0", b" ").decode(errors="replace")[:60]
        sightings.check("command line of", name, command)
        for entry in read(Path(f"/proc/{pid}/environ")).split(b"\0"):
            if not entry.startswith(NEEDED_IN_ENVIRONMENT.encode()):
                sightings.check("environment of", f"{name}: {entry[:30]!r}", entry)


def check_directories(sightings: Sightings, submissions: Mapping[str, Submission]) -> None:
    for submission in submissions.values():
        for path in submission.directory.rglob("*"):
            if path.is_file() and path.name not in {RUN_FILE, f".{RUN_FILE}.partial"}:
                sightings.check("file", path.name, read(path))


def records(bootstrap: str, settings: WorkerSettings) -> Iterator[tuple[str, bytes]]:
    for topic in (settings.config_topic, settings.offset_topic, settings.status_topic, settings.batch_topic):
        for record in read_topic(bootstrap, topic, read_committed=False):
            headers = b" ".join(value or b"" for _, value in record.headers)
            yield topic, b" ".join([record.key or b"", record.value or b"", headers])


@dataclass(slots=True)
class RunEnvironment:
    """The four applications of one worker group."""

    folder: Path
    canaries: Canaries
    properties: dict[str, str]
    topic: str

    @property
    def password(self) -> str:
        return f"${{env:CANARY_OF_TEST}}+${{file:{self.folder / 'secrets.properties'}:key}}+${{airflow:shop:password}}"

    def runs(self) -> dict[str, Runs]:
        source = {"connector.class": "tests.NumbersSourceConnector", "topics.to": self.topic, "until": "300", "poll.ms": "300"}
        sink = {
            "connector.class": "tests.SlowSinkConnector",
            "topics": f"{self.topic}-in",
            "file": str(self.folder / "out"),
            "put.ms": "1000",
        }
        configs = {
            "source": {**source, "fail.commit": "true"},
            "sink": sink,
            "failing-start": {**source, "fail.start": "true"},
            "failing-task": {**source, "fail.tasks": "0"},
            "failing-put": {**sink, "file": str(self.folder / "none"), "fail.put": "true"},
        }
        return {name: self._runs(name, config) for name, config in configs.items()}

    def _runs(self, name: str, config: dict[str, str]) -> Runs:
        runs = Runs(self.folder, name, self.properties, {**config, "password": self.password}, "local[1]")
        runs.environment = {"CANARY_OF_TEST": self.canaries.env}
        runs.secrets = {"${airflow:shop:password}": self.canaries.airflow}
        runs.python_path = [str(self.folder / "plugins")]
        events = self.folder / "events"
        events.mkdir(exist_ok=True)
        runs.conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri(), "spark.eventLog.compress": "false"}
        return runs


@pytest.fixture
def environment(tmp_path: Path, worker_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch) -> RunEnvironment:
    canaries = Canaries()
    plugins.install(tmp_path / "plugins")
    (tmp_path / "secrets.properties").write_text(f"key={canaries.file}\n")
    worker = {
        "producer.sasl.jaas.config": f'a.PlainLoginModule required username="me" password="{canaries.jaas}";',
        "value.converter.basic.auth.user.info": f"me:{canaries.converter}",
    }
    properties = worker_settings() | PLAIN | PROVIDERS | worker
    topic = make_topic(properties["bootstrap.servers"], properties["group.id"])
    send(properties["bootstrap.servers"], make_topic(properties["bootstrap.servers"], f"{topic}-in"), ["a", "b"])
    return RunEnvironment(tmp_path, canaries, properties, topic)


def test_secrets_are_nowhere_but_where_they_are_needed(environment: RunEnvironment) -> None:
    sightings = Sightings(environment.canaries)
    submissions = {name: runs.submit() for name, runs in environment.runs().items()}
    for submission in submissions.values():
        spec = submission.directory / RUN_FILE
        assert stat.S_IMODE(spec.stat().st_mode) == 0o600
        assert stat.S_IMODE(submission.directory.stat().st_mode) == 0o700
        assert environment.canaries.found_in(spec.read_bytes()) == {"airflow", "jaas", "converter"}, "what cannot be resolved there"

    def have_ended() -> bool:
        check_processes(sightings, submissions)
        return all(submission.process.poll() is not None for submission in submissions.values())

    wait_until(have_ended)
    results = {name: submission.wait() for name, submission in submissions.items()}
    check_directories(sightings, submissions)
    for path in (environment.folder / "events").rglob("*"):
        if path.is_file():
            sightings.check("event log", path.name, read(path))
    settings = WorkerSettings.of(environment.properties)
    for topic, data in records(settings.bootstrap_servers, settings):
        sightings.check("record of", topic, data)

    print(dict(sightings.checked))
    expect_hidden(sightings.found)
    assert all(sightings.checked[kind] > 5 for kind in ("command line of", "environment of", "file", "record of"))
    assert sightings.checked["event log"] >= len(submissions)
    for name, submission in submissions.items():
        assert results[name] is not None, submission.output()[-3000:]
    states = {name: result.state for name, result in results.items() if result is not None}
    assert states == {name: RunState.FAILED if name.startswith("failing") else RunState.DONE for name in submissions}
    check_that_texts_were_masked(settings, submissions)
    assert len(values_of(settings.bootstrap_servers, environment.topic)) == 300
    assert (environment.folder / "out").read_text() == "a\nb\n"


def check_that_texts_were_masked(settings: WorkerSettings, submissions: Mapping[str, Submission]) -> None:
    """The proof that there was something to hide."""
    hidden = "[hidden]+[hidden]+[hidden]"
    with StatusStore(settings) as store:
        statuses = store.read()
    connector = statuses.connector("failing-start")
    assert connector is not None
    assert f"login refused for password {hidden}" in str(connector.trace)
    for name, message in (("failing-task", "task 0 cannot go on"), ("failing-put", "writing is refused")):
        status = statuses.task(name, 0)
        assert status is not None
        assert f"{message}: {hidden}" in str(status.trace)
        assert f"{message}: {hidden}" in submissions[name].output()
    assert f"commit cannot be done: {hidden}" in submissions["source"].output()
