"""The past of a connector, from lines of the mirror: what is shown of it, and what going back would change."""

import json

import pytest

from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.runtime.model.history import (
    MAY_DIFFER,
    KeyChange,
    Line,
    OffsetMove,
    OffsetReturn,
    OffsetUndo,
    Page,
    config_history,
    instant_ms,
    offset_history,
    offset_returns,
    offsets_before,
    page_of,
)
from airflow_provider_connect.runtime.model.views import OffsetView

A, B = {"file": "a"}, {"file": "b", "split": 1}


def line(
    number: int, subject: object, old: object, new: object, claim: str | None = None, *, at_ms: int = 0, who: str | None = None
) -> Line:
    texts = [None if value is None else json.dumps(value) for value in (old, new)]
    return Line(number, json.dumps(subject), at_ms or number, texts[0], texts[1], who, claim, claim and f"run of {claim}")


def test_a_revision_has_the_keys_that_changed_and_none_that_steer_the_dag() -> None:
    lines = [
        line(7, "", {"a": "1", "gone": "x", "steers": "1"}, {"a": "2", "new": "y"}, who="anna"),
        line(3, "", None, {"a": "1", "gone": "x", "steers": "1"}),
    ]
    found = config_history(Page(lines), dict, ["steers"])
    assert found.next_before is None
    newest, first = found.revisions
    assert (newest.revision, newest.who, newest.config) == (7, "anna", {"a": "2", "new": "y"})
    assert newest.changes == [KeyChange("a", "1", "2"), KeyChange("gone", "x", None), KeyChange("new", None, "y")]
    assert first.changes == [KeyChange("a", None, "1"), KeyChange("gone", None, "x")]
    assert config_history(Page(lines, 3), dict).next_before == 3


@pytest.mark.parametrize(
    ("sizes", "limit", "numbers", "next_before"),
    [
        ([], 2, [], None),
        ([(7, 1), (3, 1)], 2, [7, 3], None),
        ([(7, 1), (3, 1), (2, 1)], 2, [7, 3], 3),
        ([(7, 6), (3, 4), (2, 1)], 9, [7, 3], 3),
        ([(7, 6), (3, 5), (2, 1)], 9, [7], 7),
        ([(7, 11), (3, 1)], 9, [7], 7),
        ([(7, 11)], 9, [7], None),
    ],
)
def test_a_page_has_some_lines_and_some_bytes(
    sizes: list[tuple[int, int]], limit: int, numbers: list[int], next_before: int | None
) -> None:
    assert page_of(sizes, limit, most_bytes=10) == (numbers, next_before)


def test_an_undo_of_many_partitions_lists_the_first() -> None:
    many = [OffsetReturn({"file": str(number)}, {"n": 2}, {"n": 1}, "read again") for number in range(1003)]
    found = OffsetUndo.of(5, True, many, "")
    assert (len(found.returns), found.left_out) == (1000, 3)
    long = [OffsetReturn({"file": "x" * 400_000}, None, None, "changed")] * 3
    assert (len(OffsetUndo.of(5, True, long, "").returns), OffsetUndo.of(5, True, long[:1], "").left_out) == (2, None)


def test_what_is_hidden_stays_hidden_and_may_differ() -> None:
    lines = [line(2, "", {"token": "[hidden]"}, {"token": "[hidden]"}), line(1, "", None, {"token": "late"})]
    hide = {"token": "[hidden]"}
    newest, first = config_history(Page(lines), lambda config: {**config, **hide}).revisions
    assert (newest.changes, newest.note) == ([], MAY_DIFFER)
    assert (first.config, first.changes) == (hide, [KeyChange("token", None, "[hidden]")])


def test_a_deletion_is_a_revision_without_a_config() -> None:
    (found,) = config_history(Page([line(2, "", {"a": "1"}, None)]), dict).revisions
    assert (found.config, found.changes) == (None, [KeyChange("a", "1", None)])


def test_lines_of_one_claim_are_one_change() -> None:
    lines = [
        line(5, A, {"n": 2}, {"n": 3}, "c2", at_ms=50),
        line(4, B, None, {"n": 9}, "c2", at_ms=40),
        line(3, A, {"n": 1}, {"n": 2}, "c2", at_ms=30),
        line(2, A, {"n": 0}, {"n": 1}, who="anna"),
        line(1, A, None, {"n": 0}, "c1"),
    ]
    found = offset_history(Page(lines), 17)
    assert [(change.entry, change.from_ms, change.to_ms, change.who, change.run) for change in found.changes] == [
        (3, 30, 50, None, "run of c2"),
        (2, 2, 2, "anna", None),
        (1, 1, 1, None, "run of c1"),
    ]
    assert found.changes[0].moves == [OffsetMove(A, {"n": 1}, {"n": 3}), OffsetMove(B, None, {"n": 9})]
    assert (found.begins_ms, found.next_before) == (17, None)
    assert offset_history(Page(lines, 1), 17).next_before == 1


def test_going_back_takes_the_offset_before_the_first_change_of_each_partition() -> None:
    lines = [line(3, A, {"n": 1}, {"n": 2}), line(4, B, None, {"n": 9}), line(5, A, {"n": 2}, {"n": 3})]
    before = offsets_before(lines)
    turned = {"split": 1, "file": "b"}
    found = offset_returns(before, [OffsetView(A, {"n": 3}), OffsetView(turned, {"n": 9}), OffsetView({"file": "c"}, {"n": 4})])
    assert [(each.partition, each.now, each.then, each.effect) for each in found] == [
        (A, {"n": 3}, {"n": 1}, "read again"),
        (turned, {"n": 9}, None, "read from the beginning"),
    ]
    assert offset_returns(before, [OffsetView(A, {"n": 1})]) == []


@pytest.mark.parametrize(
    ("now", "then", "effect", "records"),
    [
        ({"kafka_offset": 9}, {"kafka_offset": 4}, "read again", 5),
        ({"kafka_offset": 4}, {"kafka_offset": 9}, "skipped", 5),
        ({"position": 9}, {"position": 4}, "read again", None),
        ({"position": 9, "inode": 1}, {"position": 4, "inode": 2}, "changed", None),
        ({"name": "b"}, {"name": "a"}, "changed", None),
        (None, {"position": 4}, "skipped", None),
        ({"position": 4}, None, "read from the beginning", None),
        ({"kafka_offset": 2**62}, {"kafka_offset": 2**62 - 1}, "read again", 1),
        ({"kafka_offset": 1e308}, {"kafka_offset": -1e308}, "read again", None),
        ({"kafka_offset": 10**400}, {"kafka_offset": 1.5}, "read again", None),
    ],
)
def test_the_effect_of_going_back(now: object, then: object, effect: str, records: int | None) -> None:
    (found,) = offset_returns(offsets_before([line(1, A, then, now)]), [OffsetView(A, now)] if now else [])  # type: ignore[arg-type]
    assert (found.effect, found.records) == (effect, records)


def test_an_instant_has_a_zone() -> None:
    assert instant_ms("1970-01-01T01:00:01+01:00") == instant_ms("1970-01-01T00:00:01Z") == instant_ms("1000") == instant_ms(1000) == 1000
    for text in ("1970-01-01T00:00:01", "yesterday", "", "-5", "9" * 100_000):
        with pytest.raises(BadRequestException, match="is not an instant"):
            instant_ms(text)
