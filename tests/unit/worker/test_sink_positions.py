"""The table of where a sink starts."""

import pytest

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.runtime.worker.delivery.sink_positions import (
    KnownOffsets,
    Origin,
    Rollback,
    destination_mark,
    group_mark,
    is_foreign_commit,
    is_of_destination,
    is_of_topic,
    is_owned_by,
    start_position,
    was_committed_recently,
)
from airflow_provider_connect.runtime.worker.delivery.sink_positions import StartPosition as Start

TP = TopicPartition("t", 0)
OURS = group_mark("x:7", 0.0)


def known(**given: object) -> KnownOffsets:
    fresh = {"was_committed_recently": given.get("mark") == OURS}
    return KnownOffsets(**({"beginning": 0, "end": 100, "high": 100} | fresh | given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("exactly_once", "offsets", "expected"),
    [
        pytest.param(False, {}, Start(0, Origin.RESET, False, True), id="never seen: from the start, which is committed"),
        pytest.param(False, {"group": 40, "mark": OURS}, Start(40, Origin.GROUP, False, False), id="ours: nothing to write"),
        pytest.param(False, {"group": 40}, Start(40, Origin.GROUP, False, True), id="another application's: taken and marked"),
        pytest.param(
            False,
            {"group": 40, "mark": OURS, "was_committed_recently": False},
            Start(40, Origin.GROUP, False, True),
            id="a day old: committed again",
        ),
        pytest.param(False, {"batch_log": 60}, Start(60, Origin.BATCH_LOG, False, True), id="expired: the batch log's"),
        pytest.param(True, {}, Start(0, Origin.RESET, True, True), id="never seen, exactly once"),
        pytest.param(
            True,
            {"destination": 50},
            Start(0, Origin.RESET, True, True),
            id="no group, no batch log: reset, whatever the destination returns",
        ),
        pytest.param(
            True,
            {"group": 40, "mark": OURS, "destination": 50},
            Start(50, Origin.DESTINATION, False, True),
            id="died between destination and group",
        ),
        pytest.param(
            True,
            {"group": 40, "mark": OURS, "destination": 30, "had_offset": True},
            Start(30, Origin.DESTINATION, False, True),
            id="the destination went back",
        ),
        pytest.param(
            True,
            {"beginning": 5, "group": 40, "mark": OURS, "had_offset": True},
            Start(5, Origin.EMPTIED, True, True),
            id="the destination was emptied: from the first record",
        ),
        pytest.param(
            True,
            {"group": 40, "mark": OURS, "destination": 30},
            Start(40, Origin.GROUP, True, False),
            id="committed with another destination: the further one",
        ),
        pytest.param(
            True,
            {"group": 40, "destination": 50},
            Start(40, Origin.GROUP, True, True),
            id="set by another application: wins over destination",
        ),
        pytest.param(
            True, {"group": 40, "mark": OURS}, Start(40, Origin.GROUP, True, False), id="the destination knows nothing: the group's"
        ),
        pytest.param(
            True, {"batch_log": 60, "destination": 61}, Start(61, Origin.DESTINATION, False, True), id="expired: the destination's"
        ),
        pytest.param(
            True,
            {"beginning": 5, "batch_log": 60, "had_offset": True},
            Start(5, Origin.EMPTIED, True, True),
            id="expired, and the destination was emptied: from the first record",
        ),
        pytest.param(True, {"batch_log": 60}, Start(60, Origin.BATCH_LOG, True, True), id="expired, another destination: the batch log's"),
        pytest.param(False, {"beginning": 50, "group": 40, "mark": OURS}, Start(50, Origin.RESET, False, True, 10), id="retention took it"),
        pytest.param(False, {"group": 140, "mark": OURS}, Start(0, Origin.RESET, False, True), id="beyond the log: made anew"),
    ],
)
def test_start(exactly_once: bool, offsets: dict[str, object], expected: Start) -> None:
    assert start_position(TP, known(**offsets), exactly_once=exactly_once, reset="earliest") == expected


@pytest.mark.parametrize(
    ("offsets", "text"),
    [
        ({"beginning": 50, "group": 40, "mark": OURS}, "10 offsets of t-0, 40 to 49, are gone, and were not delivered: the topic's"),
        ({"group": 140, "mark": OURS}, "Offset 140 is 40 after the end of t-0, 100. auto.offset.reset decides: the connector goes on at 0"),
        ({"beginning": 70, "batch_log": 60}, "10 offsets of t-0, 60 to 69, are gone"),
        ({"group": 40, "mark": OURS}, ""),
        ({"beginning": 40, "group": 40, "mark": OURS}, ""),
        ({"group": 100, "mark": OURS}, ""),
        ({"beginning": 50}, ""),
    ],
)
def test_records_that_are_gone_are_named(offsets: dict[str, object], text: str, caplog: pytest.LogCaptureFixture) -> None:
    start = start_position(TP, known(**offsets), exactly_once=False, reset="earliest")
    assert [text in message for message in caplog.messages] == ([True] if text else [])
    assert start.lost == (10 if "are gone" in text else 0)


@pytest.mark.parametrize("held", [None, 30])
def test_a_destination_that_went_back_may_fail_the_run(held: int | None) -> None:
    with pytest.raises(ConnectException, match=r"this connector has committed 40 there.*destination\.rollback=redeliver"):
        start_position(
            TP,
            known(group=40, mark=OURS, destination=held, had_offset=True),
            exactly_once=True,
            reset="earliest",
            rollback=Rollback.FAIL,
        )


def test_a_topic_that_has_lost_its_end_is_not_delivered_again() -> None:
    """As after an unclean election, or where a broker was restored: the records that are left lie at the destination."""
    with pytest.raises(ConnectException, match=r"holds t-0 up to offset 140, and the topic ends at 100: it has lost its end.*PATCH"):
        start_position(TP, known(group=140, mark=OURS, destination=140, had_offset=True), exactly_once=True, reset="earliest")
    by_hand = known(group=140, destination=40)
    assert start_position(TP, by_hand, exactly_once=True, reset="earliest").origin is Origin.RESET


def test_a_mark_has_the_topic_and_the_destination() -> None:
    mark = group_mark("x:7", 1000.0, "topic-1", destination_mark({"file": "a"}))
    assert [is_of_topic(mark, id) for id in ("topic-1", "topic-2", "")] == [True, False, True]
    assert [is_of_destination(mark, destination_mark({"file": name})) for name in "ab"] == [True, False]
    assert was_committed_recently(mark, 2000.0)
    assert is_of_topic(OURS, "topic-1")
    assert not is_of_destination(OURS, destination_mark({"file": "a"}))


def test_latest_starts_at_the_last_stable_offset() -> None:
    assert start_position(TP, known(end=90), exactly_once=False, reset="latest").offset == 90


def test_none_refuses_what_was_never_seen() -> None:
    with pytest.raises(ConnectException, match="no offset is known"):
        start_position(TP, known(), exactly_once=False, reset="none")


def test_unknown_reset_is_refused_by_name() -> None:
    with pytest.raises(ConfigException, match=r"auto\.offset\.reset"):
        start_position(TP, known(), exactly_once=False, reset="soonest")


def test_every_partition_has_one_owner_and_topics_of_one_partition_are_spread() -> None:
    partitions = [TopicPartition(topic, number) for topic in ("a", "b") for number in range(7)]
    assert all(sum(is_owned_by(p, task, 3) for task in range(3)) == 1 for p in partitions)
    alone = [TopicPartition(f"topic-{number}", 0) for number in range(30)]
    assert all(any(is_owned_by(p, task, 3) for p in alone) for task in range(3))


@pytest.mark.parametrize(
    ("mark", "fresh"),
    [(group_mark("x:7", 1000.0), True), (group_mark("x:7", -90_000.0), False), ("", False), ("somebody's", False), ("claim=x:7", False)],
)
def test_a_commit_was_committed_recently_when_it_is_ours_and_young(mark: str, fresh: bool) -> None:
    assert was_committed_recently(mark, 2000.0) is fresh


@pytest.mark.parametrize(
    ("given", "offset"),
    [
        ({"is_unfinished": True}, 3),
        ({"is_unfinished": False}, 5),
        ({"is_unfinished": True, "group": 5, "mark": OURS}, 5),
    ],
)
def test_offsets_altered_over_rest_go_before_the_destination(given: dict[str, object], offset: int) -> None:
    """The group was deleted to remove some of its offsets, and the process that was to write the others again was killed."""
    found = start_position(TP, known(destination=5, batch_log=3, **given), exactly_once=True, reset="earliest")
    assert found.offset == offset


def test_whose_a_mark_is() -> None:
    assert [is_foreign_commit(mark) for mark in ("", "consumer-1", OURS, "altered=t:1")] == [True, True, False, False]
