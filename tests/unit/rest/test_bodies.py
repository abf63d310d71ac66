"""What bodies are taken, and with which words others are refused."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.requests import Request

from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.rest import bodies
from airflow_provider_connect.rest.answers import HttpException
from airflow_provider_connect.runtime.model.backfill_request import AskedRange, BackfillRequest
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.model.views import OffsetView


def read(reader: Callable[[bodies.Body], Any], body: bytes | str, content_type: str | None = "application/json") -> Any:
    """What ``reader`` makes of ``body``, which comes in pieces."""
    data = body.encode() if isinstance(body, str) else body
    return reader(received(data, [] if content_type is None else [(b"content-type", content_type.encode())]))


def received(data: bytes, headers: list[tuple[bytes, bytes]]) -> bodies.Body:
    pieces = [data[at : at + 65536] for at in range(0, len(data), 65536)] or [b""]
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> Any:
        return messages.pop(0)

    scope = {"type": "http", "method": "POST", "path": "/", "headers": headers, "query_string": b""}

    async def run() -> bodies.Body:
        return await bodies.receive(Request(scope, receive), seconds=5)

    return asyncio.run(run())


def refusal(reader: Callable[[bodies.Body], Any], body: bytes | str) -> str:
    with pytest.raises(BadRequestException) as refused:
        read(reader, body)
    return refused.value.message


@pytest.mark.parametrize("reader", [bodies.config, bodies.config_patch])
def test_a_value_that_is_too_long_is_refused_by_its_key(reader: Callable[[bodies.Body], Any]) -> None:
    longest = "x" * 262_144
    assert read(reader, json.dumps({"a": "b", "certificates": longest})) == {"a": "b", "certificates": longest}
    assert refusal(reader, json.dumps({"a": "b", "certificates": longest + "x"})).startswith(
        "The value of setting 'certificates' has 262145 characters, and the limit is 262144"
    )


def test_a_new_connectors_value_that_is_too_long_is_refused_by_its_key() -> None:
    assert "'certificates'" in refusal(bodies.new_connector, json.dumps({"name": "a", "config": {"certificates": "x" * 262_145}}))


def test_a_config_holds_numbers_as_they_were_written() -> None:
    body = '{"a": 1, "b": 1.50, "c": true, "d": null, "e": 12345678901234567890123, "f": 1e3, "g": "  x "}'
    assert read(bodies.config, body) == {
        "a": "1",
        "b": "1.50",
        "c": "true",
        "d": None,
        "e": "12345678901234567890123",
        "f": "1e3",
        "g": "  x ",
    }


def test_a_byte_order_mark_and_white_space_do_no_harm() -> None:
    assert read(bodies.config, b'\xef\xbb\xbf \n{"a": "b"}\n ') == {"a": "b"}


def test_the_last_of_equal_keys_counts() -> None:
    assert read(bodies.config, '{"a": 1, "a": 2}') == {"a": "2"}


@pytest.mark.parametrize(
    "body", ["", "null", "[]", '"x"', "5", "{", "{} x", "{'a': 1}", '{"a": 1,}', "// c\n{}", '{"a": NaN}', '{"a": 01}']
)
@pytest.mark.parametrize("reader", [bodies.config, bodies.new_connector, bodies.offsets, bodies.log_level])
def test_what_is_no_object_is_refused_with_words_for_people(reader: Callable[[bodies.Body], Any], body: str) -> None:
    assert refusal(reader, body).startswith("The body ")


@pytest.mark.parametrize("value", ["{}", '{"a": 1}', "[]", "[1]"])
def test_a_nested_value_is_refused_by_its_key(value: str) -> None:
    assert "'topic'" in refusal(bodies.config, f'{{"topic": {value}}}')


@pytest.mark.parametrize("text", ["\\ud800", "x\\udc00", "\\udc00\\ud800"])
def test_half_a_character_is_refused(text: str) -> None:
    assert "surrogate" in refusal(bodies.config, f'{{"a": "{text}"}}')
    assert "surrogate" in refusal(bodies.config, f'{{"{text}": "a"}}')


def test_a_body_that_is_no_utf8_is_refused() -> None:
    assert "UTF-8" in refusal(bodies.config, b'{"a": "\xff"}')


@pytest.mark.parametrize("levels", [40, 100_000])
def test_what_is_nested_too_deeply_is_refused(levels: int) -> None:
    body = '{"offsets": [{"partition": ' + '{"a": ' * levels + "1" + "}" * levels + "}]}"
    assert "deeper" in refusal(bodies.offsets, body)


def test_a_body_that_is_too_long_is_refused_before_it_is_whole() -> None:
    with pytest.raises(HttpException) as refused:
        read(bodies.config, b'{"a": "' + b"x" * (bodies.MOST_BYTES + 1) + b'"}')
    assert refused.value.status == 413


def test_numbers_that_no_machine_holds_are_refused() -> None:
    assert "digits" in refusal(bodies.offsets, '{"offsets": [{"partition": {"a": ' + "9" * 5000 + "}}]}")
    assert "too large" in refusal(bodies.offsets, '{"offsets": [{"partition": {"a": 1e999}}]}')


@pytest.mark.parametrize("content_type", [None, "*/*"])
def test_a_body_of_no_declared_kind_is_not_read(content_type: str | None) -> None:
    with pytest.raises(HttpException) as refused:
        read(bodies.config, "{}", content_type)
    assert refused.value.status == 415


def test_a_new_connectors_name_is_trimmed_and_may_be_missing() -> None:
    assert read(bodies.new_connector, '{"name": " a b\\t", "config": {}}').name == "a b"
    assert read(bodies.new_connector, '{"name": 5, "config": {}}').name == "5"
    assert read(bodies.new_connector, '{"name": null, "config": {}}').name == ""
    assert read(bodies.new_connector, '{"config": {}}').name == ""


@pytest.mark.parametrize(
    ("text", "state"), [("running", TargetState.STARTED), ("Paused", TargetState.PAUSED), ("STOPPED", TargetState.STOPPED)]
)
def test_an_initial_state_is_written_in_any_case(text: str, state: TargetState) -> None:
    assert read(bodies.new_connector, json.dumps({"name": "a", "config": {}, "initial_state": text})).initial_state is state


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ({"name": "a", "config": {}, "initial_state": "bogus"}, "initial_state"),
        ({"name": "a", "config": {}, "initial_state": 1}, "initial_state"),
        ({"name": {}, "config": {}}, "name"),
        ({"name": "a"}, "config"),
        ({"name": "a", "config": None}, "config"),
        ({"name": "a", "config": []}, "config"),
        ({"name": "a", "config": "x"}, "config"),
        ({"name": "a", "config": {}, "foo": 1}, "foo"),
    ],
)
def test_a_new_connector_is_refused_by_the_field_that_is_wrong(body: object, key: str) -> None:
    assert f"'{key}'" in refusal(bodies.new_connector, json.dumps(body))


def test_offsets_keep_their_numbers_and_what_is_missing() -> None:
    body = '{"offsets": [{"partition": {"file": "a"}, "offset": {"position": 5, "share": 0.5}}, {"partition": null}, {"offset": null}]}'
    assert read(bodies.offsets, body) == [
        OffsetView({"file": "a"}, {"position": 5, "share": 0.5}),
        OffsetView(None, None),  # the herder reports what is missing
        OffsetView(None, None),
    ]


@pytest.mark.parametrize("body", ["{}", '{"offsets": null}', '{"offsets": []}'])
def test_no_offsets_are_refused_in_kafka_connects_words(body: str) -> None:
    assert refusal(bodies.offsets, body) == "Partitions / offsets need to be provided for an alter offsets request"


@pytest.mark.parametrize(
    "body", ['{"offsets": {}}', '{"offsets": [1]}', '{"offsets": [{"x": 1}]}', '{"offsets": [{"partition": 1}]}', '{"offsets": [], "x": 1}']
)
def test_offsets_of_another_shape_are_refused(body: str) -> None:
    assert "must be" in refusal(bodies.offsets, body) or "unknown field" in refusal(bodies.offsets, body)


def test_a_log_level_may_come_with_other_fields() -> None:
    assert read(bodies.log_level, '{"level": "debug", "x": 1}') == "debug"
    assert refusal(bodies.log_level, '{"level": null}') == "Desired 'level' parameter was not specified in request."


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("[1]", "The body must be a JSON object"),
        ('{"x": 1, "to": "2"}', "The body has the unknown field 'x'; known fields: to, "),
        ("{}", "'to' is missing: give a version or a range"),
        ('{"to": ""}', "'to' is missing: give a version or a range"),
        ('{"to": "2", "canary": 10001}', "'canary': Input should be less than or equal to 10000"),
    ],
)
def test_an_upgrade_is_refused_with_what_to_give(body: str, words: str) -> None:
    assert words in refusal(bodies.UpgradeBody.of, body)


@pytest.mark.parametrize("instant", ["1e300", "1.5", "true", "[]"])
def test_a_wrong_instant_of_an_undo_is_refused_by_its_field(instant: str) -> None:
    words = "'to': Input should be a valid string, or Input should be a valid integer"
    assert refusal(bodies.UndoBody.of, f'{{"to": {instant}, "entry": "5"}}') == words


def test_a_backfill_is_asked_for_by_offsets_and_times() -> None:
    body = {
        "ranges": [{"topic": "t", "partition": 0, "from": 5, "to": "2026-01-31T14:00Z"}, {}],
        "config": {"a": 1, "b": None},
        "id": "one",
    }
    asked = read(bodies.BackfillBody.of, json.dumps(body))
    expected = [AskedRange("t", 0, 5, "2026-01-31T14:00Z"), AskedRange()]
    assert (asked.request(), asked.dry_run) == (BackfillRequest(expected, {"a": "1", "b": None}, "one"), False)
    by_itself = read(bodies.BackfillBody.of, '{"ranges": [{}]}').request()
    assert len(by_itself.id) == len("20260131T140000000"), "the time"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('{"ranges": {}}', "'ranges'"),
        ('{"ranges": [{"from": 1.5}]}', "'ranges.0.from': Input should be a valid integer, or Input should be a valid string"),
        ('{"ranges": [{"from": true}]}', "'ranges.0.from': Input should be a valid integer, or Input should be a valid string"),
        ('{"ranges": [{"from": -1}]}', "'ranges.0.from': Input should be greater than or equal to 0, or Input should be a valid string"),
        ('{"ranges": [{"partition": "0"}]}', "'ranges.0.partition'"),
        ('{"ranges": [{"first": 1}]}', "'ranges.0.first'"),
        ('{"ranges": [{}], "config": []}', "'config'"),
        ('{"ranges": [{}], "config": {"a": {}}}', "'a'"),
        ('{"ranges": [{}], "id": 5}', "'id'"),
        ('{"ranges": [{}], "more": 5}', "more"),
        ('{"ranges": [' + ",".join(["{}"] * 1001) + "]}", "'ranges'"),
    ],
)
def test_another_form_of_a_backfill_is_refused_by_its_field(body: str, text: str) -> None:
    assert text in refusal(lambda given: bodies.BackfillBody.of(given).request(), body)
