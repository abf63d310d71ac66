"""The example DAG of logs, as it is without any setting."""

from __future__ import annotations

import json

import pytest

from airflow_provider_connect.runtime.model.run import RunState
from tests.example_dags import configs_of
from tests.integration.worker.environment import RunEnvironment, read_topic

LINE = '10.0.0.1 - ada [02/Jan/2026:03:04:05 +0100] "GET /tea HTTP/1.1" 200 {} "-" "curl/8"\n'


def test_requests_come_with_their_fields_and_times(environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECT_DEMO_DIR", str(environment.folder))
    [example] = configs_of(monkeypatch, "example_log_source.py").values()
    log = environment.folder / "access.log"
    log.write_text(LINE.format(7))
    config = {**example, "name": environment.connector}
    assert environment.run(config).state is RunState.DONE
    log.rename(f"{log}.1")
    log.write_text(LINE.format("-"))
    assert environment.run(config).state is RunState.DONE
    assert environment.readiness(config).state == "no-work"
    records = read_topic(environment.bootstrap, "demo-requests")
    assert [json.loads(record.value or b"")["size"] for record in records] == [7, None]
    assert json.loads(records[0].value or b"")["request"] == "GET /tea HTTP/1.1"
    assert {record.timestamp for record in records} == {1767319445000}
