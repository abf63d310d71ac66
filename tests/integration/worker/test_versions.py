"""Two versions of one connector, chosen at the start of each run: what the data, the run's metrics and the statuses report of it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from airflow_provider_connect.runtime.model.run import RunState, TaskResult
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.worker.application.task_body import run_task
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload
from tests.integration.worker.environment import PLAIN, RunEnvironment, make_topic, values_of
from tests.integration.worker.words import NAME, install
from tests.unit.plugins.locations import tree


def config(topic: str, until: int, **more: str) -> dict[str, str]:
    return {"connector.class": NAME, "topic": topic, "until": str(until), **{key.replace("__", "."): text for key, text in more.items()}}


def run_without(location: Path, payload: TaskPayload) -> TaskResult:
    """The task, once ``location`` has gone."""
    shutil.rmtree(location)
    return run_task(payload)


def versions_of(environment: RunEnvironment) -> list[str | None]:
    """The versions in the statuses of connector and tasks."""
    statuses = environment.statuses()
    connector = statuses.connector(environment.connector)
    assert connector is not None
    return [connector.version, *(task.version for task in statuses.tasks_of(environment.connector))]


def test_the_variable_alone_moves_a_connector_to_another_version_at_its_next_run(words: RunEnvironment, unique: str) -> None:
    make_topic(words.bootstrap, unique)
    for number, (ranges, version) in enumerate([({}, "2.1"), ({f"version_ranges.{NAME}": "[1,2)"}, "1.5"), ({}, "2.1")], start=1):
        shown = {key: text for key, text in words.properties.items() if not key.startswith("version_ranges.")}
        words.properties = shown | ranges
        if number > 1:
            words.put_config(config(unique, number))
        result = words.run(config(unique, number))
        assert result.state is RunState.DONE, result.error
        used = {part: found for part, found in result.versions.items() if part in ("connector", "task")}
        assert used == {"connector": version, "task": version}
        assert versions_of(words) == [version, version]
    assert values_of(words.bootstrap, unique) == ["hello 0", "good day 1", "hello 2"]


def test_both_versions_run_in_one_process_at_the_same_time(words: RunEnvironment, unique: str) -> None:
    make_topic(words.bootstrap, f"{unique}-1.5")
    make_topic(words.bootstrap, f"{unique}-2.1")
    environments = {version: replace(words, connector=f"{words.connector}-{version}") for version in ("1.5", "2.1")}
    runs = {
        version: environment.start(config(f"{unique}-{version}", 3, connector__plugin__version=version))
        for version, environment in environments.items()
    }
    for version, run in runs.items():
        result = run.wait()
        assert result.state is RunState.DONE, result.error
        assert result.versions["task"] == version
    assert values_of(words.bootstrap, f"{unique}-1.5") == ["good day 0", "good day 1", "good day 2"]
    assert values_of(words.bootstrap, f"{unique}-2.1") == ["hello 0", "hello 1", "hello 2"]


def test_a_run_reports_the_versions_of_all_that_it_uses(words: RunEnvironment, unique: str) -> None:
    make_topic(words.bootstrap, f"to.{unique}")
    router = {
        "transforms": "r",
        "transforms__r__type": "RegexRouter",
        "transforms__r__regex": "(.*)",
        "transforms__r__replacement": "to.$1",
    }
    asked = {"connector__plugin__version": "[1,2)", "predicates": "p", "predicates__p__type": "RecordIsTombstone"}
    more = {"transforms__r__predicate": "p", "transforms__r__negate": "true"}
    result = words.run(config(unique, 1, **router, **asked, **more))
    assert result.state is RunState.DONE, result.error
    assert result.versions.keys() == {
        "connector", "task", "key.converter", "value.converter", "header.converter", "transforms.r", "predicates.p",
    }  # fmt: skip
    assert result.versions["connector"] == "1.5"
    assert values_of(words.bootstrap, f"to.{unique}") == ["good day 0"]
    tasks = words.configs().all_task_configs(words.connector)
    assert tasks[0]["connector.plugin.version"] == "[1,2)"


def test_a_version_that_is_gone_fails_the_connector_with_a_list_of_what_there_is(
    words: RunEnvironment, unique: str, tmp_path: Path
) -> None:
    make_topic(words.bootstrap, unique)
    assert words.run(config(unique, 1, connector__plugin__version="1.5")).state is RunState.DONE
    shutil.rmtree(tmp_path / "versions" / "words-1.5")
    result = words.run()
    message = f"Plugin {NAME} not found that matches the version range [1.5,1.5], available versions: [2.1]"
    assert result.state is RunState.FAILED
    assert message in str(result.error)
    status = words.statuses().connector(words.connector)
    assert status is not None
    assert status.state is State.FAILED
    assert message in str(status.trace)
    install(tmp_path / "versions", "1.5", "good day")
    assert words.run().state is RunState.DONE


def test_a_version_that_goes_while_the_plan_is_made_fails_the_task(words: RunEnvironment, unique: str, tmp_path: Path) -> None:
    make_topic(words.bootstrap, unique)
    vanished = tmp_path / "versions" / "words-2.1"
    application = words.application(config(unique, 1), engine=lambda payload: run_without(vanished, payload))
    result = application.run()
    assert result.state is RunState.FAILED
    (task,) = result.tasks
    assert f"Plugin {NAME} not found in version 2.1, which this run began with, available versions: [1.5]" in str(task.trace)
    assert words.run().versions["connector"] == "1.5"


def test_a_converter_in_another_version_is_used(words: RunEnvironment, unique: str, tmp_path: Path) -> None:
    source = (
        "from airflow_provider_connect.converters.plain import StringConverter as Plain\n\n\nclass Loud(Plain):\n"
        "    def from_connect_column(self, topic, schema, column):\n"
        "        from airflow_provider_connect.data.arrow import pa, pc\n"
        "        return super().from_connect_column(topic, schema, pc.utf8_upper(column))\n"
    )
    entry = f"converter:{PLAIN['value.converter']} = loud:Loud"
    tree(tmp_path / "versions" / "loud", "loud", "0.0.1", {"loud.py": source}, entry)
    make_topic(words.bootstrap, unique)
    result = words.run(config(unique, 1, value__converter="StringConverter", value__converter__plugin__version="[,0.0.1]"))
    assert result.state is RunState.DONE, result.error
    assert result.versions["value.converter"] == "0.0.1"
    assert result.versions["key.converter"] != "0.0.1"
    assert values_of(words.bootstrap, unique) == ["HELLO 0"]


def test_a_plugin_whose_import_never_ends_fails_its_own_run_in_time(words: RunEnvironment, unique: str, tmp_path: Path) -> None:
    make_topic(words.bootstrap, unique)
    entry = "source:org.example.SleepingSourceConnector = sleeping:WordSource"
    tree(tmp_path / "versions" / "sleeping", "sleeping", "1.0", {"sleeping.py": "import time\n\ntime.sleep(3600)\n"}, entry)
    words.properties["plugin.probe.timeout.ms"] = "2000"
    sleeping = RunEnvironment(words.properties, f"sleeping-{unique}", tmp_path)
    hanging = sleeping.start({**config(unique, 1), "connector.class": "SleepingSource"})
    assert words.run(config(unique, 1)).state is RunState.DONE
    result = hanging.wait()
    assert (result.state, result.retriable) == (RunState.FAILED, False)
    assert "for configuration connector.class: importing it" in str(result.error)
    assert "took more than the 2 s of plugin.probe.timeout.ms" in str(result.error)
    status = sleeping.statuses().connector(sleeping.connector)
    assert status is not None
    assert status.state is State.FAILED
