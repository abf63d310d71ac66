"""The body of a request for a replay, read strictly."""

import json
from typing import Any

import pytest

from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.model.replays import ReplayRequest
from airflow_provider_connect.rest.bodies import Body
from airflow_provider_connect.rest.dead_letters import AskedReplay


def body(value: Any) -> Body:
    return Body(json.dumps(value).encode(), "application/json")


def test_an_empty_body_asks_for_all_records() -> None:
    asked = AskedReplay.of(Body(b"", None))
    assert (asked.request(), asked.dry_run) == (ReplayRequest([], [], [], None, {}, {}), False)


def test_an_edit_names_what_it_replaces_alone() -> None:
    asked = AskedReplay.of(body({"edits": {"0:1": {"value": None}, "0:2": {"key": "k"}}, "topic": "t", "transforms": {"transforms": "a"}}))
    assert asked.request() == ReplayRequest([], [], [], "t", {"0:1": {"value": None}, "0:2": {"key": "k"}}, {"transforms": "a"})


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"offset": []}, "offset"),
        ({"offsets": "0:1"}, "offsets"),
        ({"offsets": [1]}, "offsets"),
        ({"edits": {"0:1": {"value": 5}}}, "edits"),
        ({"edits": {"0:1": {"headers": "x"}}}, "edits"),
        ({"edits": {"0:1": "x"}}, "edits"),
        ({"transforms": {"transforms": ["a"]}}, "transforms"),
        ({"records": 0}, "records"),
        ({"records": 1001}, "records"),
        ({"dry_run": "yes"}, "dry_run"),
        ({"replay": "x" * 501}, "replay"),
        ({"offsets": ["0:1"] * 10_001}, "offsets"),
        ([], "JSON object"),
    ],
)
def test_another_shape_is_refused_by_name(given: Any, named: str) -> None:
    with pytest.raises(BadRequestException, match=named):
        AskedReplay.of(body(given))
