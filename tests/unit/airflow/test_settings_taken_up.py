"""The API server takes up worker settings that change while it runs, secrets that they only name among them."""

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, os
from airflow_provider_connect import airflow_app
from airflow_provider_connect.rest.loggers import Loggers


class Noted:  # in place of a herder with its broker: what it is made with is all that this is about
    made = []

    def __init__(self, settings, *, holder):
        self.made.append(settings)


airflow_app.Rounds = Noted
loop = airflow_app.ReconcilerLoop(Loggers())
seen = []
for name, value in (
    ("CONNECT_WORKER_CONFIG", json.dumps({"sasl.password": "${variable:kafka_password}"})),
    ("KAFKA_PASSWORD", "two"),
    ("CONNECT_WORKER_CONFIG", json.dumps({"version_ranges": {"org.example.Orders": "[1,2)"}})),
):
    os.environ["AIRFLOW_VAR_" + name] = value
    loop._renew()
    loop._renew()
    seen.append([len(Noted.made), Noted.made[-1].values.get("sasl.password"), dict(Noted.made[-1].version_ranges)])
print("SEEN" + json.dumps(seen))
"""


def test_a_rotated_secret_is_taken_up_as_a_changed_setting_is(tmp_path: Path) -> None:
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path), "AIRFLOW_VAR_KAFKA_PASSWORD": "one"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("SEEN")] or [done.stderr]
    assert json.loads(line.removeprefix("SEEN")) == [[1, "one", {}], [2, "two", {}], [3, None, {"org.example.Orders": "[1,2)"}]]
