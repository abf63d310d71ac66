"""Previews and upgrades of a connector with several versions installed: what is read, what is held back, what goes back, and that every
record arrives once through all of it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import pytest

from airflow_provider_connect.errors import BadRequestException, ConflictException, ConnectException, NotFoundException, RetriableException
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.previews import PreviewEnd
from airflow_provider_connect.runtime.model.run import RunResult, RunState
from airflow_provider_connect.runtime.model.upgrades import UpgradeState
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.worker.application.upgrade_trial import UpgradeTrial
from airflow_provider_connect.runtime.worker.preview.runner import PreviewRunner
from tests.integration.herder.conftest import RunsByHand
from tests.integration.worker.environment import RunEnvironment, make_topic, read_topic, send, values_of
from tests.integration.worker.orders import NAME, install
from tests.samples import sample
from tests.waiting import HANG_SECONDS, wait_until


@dataclass(slots=True)
class Orders:
    """A connector whose versions are installed below ``versions``; ``herder`` is who is asked."""

    environment: RunEnvironment
    topic: str
    herder: Herder

    def install(self, version: str, *fields: str, breaks_at: int | None = None, hangs: bool = False) -> None:
        """Install a version; every process knows of it at once."""
        install(self.environment.folder / "versions", version, *fields, breaks_at=breaks_at, hangs=hangs)
        self.herder.close()
        self.herder = new_herder(self.environment)

    @property
    def config(self) -> dict[str, str]:
        return {"connector.class": NAME, "topic": self.topic, "until": str(self.environment.folder / "until"), "password": "canary-4711"}

    def run(self, until: int) -> RunResult:
        """A run when there are orders up to ``until``."""
        (self.environment.folder / "until").write_text(str(until))
        return self.environment.run(None if self.environment.runs else self.config)

    def version(self) -> str | None:
        status = self.environment.statuses().connector(self.environment.connector)
        return None if status is None else status.version

    @property
    def state(self) -> UpgradeState:
        return self.herder.upgrade(self.environment.connector).state

    def ask(self, to: str, *, accept_schema_change: bool = False, canary: int = 10) -> None:
        self.herder.request_upgrade(self.environment.connector, to, canary=canary, accept_schema_change=accept_schema_change)


def new_herder(environment: RunEnvironment) -> Herder:
    return Herder(environment.settings, RunsByHand(), previewer=PreviewRunner(environment.settings))


@pytest.fixture
def orders(environment: RunEnvironment, unique: str) -> Iterator[Orders]:
    make_topic(environment.bootstrap, unique)
    environment.properties |= {
        "plugin.path": str(environment.folder / "versions"),
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    }
    environment.properties |= {"value.converter.schemas.enable": "false"}
    (environment.folder / "versions").mkdir()
    TopicAdmin(environment.settings).ensure_internal_topics()
    found = Orders(environment, unique, new_herder(environment))
    found.install("1.0")
    yield found
    found.herder.close()


def test_a_canary_with_another_schema_is_held_back_and_goes_through_when_that_is_accepted(orders: Orders) -> None:
    name = orders.environment.connector
    assert orders.run(20).versions["connector"] == "1.0"
    orders.install("2.1", "id", "note")
    with pytest.raises(NotFoundException, match="No upgrade"):
        orders.herder.upgrade(name)
    with pytest.raises(BadRequestException, match=r"available versions: \[1.0, 2.1\]"):
        orders.ask("3.0")
    orders.ask("[2,3)")
    result = orders.run(40)
    assert (result.state, result.versions["connector"], orders.version()) == (RunState.DONE, "1.0", "1.0"), result.error
    held = orders.herder.upgrade(name)
    assert (held.state, held.old, held.new) == (UpgradeState.HELD, "1.0", "2.1")
    assert f"{orders.topic}: value note added: string" in held.reason
    assert held.comparison is not None
    assert (held.comparison["records"], held.comparison["equal_records"]) == (10, 0)
    assert orders.run(50).versions["connector"] == "1.0"  # held: not the newest
    orders.ask("[2,3)", accept_schema_change=True)
    result = orders.run(70)
    assert (result.state, result.versions["connector"], orders.state) == (RunState.DONE, "2.1", UpgradeState.DONE), result.error
    assert orders.environment.configs().connector_config(name) == {**orders.config, "connector.plugin.version": "[2,3)"}
    assert orders.run(80).versions["connector"] == "2.1"
    values = values_of(orders.environment.bootstrap, orders.topic)
    assert values == [f'{{"id":{n}}}' if n < 50 else f'{{"id":{n},"note":"canary-4711"}}' for n in range(80)]


def test_a_failing_first_run_goes_back_by_itself_and_nothing_is_lost_or_doubled(orders: Orders) -> None:
    orders.run(20)
    orders.install("2.2", breaks_at=40)
    orders.ask("2.2")
    result = orders.run(60)
    assert (result.state, result.retriable, result.versions["connector"]) == (RunState.FAILED, True, "2.2")
    assert "the upgrade to version 2.2 failed, and version 1.0 holds again" in str(result.error)
    back = orders.herder.upgrade(orders.environment.connector)
    assert (back.state, back.reason) == (UpgradeState.ROLLED_BACK, "task 0: ValueError: order 40 cannot be read, [hidden]")
    assert 20 < len(values_of(orders.environment.bootstrap, orders.topic)) <= 40  # what the new version committed before it failed holds
    result = orders.environment.run(tasks=[0])  # Airflow's retry of the task that failed
    assert (result.state, result.versions["connector"], orders.version()) == (RunState.DONE, "1.0", "1.0"), result.error
    assert values_of(orders.environment.bootstrap, orders.topic) == [f'{{"id":{n}}}' for n in range(60)]
    orders.herder.forget_upgrade(orders.environment.connector)
    assert orders.run(70).versions["connector"] == "2.2"  # the config decides again: the newest


def test_a_trial_that_was_killed_is_taken_back_by_the_next_run(orders: Orders) -> None:
    orders.run(20)
    orders.install("2.0")
    orders.ask("2.0", canary=0)
    environment = orders.environment
    with ConfigStore(environment.settings) as store:
        claim = store.claim(environment.connector)
        trial = UpgradeTrial(environment.connector, claim, store, lambda: PreviewRunner(environment.settings), state=store.read())
        assert trial.before_plan(is_whole=True)
    assert orders.state is UpgradeState.TRIAL
    with pytest.raises(ConflictException, match=r"is trying version 2\.0"):
        orders.ask("2.0")
    result = orders.run(30)
    assert (result.versions["connector"], orders.state) == ("1.0", UpgradeState.ROLLED_BACK)
    assert "never reported its end" in orders.herder.upgrade(environment.connector).reason
    orders.ask("2.0")
    assert (orders.run(50).versions["connector"], orders.state) == ("2.0", UpgradeState.DONE)
    assert values_of(environment.bootstrap, orders.topic) == [f'{{"id":{n}}}' for n in range(50)]


@pytest.mark.parametrize("step", sample(["comparison", "trial", "data"], 1))
def test_a_run_that_is_killed_leaves_one_version_or_the_other(orders: Orders, step: str) -> None:
    """The process is ``connect-run``, with the connector's config and the worker's settings in files."""
    environment, folder = orders.environment, orders.environment.folder
    orders.run(20)
    orders.install("2.0", breaks_at=1000)  # a poll every quarter of a second
    orders.ask("2.0")
    (folder / "until").write_text("80")
    (folder / "worker.properties").write_text("".join(f"{key}={value}\n" for key, value in environment.properties.items()))
    (folder / "orders.json").write_text(json.dumps({"name": environment.connector, "config": orders.config}))
    command = [sys.executable, "-m", "airflow_provider_connect.standalone.one_run", str(folder / "orders.json")]
    with (folder / "run.log").open("wb") as log:
        process = psutil.Popen([*command, "--worker", str(folder / "worker.properties")], stdout=log, stderr=log)
    reached = {
        "comparison": process.children,
        "trial": lambda: orders.herder.upgrade(environment.connector).claim is not None,
        "data": lambda: len(values_of(environment.bootstrap, orders.topic)) > 20,
    }
    try:
        wait_until(reached[step])
    finally:
        process.kill()
        process.wait(HANG_SECONDS)
    result = orders.run(80)
    assert result.state is RunState.DONE, result.error
    assert (result.versions["connector"], orders.state) == (
        ("2.0", UpgradeState.DONE) if step == "comparison" else ("1.0", UpgradeState.ROLLED_BACK)
    ), (folder / "run.log").read_text()
    assert values_of(environment.bootstrap, orders.topic) == [f'{{"id":{n}}}' for n in range(80)]


def test_a_preview_of_a_source_shows_what_comes_next_and_leaves_nothing_behind(orders: Orders) -> None:
    name, environment = orders.environment.connector, orders.environment
    (environment.folder / "until").write_text("30")
    with pytest.raises(NotFoundException):
        orders.herder.preview(name, records=3)
    first = orders.herder.preview(name, orders.config, records=3)  # nothing of it is there yet
    assert [record.value for record in first.records] == [{"id": 0}, {"id": 1}, {"id": 2}]
    assert (first.type, first.class_name, first.versions["connector"], first.read) == ("source", NAME, "1.0", 3)
    assert first.tasks[0].config["password"] == "[hidden]"
    assert first.tasks[0].config["topic"] == orders.topic
    orders.run(30)
    before = [environment.config_log(), environment.status_log(), environment.offsets(), read_topic(environment.bootstrap, orders.topic)]
    (environment.folder / "until").write_text("50")
    orders.install("2.0", "id", "note")
    found = orders.herder.preview(name, records=100, version="2.0")
    assert (found.read, found.versions["connector"], found.tasks[0].end) == (20, "2.0", PreviewEnd.END)
    assert found.tasks[0].partitions == [{"orders": "all"}]
    assert found.records[0].value == {"id": 30, "note": "[hidden]"}
    assert [(topic.topic, topic.records, topic.value) for topic in found.topics] == [
        (orders.topic, 20, {"$": "struct", "id": "int64?", "note": "string?"})
    ]
    assert found.offsets == {"partition": "object", "partition.orders": "string", "offset": "object", "offset.next": "number"}
    assert [
        environment.config_log(),
        environment.status_log(),
        environment.offsets(),
        read_topic(environment.bootstrap, orders.topic),
    ] == before
    comparison = orders.herder.compare_versions(name, "2.0", records=10)
    assert [str(each) for each in comparison.differences] == [f"{orders.topic}: value note added: string?"]


def test_a_preview_of_a_sink_reads_behind_the_groups_offsets_and_commits_nothing(orders: Orders) -> None:
    environment = orders.environment
    topic = make_topic(environment.bootstrap, f"in-{orders.topic}", 2)
    send(environment.bootstrap, topic, [f'{{"n":{n}}}' for n in range(20)], partitions=2)
    config = environment.file_sink(topic, tasks_max="2", **{"value_converter": "org.apache.kafka.connect.json.JsonConverter"})
    config["value.converter.schemas.enable"] = "false"
    assert orders.herder.preview(environment.connector, config, records=6).read == 6
    assert environment.group_offsets() == {}
    environment.run(config)
    committed = environment.group_offsets()
    send(environment.bootstrap, topic, [f'{{"n":{n},"more":true}}' for n in range(20, 40)], partitions=2)
    found = orders.herder.preview(environment.connector, records=6)
    assert found.type == "sink"
    assert Counter((task.task, task.records, task.end) for task in found.tasks) == {(0, 3, "records"): 1, (1, 3, "records"): 1}
    assert sorted((record.partition, record.offset, record.value["n"]) for record in found.records) == [
        (p, 10 + n, 20 + 2 * n + p) for p in range(2) for n in range(3)
    ]
    assert found.topics[0].value == {"$": "object", "n": "number", "more": "boolean"}
    assert environment.group_offsets() == committed
    assert len(environment.lines()) == 20


def test_a_plugin_that_hangs_or_fails_costs_its_own_preview(orders: Orders) -> None:
    environment = orders.environment
    (environment.folder / "until").write_text("30")
    orders.install("2.0", hangs=True)
    orders.install("3.0", breaks_at=0)
    with pytest.raises(ConnectException, match=r"ValueError: order 0 cannot be read, \[hidden\]"):
        orders.herder.preview(environment.connector, orders.config, records=3, version="3.0")
    quick = RunEnvironment(environment.properties | {"plugin.probe.timeout.ms": "3000"}, environment.connector, environment.folder)
    with pytest.raises(RetriableException, match="did not answer within 3 s"):
        PreviewRunner(quick.settings).preview(environment.connector, orders.config, records=3, version="2.0")
