"""The lag of sinks of a standalone worker, whose positions are those of their groups: what is asked for on the way to them."""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest

from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.herder.herder import Herder
from airflow_provider_connect.model.records import ConnectorRecord
from airflow_provider_connect.sdk.config_provider import ConfigData, ConfigProvider
from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.stores.local_backing import LocalBacking
from airflow_provider_connect.stores.offset_file import OffsetFile
from tests.conftest import WorkerSettings as MakeProperties
from tests.integration.herder.conftest import RunsByHand
from tests.integration.worker.environment import commit_by_hand, make_topic, send


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
