"""What the host's audit log gets: one entry for each change that a user asks for, none for reads, trials and refusals."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.rest.access import OpenToAll, User
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.views import ServerView
from tests.unit.herder.conftest import CONFIG, RunEnvironment

ROWS = {
    "connector.class": "JdbcSource",
    "connection.url": "jdbc:postgresql://db/shop",
    "mode": "incrementing",
    "incrementing.column.name": "id",
    "topic.prefix": "shop.",
}
RANGE = {"rows.from": "5", "rows.to": 9}
Entry = tuple[str, str, str | None, dict[str, str]]


class Noting(OpenToAll):
    """Every request is anna's; ``entries`` are those of the audit log."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []

    async def identify(self, request: Request) -> User:
        return "anna"

    def note(self, user: User, verb: str, connector: str | None, details: Mapping[str, str]) -> None:
        self.entries.append((str(user), verb, connector, dict(details)))


@pytest.fixture
def environment() -> RunEnvironment:
    """Two connectors, of which ``c`` has a task that has FAILED."""
    environment = RunEnvironment()
    environment.herder.create_connector("c", CONFIG)
    environment.run("c", State.FAILED)
    environment.herder.create_connector("rows", ROWS)
    return environment


def asked(environment: RunEnvironment, method: str, path: str, body: object = None) -> tuple[int, list[Entry]]:
    """The status of the answer, and what is in the audit log after it."""
    access = Noting()
    client = TestClient(create_app(herder=lambda: environment.herder, access=access, info=lambda: ServerView("1", "2", "3")))
    return client.request(method, path, json=body).status_code, access.entries


@pytest.mark.parametrize(
    ("method", "path", "body", "entry"),
    [
        ("PUT", "/connectors/c/pause", None, ("pause", "c", {})),
        ("PUT", "/connectors/c/resume", None, ("resume", "c", {})),
        ("PUT", "/connectors/c/stop", None, ("stop", "c", {})),
        ("PUT", "/connectors/c/topics/reset", None, ("reset_active_topics", "c", {})),
        ("POST", "/connectors/c/restart?includeTasks=true&secret=x", None, ("restart_connector", "c", {"includeTasks": "true"})),
        ("POST", "/connectors/c/tasks/0/restart", None, ("restart_task", "c", {"task": "0"})),
        ("PUT", "/connectors/c/config", {**CONFIG, "batch.size": "7"}, ("put_connector_config", "c", {})),
        ("PATCH", "/connectors/c/config", {"batch.size": "7"}, ("patch_connector_config", "c", {})),
        ("POST", "/connectors", {"name": "d e", "config": CONFIG}, ("create_connector", "d e", {})),
        ("POST", "/connectors/rows/backfills", {"config": RANGE}, ("create_backfill", "rows", {})),
        ("DELETE", "/connectors/c", None, ("delete_connector", "c", {})),
        ("PUT", "/admin/loggers/a.b%20c", {"level": "INFO"}, ("set_logger_level", None, {"logger": "a.b c", "level": "INFO"})),
        (
            "PUT",
            "/admin/loggers/a?scope=cluster",
            {"level": "INFO"},
            ("set_logger_level", None, {"logger": "a", "scope": "cluster", "level": "INFO"}),
        ),
    ],
)
def test_each_change_has_one_entry(
    environment: RunEnvironment, method: str, path: str, body: object, entry: tuple[str, str | None, dict[str, str]]
) -> None:
    status, entries = asked(environment, method, path, body)
    assert (status // 100, entries) == (2, [("anna", *entry)])


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/connectors/c", None, 200),
        ("PUT", "/connector-plugins/FileStreamSource/config/validate", CONFIG, 200),
        ("POST", "/connectors/c/preview", {}, 400),
        ("PUT", "/connectors/nobody/pause", None, 404),
        ("POST", "/connectors", {"name": "c", "config": CONFIG}, 409),
        ("POST", "/connectors/rows/backfills", {"config": RANGE, "dry_run": True}, 200),
        ("PUT", "/admin/loggers/a", {"level": "LOUD"}, 404),
    ],
)
def test_reads_trials_and_refusals_have_none(environment: RunEnvironment, method: str, path: str, body: object, status: int) -> None:
    assert asked(environment, method, path, body) == (status, [])


@pytest.mark.parametrize("kind", [ConnectException, sqlite3.OperationalError])
def test_a_failure_that_may_have_come_half_way_has_an_entry(
    environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    def fail(name: str, *, author: str | None) -> None:
        raise kind(f"there is no answer when {author} stops {name}")

    monkeypatch.setattr(environment.herder, "stop", fail)
    assert asked(environment, "PUT", "/connectors/c/stop") == (500, [("anna", "stop", "c", {"failed": "500"})])
