"""Offsets that users give: what is accepted, in which words the rest is refused, and the form in which they are kept (contract §7.2)."""

import math
from typing import Any

import pytest

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import BadRequestException, DataException
from airflow_provider_connect.runtime.model.offsets import (
    beyond_end,
    checked_source_offset,
    normalised,
    requested_offsets,
    sink_offsets,
    sink_partition,
)

NEEDED = "Partitions / offsets need to be provided for an alter offsets request"


@pytest.mark.parametrize("body", [{}, {"offsets": None}, {"offsets": []}, None, [], "x", 5])
def test_request_without_offsets_is_refused(body: object) -> None:
    with pytest.raises(BadRequestException, match=f"^{NEEDED}$"):
        requested_offsets(body)


@pytest.mark.parametrize("offsets", ["x", {"partition": {}}, [5], [{}, None]])
def test_request_of_another_form_is_refused(offsets: object) -> None:
    with pytest.raises(BadRequestException, match="must be a list of objects"):
        requested_offsets({"offsets": offsets})


def test_request_is_read_in_its_order_and_what_is_missing_is_none() -> None:
    body = {"offsets": [{"partition": {"f": "a"}, "offset": {"p": 1}}, {"partition": {"f": "b"}}, {"offset": {"p": 2}}, {}]}
    assert requested_offsets(body) == [({"f": "a"}, {"p": 1}), ({"f": "b"}, None), (None, {"p": 2}), (None, None)]


def test_primitive_values_make_an_offset() -> None:
    value = {"null": None, "b": True, "i": 2**63 - 1, "f": 1.5, "s": "x", "y": b"\x00"}
    assert checked_source_offset(value) == value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("x", "Offsets must be specified as a Map"),
        (None, "Offsets must be specified as a Map"),
        ([1], "Offsets must be specified as a Map"),
        ({1: 2}, "Offsets may only use String keys"),
        ({None: 2}, "Offsets may only use String keys"),
        ({"a": {"b": 1}}, "Offsets may only contain primitive types as values, but field a contains MAP"),
        ({"a": [1]}, "Offsets may only contain primitive types as values, but field a contains ARRAY"),
        ({"a": {1}}, "Offsets may only contain primitive types as values, but field a contains set"),
        ({"a": 2**63}, "Offsets may only contain numbers of 64 bits, but field a contains one of 65"),
        ({"a": -(10**5000)}, "Offsets may only contain numbers of 64 bits, but field a contains one of 16611"),
    ],
)
def test_other_values_are_refused_in_connects_words(value: object, message: str) -> None:
    with pytest.raises(DataException) as raised:
        checked_source_offset(value)
    assert str(raised.value) == message


def test_normalised_offset_is_as_read_back_from_the_topic() -> None:
    value = {"bytes": b"\x00\xff", "nan": math.nan, "up": math.inf, "down": -math.inf, "f": 1.0, "i": 1, "t": True}
    assert normalised(value) == {"bytes": "AP8=", "nan": "NaN", "up": "Infinity", "down": "-Infinity", "f": 1.0, "i": 1, "t": True}


def test_sink_partition_is_shown_in_that_order() -> None:
    assert list(sink_partition("t", 3).items()) == [("kafka_partition", 3), ("kafka_topic", "t")]


def pair(topic: object = "t", partition: object = 0, offset: object = 5) -> tuple[object, object]:
    return {"kafka_topic": topic, "kafka_partition": partition}, {"kafka_offset": offset}


@pytest.mark.parametrize(
    ("pairs", "offsets"),
    [
        ([pair()], {("t", 0): 5}),
        ([pair(partition="7", offset="12")], {("t", 7): 12}),
        ([pair(partition="+7", offset=2**63 - 1)], {("t", 7): 2**63 - 1}),
        ([pair(topic=5)], {("5", 0): 5}),
        ([(pair()[0], None)], {("t", 0): None}),
        ([pair(offset=1), pair(topic="u"), pair(offset=2)], {("t", 0): 2, ("u", 0): 5}),
        ([({"kafka_topic": "t", "kafka_partition": 1, "more": 2}, {"kafka_offset": 3, "more": 4})], {("t", 1): 3}),
        ([], {}),
    ],
)
def test_sink_offsets_are_read(pairs: list[tuple[object, object]], offsets: dict[tuple[str, int], int | None]) -> None:
    assert sink_offsets(pairs) == offsets


