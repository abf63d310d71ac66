"""Where ``connect-run`` writes what, and what its last line names. No broker."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.model.run import RunResult, RunState, TaskResult
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.stores.offset_file import SETTING
from airflow_provider_connect.standalone import one_run

PLUGIN = """
import logging

from airflow_provider_connect.sdk import source


@source
def rows():
    print("printed")
    logging.getLogger("shop.client").info("logged")
    logging.getLogger("httpx").info("HTTP Request: GET /users")
    yield [{"id": 1}]
"""


def test_a_preview_has_records_on_standard_output_and_all_else_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PLUGIN)
    worker, connector = tmp_path / "worker.properties", tmp_path / "c.properties"
    worker.write_text(f"bootstrap.servers=127.0.0.1:1\n{SETTING}={tmp_path / 'offsets'}\nplugin.path={tmp_path}\n")
    connector.write_text("name=c\nconnector.class=shop.rows\ntopic=t\n")
    command = [sys.executable, "-m", one_run.__name__, str(connector), "--worker", str(worker), "--preview"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1])["value"] == {"id": 1}
    assert not {"printed", "logged"} & set(done.stdout.split())
    first, second = done.stderr.splitlines()
    assert first == "printed"
    assert second.endswith("INFO shop.client: logged"), "and httpx logs warnings alone"


def test_the_last_line_of_a_failed_run_has_the_line_of_code(capsys: pytest.CaptureFixture[str]) -> None:
    trace = "Traceback (most recent call last):\n  File \"/plugins/shop.py\", line 7, in rows\n    row['rows']\nKeyError: 'rows'\n"
    tasks = [TaskResult(0), TaskResult(1, State.FAILED, trace, retriable=True)]
    result = RunResult("c", RunState.FAILED, None, tasks, "task 1: KeyError: 'rows'", retriable=True)
    assert one_run._exit_code(result) == one_run.LATER
    assert capsys.readouterr().out == "FAILED: task 1: KeyError: 'rows' (/plugins/shop.py, line 7)\n"
