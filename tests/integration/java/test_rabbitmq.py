"""RabbitMQ's connectors for Java, unchanged, against a real RabbitMQ."""

from collections import Counter
from collections.abc import Iterator

import pytest

from airflow_provider_connect.runtime.worker.application.readiness import NO_WORK, check_readiness
from tests.conftest import CACHE
from tests.debian_packages import MissingServerError
from tests.integration.java.conftest import JavaRuns
from tests.integration.java.test_java_sinks import send
from tests.java_plugins import RABBITMQ, installed_rabbitmq
from tests.rabbitmq_server import RabbitmqServer
from tests.waiting import HANG_SECONDS, wait_until

PACKAGE = "com.github.jcustenborder.kafka.connect.rabbitmq"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
COUNT = 2000

pytestmark = pytest.mark.soak  # the first one fetches the server


@pytest.fixture(scope="module")
def rabbitmq() -> Iterator[RabbitmqServer]:
    try:
        with RabbitmqServer() as server:
            yield server
    except MissingServerError as error:
        pytest.skip(str(error))


def keys_of(server: RabbitmqServer, **more: str) -> dict[str, str]:
    return {
        "connector.plugin.location": RABBITMQ,
        "rabbitmq.host": "127.0.0.1",
        "rabbitmq.port": str(server.port),
        "value.converter": BYTES,
        **{key.replace("_", "."): text for key, text in more.items()},
    }


def test_messages_of_runs_of_which_one_is_killed_are_all_there(java_runs: JavaRuns, rabbitmq: RabbitmqServer, unique: str) -> None:
    """At least once: what the killed run had sent and not committed comes again."""
    java_runs.use(installed_rabbitmq(CACHE))
    java_runs.make_topic(unique)
    rabbitmq.declare(unique)
    keys = keys_of(rabbitmq, topics=unique, rabbitmq_exchange="", rabbitmq_routing_key=unique)
    config = java_runs.config(unique, f"{PACKAGE}.RabbitMQSinkConnector", **keys)
    values = [f"message {number}" for number in range(COUNT)]
    send(java_runs, unique, values, partitions=1)
    process = java_runs.start(config)
    wait_until(lambda: process.poll() is not None or rabbitmq.messages(unique))
    process.kill()
    process.wait(HANG_SECONDS)
    code, output = java_runs.run(config)
    assert code == 0, output
    found = wait_until(lambda: found if set(found := rabbitmq.messages(unique)) == set(values) else None)
    assert max(Counter(found).values()) <= 2
    assert check_readiness(java_runs.settings, unique, define=None, secrets_of=lambda _: {}).state == NO_WORK


def test_the_source_which_is_older_than_kafka_4_fails_by_itself_with_its_trace(
    java_runs: JavaRuns, rabbitmq: RabbitmqServer, unique: str
) -> None:
    java_runs.use(installed_rabbitmq(CACHE))
    java_runs.make_topic(unique)
    rabbitmq.declare(unique)
    rabbitmq.publish(unique, ["one"])
    keys = keys_of(rabbitmq, kafka_topic=unique, rabbitmq_queue=unique)
    code, output = java_runs.run(java_runs.config(unique, f"{PACKAGE}.RabbitMQSourceConnector", **keys))
    assert code != 0, output
    assert "IllegalAccessError: failed to access class org.apache.kafka.common.utils.SystemTime" in (java_runs.task(unique).trace or "")
