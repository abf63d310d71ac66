"""What one user's requests may cost the others: aliases, errors, long values and turns have limits, and what is over them is a 400."""

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.requests import Request

from airflow_provider_connect.rest.access import OpenToAll, User
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.rest.server import RestListener, RestServer
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.connector_keys import sink_config_def
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from airflow_provider_connect.runtime.stores.admin_connection import server_info
from airflow_provider_connect.sdk.config_def import Type
from tests.unit.herder.conftest import MemoryBacking, NotedRuns
from tests.unit.plugins.locations import source, tree
from tests.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.process
WAITING = """
import time
from pathlib import Path

Path({asked!r}).touch()
while not Path({release!r}).exists():
    time.sleep(0.02)
"""
"""Code of a plugin that leaves a file when it is loaded, and goes on when another one is there."""


class Named(OpenToAll):
    """The header names the user."""

    async def identify(self, request: Request) -> User:
        return request.headers["x-user"]


class Served:
    """A REST server over memory stores and real probes."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.file = url, str(folder / "lines.txt")
        self.asked, self.release = folder / "asked", folder / "release"

    def ask(self, method: str, path: str, body: object, user: str = "ann") -> tuple[int, str]:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=HANG_SECONDS)
        try:
            connection.request(method, path, json.dumps(body), {"Content-Type": "application/json", "x-user": user})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def source(self, **more: str | None) -> dict[str, str | None]:
        return {"connector.class": "FileStreamSource", "file": self.file, "topic": "t", **more}

    def sink(self, **more: str | None) -> dict[str, str | None]:
        return {"connector.class": "FileStreamSink", "file": self.file, "topics": "t", **more}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder, plugins = tmp_path_factory.mktemp("files"), tmp_path_factory.mktemp("plugins")
    slow = WAITING.format(asked=str(folder / "asked"), release=str(folder / "release")) + source()
    for number in range(5):
        entry = f"source:Slow{number}Source = slow{number}:EchoSource"
        tree(plugins / f"slow{number}", f"slow{number}", "1.0", {f"slow{number}.py": slow}, entry)
    settings = WorkerSettings.of({"connectors.allowed.paths": str(folder), "plugin.path": str(plugins)})
    with PluginProbe(settings) as probe:
        herder = Herder(settings, NotedRuns(), probe=probe, backing=MemoryBacking(settings), worker_id="api:0")
        app = create_app(herder=lambda: herder, access=Named(), info=lambda: server_info(settings))
        with RestServer(app, RestListener.of({}, port=0)) as server:
            served = Served(server.url, folder)
            assert served.ask("PUT", "/connectors/warm/config", served.source())[0] == 201
            yield served


@pytest.fixture(autouse=True)
def no_plugin_is_asked(served: Served) -> None:
    served.asked.unlink(missing_ok=True)
    served.release.unlink(missing_ok=True)


@pytest.mark.parametrize("key", ["transforms", "predicates", "topic.creation.groups"])
def test_more_aliases_than_the_limit_are_refused_before_any_plugin_is_asked(served: Served, key: str) -> None:
    config = served.source(**{"connector.class": "Slow0Source", key: ",".join(f"a{number}" for number in range(20_000))})
    for path in ("/connectors/many/config", "/connector-plugins/Slow0Source/config/validate"):
        status, text = served.ask("PUT", path, config)
        assert not served.asked.exists()
        assert status == 400
        assert f"configuration {key}: It lists 20000 aliases; at most 100 are allowed" in text
        assert len(text) < 1000


def test_as_many_aliases_as_the_limit_are_taken(served: Served) -> None:
    names = [f"a{number}" for number in range(100)]
    settings = {"type": "org.apache.kafka.connect.transforms.HoistField$Value", "field": "x"}
    stages = {f"transforms.{name}.{key}": value for name in names for key, value in settings.items()}
    assert served.ask("PUT", "/connectors/hundred/config", served.source(transforms=",".join(names), **stages))[0] == 201


def test_an_answer_lists_a_hundred_errors_and_counts_the_others(served: Served) -> None:
    names = [f"a{number}" for number in range(100)]
    stages = {f"transforms.{name}.negate": "maybe" for name in names}
    status, text = served.ask("PUT", "/connectors/wrong/config", served.source(transforms=",".join(names), **stages))
    lines = json.loads(text)["message"].splitlines()
    count = int(lines[0].split()[-2])
    assert status == 400
    assert count > 100
    assert len(lines) == 1 + 100 + 1 + 1
    assert lines[101] == f"and {count - 100} more"


@pytest.mark.parametrize("key", ["tasks.max", "topics.regex", "key.converter", "transforms", "errors.tolerance", "connector.class"])
def test_messages_repeat_the_beginning_of_a_long_value(served: Served, key: str) -> None:
    config = {"connector.class": "FileStreamSink", "file": served.file, "topics": "t", key: "(" + "x" * 200_000}
    for path in ("/connectors/long/config", "/connector-plugins/FileStreamSink/config/validate"):
        status, text = served.ask("PUT", path, config)
        answer = json.loads(text)
        errors = [answer["message"]] if status == 400 else [error for each in answer["configs"] for error in each["value"]["errors"]]
        assert errors
        assert all(len(error) < 5000 for error in errors)
        assert any("(" + "x" * 199 + "…" in error for error in errors)


def test_a_user_whose_validations_are_slow_leaves_those_of_others_fast(served: Served) -> None:
    configs = [served.source(**{"connector.class": f"Slow{number}Source"}) for number in range(4)]
    slow = [threading.Thread(target=served.ask, args=("PUT", f"/connectors/slow{at}/config", config)) for at, config in enumerate(configs)]
    for thread in slow:
        thread.start()
    wait_until(served.asked.exists)
    status, text = served.ask("PUT", "/connectors/other/config", served.source(), user="bob")
    assert status == 201, text
    assert all(thread.is_alive() for thread in slow)
    served.release.touch()
    for thread in slow:
        thread.join()


def test_a_user_whose_reads_are_slow_leaves_those_of_others_fast(served: Served) -> None:
    """Every user who may see the server may ask for a plugin's settings, which asks the plugin. Here is one that does not answer."""
    path = "/connector-plugins/Slow4Source/config"
    slow = [threading.Thread(target=served.ask, args=("GET", path, None)) for _ in range(30)]
    for thread in slow:
        thread.start()
    wait_until(served.asked.exists)
    for read in ("/connectors", "/connectors/warm", "/connectors?expand=status", "/connector-plugins"):
        assert served.ask("GET", read, None, user="bob")[0] == 200
    assert all(thread.is_alive() for thread in slow)
    served.release.touch()
    for thread in slow:
        thread.join()


