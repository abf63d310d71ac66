"""Kafka Connect's metrics on the Airflow API server, for users who may see the connectors."""

from pathlib import Path

import httpx
import pytest

from tests.integration.airflow.conftest import Airflow
from tests.waiting import HANG_SECONDS, wait_until

Connector = tuple[Path, dict[str, str]]


@pytest.mark.soak
def test_what_runs_have_delivered_is_shown_to_users_who_may_read_it(airflow: Airflow, unique: str, file_source: Connector) -> None:
    file, config = file_source
    file.write_text("one\ntwo\n")
    airflow.write_dag(unique, config)
    airflow.run(unique)
    written = f'kafka_connect_source_task_metrics_source_record_write_total{{connector="{unique}",task="0"}} '
    wait_until(lambda: f"{written}2\n" in airflow.client.get("/connect/metrics").text, "the count of two records")
    with file.open("a") as more:
        more.write("three\n")
    airflow.run(unique)
    answer = airflow.client.get("/connect/metrics")
    assert f"{written}3\n" in answer.text
    assert f'kafka_connect_connector_metrics_status{{connector="{unique}",status="running"}} 1\n' in answer.text
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert httpx.get(f"{airflow.url}/connect/metrics", timeout=HANG_SECONDS).status_code == 401
