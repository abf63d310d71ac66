"""Connectors inside an application, which has no Airflow."""

import logging
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from airflow_provider_connect import Connect
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.runtime.config.masking import MaskedLogs
from airflow_provider_connect.runtime.stores.offset_file import SETTING
from tests.integration.standalone.agent import FILES_OF_ALL, STRING, WARNED, without_airflow
from tests.waiting import HANG_SECONDS, wait_until

WorkerSettings = Callable[..., dict[str, str]]

_APPLICATION = """
import sys
from pathlib import Path
from airflow_provider_connect import Connect
from airflow_provider_connect.runtime.config.masking import MaskedLogs

bootstrap, folder, topic = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
string = "org.apache.kafka.connect.storage.StringConverter"
worker = {"bootstrap.servers": bootstrap, "value.converter": string}
worker |= {"offset.storage.file.filename": str(folder / "offsets"), "connectors.allowed.paths": str(folder)}
worker |= dict(each.split("=") for each in sys.argv[4:])
with Connect("an-app", worker) as connect:
    config = {"name": "lines", "connector.class": "FileStreamSource", "file": str(folder / "in.txt"), "topic": topic}
    print(connect.add_connector(config))
    while not (folder / "offsets").exists():
        pass
"""


def _holds(file: Path, lines: list[str]) -> bool:
    return file.exists() and file.read_text().splitlines() == lines


def test_an_application_without_airflow_embeds_a_connector(bootstrap: str, tmp_path: Path, unique: str) -> None:
    (tmp_path / "in.txt").write_text("one\n")
    command = [
        sys.executable,
        "-c",
        _APPLICATION,
        bootstrap,
        str(tmp_path),
        unique,
        *(f"{key}={value}" for key, value in FILES_OF_ALL.items()),
    ]
    done = subprocess.run(command, env=without_airflow(tmp_path), capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    assert (done.returncode, done.stdout) == (0, f"['{unique}']\n"), done.stderr
    assert WARNED in done.stderr


def masks_of_logs() -> list[MaskedLogs]:
    return [mask for handler in logging.getLogger().handlers for mask in handler.filters if isinstance(mask, MaskedLogs)]


@pytest.mark.parametrize("location", ["file", "topics"])
def test_topics_are_those_that_the_connector_writes_to(location: str, worker_settings: WorkerSettings, tmp_path: Path, unique: str) -> None:
    masks = masks_of_logs()  # what other tests have left
    worker = {**worker_settings(), "key.converter": STRING, "value.converter": STRING}
    if location == "file":
        worker = {
            "bootstrap.servers": worker["bootstrap.servers"],
            "value.converter": STRING,
            "connectors.allowed.paths": str(tmp_path),
            SETTING: str(tmp_path / "offsets"),
        }
    source, out = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("one\n")
    lines = {"name": f"{unique}-in", "connector.class": "FileStreamSource", "file": str(source), "topic": unique}
    sink = {"name": f"{unique}-out", "connector.class": "FileStreamSink", "file": str(out), "topics": unique}
    for expected in (["one"], ["one", "two"]):  # the second time it goes on
        with Connect(unique, worker) as connect:
            assert connect.add_connector(lines) == [unique]
            assert connect.add_connector(sink) == []
            wait_until(partial(_holds, out, expected))
            assert [task.state for task in connect.herder.connector_status(f"{unique}-in").tasks] == ["RUNNING"]
        with source.open("a") as file:
            file.write("two\n")
    with Connect(unique, worker) as connect:
        connect.add_connector(lines)
        connect.remove_connector(f"{unique}-in")
        assert f"{unique}-in" not in connect.herder.connectors()
    assert masks_of_logs() == masks, "an application that goes on pays nothing for connectors that it has closed"


def test_a_value_whose_time_is_over_is_resolved_anew_while_the_worker_runs(bootstrap: str, tmp_path: Path, unique: str) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / name).write_text(f"from {name}\n")
    location, out = tmp_path / "location", tmp_path / "out.txt"
    location.write_text(str(tmp_path / "a.txt"))
    worker = {
        "bootstrap.servers": bootstrap,
        "value.converter": STRING,
        SETTING: str(tmp_path / "offsets"),
        "connectors.allowed.paths": str(tmp_path),
        "config.providers": "dir",
        "config.providers.dir.class": "DirectoryConfigProvider",
        "config.providers.dir.param.ttl.ms": "500",
    }
    lines = {"name": f"{unique}-in", "connector.class": "FileStreamSource", "file": f"${{dir:{tmp_path}:location}}", "topic": unique}
    sink = {"name": f"{unique}-out", "connector.class": "FileStreamSink", "file": str(out), "topics": unique}
    with Connect(unique, worker) as connect:
        connect.add_connector(lines)
        connect.add_connector(sink)
        wait_until(partial(_holds, out, ["from a.txt"]))
        location.write_text(str(tmp_path / "b.txt"))
        wait_until(partial(_holds, out, ["from a.txt", "from b.txt"]))
        location.write_text(str(tmp_path / "c.txt"))
        wait_until(partial(_holds, out, ["from a.txt", "from b.txt", "from c.txt"]))
        assert connect.herder.connector_config(f"{unique}-in")["file"] == lines["file"], "no config changed"


def test_what_is_wrong_is_reported_where_it_is_asked_for(bootstrap: str, tmp_path: Path) -> None:
    worker = {"bootstrap.servers": bootstrap, SETTING: str(tmp_path / "offsets")}
    connect = Connect("app", worker)
    with pytest.raises(ConnectException, match="outside of its with statement"):
        connect.add_connector({"name": "c"})
    with connect:
        with pytest.raises(ConnectException, match="has no name"):
            connect.add_connector({"connector.class": "FileStreamSource"})
        with pytest.raises(ConfigException, match='Missing required configuration "topic"'):
            connect.add_connector({"name": "c", "connector.class": "FileStreamSource"})
        with pytest.raises(ConfigException, match="Another worker keeps its offsets in this file"), Connect("other", worker):
            pass
    with pytest.raises(ConfigException, match=r"bootstrap\.servers"):
        Connect("app", {"bootstrap.servers": "nowhere"})
