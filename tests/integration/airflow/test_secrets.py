"""Secrets of every way into a config, searched for in all that a real Airflow, its database, its files and the topics hold afterwards.

A connector checks that it has been given each secret, and shows all of them, spelled in many ways, wherever a plugin's code can: in
validations, previews, errors, traces, log lines, output. None may be seen.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from sqlalchemy import MetaData, create_engine, select

from airflow_provider_connect.runtime.model.ids import dag_id_for
from tests.canaries import NAME, SINK, WRITTEN_OUT, digests, install
from tests.final_failures import expect_hidden
from tests.integration.airflow.conftest import CANARIES, Airflow
from tests.integration.worker.environment import make_topic, read_topic, values_of
from tests.rest_routes import INTERNAL, routes
from tests.waiting import HANG_SECONDS, wait_until

HELD = {"run.json", "environment.sh"}
"""Files of mode 0600 that hold values: a run's own until it ends, and the environment that this test has put one into."""


@dataclass(slots=True)
class Sightings:
    """What was read, how often, and where which canary was seen."""

    read: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    found: set[str] = field(default_factory=set)

    def check(self, kind: str, where: str, data: bytes, *, but: tuple[str, ...] = ()) -> None:
        self.read[kind] += 1
        self.found |= {f"{way} in {kind}: {where}" for way in CANARIES.found_in(data) if way not in but}


@dataclass(slots=True)
class RunEnvironment:
    airflow: Airflow
    folder: Path
    unique: str
    topic: str
    sightings: Sightings = field(default_factory=Sightings)
    answered: set[tuple[str, str]] = field(default_factory=set)

    def config(self, leak: str) -> dict[str, str]:
        url = f"jdbc:postgresql://me:{CANARIES.of('user')}@host/shop?ssl=true&password={CANARIES.of('parameter')}"
        words = {
            "airflow": f"${{airflow:{self.unique}:password}}",
            "extra": f"${{airflow:{self.unique}:extra.key}}",
            "uri": f"${{airflow:{self.unique}-uri:uri}}",
            "variable": f"${{variable:{self.unique}}}",
            "env": "${env:CANARY_OF_THE_HOST}",
            "file": f"${{file:{self.folder / 'secrets.properties'}:key}}",
            "directory": f"${{dir:{self.folder}:directory}}",
            "vault": "${vault:vault}",
        }
        values = {"opaque": CANARIES.of("typed"), "api.token": CANARIES.of("named"), "connection.url": url}
        inside = "jdbc:any://me:{}@host/x?password={}&user=me"
        request = {
            **values,
            **{f"word.{way}": CANARIES.of(way) for way in words},
            "word.uri": f"generic://me:{quote(CANARIES.of('uri'), safe='')}@",
            "word.url": inside.format(CANARIES.of("env"), CANARIES.of("vault")),
        }
        return {
            "connector.class": NAME,
            "topic": self.topic,
            **values,
            **{f"word.{way}": text for way, text in words.items()},
            "word.url": inside.format(words["env"], words["vault"]),
            "expected": digests(request),
            "leak": leak,
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
            "airflow.schedule": "none",
            "airflow.retries": "0",
        }

    def ask(self, method: str, path: str, *expected: int, body: object = None) -> httpx.Response:
        """An answer of our REST API, which is checked; its status is one of those ``expected``."""
        answer = self.airflow.client.request(method, f"/connect{path}", json=body, timeout=HANG_SECONDS)
        self.sightings.check("answer", f"{method} {path} ({answer.status_code})", f"{answer.headers}{answer.text}".encode())
        assert answer.status_code in expected, f"{method} {path}: {answer.status_code} {answer.text[:3000]}"
        if answer.is_success:
            self.answered.add((method, path.partition("?")[0]))
        return answer

    def start(self, kind: str, leak: str) -> tuple[str, str]:
        """A connector and its run, under way."""
        name = f"{kind}-{self.unique}"
        self.ask("POST", "/connectors", 201, body={"name": name, "config": self.config(leak), "initial_state": "PAUSED"})
        wait_until(lambda: self.airflow.client.get(f"/api/v2/dags/{dag_id_for(name)}").status_code == 200, f"{name} has a DAG")
        self.ask("PUT", f"/connectors/{name}/resume", 202)
        return name, wait_until(lambda: self.airflow.runs(name), f"{name} runs")[0]


