"""Every verb of the client, and of its twin, on a real Kafka Connect."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_provider_connect.client.rest_client import AsyncConnectClient, ConnectClient
from airflow_provider_connect.errors import AlreadyExistsException, BadRequestException, NotFoundException
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.model.views import OffsetView
from tests.waiting import wait_until


class Twin:
    """The asynchronous client, driven from a loop of its own as if it were the other one."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = AsyncConnectClient.of(url)

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        return lambda *given, **named: self._loop.run_until_complete(getattr(self._client, verb)(*given, **named))

    def __enter__(self) -> "Twin":
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run_until_complete(self._client.close())
        self._loop.close()


@pytest.fixture(params=[ConnectClient.of, Twin], ids=["sync", "async"])
def client(request: pytest.FixtureRequest, connect_url: str) -> Iterator[Any]:
    with request.param(connect_url) as opened:
        yield opened


def states(client: Any, name: str) -> list[str]:
    try:
        status = client.connector_status(name)
    except NotFoundException:
        return []
    return [status.connector.state, *(task.state for task in status.tasks)]


def wait_for(read: Callable[[], Any], wanted: Any) -> None:
    wait_until(lambda: read() == wanted, lambda: f"{wanted}, but {read()}")


def test_a_life_of_a_connector(client: Any, unique: str, file_source: dict[str, str]) -> None:
    made = client.create_connector(unique, file_source)
    assert (made.name, made.config, made.type) == (unique, {**file_source, "name": unique}, "source")
    with pytest.raises(AlreadyExistsException, match="already exists"):
        client.create_connector(unique, file_source)
    wait_for(lambda: states(client, unique), ["RUNNING", "RUNNING"])

    assert unique in client.connectors()
    (task,) = client.task_infos(unique)
    assert (task.id, task.config["topic"]) == ((unique, 0), file_source["topic"])
    assert client.task_status(unique, 0).state == "RUNNING"
    expanded = client.expanded()[unique]
    assert expanded == {"info": client.connector_info(unique), "status": client.connector_status(unique)}
    wait_for(lambda: client.active_topics(unique), [file_source["topic"]])

    client.pause(unique)
    wait_for(lambda: states(client, unique), ["PAUSED", "PAUSED"])
    client.resume(unique)
    wait_for(lambda: states(client, unique), ["RUNNING", "RUNNING"])
    assert client.restart_connector(unique) is None
    plan = client.restart_connector(unique, include_tasks=True)
    assert [plan.connector.state, *(task.state for task in plan.tasks)] == ["RESTARTING", "RESTARTING"]
    wait_for(lambda: states(client, unique), ["RUNNING", "RUNNING"])
    client.restart_task(unique, 0)

    _, was_created = client.put_connector_config(unique, {**file_source, "batch.size": "5"})
    assert not was_created
    assert client.patch_connector_config(unique, {"batch.size": None, "tasks.max": "2"}).config["tasks.max"] == "2"
    assert "batch.size" not in client.connector_config(unique)

    partition = {"filename": file_source["file"]}
    wait_for(lambda: client.offsets(unique), [OffsetView(partition, {"position": 8})])
    with pytest.raises(BadRequestException, match="STOPPED"):
        client.reset_offsets(unique)
    client.stop(unique)
    wait_for(lambda: states(client, unique), ["STOPPED"])
    assert "altered" in client.alter_offsets(unique, [OffsetView(partition, {"position": 4})])
    wait_for(lambda: client.offsets(unique), [OffsetView(partition, {"position": 4})])
    assert "reset" in client.reset_offsets(unique)
    wait_for(lambda: client.offsets(unique), [])
    client.reset_active_topics(unique)
    wait_for(lambda: client.active_topics(unique), [])

    client.delete_connector(unique)
    wait_for(lambda: unique in client.connectors(), False)
    with pytest.raises(NotFoundException, match=f"Connector {unique} not found"):
        client.delete_connector(unique)


def test_a_connector_made_stopped(client: Any, unique: str, file_source: dict[str, str]) -> None:
    client.create_connector(unique, file_source, TargetState.STOPPED)
    wait_for(lambda: states(client, unique), ["STOPPED"])
    client.delete_connector(unique)


def test_plugins_and_validation(client: Any, unique: str, file_source: dict[str, str]) -> None:
    kinds = {plugin.type for plugin in client.plugins(connectors_only=False)}
    assert kinds == {"source", "sink", "converter", "header_converter", "transformation", "predicate"}
    assert {plugin.type for plugin in client.plugins()} == {"source", "sink"}
    assert {"file", "topic", "batch.size"} <= {key.name for key in client.plugin_config("FileStreamSource")}
    assert client.validate("FileStreamSource", {**file_source, "name": unique}).error_count == 0
    wrong = client.validate("FileStreamSource", {**file_source, "name": unique, "tasks.max": "0"})
    assert [(value.name, bool(value.errors)) for _, value in wrong.configs if value.errors] == [("tasks.max", True)]
    with pytest.raises(NotFoundException, match="Unknown plugin"):
        client.plugin_config("NoSuchPlugin")


def test_the_server_and_its_loggers(client: Any, unique: str) -> None:
    assert client.server_info().version == "4.3.1"
    assert client.health().status == "healthy"
    assert "root" in client.loggers()
    assert client.set_logger_level(f"org.{unique}", "DEBUG") == [f"org.{unique}"]
    assert client.logger(f"org.{unique}").level == "DEBUG"
    assert client.set_logger_level(f"org.{unique}", "INFO", whole_cluster=True) == []


def test_what_is_not_there(client: Any, unique: str) -> None:
    for verb in ("connector_info", "connector_config", "connector_status", "task_infos", "offsets", "pause", "resume", "stop"):
        with pytest.raises(NotFoundException, match=unique):
            getattr(client, verb)(unique)
    with pytest.raises(NotFoundException, match="/workers: HTTP 404"):
        client.workers()
