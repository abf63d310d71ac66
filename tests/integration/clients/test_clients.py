"""Clients that were written for Kafka Connect, unchanged, from PyPI and npm: each leads a connector through its life.

What a client relies on is asserted by the program that uses it, in ``programs``.
"""

import pytest

from tests.conftest import CACHE
from tests.integration.clients.conftest import Connector
from tests.integration.clients.environments import node_environment, python_environment

pytestmark = pytest.mark.soak

PYTHON = (
    "kafka_connect_py",
    "kafka_connect_api",
    "kafka_connect_cli",
    "kafkaconnect",
    "kafka_connect_healthcheck",
    "kafka_connect_manager",
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("client", PYTHON)
def test_a_client_from_pypi(client: str, connect_url: str, connector: Connector) -> None:
    environment = python_environment(CACHE, client)
    environment.run(f"with_{client}.py", connect_url, connector.name, str(connector.file), connector.topic)


@pytest.mark.timeout(600)
def test_a_client_from_npm(connect_url: str, connector: Connector) -> None:
    environment = node_environment(CACHE)
    environment.run("with_kafka_connect_client.js", connect_url, connector.name, str(connector.file), connector.topic)