PARTITION_KEYS = "The partition for a sink connector offset must contain the keys 'kafka_topic' and 'kafka_partition'"
OFFSET_KEY = "The offset for a sink connector should either be null or contain the key 'kafka_offset'"


def not_a_partition(value: str) -> str:
    return (
        f"Failed to parse the following Kafka partition value in the provided offsets: '{value}'. "
        "Partition values for sink connectors need to be integers."
    )


def not_an_offset(value: str) -> str:
    return (
        f"Failed to parse the following Kafka offset value in the provided offsets: '{value}'. "
        "Offset values for sink connectors need to be integers."
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ((None, {"kafka_offset": 1}), "The partition for a sink connector offset cannot be null or missing"),
        (({}, None), PARTITION_KEYS),
        (({"kafka_topic": "t"}, None), PARTITION_KEYS),
        (({"kafka_partition": 1}, None), PARTITION_KEYS),
        (("t-0", None), PARTITION_KEYS),
        (pair(topic=None), "Kafka topic names must be valid strings and may not be null"),
        (pair(partition=None), "Kafka partitions must be valid numbers and may not be null"),
        (pair(partition="x"), not_a_partition("x")),
        (pair(partition=1.5), not_a_partition("1.5")),
        (pair(partition=True), not_a_partition("true")),
        (pair(partition=[1, None]), not_a_partition("[1, null]")),
        (pair(partition={"a": 1}), not_a_partition("{a=1}")),
        (pair(partition=2**31), not_a_partition("2147483648")),
        (pair(partition=""), not_a_partition("")),
        (pair(partition="９"), not_a_partition("９")),
        (pair(partition=-1), "Kafka partitions must not be negative, but the partition of topic t is -1"),
        (
            pair(topic=""),
            "The 'kafka_topic' of a sink connector offset cannot be '': Topic name is invalid: the empty string is not allowed",
        ),
        (
            pair(topic="x" * 300),
            f"The 'kafka_topic' of a sink connector offset cannot be '{'x' * 200}…': "
            "Topic name is invalid: its length of 300 is longer than the max allowed length 249",
        ),
        ((pair()[0], {}), OFFSET_KEY),
        ((pair()[0], 5), OFFSET_KEY),
        (pair(offset=None), not_an_offset("null")),
        (pair(offset="1.0"), not_an_offset("1.0")),
        (pair(offset=2**63), not_an_offset("9223372036854775808")),
        (pair(offset=-1), "Kafka offsets must not be negative, but 'kafka_offset' is -1"),
    ],
)
def test_wrong_sink_offsets_are_refused_in_connects_words(wrong: Any, message: str) -> None:  # a pair of anything
    with pytest.raises(BadRequestException) as raised:
        sink_offsets([pair(), wrong])
    assert str(raised.value) == message


def test_offsets_beyond_the_ends_are_named() -> None:
    def at(number: int) -> TopicPartition:
        return TopicPartition("t", number)

    ends = {at(number): 5 for number in range(5)}
    assert beyond_end({at(0): 5, at(9): 7}, ends) is None
    text = "The next run begins where auto.offset.reset points, by default at the first record"
    assert beyond_end({at(1): 6, at(0): 5}, ends) == f"Offsets beyond the end: 6 of t-1 (its end is 5). {text}"
    many = beyond_end({at(number): 9 for number in range(5)}, ends)
    assert many == f"Offsets beyond the end: 9 of t-0 (its end is 5), 9 of t-1 (its end is 5), 9 of t-2 (its end is 5) and 2 others. {text}"
