"""What a source lacks, as users see it: beside the state in the page's list, in ``status`` and ``top``, counted by ``/health``; no word of
it in Kafka Connect's own answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser

from airflow_provider_connect.cli import connectors
from airflow_provider_connect.cli.overview import Overview
from airflow_provider_connect.client.rest_client import ConnectClient
from airflow_provider_connect.client.server import Server
from airflow_provider_connect.rest.access import OpenToAll
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.rest.server import RestListener, RestServer
from airflow_provider_connect.runtime.model.views import Health, HealthWord, ServerView
from tests.unit.herder.conftest import CONFIG, RunEnvironment

NOTE = "There is no file /tmp/in.txt: nothing is read until there is"


@pytest.fixture
def environment() -> RunEnvironment:
    environment = RunEnvironment()
    environment.herder.create_connector("c", CONFIG)
    environment.herder.create_connector("whole", CONFIG)
    environment.backing.config_store.put_note("c", NOTE, of={**CONFIG, "name": "c"})
    return environment


@pytest.fixture
def client(environment: RunEnvironment) -> Iterator[ConnectClient]:
    app = create_app(herder=lambda: environment.herder, access=OpenToAll(), info=lambda: ServerView("1", "2", "3"))
    with RestServer(app, RestListener.of({}, port=0)) as server, ConnectClient(Server.of(server.url)) as client:
        yield client


def status(verbs: Any, *options: str) -> None:
    connectors.status.__wrapped__(get_parser().parse_args(["connect", "status", *options]), verbs)  # type: ignore[attr-defined]


def test_the_list_and_the_status_of_the_command_line_have_it(
    client: ConnectClient, environment: RunEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {line.row.name: line.row.health for line in Overview(client).lines()} == {
        "c": Health(HealthWord.MISSING, NOTE),
        "whole": Health(HealthWord.HEALTHY),
    }
    for verbs in (client, environment.herder):
        status(verbs, "c")
        assert capsys.readouterr().out.splitlines()[-1] == f"health: missing: {NOTE}"
    status(client, "whole")
    assert capsys.readouterr().out.splitlines()[-1] == "health: healthy"


def test_connects_own_answers_do_not_have_it_and_health_counts(
    client: ConnectClient, environment: RunEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    status(client, "c", "-o", "json")
    shown = capsys.readouterr().out
    assert json.loads(shown)["connector"]["state"] == "RUNNING"
    assert "health" not in shown
    assert NOTE not in json.dumps([str(views) for views in client.expanded(info=True, status=True).values()])
    assert client.health().message.endswith(
        "1 running connectors need attention: what they use is not there, cannot be read, or does not answer (airflow connect top)."
    )
    environment.herder.stop("c")
    assert "attention" not in client.health().message
