"""Plugins with odd definitions and answers are validated over REST as Kafka Connect does: MongoDB's own 1.13.0, and Debezium's 3.6.1 for
PostgreSQL and MongoDB. Nothing listens where their configs point to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from airflow_provider_connect.rest.server import rest_server
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.views import ServerView
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from tests.conftest import CACHE
from tests.java_plugins import installed_validated
from tests.unit.herder.conftest import MemoryBacking, NotedRuns
from tests.waiting import HANG_SECONDS

SINK, SOURCE = "com.mongodb.kafka.connect.MongoSinkConnector", "com.mongodb.kafka.connect.MongoSourceConnector"
POSTGRES, MONGODB = "io.debezium.connector.postgresql.PostgresConnector", "io.debezium.connector.mongodb.MongoDbConnector"
NOWHERE = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200"
pytestmark = pytest.mark.soak  # answers of Debezium's for PostgreSQL: test_java_probe; that runs must stay: unit/java/test_java_configs


@pytest.fixture(scope="module")
def plugins() -> Path:
    return installed_validated(CACHE)


@pytest.fixture(scope="module")
def url(plugins: Path) -> Iterator[str]:
    located = {"plugin.path": str(plugins), "java.allowed.locations": str(plugins)}
    settings = WorkerSettings.of({"bootstrap.servers": "localhost:1", "plugin.probe.timeout.ms": "300000", **located})
    with PluginProbe(settings) as probe:
        herder = Herder(settings, NotedRuns(), probe=probe, backing=MemoryBacking(settings), worker_id="api:0")
        with rest_server({}, herder=lambda: herder, info=lambda: ServerView("", "", ""), port=0) as running:
            yield running.url


def validated(url: str, config: Mapping[str, str]) -> dict[str, Any]:
    name = config["connector.class"]
    answer = httpx.put(f"{url}/connector-plugins/{name}/config/validate", json={"name": "odd", **config}, timeout=HANG_SECONDS)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def errors(answer: Mapping[str, Any]) -> dict[str, list[str]]:
    return {each["value"]["name"]: each["value"]["errors"] for each in answer["configs"] if each["value"]["errors"]}


@pytest.mark.parametrize(("plugin", "keys", "more"), [(SINK, 73, {"topics": "orders"}), (SOURCE, 76, {})])
def test_mongodbs_own_connectors_have_all_their_keys(url: str, plugin: str, keys: int, more: dict[str, str]) -> None:
    answer = validated(url, {"connector.class": plugin, "connection.uri": NOWHERE, "database": "shop", **more})
    assert len(answer["configs"]) == keys
    assert errors(answer) == {"connection.uri": ["Unable to connect to the server."]}
    assert len(httpx.get(f"{url}/connector-plugins/{plugin}/config", timeout=HANG_SECONDS).json()) == keys


@pytest.mark.parametrize("config", [{}, {"database.hostname": "127.0.0.1", "database.port": "1"}])
def test_debeziums_for_postgresql_names_what_is_missing_and_what_it_does_not_reach(url: str, config: dict[str, str]) -> None:
    login = {"database.user": "u", "database.password": "s3cret-word", "database.dbname": "d", "plugin.name": "pgoutput"} if config else {}
    answer = validated(url, {"connector.class": POSTGRES, "topic.prefix": "shop", **config, **login})
    assert "database.hostname" in errors(answer)
    assert "s3cret-word" not in str(answer)


def test_debeziums_for_mongodb_is_refused_unless_its_runs_stay_and_not_with_500(url: str) -> None:
    config = {"connector.class": MONGODB, "topic.prefix": "shop", "mongodb.connection.string": NOWHERE}
    assert "set airflow.schedule=@continuous" in errors(validated(url, config))["connector.class"][0]
    assert "connector.class" not in errors(validated(url, {**config, "airflow.schedule": "@continuous"}))
    assert validated(url, {"connector.class": MONGODB})["error_count"] > 0
