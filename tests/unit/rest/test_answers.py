"""JSON in pieces is the JSON of the whole."""

import json

import pytest

from airflow_provider_connect.rest.answers import json_bytes

VALUES = [
    None,
    "ü\ud800",
    [],
    {},
    list(range(1000)),
    {str(number): number for number in range(1000)},
    {"offsets": [{"partition": {"a": number}, "offset": None} for number in range(600)], "b": {}},
    {"connector": {"topics": [str(number) for number in range(257)]}},
    [{"a": [1, {"b": []}]}] * 256,
    {"a": {"b": {"c": {str(number): [number] for number in range(300)}}}},
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: str(value)[:20])
def test_pieces_make_the_whole(value: object) -> None:
    assert json_bytes(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
