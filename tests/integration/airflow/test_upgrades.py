"""A preview and an upgrade over REST in a real Airflow: the first run with a version that fails, its retry with the old one; and a
log level that is set over REST, in the log of such a run."""

import json
from pathlib import Path

import pytest
from httpx import Response

from tests.integration.airflow.conftest import Airflow
from tests.integration.worker.environment import make_topic, values_of
from tests.integration.worker.orders import NAME, install
from tests.waiting import HANG_SECONDS, wait_until


@pytest.mark.soak
def test_an_upgrade_whose_first_run_fails_goes_back_before_the_retry(airflow: Airflow, tmp_path: Path, unique: str) -> None:
    connector, versions, until = f"orders-{unique}", tmp_path / "versions", tmp_path / "until"
    install(versions, "1.0")
    until.write_text("20")
    bootstrap = airflow.settings().bootstrap_servers
    topic = make_topic(bootstrap, f"orders-{unique}")
    config = {
        "connector.class": NAME,
        "topic": topic,
        "until": str(until),
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "airflow.retry.delay": "1s",
    }
    airflow.set_variable("connect_worker_config", json.dumps({"plugin.path": str(versions)}))
    try:
        airflow.write_dag(connector, config)
        quiet = airflow.log_records(connector, airflow.run(connector))
        assert [record for record in quiet if record[1] == "orders"] == [
            ("info", "orders", "one task is enough"),
            ("info", "orders", "orders of all shops"),
            ("warning", "orders", "orders have\nno key"),
        ], "level and logger survive, in the driver and in the Python worker"
        install(versions, "2.0", breaks_at=40)
        until.write_text("60")
        url = f"/connect/connectors/{connector}"

        def preview() -> Response | None:
            answer = airflow.client.post(f"{url}/preview", json={"records": 2, "version": "2.0"}, timeout=HANG_SECONDS)
            return answer if answer.status_code == 200 else None

        seen = wait_until(preview, "version 2.0 is seen by the API server")
        assert [record["value"] for record in seen.json()["records"]] == [{"id": 20}, {"id": 21}], seen.text
        asked = {"to": "[2,3)", "canary": 10}
        wait_until(lambda: airflow.client.put(f"{url}/upgrade", json=asked).status_code == 202, "the upgrade is taken")
        level = {"level": "DEBUG"}
        assert airflow.client.put("/connect/admin/loggers/orders?scope=cluster", json=level).status_code == 204
        run = airflow.run(connector)
        records = airflow.log_records(connector, run)
        for line in ("one task is planned", "task starts at 20"):
            assert ("debug", "orders", line) in records, "the level reaches driver and task of the application"
        (failed,) = [text for level, _, text in records if level == "error" and text.startswith(f"Task {connector}-0 FAILED")]
        assert "Traceback (most recent call last):" in failed
        assert "the upgrade to version 2.0 failed, and version 1.0 holds again" in airflow.log(connector, run)
        found = airflow.client.get(f"{url}/upgrade").json()
        assert (found["state"], found["reason"]) == ("ROLLED_BACK", "task 0: ValueError: order 40 cannot be read,")
        assert found["comparison"]["equal_records"] == 10
        assert values_of(bootstrap, topic) == [f'{{"id":{number}}}' for number in range(60)]
    finally:
        airflow.client.put("/connect/admin/loggers/orders?scope=cluster", json={"level": "INFO"})
        airflow.set_variable("connect_worker_config", None)
