"""Views as Kafka Connect's JSON, and back."""

from typing import Any

import pytest

from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.preview_comparison import Change, Comparison, Difference, Subject
from airflow_provider_connect.runtime.model.view_json import of_json, to_json
from airflow_provider_connect.runtime.model.views import (
    ConfigKeyView,
    ConfigValueView,
    ConnectorInfo,
    ConnectorOffsets,
    ConnectorStatusView,
    LoggerView,
    OffsetView,
    PluginView,
    StateView,
    TaskView,
    ValidatedKey,
    Validation,
    WorkerView,
)

KEY = ConfigKeyView("file", "STRING", True, None, "HIGH", "A file", None, -1, "NONE", "file", ["topic"])
KEY_JSON = {
    "name": "file",
    "type": "STRING",
    "required": True,
    "default_value": None,
    "importance": "HIGH",
    "documentation": "A file",
    "group": None,
    "order_in_group": -1,
    "width": "NONE",
    "display_name": "file",
    "dependents": ["topic"],
}
VALUE_JSON = {"name": "file", "value": None, "recommended_values": [], "errors": ["missing"], "visible": True}
DIFFERENCE = {"subject": "value", "change": "added", "topic": "t", "path": "note", "old": None, "new": "string?"}
COMPARED = {
    "old_version": "1",
    "new_version": "2",
    "records": 5,
    "equal_records": 4,
    "differences": [DIFFERENCE],
    "has_seen_enough": True,
}
CASES: list[tuple[Any, object, object]] = [
    (
        ConnectorInfo,
        ConnectorInfo("c", {"name": "c"}, [ConnectorTaskId("c", 0)], "source"),
        {"name": "c", "config": {"name": "c"}, "tasks": [{"connector": "c", "task": 0}], "type": "source"},
    ),
    (
        ConnectorStatusView,
        ConnectorStatusView("c", StateView("RUNNING", "w:1", "2.0"), [TaskView(0, "FAILED", "w:1", trace="boom")], "sink"),
        {
            "name": "c",
            "connector": {"state": "RUNNING", "worker_id": "w:1", "version": "2.0"},
            "tasks": [{"id": 0, "state": "FAILED", "worker_id": "w:1", "trace": "boom"}],
            "type": "sink",
        },
    ),
    (
        ConnectorOffsets,
        ConnectorOffsets([OffsetView({"file": "a"}, {"position": 1.5}), OffsetView({"file": "b"}, None)]),
        {"offsets": [{"partition": {"file": "a"}, "offset": {"position": 1.5}}, {"partition": {"file": "b"}, "offset": None}]},
    ),
    (
        list[PluginView],
        [PluginView("C", "source", "1"), PluginView("D", "sink")],
        [
            {"class": "C", "type": "source", "version": "1"},
            {"class": "D", "type": "sink"},
        ],
    ),
    (
        Validation,
        Validation("C", 1, ["g"], [ValidatedKey(KEY, ConfigValueView("file", None, [], ["missing"], True))]),
        {"name": "C", "error_count": 1, "groups": ["g"], "configs": [{"definition": KEY_JSON, "value": VALUE_JSON}]},
    ),
    (
        WorkerView,
        WorkerView("w:1", "c", None, [0, 1]),
        {
            "worker_id": "w:1",
            "connector": "c",
            "claim": None,
            "tasks": [0, 1],
            "started": None,
            "records": None,
            "bytes": None,
            "seconds": None,
            "left": None,
            "left_unit": None,
            "failed": None,
        },
    ),
    (dict[str, LoggerView], {"root": LoggerView("INFO")}, {"root": {"level": "INFO", "last_modified": None}}),
    (Comparison, Comparison("1", "2", 5, 4, [Difference(Subject.VALUE, Change.ADDED, "t", "note", None, "string?")]), COMPARED),
]


@pytest.mark.parametrize(("kind", "value", "json"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_a_view_is_kafka_connects_json_and_comes_back(kind: Any, value: object, json: object) -> None:
    assert to_json(value) == json
    assert of_json(kind, json) == value


def test_fields_stand_in_kafka_connects_order() -> None:
    assert list(to_json(KEY)) == list(KEY_JSON)
    assert list(to_json(TaskView(0, "FAILED", "w", "1", "x"))) == ["id", "state", "worker_id", "version", "trace"]


def test_an_older_server_is_understood() -> None:
    older = {key: value for key, value in KEY_JSON.items() if key != "order_in_group"} | {"order": -1, "more": 1}
    assert of_json(ConfigKeyView, older) == KEY
    assert of_json(ConnectorInfo, {"name": "c", "config": {}, "tasks": [], "type": None}).type == "unknown"


@pytest.mark.parametrize(("kind", "json"), [(list[str], {}), (ConnectorInfo, {"name": "c"}), (ConnectorInfo, []), (dict[str, str], [])])
def test_another_shape_is_no_answer(kind: Any, json: object) -> None:
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        of_json(kind, json)


def test_errors_of_clients_and_converters_count_once_a_key() -> None:
    keys = [ValidatedKey(None, ConfigValueView(name, None, [], ["one", "two"], True)) for name in ("a", "b", "c")]
    assert Validation.counted("C", [], keys).error_count == 6
    assert Validation.counted("C", [], keys, counted_by_key=2).error_count == 4
