"""``airflow connect dlq replay`` over a real REST server: what is asked for, printed, and refused."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.cli.cli_parser import get_parser

from airflow_provider_connect.cli.replays import replay
from airflow_provider_connect.client.rest_client import ConnectClient
from airflow_provider_connect.client.server import Server
from airflow_provider_connect.errors import BadRequestException, ConflictException, NotFoundException
from airflow_provider_connect.rest.access import OpenToAll
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.rest.server import RestListener, RestServer
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.replays import ReplayRequest
from airflow_provider_connect.runtime.stores.admin_connection import server_info
from tests.unit.herder.test_replay_requests import Queued


@pytest.fixture
def queued(tmp_path: Path) -> Iterator[Queued]:
    found = Queued(tmp_path)
    yield found
    found.herder.close()


@pytest.fixture
def client(queued: Queued) -> Iterator[ConnectClient]:
    app = create_app(herder=lambda: queued.herder, access=OpenToAll(), info=lambda: server_info(WorkerSettings.of({})))
    with RestServer(app, RestListener.of({}, port=0)) as server, ConnectClient(Server.of(server.url)) as client:
        yield client


def run(client: ConnectClient, *arguments: str) -> None:
    replay.__wrapped__(get_parser().parse_args(["connect", "dlq", "replay", "c", *arguments]), client)  # type: ignore[attr-defined]


def test_a_request_arrives_whole(queued: Queued, client: ConnectClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edits = {"0:3": {"value": '{"n":"ü"}'}, "0:4": {"key": None}}
    (tmp_path / "edits.json").write_text(json.dumps(edits))
    chosen = ["--offsets", "0:1-5", "0:7", "--from-topic", "a", "--exception", "DataException", "--exception", "x.Y"]
    changed = ["--edits", str(tmp_path / "edits.json"), "--to-topic", "repaired"]
    run(client, *chosen, *changed)
    config = queued.herder.config_state().connector_configs["c-replay"]
    assert (config["dead.letters.offsets"], config["dead.letters.until"]) == ("0:1-5,0:7", "0:8")
    assert (config["dead.letters.from.topics"], config["dead.letters.exceptions"]) == ("a", "DataException,x.Y")
    assert (config["dead.letters.target.topic"], json.loads(config["dead.letters.edits"])) == ("repaired", edits)
    assert "No dead-letter record of c is replayed yet" in capsys.readouterr().out
    with pytest.raises(ConflictException, match="in progress"):
        run(client)
    queued.commit(client.dead_letter_replay("c").replay, 8, 5)
    run(client, "--status")
    assert "5 dead-letter records of c are replayed" in capsys.readouterr().out
    run(client, "--status", "-o", "json")
    shown = json.loads(capsys.readouterr().out)
    assert (shown["is_done"], shown["records"], shown["connector"]) == (True, 5, "c-replay")


def test_what_is_asked_wrongly_is_refused(client: ConnectClient, tmp_path: Path) -> None:
    with pytest.raises(NotFoundException, match="were replayed yet"):
        run(client, "--status")
    with pytest.raises(BadRequestException, match="cannot be read as JSON"):
        run(client, "--edits", str(tmp_path / "none.json"))
    with pytest.raises(BadRequestException, match="not a range of offsets"):
        run(client, "--offsets", "0:9-1")
    with pytest.raises(BadRequestException, match="makes no previews"):
        run(client, "--dry-run")
    with pytest.raises(BadRequestException, match="--timeout is a number of seconds above 0, not 0"):
        run(client, "--wait", "--timeout", "0")
    with pytest.raises(BadRequestException, match=r"value\.converter"):
        run(client, "--set", "value.converter=x")
    with pytest.raises(NotFoundException, match="were replayed yet"):
        client.dead_letter_replay("c")


def test_a_wait_ends_with_the_replay(queued: Queued, client: ConnectClient, capsys: pytest.CaptureFixture[str]) -> None:
    requested = client.replay_dead_letters("c", ReplayRequest(replay="mine"))
    queued.commit(requested.replay, 9, 9)
    again = client.replay_dead_letters("c", ReplayRequest(replay="mine"))
    assert (again.is_done, again.records) == (True, 9)
    queued.herder._replays._now = lambda: 0.0
    queued.herder.pause("c-replay")
    queued.commit("0", 9, 4)  # by a run that is over before the first poll
    run(client, "--wait", "--timeout", "60")
    assert capsys.readouterr().out == "4 dead-letter records of c are replayed\n"
