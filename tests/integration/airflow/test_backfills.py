"""Backfills in a real Airflow, over REST, by a command and by a DAG of a user: Dag runs of their own beside the live connector."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from airflow_provider_connect.runtime.model.ids import dag_id_for
from tests.integration.airflow.conftest import Airflow
from tests.integration.airflow.test_control import CONNECTION, add_connection
from tests.integration.airflow.test_replays import answered, ask, run_of
from tests.integration.client.commands import run_commands
from tests.integration.worker.environment import make_topic, send
from tests.waiting import HANG_SECONDS, wait_until

DAG = """
from airflow.sdk import DAG
from airflow_provider_connect.operators.backfill import BackfillOperator

with DAG({dag!r}, schedule=None, is_paused_upon_creation=False):
    BackfillOperator(
        task_id="again",
        connector={connector!r},
        connect_conn_id={connection!r},
        ranges=[{{"from": 1, "partition": 0}}],
        config={{"file": {file!r}}},
        delete=True,
        deferrable=True,
    )
"""


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


@dataclass(frozen=True, slots=True)
class Live:
    """A connector that has delivered the records a, b, c and d into ``file`` by its only run."""

    airflow: Airflow
    name: str
    topic: str
    file: Path
    run: str
    offsets: object

    @property
    def path(self) -> str:
        return f"connectors/{self.name}/backfills"

    def backfills(self) -> Any:  # what JSON can hold
        return answered(self.airflow, "GET", self.path)

    def assert_unchanged(self) -> None:
        """Neither has it run since, nor have its offsets or its file changed."""
        offsets = answered(self.airflow, "GET", f"connectors/{self.name}/offsets")
        assert (self.airflow.runs(self.name), offsets, lines(self.file)) == ([self.run], self.offsets, ["a", "b", "c", "d"])

    def post_by(self, user: str | None, body: object) -> int:
        """The status of the answer to a user of the simple auth manager; None: to a request without a user."""
        auth = None if user is None else (user, self.password_of(user))
        return httpx.post(f"{self.airflow.url}/connect/{self.path}", json=body, auth=auth, timeout=HANG_SECONDS).status_code

    def password_of(self, user: str) -> str:
        return str(json.loads((self.airflow.stack.folder / "airflow" / "home" / "passwords.json").read_text())[user])

    def run_of(self, backfill: str, *, known: tuple[str, ...] = ()) -> str:
        """The only run of a backfill's DAG but for those that are ``known``; it must succeed."""

        def found() -> list[str]:
            return [run for run in self.airflow.runs(backfill) if run not in known] if self._has_dag(backfill) else []

        (run,) = wait_until(found, f"{backfill} runs")
        assert self.airflow.wait_for_run(backfill, run) == "success", self.airflow.log(backfill, run)
        return str(run)

    def delete(self, backfill: str) -> None:
        """Its DAG is removed too."""
        answered(self.airflow, "DELETE", f"connectors/{backfill}")
        wait_until(lambda: not self._has_dag(backfill), f"the DAG of {backfill} is gone")

    def _has_dag(self, connector: str) -> bool:
        return self.airflow.client.get(f"/api/v2/dags/{dag_id_for(connector)}").status_code == 200


@pytest.fixture
def live(airflow: Airflow, unique: str, file_sink: tuple[Path, dict[str, str]]) -> Live:
    name, (file, config) = f"again-{unique}", file_sink
    bootstrap, topic = airflow.settings().bootstrap_servers, config["topics"]
    make_topic(bootstrap, topic)
    send(bootstrap, topic, ["a", "b", "c", "d"])
    answered(airflow, "POST", "connectors", {"name": name, "config": {**config, "airflow.schedule": "none"}})
    wait_until(lambda: lines(file) == ["a", "b", "c", "d"], "the live connector has delivered all")
    (run,) = airflow.runs(name)
    assert airflow.wait_for_run(name, run) == "success"
    return Live(airflow, name, topic, file, run, answered(airflow, "GET", f"connectors/{name}/offsets"))


@pytest.mark.timeout(900)
@pytest.mark.soak
def test_a_range_is_delivered_again_by_who_has_the_right(live: Live, tmp_path: Path) -> None:
    """When it is done the backfill stays and runs no more; when it is deleted, the offsets of its group stay."""
    airflow, path, own, file = live.airflow, live.path, f"{live.name}.backfill.rest", tmp_path / "rest.txt"
    ranges = [{"topic": live.topic, "partition": 0, "from": 1, "to": 3}]
    refused = ask(airflow, "POST", path, {"ranges": ranges, "id": "rest"})
    assert (refused.status_code, "another value of file" in refused.text) == (400, True), refused.text
    asked = {"ranges": ranges, "id": "rest", "config": {"file": str(file)}}
    trial = {**asked, "dry_run": True}
    assert answered(airflow, "POST", path, trial)["left"] == 2
    assert [live.post_by(user, body) for user in (None, "viewer") for body in (asked, trial)] == [401, 401, 403, 403]
    assert live.backfills() == [], "neither a dry run nor a user without the right creates one"

    assert live.post_by("user", asked) == 201
    wait_until(lambda: live.backfills()[0]["is_done"], "the backfill is done")
    first = live.run_of(own)
    assert lines(file) == ["b", "c"]
    assert [(each["name"], each["left"]) for each in live.backfills()] == [(own, 0)]
    assert answered(airflow, "GET", f"connectors/{own}/status")["connector"]["state"] == "RUNNING"

    live.delete(own)
    assert live.backfills() == []
    assert live.post_by("user", asked) == 201
    second = live.run_of(own, known=(first,))
    assert (lines(file), live.backfills()[0]["is_done"]) == (["b", "c"], True), "the same id delivers nothing twice"
    assert set(airflow.runs(own)) <= {first, second}
    live.assert_unchanged()
    live.delete(own)
    live.delete(live.name)


@pytest.mark.soak  # the same backfills as above, from other callers
@pytest.mark.timeout(900)
def test_ranges_are_delivered_again_by_a_command_and_by_a_dag_of_a_user(live: Live, tmp_path: Path, unique: str) -> None:
    airflow, own = live.airflow, f"{live.name}.backfill.command"
    assert airflow.stack.airflow is not None
    setting = f"file={tmp_path / 'command.txt'}"
    command = ["backfill", live.name, "--partition", "0", "--from", "3", "--id", "command", "--set", setting]
    by_command, listed = run_commands(
        airflow.stack.airflow.variables, [[*command, "--wait", "--timeout", "230"], ["backfills", live.name, "-o", "json"]]
    )
    assert by_command.code == 0, by_command
    assert [(each["name"], each["is_done"]) for each in json.loads(listed.out)] == [(own, True)]
    assert lines(tmp_path / "command.txt") == ["d"]
    live.run_of(own)

    file, ended = tmp_path / "dag.txt", dict[str, tuple[str, str]]()
    for user in ("viewer", "user"):
        add_connection(airflow, {"rest.login": user, "rest.password": live.password_of(user)})
        dag = f"backfill-{user}-{unique}"
        ended[user] = run_of(airflow, dag, DAG.format(dag=dag, connector=live.name, connection=CONNECTION, file=str(file)))
    state, log = ended["viewer"]
    assert (state, f"You may not change connector {live.name}" in log) == ("failed", True), log
    assert (ended["user"][0], lines(file)) == ("success", ["b", "c", "d"]), ended["user"][1]
    assert [each["name"] for each in live.backfills()] == [own], "the operator has deleted its own"
    live.assert_unchanged()
    live.delete(own)
    live.delete(live.name)
