"""What two previews report of two versions, and what stands in the way."""

import pytest

from airflow_provider_connect.runtime.model.preview_comparison import Comparison, compare_previews
from airflow_provider_connect.runtime.model.previews import Preview, PreviewedRecord, PreviewedTask, PreviewedTopic, PreviewEnd

ID, WORD = {"$": "struct", "id": "int64"}, {"$": "struct", "id": "int64", "word": "string?"}


def preview(version: str, read: int, *topics: PreviewedTopic, offsets: dict[str, str] | None = None) -> Preview:
    return Preview("c", "source", "org.example.Source", {"connector": version}, read, [], topics, [], offsets or {"offset.next": "number"})


def topic(name: str, records: int, value: dict[str, str], *digests: str) -> PreviewedTopic:
    return PreviewedTopic(name, records, 10 * records, {}, value, digests)


OLD = preview("1.0", 3, topic("t", 3, ID, "a", "b", "c"))


@pytest.mark.parametrize(
    ("new", "reported", "accepted"),
    [
        (preview("2.0", 3, topic("t", 3, ID, "a", "b", "x")), [], []),
        (preview("2.0", 4, topic("t", 4, ID, "a", "b", "c", "d")), [], []),  # one more had come meanwhile
        (preview("2.0", 3, topic("t", 3, WORD)), ["t: value word added: string?"], []),
        (preview("2.0", 3, topic("t", 3, {"$": "struct", "id": "int32"})), ["t: value id changed: int64 → int32"], []),
        (preview("2.0", 3, topic("t", 3, {"$": "struct"})), ["t: value id removed: int64"], []),
        (preview("2.0", 3, topic("u", 3, ID)), ["t: topic removed: t", "u: topic added: u"], []),
        (preview("2.0", 3, topic("t", 3, ID), offsets={"offset.at": "number"}),
            ["source: offsets offset.at added: number", "source: offsets offset.next removed: number"], []),
        (preview("2.0", 2, topic("t", 2, ID)), ["source: count read changed: 3 → 2"], ["source: count read changed: 3 → 2"]),
        (preview("2.0", 3, topic("t", 6, ID)), ["source: count records changed: 3 → 6"], ["source: count records changed: 3 → 6"]),
    ],
)  # fmt: skip
def test_differences_and_what_of_them_stands_in_the_way(new: Preview, reported: list[str], accepted: list[str]) -> None:
    comparison = compare_previews(OLD, new)
    assert list(map(str, comparison.blockers(accept_schema_change=False))) == reported
    assert list(map(str, comparison.blockers(accept_schema_change=True))) == accepted
    assert Comparison.of_json(comparison.to_json()) == comparison


def test_equal_records_are_counted_and_an_empty_source_shows_nothing() -> None:
    assert compare_previews(OLD, preview("2.0", 3, topic("t", 3, ID, "a", "x", "c"))).equal_records == 2
    assert not compare_previews(preview("1.0", 0), preview("2.0", 0)).has_seen_enough


def test_a_preview_travels_as_json() -> None:
    task = PreviewedTask(0, {"k": "v"}, 1, PreviewEnd.IDLE, [{"file": "a"}])
    record = PreviewedRecord(0, "t", None, None, 1, {"id": 1}, [1.5, None], [{"key": "h", "value": "x"}])
    sent = Preview(
        "c", "source", "S", {"connector": "1"}, 1, [task], [topic("t", 1, ID, "a")], [record], {"offset.n": "number"}, seconds=0.5
    )
    values = sent.to_json()
    values["topics"][0]["digests"] = ("a",)
    assert Preview.of_json(values) == sent
