"""``connect-standalone`` with a real broker and real files, its verbs over REST."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.standalone.agent import FILES_OF_ALL, WARNED, Agent, properties
from tests.waiting import HANG_SECONDS, wait_until

MakeAgent = Callable[..., Agent]


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _append(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def test_lines_flow_through_a_worker_that_carries_out_connects_verbs(make_agent: MakeAgent, tmp_path: Path, unique: str) -> None:
    agent, source, sink = make_agent(**FILES_OF_ALL), tmp_path / "in.txt", tmp_path / "out.txt"
    _append(source, "one", "two")
    (tmp_path / "source.properties").write_text(
        properties({"name": "lines", "connector.class": "FileStreamSource", "file": str(source), "topic": unique})
    )
    config = {"connector.class": "FileStreamSink", "file": str(sink), "topics": unique}
    (tmp_path / "sink.json").write_text(json.dumps({"name": unique, "config": config}))
    agent.start(tmp_path / "source.properties", tmp_path / "sink.json")

    wait_until(lambda: _lines(sink) == ["one", "two"])
    assert WARNED in agent.log
    wait_until(lambda: agent.states("lines") == agent.states(unique) == ["RUNNING", "RUNNING"])
    assert agent.request("GET", "/connectors/lines/topics") == (200, {"lines": {"topics": [unique]}})
    wait_until(lambda: {each["connector"]: each["records"] for each in agent.request("GET", "/workers")[1]} == {"lines": 2, unique: 2})

    assert agent.request("PUT", "/connectors/lines/pause")[0] == 202
    wait_until(lambda: agent.states("lines") == ["PAUSED", "PAUSED"])
    _append(source, "three")
    assert agent.request("PUT", "/connectors/lines/resume")[0] == 202
    wait_until(lambda: _lines(sink) == ["one", "two", "three"])
    assert agent.states("lines") == ["RUNNING", "RUNNING"]

    assert agent.request("PUT", "/connectors/lines/stop")[0] == 204
    assert agent.states("lines") == ["STOPPED"]
    there = {"partition": {"filename": str(source)}, "offset": {"position": 8}}
    code, answer = agent.request("PATCH", "/connectors/lines/offsets", {"offsets": [there]})
    assert (code, answer) == (200, {"message": "The offsets for this connector have been altered successfully"})
    assert agent.request("GET", "/connectors/lines/offsets") == (200, {"offsets": [there]})
    assert agent.request("PUT", "/connectors/lines/resume")[0] == 202
    wait_until(lambda: _lines(sink) == ["one", "two", "three", "three"])

    other = tmp_path / "other.txt"
    assert agent.request("PUT", f"/connectors/{unique}/config", {**config, "file": str(other)})[0] == 200
    wait_until(other.exists)  # until then the task that was may take lines, for the old file
    _append(source, "four")
    wait_until(lambda: _lines(other) == ["four"])
    assert agent.request("POST", "/connectors/lines/restart?includeTasks=true")[0] == 202
    wait_until(lambda: agent.states("lines") == ["RUNNING", "RUNNING"])
    _append(source, "five")
    wait_until(lambda: _lines(other) == ["four", "five"])

    code, page = agent.request("GET", "/metrics")
    assert code == 200
    counted = 'kafka_connect_source_task_metrics_source_record_write_total{connector="lines",task="0"} 6\n'
    wait_until(lambda: counted in agent.request("GET", "/metrics")[1])
    assert 'kafka_connect_connector_task_metrics_status{connector="lines",task="0",status="running"} 1\n' in page

    lag = f'kafka_connect_connector_metrics_records_lag{{connector="{unique}"}} '
    wait_until(lambda: f"{lag}0\n" in agent.request("GET", "/metrics")[1])
    assert agent.request("PUT", f"/connectors/{unique}/pause")[0] == 202
    wait_until(lambda: agent.states(unique) == ["PAUSED", "PAUSED"])
    _append(source, "six")
    wait_until(lambda: f"{lag}1\n" in agent.request("GET", "/metrics")[1])

    assert agent.request("DELETE", "/connectors/lines")[0] == 204
    assert agent.request("GET", "/connectors") == (200, [unique])
    assert agent.end() == 0, agent.log


def test_a_failed_task_runs_again_when_it_is_restarted(make_agent: MakeAgent, tmp_path: Path, unique: str) -> None:
    agent, folder, source = make_agent().start(), tmp_path / "not-there-yet", tmp_path / "in.txt"
    _append(source, "one")
    sender = {"connector.class": "FileStreamSource", "file": str(source), "topic": unique}
    receiver = {"connector.class": "FileStreamSink", "file": str(folder / "out.txt"), "topics": unique}
    assert agent.request("POST", "/connectors", {"name": "lines", "config": sender})[0] == 201
    assert agent.request("POST", "/connectors", {"name": unique, "config": receiver})[0] == 201
    wait_until(lambda: agent.states(unique) == ["RUNNING", "FAILED"])
    folder.mkdir()
    assert agent.request("POST", f"/connectors/{unique}/restart")[0] == 204  # the connector alone
    wait_until(lambda: agent.states(unique) == ["RUNNING", "FAILED"])
    code, plan = agent.request("POST", f"/connectors/{unique}/restart?includeTasks=true&onlyFailed=true")
    assert (code, [task["state"] for task in plan["tasks"]]) == (202, ["RESTARTING"])
    wait_until(lambda: _lines(folder / "out.txt") == ["one"])
    assert agent.states(unique) == ["RUNNING", "RUNNING"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"connector.class": "FileStreamSource"}', "is missing the mandatory 'name' configuration"),
        ("name=c\nconnector.class=FileStreamSource\n", 'Missing required configuration "topic" which has no default value.'),
        ("name=c\nconnector.class=Nothing\n", "Failed to find any class that implements Connector and which name matches Nothing"),
    ],
)
def test_a_connector_file_that_is_wrong_ends_the_worker(make_agent: MakeAgent, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.properties").write_text(text)
    agent = make_agent().start(tmp_path / "c.properties", answers=False)
    assert agent.process is not None
    assert agent.process.wait(HANG_SECONDS) == 2, agent.log
    assert message in agent.log


def test_settings_that_cannot_be_are_refused_by_name(make_agent: MakeAgent) -> None:
    agent = make_agent(exactly_once_source_support="enabled", listeners="ftp://127.0.0.1:1").start(answers=False)
    assert agent.process is not None
    assert agent.process.wait(HANG_SECONDS) == 2
    assert "Invalid value enabled for configuration exactly.once.source.support" in agent.log