@pytest.fixture(scope="module")
def environment(airflow: Airflow, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunEnvironment]:
    tmp_path, unique = tmp_path_factory.mktemp("canaries"), f"canaries-{uuid.uuid4().hex[:8]}"
    for version in ("1.0", "1.1"):
        install(tmp_path / "plugins", version)
    (tmp_path / "secrets.properties").write_text(f"key={CANARIES.of('file')}\n", encoding="utf-8")
    for way in ("directory", "vault"):
        (tmp_path / way).write_text(CANARIES.of(way))
    kafka = "org.apache.kafka.common.config.provider"
    settings = {
        "plugin.path": str(tmp_path / "plugins"),
        "config.providers": "env,file,dir,vault",
        "config.providers.env.class": f"{kafka}.EnvVarConfigProvider",
        "config.providers.env.access..*": "CANARY_OF_THE_HOST",
        "config.providers.file.class": f"{kafka}.FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(tmp_path),
        "config.providers.dir.class": f"{kafka}.DirectoryConfigProvider",
        "config.providers.dir.param.allowed.paths": str(tmp_path),
        "config.providers.vault.class": "canary_vault.Vault",
        "config.providers.vault.param.folder": str(tmp_path),
        "config.providers.airflow.param.allowlist.pattern": ".*",
        "config.providers.variable.param.allowlist.pattern": ".*",
    }
    connection = {"connection_id": unique, "conn_type": "generic", "login": "me", "password": CANARIES.of("airflow")}
    airflow.api("POST", "/connections", json={**connection, "extra": json.dumps({"key": CANARIES.of("extra")})})
    only_uri = {**connection, "connection_id": f"{unique}-uri", "password": CANARIES.of("uri")}
    airflow.api("POST", "/connections", json=only_uri)
    airflow.api("POST", "/variables", json={"key": unique, "value": CANARIES.of("variable")})
    airflow.set_variable("connect_worker_config", json.dumps(settings))
    topic = make_topic(airflow.settings().bootstrap_servers, unique)
    environment = RunEnvironment(airflow, tmp_path, unique, topic)
    try:
        wait_until(lambda: NAME in airflow.client.get("/connect/connector-plugins").text, "the server has the settings")
        yield environment
    finally:
        for kind in ("good", "task", "start", "refused", "sink"):
            airflow.client.delete(f"/connect/connectors/{kind}-{unique}")
        airflow.set_variable("connect_worker_config", None)
        for connection_id in (unique, f"{unique}-uri"):
            airflow.client.delete(f"/api/v2/connections/{connection_id}")
        airflow.client.delete(f"/api/v2/variables/{unique}")


def check_runs(environment: RunEnvironment, runs: Mapping[str, str]) -> None:
    """Command lines and run directories until all runs have ended."""
    deadline = time.monotonic() + HANG_SECONDS
    while any(environment.airflow.run_state(name, run) in ("queued", "running") for name, run in runs.items()):
        assert time.monotonic() < deadline
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            environment.sightings.check("command line", file.parent.name, bytes_of(file))
        check_files(environment, environment.airflow.stack.folder / "runs", "run directory", but="scratch")
        time.sleep(0.1)


def check_all_runs(environment: RunEnvironment, names: Iterable[str]) -> None:
    for name in names:
        for run in environment.airflow.runs(name):
            check_runs(environment, {name: run})


def check_files(environment: RunEnvironment, folder: Path, kind: str, *, but: str = "") -> None:
    """What a config has written out stands in the raw configs that the host keeps. ``but``: a folder that is left out, such as the one in
    which Spark hands a task its work."""
    files = (Path(where, name) for where, _, names in os.walk(folder) for name in names)  # which passes over what is gone meanwhile
    for path in files:
        if path.is_file() and but not in path.parts and path.name.removeprefix(".").removesuffix(".partial") not in HELD:
            raw = path.name.startswith("config-topic-")
            environment.sightings.check(kind, path.name, bytes_of(path), but=WRITTEN_OUT if raw else ())


def bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # gone meanwhile
        return b""


