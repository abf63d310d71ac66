"""The lag of sinks of a standalone worker, whose positions are those of their groups: what is asked for on the way to them. And what they
have refused."""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest
from confluent_kafka import Producer

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import BadRequestException, NotFoundException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.page import ConnectorLag, PartitionLag
from airflow_provider_connect.runtime.model.records import ConnectorRecord
from airflow_provider_connect.runtime.stores.local_backing import LocalBacking
from airflow_provider_connect.runtime.stores.offset_file import OffsetFile
from airflow_provider_connect.sdk.config_provider import ConfigData, ConfigProvider
from tests.conftest import WorkerSettings as MakeProperties
from tests.integration.herder.conftest import RunsByHand
from tests.integration.worker.environment import commit_by_hand, make_topic, send
from tests.waiting import HANG_SECONDS


class Vault(ConfigProvider):
    """Has this cluster's servers, and notes what it was asked for."""

    asked: ClassVar[list[str]] = []
    bootstrap: ClassVar[str] = ""

    def get(self, path: str, keys: Iterable[str]) -> ConfigData:
        self.asked.extend(keys)
        return ConfigData(dict.fromkeys(keys, self.bootstrap))


@pytest.fixture
def settings(worker_settings: MakeProperties) -> WorkerSettings:
    providers = {
        "config.providers": "vault",
        "config.providers.vault.class": f"{__name__}.Vault",
        "config.providers.access.default": "allow",
    }
    found = WorkerSettings.of(worker_settings() | providers)
    Vault.asked.clear()
    Vault.bootstrap = found.bootstrap_servers
    return found


def test_no_secret_of_a_config_is_asked_for_and_no_name_of_a_group_hides_another(
    settings: WorkerSettings, tmp_path: Path, unique: str
) -> None:
    make_topic(settings.bootstrap_servers, unique)
    send(settings.bootstrap_servers, unique, ["a", "b", "c"])
    sink = {
        "connector.class": "FileStreamSink",
        "topics": unique,
        "file": "${vault:p:file}",
        "consumer.override.sasl.jaas.config": "${vault:p:jaas}",
    }
    configs = {
        "source": {"connector.class": "FileStreamSource", "topic": unique, "producer.override.bootstrap.servers": "${vault:p:of-source}"},
        f"plain-{unique}": sink,
        f"named-{unique}": sink | {"consumer.override.bootstrap.servers": "${vault:p:of-sink}"},
        f"elsewhere-{unique}": sink | {"consumer.override.bootstrap.servers": "localhost:1"},
        "unsendable": sink | {"consumer.override.group.id": "\ud800"},
    }
    for position, name in ((1, f"plain-{unique}"), (2, f"named-{unique}"), (2, f"elsewhere-{unique}")):
        commit_by_hand(settings.bootstrap_servers, f"connect-{name}", {TopicPartition(unique, 0): position})
    with closing(OffsetFile(tmp_path / "offsets")) as file:
        backing = LocalBacking(file)
        backing.configs().change(lambda _: [ConnectorRecord(name, config) for name, config in configs.items()])
        with Herder(settings, RunsByHand(), backing=backing) as herder:
            assert {name: found["records-lag"] for name, found in herder.sink_lags(configs).items()} == {
                f"plain-{unique}": 2.0,
                f"named-{unique}": 1.0,
            }
    assert Vault.asked == ["of-sink"]


def test_partitions_and_dead_letters_are_shown_without_secrets_and_those_of_others(
    settings: WorkerSettings, tmp_path: Path, unique: str
) -> None:
    topic, letters = make_topic(settings.bootstrap_servers, unique, 2), make_topic(settings.bootstrap_servers, f"{unique}-letters")
    send(settings.bootstrap_servers, topic, ["a", "b", "c"])
    commit_by_hand(settings.bootstrap_servers, f"connect-{unique}", {TopicPartition(topic, 0): 1})
    queue = {"errors.deadletterqueue.topic.name": letters, "errors.deadletterqueue.context.headers.enable": "true"}
    sink = {"connector.class": "FileStreamSink", "topics": f"{topic}, ,no such topic", "file": str(tmp_path / "out")}
    configs = {
        unique: sink | queue | {"db.password": "geheim", "db.user": "${vault:p:user}", "other": "${unknown:x}"},
        "plain": sink,
        "unsure": sink | queue | {"db.user": "${variable:not-for-it}"},
        "far": sink | {"consumer.override.bootstrap.servers": "localhost:1"},
        "new": sink | {"errors.deadletterqueue.topic.name": f"{unique}-none"},
        "source": {"connector.class": "FileStreamSource", "topic": topic, "file": str(tmp_path / "in")},
    }
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    for number, writer in enumerate([unique, "another", unique, None]):
        headers = [] if writer is None else [("__connect.errors.connector.name", writer.encode()), ("own", b"geheim")]
        producer.produce(letters, f"{number} geheim {settings.bootstrap_servers}".encode(), headers=headers)  # type: ignore[arg-type]
    assert producer.flush(HANG_SECONDS) == 0
    with closing(OffsetFile(tmp_path / "offsets")) as file:
        backing = LocalBacking(file)
        backing.configs().change(lambda _: [ConnectorRecord(name, config) for name, config in configs.items()])
        with Herder(settings, RunsByHand(), backing=backing) as herder:
            assert herder.partition_lags(unique) == ConnectorLag(
                [PartitionLag(topic, 0, 1, 3, 2), PartitionLag(topic, 1, None, 0, 0)], 2, 0
            )
            for name, reason in (("far", "another cluster"), ("source", "Only a sink has a lag")):
                with pytest.raises(BadRequestException, match=reason):
                    herder.partition_lags(name)
            found = herder.dead_letters(unique, limit=10, redact=dict)
            assert (found.topic, found.has_headers, found.is_whole, found.left_out) == (letters, True, True, 0)
            assert [row["value"] for row in found.records] == ["2 [hidden] [hidden]", "0 [hidden] [hidden]"]
            assert (found.records[0]["errors"], found.records[0]["headers"]) == ({"connector.name": unique}, {"own": "[hidden]"})
            assert [row["offset"] for row in herder.dead_letters(unique, limit=1, redact=dict).records] == [2]
            assert (herder.dead_letters("plain", limit=1, redact=dict).topic, herder.dead_letters("new", limit=1, redact=dict).records) == (
                None,
                [],
            )
            with pytest.raises(BadRequestException, match="cannot hide"):
                herder.dead_letters("unsure", limit=1, redact=dict)
            for name, limit, error in (
                (unique, 101, BadRequestException),
                (unique, 0, BadRequestException),
                ("nobody", 1, NotFoundException),
            ):
                with pytest.raises(error):
                    herder.dead_letters(name, limit=limit, redact=dict)
