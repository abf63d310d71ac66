"""MongoDB's own connectors for Java, unchanged, against a server that speaks MongoDB's protocol."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.worker.application.readiness import NO_WORK, check_readiness
from tests.conftest import CACHE
from tests.integration.java.conftest import JavaRuns
from tests.integration.java.test_java_sinks import send
from tests.java_plugins import MONGODB, installed_mongodb
from tests.mongo_server import MissingGoError, MongoServer
from tests.waiting import HANG_SECONDS, wait_until

JSON = "org.apache.kafka.connect.json.JsonConverter"
COUNT = 400

pytestmark = pytest.mark.soak  # the first one builds the server


@pytest.fixture(scope="module")
def mongo() -> Iterator[MongoServer]:
    server = MongoServer()
    try:
        server.start()
    except MissingGoError as error:
        pytest.skip(str(error))
    yield server
    server.stop()


@pytest.fixture
def runs(java_runs: JavaRuns, unique: str) -> JavaRuns:
    java_runs.use(installed_mongodb(CACHE))
    java_runs.make_topic(unique)
    return java_runs


def sink(runs: JavaRuns, mongo: MongoServer, unique: str) -> Path:
    """The config as MongoDB's documentation has it for documents that are replaced by their ``_id``."""
    strategies = "com.mongodb.kafka.connect.sink"
    keys = {
        "connector.plugin.location": MONGODB,
        "topics": unique,
        "connection.uri": mongo.uri,
        "database": "shop",
        "collection": unique,
        "max.batch.size": "20",
        "document.id.strategy": f"{strategies}.processor.id.strategy.ProvidedInValueStrategy",
        "document.id.strategy.overwrite.existing": "true",
        "writemodel.strategy": f"{strategies}.writemodel.strategy.ReplaceOneDefaultStrategy",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
    }
    return runs.config(unique, "com.mongodb.kafka.connect.MongoSinkConnector", **keys)


def documents(mongo: MongoServer, collection: str) -> dict[int, str]:
    client = mongo.client()
    try:
        return {found["_id"]: found["state"] for found in client["shop"][collection].find()}
    finally:
        client.close()


def test_documents_are_written_once_by_runs_of_which_some_are_killed(runs: JavaRuns, mongo: MongoServer, unique: str) -> None:
    config, expected = sink(runs, mongo, unique), dict[int, str]()
    for state in ("new", "paid", "sent"):
        numbers = range(len(expected) // 2, len(expected) // 2 + COUNT)  # half of them are there already
        expected |= dict.fromkeys(numbers, state)
        send(runs, unique, [json.dumps({"_id": number, "state": state}) for number in numbers], partitions=1)
        process = runs.start(config)
        wait_until(lambda: process.poll() is not None or state in documents(mongo, unique).values())  # noqa: B023
        process.kill()
        process.wait(HANG_SECONDS)
        code, output = runs.run(config)
        assert code == 0, output
        assert documents(mongo, unique) == expected
    assert check_readiness(runs.settings, unique, define=None, secrets_of=lambda _: {}).state == NO_WORK


def test_what_the_connector_refuses_is_in_the_status(runs: JavaRuns, mongo: MongoServer, unique: str) -> None:
    send(runs, unique, ["no object"], partitions=1)
    text = sink(runs, mongo, unique).read_text().replace(JSON, "org.apache.kafka.connect.storage.StringConverter")
    config = runs.folder / f"{unique}.properties"
    config.write_text(text)
    code, output = runs.run(config)
    assert code != 0, output
    task = runs.task(unique)
    assert task.state == "FAILED"
    assert "JSON reader" in (task.trace or "")
    wrong = config.with_name("wrong.properties")
    wrong.write_text(text.replace(mongo.uri, "http://example.org").replace(f"name={unique}", f"name={unique}-wrong"))
    code, output = runs.run(wrong)
    assert code != 0, output
    assert "connection.uri" in output
