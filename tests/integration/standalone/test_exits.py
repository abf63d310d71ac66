"""Plugins that would end the process, or their thread, as if their work were done: the run fails, and reports where."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.standalone.test_one_run import Runs

WorkerSettings = Callable[..., dict[str, str]]

PLUGIN = """
import asyncio
import sys

from airflow_provider_connect.sdk import Batch, ConfigDef, ConfigKey, ConnectException, RetriableException, SourceConnector, SourceTask


EXCEPTIONS = {
    "exit": SystemExit(0),
    "cancelled": asyncio.CancelledError(),
    "final": ConnectException("the shop is closed for good"),
    "later": RetriableException("the shop opens at nine"),
    "half": ValueError("half \\ud800"),
    "megabytes": ValueError("x" * 5_000_000),
}


def end(config, method):
    if config["method"] == method:
        raise EXCEPTIONS[config["raised"]]


class Task(SourceTask):
    def start(self, config):
        self.config, self.polls = config, 0

    def poll(self):
        end(self.config, "poll")
        self.polls += 1
        return None if self.polls > 1 else Batch.of(self.config["topic"], ["a"], source_partition={"p": 1}, source_offset={"n": 1})

    def commit(self):
        end(self.config, "commit")

    def stop(self):
        pass


class Quits(SourceConnector):
    config_def = ConfigDef(ConfigKey("topic"), ConfigKey("method", default=""), ConfigKey("raised", default=""))
    task_class = Task

    def validate(self, config):
        end(config, "validate")
        return super().validate(config)

    def check(self, config):
        end(config, "check")

    def task_configs(self, max_tasks):
        end(self.config, "task_configs")
        return [self.config.originals]
"""


@pytest.fixture
def runs(worker_settings: WorkerSettings, tmp_path: Path) -> Runs:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "quitting.py").write_text(PLUGIN)
    (tmp_path / "plugins" / "script.py").write_text(f"{PLUGIN}\nsys.exit(0)\n")
    return Runs(tmp_path, worker_settings(plugin_path=str(tmp_path / "plugins")))


@pytest.mark.parametrize(
    ("method", "raised", "code", "reported"),
    [
        ("validate", "exit", 2, "The plugin's code called exit(0)"),
        ("check", "later", 75, "could not check whether a run can start: RetriableException: the shop opens at nine"),
        ("task_configs", "exit", 1, "The plugin's code called exit(0)"),
        ("poll", "exit", 75, "FAILED: task 0: SystemExit: 0"),
        ("poll", "half", 75, "\nFAILED: task 0: ValueError: half \\ud800"),
        ("poll", "final", 1, "\nFAILED: task 0: the shop is closed for good ("),
        ("poll", "megabytes", 75, "characters are left out"),
        ("commit", "cancelled", 0, "The task's commit raised"),
    ],
)
def test_a_plugin_that_exits_fails_its_run(method: str, raised: str, code: int, reported: str, *, runs: Runs, unique: str) -> None:
    config = {"name": unique, "connector_class": "quitting.Quits", "topic": unique, "method": method, "raised": raised}
    found, output = runs.run(**config)
    refused = "Logging error" in output or "Failed to write status" in output
    assert (found, reported in output, refused) == (code, True, False), output[-2000:]
    assert output.splitlines()[-1].startswith("FAILED: ") == (code in (1, 75)), output[-2000:]


def test_a_plugin_that_exits_fails_its_preview(runs: Runs, unique: str) -> None:
    config = {"name": unique, "connector_class": "quitting.Quits", "topic": unique, "method": "poll", "raised": "exit"}
    code, output = runs.run("--preview", **config)
    assert (code, "The plugin's code called exit(0)" in output) == (1, True), output


def test_a_plugin_that_is_a_script_fails_its_run(runs: Runs, unique: str) -> None:
    code, output = runs.run(name=unique, connector_class="script.Quits", topic=unique)
    assert (code, "cannot be imported: ConnectException: The plugin's code called exit(0)" in output) == (2, True), output
