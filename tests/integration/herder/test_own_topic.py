"""A source with an offsets topic of its own (``offsets.storage.topic``), and connectors whose data lies on another cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.stores.admin_connection import AdminConnection
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.wire import offset_topic
from tests.conftest import CACHE
from tests.integration.herder.conftest import shown, views
from tests.integration.herder.test_sink_offsets import at, offset
from tests.integration.worker.environment import RunEnvironment, make_topic, read_topic, send, values_of


def last(environment: RunEnvironment, topic: str, bootstrap: str | None = None) -> bytes | None:
    """The file's last offset on ``topic``; None: a tombstone, or none at all."""
    key = offset_topic.key_bytes(environment.connector, {"filename": str(environment.file)})
    values = [record.value for record in read_topic(bootstrap or environment.bootstrap, topic) if record.key == key]
    return values[-1] if values else None


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_offsets_on_a_topic_of_their_own(environment: RunEnvironment, herder: Herder, unique: str, guarantee: str) -> None:
    """Made by the first run, in front of the worker's topic, which keeps a copy; removed from both by a reset."""
    make_topic(environment.bootstrap, unique)
    environment.file.write_text("one\n")
    environment.run(environment.file_source(unique, delivery_guarantee=guarantee))  # with the worker's topic alone
    own, shared, file = f"own-{unique}", environment.settings.offset_topic, {"filename": str(environment.file)}
    environment.put_config(environment.file_source(unique, delivery_guarantee=guarantee, offsets_storage_topic=own))
    assert shown(herder.offsets(environment.connector)) == [(file, {"position": 4})]
    environment.file.write_text("one\ntwo\n")
    assert environment.readiness().state == "work"
    assert environment.run().state is RunState.DONE
    assert values_of(environment.bootstrap, unique) == ["one", "two"]
    assert [last(environment, topic) for topic in (own, shared)] == [b'{"position":8}'] * 2
    assert TopicAdmin(environment.settings).configs([own])[own]["cleanup.policy"] == "compact"
    assert environment.readiness().state == "no-work"

    herder.stop(environment.connector)
    herder.alter_offsets(environment.connector, views((file, {"position": 4})))
    assert shown(herder.offsets(environment.connector)) == [(file, {"position": 4})]
    herder.resume(environment.connector)
    environment.run()
    assert values_of(environment.bootstrap, unique) == ["one", "two", "two"]
    herder.stop(environment.connector)
    herder.reset_offsets(environment.connector)
    assert [last(environment, topic) for topic in (own, shared)] == [None, None]
    assert herder.offsets(environment.connector) == []


def test_an_own_topic_that_would_lose_offsets_is_refused(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    make_topic(environment.bootstrap, f"own-{unique}", cleanup_policy="delete")
    environment.file.write_text("one\n")
    result = environment.run(environment.file_source(unique, offsets_storage_topic=f"own-{unique}"))
    assert result.state is RunState.FAILED
    assert "offsets.storage.topic: a topic of offsets must have cleanup.policy=compact" in str(result.tasks[0].trace)
    assert ConfigException.__name__ in str(result.tasks[0].trace)


def test_another_topic_of_its_own_and_none_at_all(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    """Wherever the key points next, the connector goes on: each topic's offsets are on the worker's too."""
    make_topic(environment.bootstrap, unique)
    environment.file.write_text("one\n")
    environment.run(environment.file_source(unique, offsets_storage_topic=f"first-{unique}"))
    for number, own in enumerate((f"second-{unique}", None, f"first-{unique}"), 1):  # the last holds an old offset, which goes first
        more = {} if own is None else {"offsets_storage_topic": own}
        environment.put_config(environment.file_source(unique, **more))
        if own == f"first-{unique}":
            assert shown(herder.offsets(environment.connector)) == [({"filename": str(environment.file)}, {"position": 4})]
            break
        with environment.file.open("a") as file:
            file.write(f"more {number}\n")
        assert environment.run().state is RunState.DONE
    assert values_of(environment.bootstrap, unique) == ["one", "more 1", "more 2"]


def test_topics_of_the_worker_itself_are_refused(environment: RunEnvironment, unique: str) -> None:
    config = environment.file_source(unique, offsets_storage_topic=environment.settings.status_topic)
    with pytest.raises(
        ConfigException, match="it is the worker's own topic for connector and task statuses: name another, or leave it out"
    ):
        environment.readiness(config)


@pytest.fixture
def any_cluster(environment: RunEnvironment) -> None:
    """Before the herder is made: its settings let connectors go to other clusters."""
    environment.properties["connector.client.config.override.policy"] = "All"


@pytest.mark.usefixtures("any_cluster")
@pytest.mark.soak
def test_data_on_another_cluster(environment: RunEnvironment, herder: Herder, unique: str, tmp_path: Path) -> None:
    """Records and offsets go together: to and from the cluster that the connector's overrides name; the worker's topic has a copy."""
    with KafkaServer(tmp_path / "kafka", CACHE) as server:
        there = server.bootstrap_servers
        make_topic(there, unique)
        source = RunEnvironment(environment.properties, f"source-{unique}", tmp_path)
        source.file.write_text("one\ntwo\n")
        elsewhere = {f"{kind}.override.bootstrap.servers": there for kind in ("producer", "consumer", "admin")}
        assert source.run(source.file_source(unique, **elsewhere)).state is RunState.DONE
        assert values_of(there, unique) == ["one", "two"]
        assert last(source, environment.settings.offset_topic, there) == b'{"position":8}'
        assert last(source, environment.settings.offset_topic) == b'{"position":8}'
        herder.stop(source.connector)
        herder.alter_offsets(source.connector, views(({"filename": str(source.file)}, {"position": 4})))
        herder.resume(source.connector)
        source.run()
        assert values_of(there, unique) == ["one", "two", "two"]

        send(there, unique, ["four"])
        sink = RunEnvironment(environment.properties, f"sink-{unique}", tmp_path)
        away = {f"{kind}.override.bootstrap.servers": there for kind in ("consumer", "admin")}
        assert sink.run(sink.file_sink(unique, **away)).state is RunState.DONE
        assert sink.lines() == ["one", "two", "two", "four"]
        assert sink.group_offsets() == {}, "on the worker's cluster"
        end = TopicAdmin(environment.settings, connection=AdminConnection({"bootstrap.servers": there})).end_offsets([(unique, 0)])  # type: ignore[list-item]
        assert shown(herder.offsets(sink.connector)) == [(at(unique, 0), offset(next(iter(end.values()))))]
        herder.stop(sink.connector)
        herder.reset_offsets(sink.connector)
        assert herder.offsets(sink.connector) == []
        herder.resume(sink.connector)
        assert sink.run().state is RunState.DONE
        assert sink.lines() == ["one", "two", "two", "four"] * 2
