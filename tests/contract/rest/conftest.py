"""The REST app under its own HTTP server over a real broker, with a launcher that runs nothing: for what needs no runs."""

import logging
from collections.abc import Iterator

import pytest

from airflow_provider_connect.rest.server import rest_server
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from airflow_provider_connect.runtime.stores.admin_connection import server_info
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from tests.conftest import worker_properties
from tests.contract.rest.server import Server
from tests.no_runs import NoRuns

JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture(scope="package")
def herder(bootstrap: str) -> Iterator[Herder]:
    """A herder of a worker group of its own, with the settings of the recordings."""
    properties = worker_properties(bootstrap, "rest-contract") | {"key.converter": JSON, "value.converter": JSON}
    settings = WorkerSettings.of(properties | {"exactly.once.source.support": "disabled"})
    TopicAdmin(settings).ensure_internal_topics()
    with PluginProbe(settings) as probe, Herder(settings, NoRuns(), probe=probe) as herder:
        yield herder


@pytest.fixture(scope="package")
def server(herder: Herder, bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app, open to all, on a free port."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.INFO)
    with rest_server({}, herder=lambda: herder, info=lambda: server_info(herder.settings), port=0) as running:
        yield Server(running.url, bootstrap, tmp_path_factory.mktemp("rest-files"))
    root.setLevel(level)