def check_the_database(environment: RunEnvironment) -> None:
    """Every row of every table, the mirror's and Airflow's own."""
    url = environment.airflow.stack.airflow.variables["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]  # type: ignore[union-attr]
    engine = create_engine(url)
    tables = MetaData()
    tables.reflect(engine)
    with engine.connect() as connection:
        for table in tables.sorted_tables:
            for row in connection.execute(select(table)):
                environment.sightings.check("row", table.name, f"{tuple(row)}".encode())
    engine.dispose()


def check_topics(environment: RunEnvironment) -> None:
    settings = environment.airflow.settings()
    for topic in (settings.config_topic, settings.offset_topic, settings.status_topic, settings.batch_topic):
        for record in read_topic(settings.bootstrap_servers, topic, read_committed=False):
            data = b" ".join([record.key or b"", record.value or b"", *(value or b"" for _, value in record.headers)])
            environment.sightings.check("record", topic, data, but=WRITTEN_OUT if topic == settings.config_topic else ())


def ask_everything(environment: RunEnvironment, names: Iterable[str]) -> None:
    for path in ("", "?expand=info", "?expand=status", "?expand=info&expand=status"):
        environment.ask("GET", f"/connectors{path}", 200)
    for path in ("/", "/health", "/metrics", "/workers", "/admin/loggers", "/connector-plugins?connectorsOnly=false", "/openapi.json"):
        environment.ask("GET", path, 200)
    for path in ("/ui/connectors", "/ui/connector-plugins", "/ui/connect.js"):
        environment.ask("GET", path, 200)
    environment.ask("GET", f"/connector-plugins/{NAME}/config", 200)
    for name in names:
        for path in ("", "/config", "/status", "/tasks", "/tasks/0", "/tasks/0/status", "/topics", "/offsets", "/upgrade", "/tasks-config"):
            environment.ask("GET", f"/connectors/{name}{path}", 200, 404)
        for path in ("", "/lag", "/lags", "/dead-letters", "/replay", "/backfills"):
            environment.ask("GET", f"/ui/connectors/{name}{path}", 200, 400, 404)


def upgrade_and_restart(environment: RunEnvironment, name: str) -> None:
    """The next run compares versions whose records have fields that are named after secrets; and a task that is restarted."""
    path, to, records = f"/connectors/{name}", {"to": "[1.0]"}, 1000
    environment.ask("PUT", f"{path}/pause", 202)
    environment.ask("PUT", f"{path}/config", 200, body=environment.config("records"))
    environment.ask("PUT", f"{path}/upgrade", 202, body={**to, "canary": records})
    environment.ask("PUT", f"{path}/resume", 202)
    wait_until(lambda: environment.ask("GET", f"{path}/upgrade", 200).json()["state"] == "HELD", "the upgrade is held back")
    for answer in (
        environment.ask("GET", f"{path}/upgrade", 200),
        environment.ask("POST", f"{path}/upgrade/comparison", 200, body={**to, "records": records}),
    ):
        assert "[hidden]" in answer.text, "the proof that there was something to hide"
    environment.ask("DELETE", f"{path}/upgrade", 204)
    environment.ask("PUT", f"{path}/config", 200, body=environment.config("log"))
    check_all_runs(environment, [name])
    environment.ask("POST", f"{path}/tasks/0/restart", 204)
    check_all_runs(environment, [name])


def change_everything(environment: RunEnvironment, name: str) -> None:
    """Answers to changes and dry runs, good and bad; the connector is stopped in the end."""
    config = environment.config("log")
    environment.ask("POST", "/connectors", 409, body={"name": name, "config": config})
    environment.ask("PATCH", f"/connectors/{name}/config", 200, body={"note": "changed"})
    environment.ask("PUT", f"/connectors/{name}/config", 200, body=config)
    shown = environment.ask("GET", f"/connectors/{name}/config", 200).json()
    environment.ask("PUT", f"/connectors/{name}/config", 200, body={key: text for key, text in shown.items() if key != "name"})
    for leak in ("validation", "validate-raise", "die-in-validate-raise", "log,validation"):
        environment.ask("PUT", f"/connector-plugins/{NAME}/config/validate", 200, 400, 500, body=environment.config(leak))
        environment.ask("PATCH", f"/connectors/{name}/config", 400, 500, body={"leak": leak})
        environment.ask("PUT", f"/connectors/{name}/config", 400, 500, body=environment.config(leak))
        environment.ask("POST", "/connectors", 400, 500, body={"name": f"{name}-2", "config": environment.config(leak)})
    for leak in ("records", "log,records", "check", "starting", "planning", "task-start", "poll", "die-in-poll", "die-in-starting"):
        body = {"records": 1000, "config": environment.config(leak)}
        answer = environment.ask("POST", f"/connectors/{name}/preview", *((200,) if "records" in leak else (200, 400, 500)), body=body)
        if "records" in leak:
            assert len(answer.json()["records"]) > 100
    environment.ask("PUT", f"/connectors/{name}/config", 200, body={**config, "topic": "${vault:vault}"} | {"topic": config["topic"]})
    environment.ask("PUT", f"/connectors/{name}/config", 400, body={**config, "topic": "${vault:vault}"})
    environment.ask("PUT", f"/connectors/{name}/stop", 204)
    for leak in ("", "bad", "absent", "value"):
        environment.ask("PUT", f"/connectors/{name}/config", 200, body=environment.config(leak))
        offsets = {"offsets": [{"partition": {"x": 1}, "offset": {"y": 1}}]}
        environment.ask("PATCH", f"/connectors/{name}/offsets", 200, 400, 500, body=offsets)
        environment.ask("DELETE", f"/connectors/{name}/offsets", 200, 400, 409, 500)


def sink_config(environment: RunEnvironment) -> dict[str, str]:
    """Of a sink that refuses each record with a text that holds its secrets."""
    config = environment.config("log")
    return {
        **{key: text for key, text in config.items() if key != "topic"},
        "connector.class": SINK,
        "topics": environment.topic,
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"refused-{environment.unique}",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }


def refuse_and_deliver_again(environment: RunEnvironment) -> None:
    """Dead-letter records, their replay, and a backfill, of a sink with all secrets."""
    name = f"sink-{environment.unique}"
    environment.ask("POST", "/connectors", 201, body={"name": name, "config": sink_config(environment)})
    path, refused = f"/connectors/{name}", f"/ui/connectors/{name}/dead-letters"
    wait_until(lambda: len(environment.ask("GET", refused, 200).json()["records"]) >= 3, "records are refused")
    assert "cannot put [hidden]" in environment.ask("GET", refused, 200).text, "the proof that there was something to hide"
    for leak in ("log", "task-start", "put", "die-in-task-start"):
        body: Any = {"records": 10, "config": {**sink_config(environment), "leak": leak}}
        environment.ask("POST", f"{path}/preview", 200, 400, 500, body=body)
    casts = {
        "transforms": "cast",
        "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.cast.spec": "int32",
    }
    for body in ({"dry_run": True}, {"dry_run": True, "transforms": casts}, {"transforms": {"transforms": "x"}}, {"transforms": casts}):
        environment.ask("POST", f"{path}/dead-letters/replay", 200, 202, 400, 409, 500, body=body)
    replay, replays = f"{name}-replay", f"{path}/dead-letters/replay"
    wait_until(lambda: environment.ask("GET", replays, 200).json()["state"] == "FAILED", "the replay has failed")
    edited = {"edits": {"0:0": {"value": "edited"}}}
    environment.ask("POST", replays, 202, body=edited)
    wait_until(lambda: environment.ask("GET", replays, 200).json()["is_done"], "the replay is done")
    ranges: Any = {"ranges": [{}], "id": "a"}
    for body in ({**ranges, "dry_run": True}, ranges, {**ranges, "id": "b", "config": {"leak": "log,starting"}}):
        environment.ask("POST", f"{path}/backfills", 200, 201, 400, 409, body=body)
    wait_until(lambda: environment.ask("GET", f"{path}/backfills", 200).json()[0]["is_done"], "the backfill is done")
    others = [each for each in environment.ask("GET", "/connectors", 200).json() if each.startswith(name)]
    assert sorted(others) == sorted([name, replay, f"{name}.backfill.a", f"{name}.backfill.b"])
    check_all_runs(environment, others)
    ask_everything(environment, others)
    for each in others:
        xcoms = [environment.airflow.xcoms(each, run) for run in environment.airflow.runs(each)]
        environment.sightings.check("xcom", each, json.dumps(xcoms).encode())
        environment.ask("DELETE", f"/connectors/{each}", 204)


def ask_for_the_past(environment: RunEnvironment, name: str) -> None:
    """Revisions, undone offsets, upgrades, states, levels, of a connector that is stopped."""
    path = f"/connectors/{name}"
    revisions = environment.ask("GET", f"{path}/config/history", 200).json()
    assert len(revisions["revisions"]) > 5
    environment.ask("POST", f"{path}/config/rollback", 200, 400, 409, body={"revision": revisions["revisions"][-1]["revision"]})
    environment.ask("GET", f"{path}/offsets/history", 200)
    environment.ask("GET", f"{path}/costs", 200)
    environment.ask("GET", "/costs", 200)
    for instant in ("2000-01-01T00:00:00Z", round(time.time() * 1000)):
        environment.ask("POST", f"{path}/offsets/undo", 200, 400, 409, body={"to": instant, "dry_run": True})
    environment.ask("PUT", f"{path}/resume", 202)
    environment.ask("PUT", f"{path}/pause", 202)
    environment.ask("PUT", f"{path}/topics/reset", 200)
    environment.ask("POST", f"{path}/restart?includeTasks=true", 200, 202, 204, 409, 500)
    environment.ask("PUT", "/admin/loggers/canary", 200, body={"level": "DEBUG"})
    environment.ask("GET", "/admin/loggers/canary", 200)
    for method, internal in INTERNAL:
        environment.ask(method, internal.format(connector=name), 400, body=environment.config("log"))


def routes_left(environment: RunEnvironment) -> list[tuple[str, str]]:
    """Those that have not answered a request as they should, of all that the server has but for those of workers among themselves."""
    patterns = {route: re.compile(re.sub(r"\{\w+\}", "[^/]+", route[1])) for route in routes() if route not in INTERNAL}
    answered = environment.answered
    return [route for route, pattern in patterns.items() if not any(m == route[0] and pattern.fullmatch(path) for m, path in answered)]


@pytest.mark.timeout(1800)  # every route, with a dozen runs
@pytest.mark.soak
def test_no_secret_of_any_provider_is_seen_while_its_connector_works(environment: RunEnvironment) -> None:
    airflow, sightings = environment.airflow, environment.sightings
    runs = dict([environment.start("good", "log"), environment.start("task", "log,poll"), environment.start("start", "log,starting")])
    check_runs(environment, runs)
    good, task, start = runs
    states = {name: airflow.run_state(name, run) for name, run in runs.items()}
    logs = {name: airflow.log(name, run) for name, run in runs.items()}
    assert states == {good: "success", task: "failed", start: "failed"}, logs
    assert set(values_of(airflow.settings().bootstrap_servers, environment.topic)) == {'"14 secrets are right"'}
    texts: dict[str, Any] = {name: environment.ask("GET", f"/connectors/{name}/status", 200).text for name in (task, start)}
    ask_everything(environment, runs)
    upgrade_and_restart(environment, good)
    change_everything(environment, good)
    ask_everything(environment, runs)
    ask_for_the_past(environment, good)
    refuse_and_deliver_again(environment)
    assert routes_left(environment) == []
    for name, run in runs.items():
        sightings.check("xcom", name, json.dumps(airflow.xcoms(name, run)).encode())
        sightings.check("task instances", name, json.dumps(airflow.tasks(name, run)).encode())
    wait_until(lambda: environment.unique in str(airflow.client.get("/connect/connectors").text), "still there")
    check_the_database(environment)
    check_topics(environment)
    for kind, folder in (
        ("server log", airflow.stack.folder / "airflow" / "logs"),
        ("task log", airflow.stack.log_folder),
        ("left file", airflow.stack.folder / "runs"),
        ("file of Airflow", airflow.stack.folder / "airflow" / "home"),
    ):
        check_files(environment, folder, kind)

    print(dict(sightings.read))
    expect_hidden(sightings.found)
    assert all(sightings.read[kind] > 2 for kind in ("command line", "run directory", "answer", "row", "record", "server log", "task log"))
    assert "cannot poll [hidden]" in texts[task], "the proof that there was something to hide"
    assert "cannot starting [hidden]" in texts[start]
    assert "in poll: [hidden]" in logs[good]


@pytest.mark.soak
def test_the_restart_of_a_connector_that_cannot_start_answers_with_the_cause(environment: RunEnvironment) -> None:
    """As a real Kafka Connect does (contract §8), and without its secrets."""
    before = set(environment.sightings.found)
    name, run = environment.start("refused", "starting")
    environment.airflow.wait_for_run(name, run)
    path = f"/connectors/{name}"
    answer = environment.ask("POST", f"{path}/restart", 500).json()
    cause = "airflow_provider_connect.errors.ConnectException: cannot starting [hidden]"
    assert answer["message"].startswith(f"Failed to start connector: {name}: {cause}"), answer
    assert environment.ask("GET", f"{path}/status", 200).json()["connector"]["state"] == "FAILED"
    assert environment.ask("POST", f"{path}/restart?onlyFailed=true", 202).json()["connector"]["state"] == "RESTARTING"
    environment.ask("PATCH", f"{path}/config", 200, body={"leak": ""})
    wait_until(lambda: environment.ask("GET", f"{path}/status", 200).json()["connector"]["state"] == "RUNNING", "it has started")
    environment.ask("POST", f"{path}/restart", 204)
    expect_hidden(environment.sightings.found - before)
