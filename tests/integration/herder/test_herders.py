"""Herders of several processes over one broker: what one has answered, all answer, and no change is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_provider_connect.errors import AlreadyExistsException, NotFoundException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.contradictions import RunFacts
from airflow_provider_connect.runtime.model.records import ConnectorRecord, TargetStateRecord
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import ConnectorStatus, TaskStatus, TopicStatus
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.status_store import StatusWriter
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from tests.integration.herder.conftest import AskedHere, RunsByHand
from tests.waiting import HANG_SECONDS

CONFIG = {"connector.class": "FileStreamSource", "file": "/tmp/in.txt", "topic": "lines"}
SECONDS, CLIENTS, CONNECTORS = 3.0, 16, 5


@pytest.fixture
def settings(worker_settings: Callable[..., dict[str, str]]) -> WorkerSettings:
    made = WorkerSettings.of(worker_settings(task_shutdown_graceful_timeout_ms="500"))
    TopicAdmin(made).ensure_internal_topics()
    return made


@pytest.fixture
def herders(settings: WorkerSettings, launcher: RunsByHand) -> Iterator[list[Herder]]:
    """Two, as two API servers have them."""
    made = [Herder(settings, launcher, probe=AskedHere(settings)) for _ in range(2)]
    yield made
    for herder in made:
        herder.close()


def written_by_a_run(settings: WorkerSettings, name: str, *states: State) -> None:
    with ConfigStore(settings) as configs:
        claim = configs.claim(name)
        configs.put_tasks(name, [{"task": str(number)} for number in range(len(states))], claim)
    with StatusWriter(settings, claim=claim) as statuses:
        statuses.put_connector(ConnectorStatus(name, State.RUNNING, "worker:1", version="1"))
        for number, state in enumerate(states):
            statuses.put_task(TaskStatus(name, number, state, "worker:1", version="1"))
        statuses.put_topic(TopicStatus("lines", name, 0, 1))
        assert statuses.flush(HANG_SECONDS)


def test_what_one_herder_has_done_the_other_reports_at_once(settings: WorkerSettings, herders: list[Herder], unique: str) -> None:
    one, other = herders
    for attempt in range(5):
        name = f"{unique}-{attempt}"
        one.create_connector(name, CONFIG)
        assert other.connector_info(name).type == "source"
        assert other.connector_status(name).connector.state == "RUNNING"
        with pytest.raises(AlreadyExistsException):
            other.create_connector(name, CONFIG)
        written_by_a_run(settings, name, State.RUNNING, State.FAILED)
        assert [task.state for task in one.connector_status(name).tasks] == ["RUNNING", "FAILED"]
        other.pause(name)
        assert [task.state for task in one.connector_status(name).tasks] == ["PAUSED", "PAUSED"]
        one.resume(name)
        assert [task.state for task in other.connector_status(name).tasks] == ["RUNNING", "RUNNING"]
        other.patch_connector_config(name, {"batch.size": "5"})
        assert one.connector_config(name)["batch.size"] == "5"
        assert [task.state for task in one.connector_status(name).tasks] == ["UNASSIGNED", "UNASSIGNED"]
        one.stop(name)
        status = other.connector_status(name)
        assert (status.connector.state, status.tasks, other.connector_info(name).tasks) == ("STOPPED", [], [])
        assert one.active_topics(name) == ["lines"]
        other.delete_connector(name)
        with pytest.raises(NotFoundException):
            one.connector_status(name)
        assert (one.connectors(), one.active_topics(name)) == ([], [])


@pytest.mark.parametrize("verb", ["stop", "delete"])
def test_a_verb_whose_process_was_killed_after_its_record_is_completed_by_another(
    settings: WorkerSettings, herders: list[Herder], unique: str, verb: str
) -> None:
    herder = herders[0]
    herder.create_connector(unique, CONFIG)
    written_by_a_run(settings, unique, State.RUNNING, State.RUNNING)
    with ConfigStore(settings) as killed:
        if verb == "stop":
            killed.put_target_state(unique, TargetState.STOPPED)
        else:
            killed.change(lambda _: [ConnectorRecord(unique, None), TargetStateRecord(unique, None)])
    assert herders[1].correct(unique, RunFacts())
    if verb == "stop":
        status = herder.connector_status(unique)
        assert (status.connector.state, status.tasks) == ("STOPPED", [])
    else:
        assert herder.snapshot().statuses.names() == set()


def test_no_change_is_lost_when_sixteen_clients_change_connectors_through_two_herders(herders: list[Herder], unique: str) -> None:
    """Each client counts up in a key of its own, and pauses, resumes, restarts and reads in between."""
    names = [f"{unique}-{number}" for number in range(CONNECTORS)]
    for name in names:
        herders[0].create_connector(name, CONFIG)
    deadline, acknowledged = time.monotonic() + SECONDS, {}
    lock = threading.Lock()

    def client(number: int) -> None:
        key, count, herder = f"client.{number}", 0, herders[number % 2]
        while time.monotonic() < deadline:
            name = names[(number + count) % CONNECTORS]
            count += 1
            herder.patch_connector_config(name, {key: str(count)})
            with lock:
                acknowledged[name, key] = str(count)
            assert herders[(number + 1) % 2].connector_config(name)[key] == str(count)
            match (number + count) % 8:
                case 0:
                    herder.pause(name)
                case 1:
                    herder.resume(name)
                case 2:
                    herder.restart_connector(name, include_tasks=True, only_failed=True)
                case _:
                    herder.expanded(True, True)

    with ThreadPoolExecutor(CLIENTS) as clients:
        for done in [clients.submit(client, number) for number in range(CLIENTS)]:
            done.result()

    reported = [{name: herder.connector_config(name) for name in names} for herder in herders]
    assert reported[0] == reported[1]
    assert {(name, key): reported[0][name].get(key) for name, key in acknowledged} == acknowledged
    assert len(acknowledged) >= CLIENTS
    for name in names:
        assert herders[0].connector_status(name) == herders[1].connector_status(name)
