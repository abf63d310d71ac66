"""Ranges of backfills, the configs that have them, and what users may ask for."""

from collections.abc import Mapping

import pytest

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import BadRequestException, ConfigException
from airflow_provider_connect.runtime.model.backfill import (
    CHANGED,
    MOST_RANGES,
    OF,
    RANGES,
    backfill_name,
    beginnings_within,
    changed_config,
    ends_within,
    parse_ranges,
    positions_beyond,
    ranges_text,
    read_partitions,
)
from airflow_provider_connect.runtime.model.backfill_request import AskedRange, Backfill, BackfillRange, bounded_range, chosen_partitions
from airflow_provider_connect.runtime.model.connector_settings import ConnectorSettings
from airflow_provider_connect.runtime.model.view_json import of_json, to_json

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b.c-d", 0)
LIVE = {
    "name": "orders",
    "connector.class": "FileStreamSink",
    "file": "/data/orders.txt",
    "topics": "a,b.c-d",
    "tasks.max": "2",
    "airflow.schedule": "@hourly",
    "airflow.tags": "shop",
    "airflow.pool": "small",
    "airflow.deadline.lag": "100",
    "airflow.on.deadline": "team",
    "airflow.defined.in": "orders.py",
    "batch.max.records": "5",
    "airflow.application": "crm",
    "airflow.run.idle.timeout": "30s",
    "airflow.run.max.duration": "2h",
    "consumer.override.group.id": "orders-readers",
    "consumer.override.fetch.min.bytes": "1",
}


def test_ranges_are_read_as_they_are_written() -> None:
    ranges = {A0: (0, 5), A1: (7, 8), B0: (10, 10**18 - 1)}
    assert parse_ranges(ranges_text(ranges)) == ranges
    assert parse_ranges(" a:0:0:5 , a:1:7:8") == {A0: (0, 5), A1: (7, 8)}
    assert parse_ranges("") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a:0:5", "give «topic»"),
        ("a:0:-1:5", "give «topic»"),
        ("a:0:0:" + "9" * 30, "give «topic»"),
        ("a/b:0:0:5", "give «topic»"),
        ("..:0:0:5", "give «topic»"),
        (".:0:0:5", "give «topic»"),
        ("a:٣:0:5", "give «topic»"),
        ("a:0:5:5", "must be greater than 5"),
        ("a:0:0:5,a:0:5:6", "one range only"),
        ("a:0:0:5,", "give «topic»"),
        (",".join(f"a:{number}:0:1" for number in range(MOST_RANGES + 1)), f"at most {MOST_RANGES}"),
    ],
)
def test_other_texts_are_refused_with_the_form(text: str, reason: str) -> None:
    with pytest.raises(ConfigException, match=reason):
        parse_ranges(text)


def test_only_what_lies_within_the_ranges_is_read() -> None:
    ranges = {A0: (3, 5)}
    assert read_partitions([A0, A1], ranges) == [A0]
    assert ends_within({A0: 9, A1: 9}, ranges) == {A0: 5}
    assert ends_within({A0: 4}, ranges) == {A0: 4}
    assert beginnings_within({A0: 0, A1: 0}, ranges) == {A0: 3}
    assert beginnings_within({A0: 4}, ranges) == {A0: 4}
    assert (ends_within({A0: 9}, {}), beginnings_within({A0: 0}, {}), read_partitions([A0, A1], {})) == ({A0: 9}, {A0: 0}, [A0, A1])


def test_a_position_beyond_the_end_of_its_topic_is_none_of_a_backfill_that_has_delivered_its_range() -> None:
    assert positions_beyond({A0: 6, A1: 5}, {A0: 5, A1: 5}, {}) == [A0]
    assert positions_beyond({A0: 6}, {}, {}) == []
    assert positions_beyond({A0: 6, A1: 6}, {A0: 5, A1: 5}, {A0: (0, 6), A1: (0, 7)}) == [A1]


@pytest.mark.parametrize(("topics", "is_right"), [("a", True), ("a,b", False), ("b", False), ("", False)])
def test_the_topics_of_a_config_are_those_of_its_ranges(topics: str, is_right: bool) -> None:
    config = {"name": "x", "connector.class": "FileStreamSink", "topics": topics, RANGES: "a:0:0:5"}
    if is_right:
        assert ConnectorSettings.of(config, is_sink=True).ranges == {A0: (0, 5)}
    else:
        with pytest.raises(ConfigException, match="topics"):
            ConnectorSettings.of(config, is_sink=True)


def test_a_backfills_config_has_nothing_that_bounds_or_names_the_live_connectors_runs() -> None:
    found = changed_config("orders.backfill.1", "orders", LIVE, {"file": "/data/again.txt", "tasks.max": None})
    assert found == {
        "name": "orders.backfill.1",
        "connector.class": "FileStreamSink",
        "file": "/data/again.txt",
        "topics": "a,b.c-d",
        "airflow.schedule": "none",
        "airflow.tags": "shop,backfill",
        "airflow.pool": "small",
        "airflow.description": "A backfill of orders",
        "consumer.override.fetch.min.bytes": "1",
        OF: "orders",
        CHANGED: "file,tasks.max",
    }