@pytest.mark.parametrize("tasks", ["1025", "50000", "2147483647"])
def test_no_connector_has_more_tasks_than_the_worker_allows(served: Served, tasks: str) -> None:
    status, text = served.ask("PUT", "/connectors/tasks/config", served.source(**{"tasks.max": tasks}))
    assert status == 400
    reason = "Value must be no more than 1024 (worker setting connectors.max.tasks)"
    assert f"Invalid value {tasks} for configuration tasks.max: {reason}" in text
    assert served.ask("PUT", "/connectors/tasks/config", served.source(**{"tasks.max": "1024"}))[0] in (200, 201)


NUMBERS = [key for key, known in sink_config_def().keys.items() if known.type in (Type.INT, Type.LONG, Type.SHORT)]


@pytest.mark.parametrize("key", NUMBERS)
def test_a_number_of_any_length_is_refused_in_connects_words(served: Served, key: str) -> None:
    status, text = served.ask("PUT", "/connectors/number/config", {**served.sink(), key: "9" * 5000})
    assert status == 400
    assert f"Invalid value {'9' * 200}… for configuration {key}: Not a number of type" in text


def test_leading_zeros_make_no_number_too_long(served: Served) -> None:
    assert served.ask("PUT", "/connectors/zeros/config", served.source(**{"errors.retry.timeout": "+" + "0" * 5000 + "5"}))[0] == 201


@pytest.mark.parametrize("stages", ["transforms", "predicates"])
@pytest.mark.parametrize("named", ["", "  "])
def test_a_stage_without_a_class_is_refused(served: Served, stages: str, named: str) -> None:
    status, text = served.ask("PUT", "/connectors/stage/config", served.source(**{stages: "a", f"{stages}.a.type": named}))
    assert status == 400
    assert f"Invalid value  for configuration {stages}.a.type: Class  could not be found." in text


KAFKA_TAKES_NONE_OF = ["a/b", "a b", ".", "..", "x" * 250, "ü"]


@pytest.mark.parametrize("topic", KAFKA_TAKES_NONE_OF)
@pytest.mark.parametrize("key", ["topic", "topics", "errors.deadletterqueue.topic.name", "offsets.storage.topic"])
def test_a_topic_that_kafka_does_not_take_is_refused_at_its_key(served: Served, key: str, topic: str) -> None:
    config = served.source() if key in ("topic", "offsets.storage.topic") else served.sink()
    status, text = served.ask("PUT", "/connectors/topics/config", {**config, key: topic})
    assert status == 400
    shown = topic if len(topic) <= 200 else f"{topic[:200]}…"
    assert f"Invalid value {shown} for configuration {key}: Topic name is invalid: " in json.loads(text)["message"]


def test_names_that_kafka_takes_and_variables_are_taken(served: Served) -> None:
    for topic in ("x" * 249, "a.B_c-9"):
        assert served.ask("PUT", "/connectors/named/config", served.sink(topics=topic))[0] in (200, 201)
    renamed = {"transforms": "r", "transforms.r.type": "RegexRouter", "transforms.r.regex": ".*", "transforms.r.replacement": "good"}
    assert served.ask("PUT", "/connectors/routed/config", served.source(topic="a b", **renamed))[0] == 201


@pytest.mark.parametrize("make", ["source", "sink"])
def test_a_file_that_is_a_folder_or_too_long_is_refused(served: Served, make: str) -> None:
    folder = Path(served.file).parent
    (folder / "below").mkdir(exist_ok=True)
    for file, reason in ((folder / "below", "This is a folder"), (folder / ("x" * 5000), "A path has at most 4095 bytes")):
        status, text = served.ask("PUT", "/connectors/file/config", {**getattr(served, make)(), "file": str(file)})
        assert status == 400
        assert "configuration file: " + reason in text
