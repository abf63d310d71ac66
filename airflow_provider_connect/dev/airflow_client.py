"""The parts of Airflow's and Connect's REST APIs that the demonstration needs: find a DAG, unpause it, trigger and watch a run."""

import json
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from airflow_provider_connect.errors import ConnectException

# Airflow's API server commits its log of actions on its event loop. If another request holds SQLite's lock and needs the event loop before
# it can end, both wait for the whole timeout of the database. So the wait is measured from the first refusal.
_LOCKED_SECONDS = 20.0
_POLL_SECONDS = 0.5  # a look costs the server a tenth of a second of CPU
ENDED = frozenset({"success", "failed"})


@dataclass(frozen=True, slots=True)
class DagRun:
    """One run as Airflow reports it. Times are None until they are known."""

    dag_id: str
    run_id: str
    state: str
    queued_at: datetime | None
    ended_at: datetime | None

    @property
    def seconds(self) -> float:
        """The seconds from its trigger to its end. 0 while it runs."""
        return (self.ended_at - self.queued_at).total_seconds() if self.queued_at and self.ended_at else 0.0


class AirflowClient:
    """Calls the API of one Airflow as one user. Logs in at the first call."""

    def __init__(self, url: str, username: str, password: str) -> None:
        self._url, self._login = url.rstrip("/"), {"username": username, "password": password}
        self._token: str | None = None

    def wait_for_dag(self, dag_id: str, timeout_seconds: float = 180) -> None:
        """Wait until Airflow has the DAG. After the timeout, raises ConnectException with the import errors."""
        deadline = time.monotonic() + timeout_seconds
        while self._call("GET", f"/api/v2/dags/{quote(dag_id)}", answers={404: {}}) == {}:
            if time.monotonic() > deadline:
                errors = self._call("GET", "/api/v2/importErrors").get("import_errors", [])
                raise ConnectException(f"Airflow does not know DAG {dag_id} after {timeout_seconds} s. Import errors: {json.dumps(errors)}")
            time.sleep(0.2)

    def unpause(self, dag_id: str) -> None:
        """Allow Airflow to run the DAG."""
        self._call("PATCH", f"/api/v2/dags/{quote(dag_id)}?update_mask=is_paused", {"is_paused": False})

    def trigger(self, dag_id: str) -> DagRun:
        """Trigger a run."""
        runs, run_id = f"/api/v2/dags/{quote(dag_id)}/dagRuns", f"manual__{uuid.uuid4()}"
        asked = self._call("POST", runs, {"logical_date": None, "dag_run_id": run_id}, answers={409: {}})
        return _run(asked or self._call("GET", f"{runs}/{quote(run_id)}"))  # the run may have been created in spite of an error

    def latest_run(self, dag_id: str) -> DagRun | None:
        """The newest run, scheduled or triggered. None: there is none yet."""
        runs = self._call("GET", f"/api/v2/dags/{quote(dag_id)}/dagRuns?order_by=-run_after&limit=1")["dag_runs"]
        return _run(runs[0]) if isinstance(runs, list) and runs else None

    def create_connector(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector with Connect's REST API, which the same server serves."""
        self._call("PUT", f"/connect/connectors/{quote(name)}/config", dict(config))

    def watch(self, run: DagRun, wait: Callable[[float], None] = time.sleep) -> Iterator[DagRun]:
        """Yield the current state of the run repeatedly, until the run ends."""
        while True:
            run = _run(self._call("GET", f"/api/v2/dags/{quote(run.dag_id)}/dagRuns/{quote(run.run_id)}"))
            yield run
            if run.state in ENDED:
                return
            wait(_POLL_SECONDS)

    def _call(
        self,
        method: str,
        path: str,
        content: Mapping[str, object] | None = None,
        *,
        answers: Mapping[int, dict[str, object]] | None = None,
    ) -> dict[str, object]:
        """Send a request. ``answers`` has answers for statuses that are not errors. Every call may be sent twice."""
        if self._token is None:
            self._token = str(self._request("POST", "/auth/token", self._login, token=None)["access_token"])
        deadline = None
        while True:
            try:
                return self._request(method, path, content, token=self._token)
            except urllib.error.HTTPError as error:
                message = error.read().decode(errors="replace")
                if answers is not None and error.code in answers:
                    return answers[error.code]
                deadline = deadline or time.monotonic() + _LOCKED_SECONDS
                if error.code != 500 or "Database error" not in message or time.monotonic() > deadline:
                    raise ConnectException(f"Airflow refused {method} {path}: {error.code} {message}") from error
            time.sleep(0.5)

    def _request(self, method: str, path: str, content: Mapping[str, object] | None, *, token: str | None) -> dict[str, object]:
        request = urllib.request.Request(f"{self._url}{path}", method=method, headers={"Content-Type": "application/json"})
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        if content is not None:
            request.data = json.dumps(content).encode()
        with urllib.request.urlopen(request, timeout=60) as answer:
            result: dict[str, object] = json.load(answer)
        return result


def _run(answer: Mapping[str, object]) -> DagRun:
    def at(name: str) -> datetime | None:
        value = answer.get(name)
        return datetime.fromisoformat(value) if isinstance(value, str) else None

    return DagRun(str(answer["dag_id"]), str(answer["dag_run_id"]), str(answer["state"]), at("queued_at"), at("end_date"))
