"""The demonstration's client where Airflow's database is locked: it asks again, and a run is made once."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from airflow_provider_connect.dev import airflow_client
from airflow_provider_connect.dev.airflow_client import AirflowClient
from airflow_provider_connect.errors import ConnectException

LOCKED = {"detail": {"reason": "Database error", "orig_error": "hidden"}}
RUN = {"dag_id": "a", "dag_run_id": "", "state": "queued"}


class LockedAirflow(ThreadingHTTPServer):
    """Refuses each path's first `refusals` requests as Airflow with a locked database does; a run that it refuses is made all the same."""

    def __init__(self) -> None:
        self.refusals, self.wait_seconds = 1, 0.0
        self.asked: list[str] = []
        self.runs: set[str] = set()
        super().__init__(("127.0.0.1", 0), _Answer)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answer(BaseHTTPRequestHandler):
    server: LockedAirflow

    def _answer(self) -> None:
        airflow, asked = self.server, f"{self.command} {self.path}"
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or b"{}")
        if self.path == "/auth/token":
            return self._send(200, {"access_token": "t"})
        airflow.asked.append(asked)
        run_id = content.get("dag_run_id")
        is_there = run_id in airflow.runs
        if run_id:
            airflow.runs.add(run_id)
        if airflow.asked.count(asked) <= airflow.refusals:
            threading.Event().wait(airflow.wait_seconds)
            return self._send(500, LOCKED)
        return self._send(409, {"detail": "already there"}) if is_there else self._send(200, RUN | {"dag_run_id": self.path.split("/")[-1]})

    def _send(self, code: int, content: object) -> None:
        text = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        self._answer()

    def log_message(self, *arguments: object) -> None: ...


@pytest.fixture
def airflow() -> Iterator[LockedAirflow]:
    server = LockedAirflow()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_refusal_that_took_longer_than_the_wait_is_asked_again(airflow: LockedAirflow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(airflow_client, "_LOCKED_SECONDS", 1.0)
    airflow.wait_seconds = 1.2
    AirflowClient(airflow.url, "u", "p").unpause("a")
    assert len(airflow.asked) == 2


def test_a_run_is_made_once(airflow: LockedAirflow) -> None:
    run = AirflowClient(airflow.url, "u", "p").trigger("a")
    assert airflow.runs == {run.run_id}


def test_the_wait_ends(airflow: LockedAirflow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(airflow_client, "_LOCKED_SECONDS", 0.6)
    airflow.refusals = 1000
    with pytest.raises(ConnectException, match="refused PATCH"):
        AirflowClient(airflow.url, "u", "p").unpause("a")
    assert 2 <= len(airflow.asked) <= 5
