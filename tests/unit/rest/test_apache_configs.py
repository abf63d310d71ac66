"""The cases of Apache's tests of connector configs (ConnectorConfigTest, AbstractHerderTest, ConnectorValidationIntegrationTest …): which
setting is wrong, and how many are. Plugins of all kinds come from a location, and a worker validates them over REST."""

import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from airflow_provider_connect.rest.access import OpenToAll
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.rest.server import RestListener, RestServer
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from airflow_provider_connect.runtime.stores.admin_connection import server_info
from tests.unit.herder.conftest import MemoryBacking, NotedRuns
from tests.unit.plugins.locations import tree
from tests.waiting import HANG_SECONDS

pytestmark = pytest.mark.process
PLUGINS = '''
from abc import ABC, abstractmethod

from airflow_provider_connect.sdk import (
    ConfigDef, ConfigKey, Converter, ExactlyOnceSupport, HeaderConverter, Predicate, Range, SinkConnector, SinkTask, SourceConnector,
    SourceTask, Transformation, Type,
)


class Tasks(SourceTask):
    def poll(self):
        return None


class Puts(SinkTask):
    def put(self, batch):
        pass


class Source(SourceConnector):
    task_class = Tasks
    config_def = ConfigDef(ConfigKey("required"))


class Exact(Source):
    def exactly_once_support(self, config):
        return ExactlyOnceSupport.SUPPORTED

    def can_define_transaction_boundaries(self, config):
        return True


class Inexact(Source):
    def exactly_once_support(self, config):
        return ExactlyOnceSupport.UNSUPPORTED


class Raising(Source):
    def exactly_once_support(self, config):
        raise RuntimeError("time to add a new test")

    can_define_transaction_boundaries = exactly_once_support


class Sink(SinkConnector):
    task_class = Puts
    config_def = ConfigDef()


class Simple(Transformation):
    config_def = ConfigDef(ConfigKey("magic.number", Type.INT, validator=Range(at_least=42)))

    def apply(self, record):
        return record


class Abstract(Transformation, ABC):
    @abstractmethod
    def apply(self, record):
        """To be written."""


class Test(Predicate):
    config_def = ConfigDef(ConfigKey("int", Type.INT, 80, validator=Range(at_least=80)))

    def test(self, record):
        return True


class AbstractTest(Predicate, ABC):
    @abstractmethod
    def test(self, record):
        """To be written."""


class Plain(Converter):
    config_def = ConfigDef(ConfigKey("flag", Type.BOOLEAN, True))

    def configure(self, config, *, is_key):
        pass

    def from_connect_data(self, topic, schema, value):
        return value

    def to_connect_data(self, topic, data):
        return (None, data)


class AbstractPlain(Plain, ABC):
    @abstractmethod
    def from_connect_data(self, topic, schema, value):
        """To be written."""


class NeedsArgument(Plain):
    def __init__(self, argument):
        self.argument = argument


class Raises(Plain):
    def __init__(self):
        raise RuntimeError("not today")


class Headers(HeaderConverter):
    config_def = ConfigDef(ConfigKey("flag", Type.BOOLEAN, True))

    def configure(self, config):
        pass

    def from_connect_header(self, topic, key, schema, value):
        return value

    def to_connect_header(self, topic, key, data):
        return (None, data)


class AbstractHeaders(Headers, ABC):
    @abstractmethod
    def from_connect_header(self, topic, key, schema, value):
        """To be written."""


class HeadersNeedArgument(Headers):
    def __init__(self, argument):
        self.argument = argument


class HeadersRaise(Headers):
    def __init__(self):
        raise RuntimeError("not today")
'''
KINDS = {
    "source": ["Source", "Exact", "Inexact", "Raising"],
    "sink": ["Sink"],
    "transformation": ["Simple", "Abstract"],
    "predicate": ["Test", "AbstractTest"],
    "converter": ["Plain", "AbstractPlain", "NeedsArgument", "Raises"],
    "header_converter": ["Headers", "AbstractHeaders", "HeadersNeedArgument", "HeadersRaise"],
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("plugins")
    entries = [f"{kind}:org.example.{name} = given:{name}" for kind, names in KINDS.items() for name in names]
    tree(folder / "given", "given", "1.0", {"given.py": PLUGINS}, *entries)
    settings = WorkerSettings.of(
        {"plugin.path": str(folder), "group.id": "connect-worker", "connector.client.config.override.policy": "All"}
    )
    with PluginProbe(settings) as probe:
        herder = Herder(settings, NotedRuns(), probe=probe, backing=MemoryBacking(settings), worker_id="api:0")
        app = create_app(herder=lambda: herder, access=OpenToAll(), info=lambda: server_info(settings))
        with RestServer(app, RestListener.of({}, port=0)) as server:
            yield urlsplit(server.url).netloc


def validated(address: str, config: Mapping[str, str]) -> dict[str, Any]:
    connection = http.client.HTTPConnection(address, timeout=HANG_SECONDS)
    try:
        name = config["connector.class"]
        connection.request("PUT", f"/connector-plugins/{name}/config/validate", json.dumps(config), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = json.loads(answer.read())
        assert answer.status == 200, body
        return body  # type: ignore[no-any-return]
    finally:
        connection.close()


def errors_of(address: str, config: Mapping[str, str]) -> dict[str, list[str]]:
    """Settings with their errors, as many as are counted."""
    body = validated(address, config)
    found = {entry["value"]["name"]: entry["value"]["errors"] for entry in body["configs"] if entry["value"]["errors"]}
    assert body["error_count"] == sum(map(len, found.values()))
    return found


SOURCE = {"name": "test", "connector.class": "org.example.Source", "required": "value"}
SINK = {"name": "test", "connector.class": "org.example.Sink", "topics": "t1"}
SIMPLE = {"transforms": "a", "transforms.a.type": "org.example.Simple", "transforms.a.magic.number": "42"}
CONDITION = {"transforms.a.predicate": "p", "predicates": "p", "predicates.p.type": "org.example.Test", "predicates.p.int": "84"}


@pytest.mark.parametrize(
    "config",
    [
        SOURCE,
        SINK,
        SOURCE | SIMPLE,
        SINK | SIMPLE | {"transforms": "a, b", "transforms.b.type": "org.example.Simple", "transforms.b.magic.number": "84"},
        SINK | SIMPLE | CONDITION,
        SINK | SIMPLE | CONDITION | {"transforms.a.negate": "true"},
        SINK | SIMPLE | {key: value for key, value in CONDITION.items() if key != "predicates"},
        SINK | {"key.converter": "org.example.Plain"},
        SINK | {"header.converter": "org.example.Headers"},
        SINK | {"errors.deadletterqueue.topic.name": "t2"},
        SOURCE | {f"topic.creation.default.{key}": "1" for key in ("partitions", "replication.factor")},
        SOURCE | {f"topic.creation.default.{key}": "-1" for key in ("partitions", "replication.factor")},
        SOURCE
        | {
            "topic.creation.groups": "default, g1",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
            "topic.creation.default.cleanup.policy": "compact",
        },
    ],
)
def test_right_configs_have_no_error(address: str, config: dict[str, str]) -> None:
    assert errors_of(address, config) == {}


WRONG: list[tuple[dict[str, str], dict[str, str]]] = [
    ({**SOURCE, "name": ""}, {"name": "String may not be empty"}),
    (SOURCE | {"transforms": "dangler"}, {"transforms.dangler.type": "Missing required"}),
    (SOURCE | {"transforms": "a", "transforms.a.type": "uninstantiable"}, {"transforms.a.type": "Class uninstantiable could not be found"}),
    (SOURCE | {"transforms": "a", "transforms.a.type": "org.example.Sink"}, {"transforms.a.type": "Transformation"}),
    (SOURCE | SIMPLE | {"transforms.a.magic.number": "40"}, {"transforms.a.magic.number": "Value must be at least 42"}),
    (SOURCE | SIMPLE | {"transforms": "a, b"}, {"transforms.b.type": "Missing required"}),
    (SOURCE | SIMPLE | {"transforms": "a, a"}, {"transforms": "Duplicate alias"}),
    (SOURCE | {"transforms": "a", "transforms.a.type": "org.example.Abstract"}, {"transforms.a.type": "abstract"}),
    (SOURCE | SIMPLE | CONDITION | {"predicates.p.type": "org.example.Sink"}, {"predicates.p.type": "Predicate"}),
    (SOURCE | SIMPLE | CONDITION | {"predicates.p.type": "WheresTheFruit"}, {"predicates.p.type": "could not be found"}),
    (SOURCE | SIMPLE | CONDITION | {"predicates.p.type": "org.example.AbstractTest"}, {"predicates.p.type": "abstract"}),
    (SOURCE | SIMPLE | CONDITION | {"predicates.p.int": "79"}, {"predicates.p.int": "Value must be at least 80"}),
    (SOURCE | SIMPLE | {"transforms.a.predicate": "p", "predicates": "p"}, {"predicates.p.type": "Predicate"}),
    (SOURCE | SIMPLE | {"transforms.a.negate": "true"}, {"transforms.a.type": "no config 'transforms.a.predicate'"}),
    (SINK | CONDITION | {"predicates": "p, p"}, {"predicates": "Duplicate alias"}),
    ({"name": "c", "connector.class": "org.example.Sink"}, {"topics": "Must configure one of", "topics.regex": "Must configure one of"}),
    (SINK | {"topics.regex": "r.*"}, {"topics": "mutually exclusive", "topics.regex": "mutually exclusive"}),
    (SINK | {"errors.deadletterqueue.topic.name": "t1"}, {"topics": "DLQ topic"}),
    (
        {"name": "c", "connector.class": "org.example.Sink", "topics.regex": "r.*", "errors.deadletterqueue.topic.name": "ruh.roh"},
        {"topics.regex": "DLQ topic"},
    ),
    (SINK | {"name": "worker"}, {"name": "group"}),
    (SINK | {"consumer.override.group.id": "connect-worker"}, {"consumer.override.group.id": "group"}),
    (
        SOURCE
        | {
            "topic.creation.groups": "g1, g2, g1",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
        },
        {"topic.creation.groups": "Duplicate alias"},
    ),
    *(
        (SINK | {role: f"org.example.{name}", **more}, {key or role: text})
        for role, prefix in (("key.converter", ""), ("header.converter", "Headers"))
        for name, more, key, text in (
            ("WheresTheFruit", {}, "", "could not be found"),
            ("Sink", {}, "", "onverter"),
            ("AbstractHeaders" if prefix else "AbstractPlain", {}, "", "abstract"),
            ("HeadersNeedArgument" if prefix else "NeedsArgument", {}, "", ""),
            ("HeadersRaise" if prefix else "Raises", {}, "", "not today"),
            (prefix or "Plain", {f"{role}.flag": "notaboolean"}, f"{role}.flag", "boolean"),
        )
    ),
]


@pytest.mark.parametrize(("config", "expected"), WRONG)
def test_wrong_configs_have_the_error_at_the_setting(address: str, config: dict[str, str], expected: dict[str, str]) -> None:
    found = errors_of(address, config)
    assert {key: len(errors) for key, errors in found.items()} == dict.fromkeys(expected, 1)
    assert {key: text for key, text in expected.items() if text.lower() not in found[key][0].lower()} == {}, found


REQUIRED, BOUNDARY = "exactly.once.support", "transaction.boundary"


@pytest.mark.parametrize(
    ("kind", "key", "value", "text"),
    [
        ("Exact", REQUIRED, "required", ""),
        ("Inexact", REQUIRED, "required", "does not support exactly-once"),
        ("Source", REQUIRED, "required", "does not implement the API required for preflight validation of exactly-once source support"),
        ("Raising", REQUIRED, "required", "time to add a new test"),
        ("Exact", REQUIRED, "invalid", "String must be one of (case insensitive): "),
        ("Exact", BOUNDARY, "connector", ""),
        ("Source", BOUNDARY, "connector", "does not support connector-defined transaction boundaries with the given configuration"),
        ("Raising", BOUNDARY, "connector", "time to add a new test"),
        ("Exact", BOUNDARY, "CONNECTOR.toString()", "String must be one of (case insensitive): "),
    ],
)
def test_a_source_is_asked_what_it_supports(address: str, kind: str, key: str, value: str, text: str) -> None:
    found = errors_of(address, SOURCE | {"connector.class": f"org.example.{kind}", key: value})
    assert list(found) == ([key] if text else [])
    assert all(text in error for errors in found.values() for error in errors)


def test_stages_and_predicates_have_groups_of_their_own(address: str) -> None:
    config = SOURCE | SIMPLE | CONDITION | {"transforms": "a, b", "predicates": "p, q"}
    body = validated(address, config)
    assert body["name"] == "org.example.Source"
    assert body["groups"][-4:] == ["Transforms: a", "Transforms: b", "Predicates: p", "Predicates: q"]
    names = {entry["value"]["name"] for entry in body["configs"]}
    assert {"transforms.a.magic.number", "transforms.a.negate", "predicates.p.int", "predicates.q.type"} <= names
    assert body["error_count"] == 2


@pytest.mark.parametrize(("scope", "status"), [("", 200), ("?scope=worker", 200), ("?scope=kip-976", 200), ("?scope=cluster", 204)])
def test_a_level_is_set_for_this_worker_or_for_all(address: str, scope: str, status: int) -> None:
    connection = http.client.HTTPConnection(address, timeout=HANG_SECONDS)
    try:
        for level, expected in (("TRACE", status), ("HIGH", 404), (None, 400)):
            connection.request(
                "PUT", f"/admin/loggers/org.example.{status}{scope}", json.dumps({"level": level}), {"Content-Type": "application/json"}
            )
            answer = connection.getresponse()
            answer.read()
            assert answer.status == expected
    finally:
        connection.close()
