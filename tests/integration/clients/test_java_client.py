"""Maven Central's kafka-connect-client, in a JVM: it refuses answers with fields that it does not know or values that are no strings."""

from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.conftest import CACHE
from tests.integration.clients.conftest import Connector
from tests.integration.clients.environments import java_environment
from tests.waiting import wait_until

pytestmark = pytest.mark.soak

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


@pytest.fixture(scope="module")
def java() -> Iterator[Any]:
    """The root of all Java packages."""
    with java_environment(CACHE) as jvm:
        yield jvm.org.sourcelab.kafka.connect.apiclient


@pytest.mark.timeout(600)
def test_a_client_from_maven_central(java: Any, connect_url: str, connector: Connector) -> None:
    lead_a_life(java, java.KafkaConnectClient(java.Configuration(connect_url)), connector)


def lead_a_life(java: Any, client: Any, connector: Connector) -> None:
    name, requests = connector.name, java.request.dto
    config = {"connector.class": SOURCE, "tasks.max": "1", "file": str(connector.file), "topic": connector.topic}
    definition = requests.NewConnectorDefinition.newBuilder().withName(name)
    for key, value in config.items():
        definition = definition.withConfig(key, value)

    def states() -> list[str]:
        status = client.getConnectorStatus(name)
        return [status.getConnector()["state"], *(task.getState() for task in status.getTasks())]

    assert client.getConnectServerVersion().getKafkaClusterId()
    assert name not in client.getConnectors()
    assert SOURCE in {plugin.getClassName() for plugin in client.getConnectorPlugins()}
    with pytest.raises(Py4JJavaError, match="ResourceNotFoundException"):
        client.getConnector(name)
    validated = requests.ConnectorPluginConfigDefinition.newBuilder().withName("FileStreamSourceConnector").withConfig("name", name)
    for key, value in {**config, "tasks.max": "0"}.items():
        validated = validated.withConfig(key, value)
    assert client.validateConnectorPluginConfig(validated.build()).getErrorCount() == 1

    made = client.addConnector(definition.build())
    assert (made.getName(), dict(made.getConfig()), made.getType()) == (name, {**config, "name": name}, "source")
    with pytest.raises(Py4JJavaError, match=f"Connector {name} already exists"):
        client.addConnector(definition.build())
    until(states, ["RUNNING", "RUNNING"])
    assert client.getConnectorsWithExpandedStatus().getStatusForConnector(name).getConnector()["worker_id"]
    assert dict(client.getConnectorsWithAllExpandedMetadata().getDefinitionForConnector(name).getConfig()) == {**config, "name": name}

    assert client.pauseConnector(name)
    until(states, ["PAUSED", "PAUSED"])
    assert client.resumeConnector(name)
    until(states, ["RUNNING", "RUNNING"])
    assert client.restartConnector(name)
    until(states, ["RUNNING", "RUNNING"])
    (task,) = client.getConnectorTasks(name)
    assert (task.getId().getConnector(), task.getId().getTask()) == (name, 0)
    assert client.restartConnectorTask(name, 0)
    until(lambda: client.getConnectorTaskStatus(name, 0).getState(), "RUNNING")
    until(lambda: list(client.getConnectorTopics(name).getTopics()), [connector.topic])
    assert client.resetConnectorTopics(name)
    assert client.getConnectorConfig(name)["topic"] == connector.topic

    assert client.deleteConnector(name)
    assert name not in client.getConnectors()


def until(answer: Any, wanted: object) -> None:
    wait_until(lambda: answer() == wanted, lambda: f"{wanted}, but {answer()}")