@pytest.mark.parametrize(
    "file", ["/data/orders.txt", "/data/./orders.txt", "/data//orders.txt", "//data/x/../orders.txt ", "/data/orders.txt/"]
)
def test_a_value_that_is_the_live_connectors_counts_as_no_change(file: str) -> None:
    assert changed_config("orders.backfill.1", "orders", LIVE, {"file": file})[CHANGED] == ""


@pytest.mark.parametrize("changes", [{"topics": "x"}, {"name": "x"}, {RANGES: "a:0:0:1"}, {OF: "x"}, {CHANGED: "file"}])
def test_what_a_backfill_sets_itself_cannot_be_changed(changes: Mapping[str, str]) -> None:
    with pytest.raises(BadRequestException, match="sets this itself"):
        changed_config("orders.backfill.1", "orders", LIVE, changes)


def test_there_is_no_backfill_of_a_backfill() -> None:
    with pytest.raises(BadRequestException, match="is itself a backfill of orders"):
        changed_config("orders.backfill.1.backfill.2", "orders.backfill.1", {**LIVE, OF: "orders"}, {})


@pytest.mark.parametrize("backfill_id", ["", "a b", "a.b", "a/b", "ä", "a" * 61, "a\n"])
def test_an_id_that_no_name_should_have_is_refused(backfill_id: str) -> None:
    with pytest.raises(BadRequestException, match="letters, digits"):
        backfill_name("orders", backfill_id)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (AskedRange("a", 1, 0, 5), [A1]),
        (AskedRange("a"), [A0, A1]),
        (AskedRange("a", None, "2026-01-31T14:00Z"), [A0, A1]),
        (AskedRange("b.c-d", None, 0, 5), [B0]),
    ],
)
def test_a_range_is_of_one_partition_or_of_all(asked: AskedRange, expected: list[TopicPartition]) -> None:
    assert chosen_partitions(asked, {"a": 2, "b.c-d": 1}) == expected


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (AskedRange(), "Name a topic: the connector reads a, b"),
        (AskedRange("c"), "reads no topic c"),
        (AskedRange("a", 2), "no partition 2"),
        (AskedRange("a", -1), "no partition -1"),
        (AskedRange("a", None, 5), "name the partition of these offsets"),
    ],
)
def test_what_the_connector_does_not_read_is_refused(asked: AskedRange, reason: str) -> None:
    with pytest.raises(BadRequestException, match=reason):
        chosen_partitions(asked, {"a": 2, "b": 1})


NOON = "2026-01-31T12:00:00Z"
NOON_MS = 1769860800000


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (AskedRange(), (10, 20)),
        (AskedRange(first=12, end=15), (12, 15)),
        (AskedRange(first=NOON), (17, 20)),
        (AskedRange(end=NOON), (10, 17)),
        (AskedRange(first=NOON, end=NOON), None),
        (AskedRange(first=12, end=NOON), (12, 17)),
    ],
)
def test_a_range_lies_between_offsets_or_instants(asked: AskedRange, expected: tuple[int, int] | None) -> None:
    assert bounded_range(A0, asked, (10, 20), {NOON_MS: 17}) == expected


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (AskedRange(first=9), "before offset 10 have been deleted"),
        (AskedRange(end=21), "ends at offset 20 now"),
        (AskedRange(first=15, end=15), "nothing from offset 15 to offset 15"),
        (AskedRange(first=18, end=NOON), "nothing from offset 18 to offset 17"),
    ],
)
def test_offsets_that_the_partition_does_not_hold_are_refused(asked: AskedRange, reason: str) -> None:
    with pytest.raises(BadRequestException, match=reason):
        bounded_range(A0, asked, (10, 20), {NOON_MS: 17})


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(BadRequestException, match="with its zone"):
        AskedRange(first="2026-01-31T12:00").instants()


@pytest.mark.parametrize("text", ["1969-12-31T23:59:59.997Z", "0001-01-01T00:00:00Z", "999999999999999"])
def test_a_time_that_no_record_has_is_refused(text: str) -> None:
    """Brokers take the negative ones for something else: -1 for the end, -2 for the beginning."""
    with pytest.raises(BadRequestException, match="from 1970"):
        AskedRange(end=text).instants()


def test_a_backfill_is_the_same_after_its_json() -> None:
    shown = Backfill("x.backfill.1", "x", "RUNNING", False, 3, [BackfillRange.of_sink(A0, 0, 5, 2)])
    found = to_json(shown)
    assert found["ranges"][0]["from"] == {"kafka_offset": 0}
    assert found["ranges"][0]["position"] == {"kafka_offset": 2}
    assert of_json(Backfill, found) == shown
