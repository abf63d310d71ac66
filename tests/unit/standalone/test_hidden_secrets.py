"""What ``connect-run`` and ``connect-standalone`` write to their output has no secret of the config. No broker."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_connect import Connect
from airflow_provider_connect.dev.own_server import free_ports
from airflow_provider_connect.runtime.stores.offset_file import SETTING
from airflow_provider_connect.standalone.worker import ConnectorHosts

SECRET = "let me in, please"
PLUGIN = """
import logging
import sys

from airflow_provider_connect.sdk import ConfigException, Password, source


@source
def rows(words: Password):
    yield [{"id": 1}]


def task_configs(self, most):
    words = self.config["words"].value
    logging.getLogger("shop.client").info("GET /users?key=%s", words)
    print("standard output has", words, flush=True)
    print("standard error has", words, file=sys.stderr, flush=True)
    raise ConfigException("planning has ended")


rows.task_configs = task_configs
"""


@pytest.mark.parametrize("program", ["connect-run", "connect-standalone"])
def test_what_a_connector_logs_and_prints_is_masked(program: str, tmp_path: Path) -> None:
    plugins, worker, connector = tmp_path / "plugins", tmp_path / "worker.properties", tmp_path / "c.properties"
    plugins.mkdir()
    (plugins / "shop.py").write_text(PLUGIN)
    listeners = f"listeners=http://127.0.0.1:{free_ports(1)[0]}\n"
    worker.write_text(f"bootstrap.servers=127.0.0.1:1\n{SETTING}={tmp_path / 'offsets'}\nplugin.path={plugins}\n{listeners}")
    connector.write_text(f"name=c\nconnector.class=shop.rows\ntopic=t\nwords={SECRET}\n")
    module, *arguments = {
        "connect-run": ("one_run", str(connector), "--worker", str(worker)),
        "connect-standalone": ("agent", str(worker), str(connector)),
    }[program]
    command = [sys.executable, "-m", f"airflow_provider_connect.standalone.{module}", *arguments]
    output = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout or ():
            output.append(line)
            if "planning has ended" in line:
                process.terminate()
    shown = "".join(output)
    assert SECRET not in shown, shown
    for expected in ("GET /users?key=[hidden]", "standard output has [hidden]", "standard error has [hidden]", "planning has ended"):
        assert expected in shown, shown


CHECKED = """
import logging
from typing import Annotated

from airflow_provider_connect.sdk import Password, source


def check(name, words):
    logging.getLogger("shop.client").warning("checked %s", words.value)


@source
def rows(words: Annotated[Password, check]):
    yield [{"id": 1}]
"""


def test_what_a_connector_logs_while_an_application_adds_it_is_masked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(CHECKED)
    monkeypatch.setattr(ConnectorHosts, "trigger", lambda *_: None)  # it is added, and never runs
    settings = {"bootstrap.servers": "127.0.0.1:1", SETTING: str(tmp_path / "offsets"), "plugin.path": str(tmp_path)}
    monkeypatch.setattr(logging.getLogger(), "handlers", [caplog.handler])
    with Connect("app", settings) as connect:
        connect.add_connector({"name": "c", "connector.class": "shop.rows", "topic": "t", "words": SECRET})
    assert caplog.handler.filters == []
    assert "checked [hidden]" in caplog.text
    assert SECRET not in caplog.text
