"""Ranges of runs that stay: what is new, and what an earlier claim has left out."""

import pytest

from airflow_provider_connect.runtime.model.delivered import Spans, added, connected, merged, united, without


def spans(*of_partition: list[int]) -> Spans:
    return {"t": {"0": list(of_partition)}}


def test_ranges_of_tasks_that_overlap_are_one() -> None:
    tasks = [{"t": {"0": [0, 5], "1": [2, 2]}}, {"t": {"0": [3, 9]}, "u": {"0": [1, 2]}}, {"t": {"0": [20, 21]}}]
    assert merged(tasks) == {"t": {"0": [[0, 9], [20, 21]], "1": []}, "u": {"0": [[1, 2]]}}


def test_a_process_that_replaces_a_lost_one_keeps_its_range() -> None:
    assert united({"t": {"0": [0, 5]}}, {"t": {"0": [7, 9], "1": [0, 1]}}) == {"t": {"0": [0, 9], "1": [0, 1]}}


@pytest.mark.parametrize(
    ("known", "left"),
    [
        ([], [[0, 10]]),
        ([[0, 4]], [[4, 10]]),
        ([[4, 6]], [[0, 4], [6, 10]]),
        ([[8, 12]], [[0, 8]]),
        ([[6, 7], [0, 2]], [[2, 6], [7, 10]]),
        ([[20, 30]], [[0, 10]]),
    ],
)
def test_what_is_known_is_not_new(known: list[list[int]], left: list[list[int]]) -> None:
    assert without(spans([0, 10]), spans(*known)) == spans(*left)


def test_nothing_is_new_without_a_new_offset() -> None:
    assert without(spans([0, 10]), spans([0, 12])) == {}


def test_a_gap_after_a_killed_claim_is_delivered() -> None:
    assert connected(spans([7, 9]), spans([0, 5])) == spans([5, 9])
    assert connected(spans([3, 9]), spans([0, 5])) == spans([3, 9])
    assert connected(spans([3, 9]), {"u": {"0": [[0, 1]]}}) == spans([3, 9])


def test_spans_are_added() -> None:
    assert added([spans([0, 2]), spans([2, 5]), {"u": {"1": [[0, 1]]}}]) == {"t": {"0": [[0, 5]]}, "u": {"1": [[0, 1]]}}
