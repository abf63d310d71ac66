"""JSON in pieces is the JSON of the whole; a header of warnings is cut."""

import json

import pytest

from airflow_provider_connect.rest.answers import json_bytes, short_warnings_header, warnings_header
from airflow_provider_connect.runtime.model.verbs import WARNINGS_HEADER

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


def test_the_warnings_of_a_write_fit_into_the_headers_that_a_proxy_accepts() -> None:
    warnings = [f"{number}: {'ü' * 200}" for number in range(25)]
    assert len(warnings_header(warnings)[WARNINGS_HEADER]) > 4096
    header = short_warnings_header(warnings)[WARNINGS_HEADER]
    shown = json.loads(header)
    assert len(header) < 3500
    assert shown == [*warnings[: len(shown) - 1], f"and {26 - len(shown)} more warnings: validate the config to see them"]
    assert short_warnings_header(["ü"]) == warnings_header(["ü"])
    assert short_warnings_header([]) == {}
    assert json.loads(short_warnings_header(["x" * 5000])[WARNINGS_HEADER]) == ["and 1 more warnings: validate the config to see them"]
