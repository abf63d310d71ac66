"""The API server takes up worker settings that change while it runs, secrets that they only name among them."""

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, os
from airflow_provider_connect.api_server import worker


class Noted:  # in place of a herder with its broker: only its arguments matter here
    made = []
    warnings = []

    def __init__(self, settings, *, holder):
        self.made.append(settings)
        self.settings = settings


worker.ServerWorker = Noted
current = worker.CurrentWorker(holder="api:0")
seen = []
for name, value in (
    ("CONNECT_WORKER_CONFIG", json.dumps({"sasl.password": "${variable:kafka_password}"})),
    ("KAFKA_PASSWORD", "two"),
    ("CONNECT_WORKER_CONFIG", json.dumps({"version_ranges": {"org.example.Orders": "[1,2)"}})),
):
    os.environ["AIRFLOW_VAR_" + name] = value
    current.renew()
    current.renew()
    seen.append([len(Noted.made), Noted.made[-1].values.get("sasl.password"), dict(Noted.made[-1].version_ranges)])
print("SEEN" + json.dumps(seen))
"""


UNUSABLE = (
    PROGRAM.split("seen = []", maxsplit=1)[0]
    + """
class Refused(Noted):
    def __init__(self, settings, *, holder):
        if settings.group_id == "refused":
            raise worker.ConnectException("no such cluster")
        super().__init__(settings, holder=holder)


worker.ServerWorker, ticks, seen = Refused, [], []
for value in ('{"group.id": "good"}', '{"group.id": ', '{"group.id": "refused"}', '{"group.id": "better"}'):
    os.environ["AIRFLOW_VAR_CONNECT_WORKER_CONFIG"] = value
    current.renew()
    current.act(ticks.append)
    seen.append([len(ticks), current.settings().group_id, current.warnings()])
print("SEEN" + json.dumps(seen))
"""
)

WARNED = (
    PROGRAM.split("seen = []", maxsplit=1)[0]
    + """
import logging


class Lines(logging.Handler):
    def emit(self, record):
        if record.levelno == logging.WARNING:
            lines.append(record.getMessage())


lines, seen = [], []
worker._log.addHandler(Lines())
for group, topics in (("one", ["configs"]), ("two", ["configs"]), ("three", ["configs", "status"])):
    os.environ["AIRFLOW_VAR_CONNECT_WORKER_CONFIG"] = json.dumps({"group.id": group})
    Noted.warnings = [f"Topic {name} keeps what was replaced" for name in topics]
    if current.worker is not None:
        current.worker.warnings = ["Topic configs keeps what was replaced"]
    current.renew()
    current.renew()
    seen.append([line for line in lines if line.startswith("Topic")])
print("SEEN" + json.dumps(seen))
"""
)


def _seen(program: str, home: Path) -> list[list[object]]:
    runs = home / "runs"
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CONNECT__RUN_DIRECTORY": str(runs),
        "AIRFLOW_VAR_KAFKA_PASSWORD": "one",
    }
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], env=environment, capture_output=True, text=True, check=False)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("SEEN")] or [done.stderr]
    found: list[list[object]] = json.loads(line.removeprefix("SEEN"))
    return found


def test_the_worker_goes_on_with_the_settings_of_before_and_warns(tmp_path: Path) -> None:
    first, broken, refused, better = _seen(UNUSABLE, tmp_path)
    assert first == [1, "good", []]
    assert broken[:2] == [2, "good"]
    assert "Variable connect_worker_config is not JSON" in str(broken[2])
    assert refused[:2] == [3, "good"]
    assert "the current ones cannot be used: no such cluster" in str(refused[2])
    assert better == [4, "better", []]


def test_a_rotated_secret_is_taken_up_as_a_changed_setting_is(tmp_path: Path) -> None:
    assert _seen(PROGRAM, tmp_path) == [[1, "one", {}], [2, "two", {}], [3, None, {"org.example.Orders": "[1,2)"}]]


def test_a_topic_that_compacts_too_late_is_logged_once(tmp_path: Path) -> None:
    configs, status = "Topic configs keeps what was replaced", "Topic status keeps what was replaced"
    assert _seen(WARNED, tmp_path) == [[configs], [configs], [configs, status]]
