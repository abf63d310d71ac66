"""An API server whose Airflow has no bundle of stored connectors: its log, ``/health`` and statuses report that they never run."""

import json
import subprocess
import sys
from collections.abc import Callable

from airflow_provider_connect.api_server.launcher import NO_BUNDLE
from tests.integration.airflow.test_dag_test import home
from tests.waiting import HANG_SECONDS

__all__ = ["home"]  # a fixture

_SCRIPT = """
import json, logging, sys
from fastapi.testclient import TestClient
from airflow_provider_connect.api_server.worker import ServerWorker
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.rest.access import OpenToAll
from airflow_provider_connect.rest.app import create_app

class Kept(logging.Handler):
    lines = []
    def emit(self, record):
        self.lines.append(record.getMessage())

log = logging.getLogger("airflow_provider_connect.api_server.worker")
log.addHandler(Kept(logging.WARNING))
worker = ServerWorker(WorkerSettings.of(json.loads(sys.argv[1])), holder="a-test")
client = TestClient(create_app(herder=lambda: worker.herder, access=OpenToAll(), info=lambda: None))
health = client.get("/health")
config = {"connector.class": "FileStreamSource", "file": sys.argv[2], "topic": "t"}
created = client.put("/connectors/lines/config", json=config)
status = client.get("/connectors/lines/status").json()
print("FOUND", json.dumps([Kept.lines, [health.status_code, health.json()], created.status_code, status]), flush=True)
worker.close()
"""


def test_log_health_and_status_name_the_bundle_that_is_missing(
    home: dict[str, str], worker_settings: Callable[..., dict[str, str]]
) -> None:
    arguments = [json.dumps(worker_settings(connectors_allowed_paths=home["AIRFLOW_HOME"])), f"{home['AIRFLOW_HOME']}/in.txt"]
    command = [sys.executable, "-c", _SCRIPT, *arguments]
    done = subprocess.run(command, env=home, capture_output=True, text=True, check=False, timeout=HANG_SECONDS)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")] or [done.stdout + done.stderr]
    logged, (code, health), created, status = json.loads(line.removeprefix("FOUND "))
    assert logged == [NO_BUNDLE]
    assert (code, health["status"], NO_BUNDLE in health["message"]) == (200, "healthy", True)
    assert created == 201
    assert status["connector"]["state"] == "UNASSIGNED"
    assert NO_BUNDLE in status["connector"]["trace"]
