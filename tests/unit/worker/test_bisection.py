"""Which records fail is found exactly, the others stay together and in order."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_connect.runtime.worker.errors.tolerance import FailureRate, Miss, Part, attempt_in_parts


class Handled:
    """Handles runs of numbered records, of which some fail whatever they are tried with."""

    def __init__(self, bad: set[int], *, names_it: bool = False) -> None:
        self.bad = bad
        self.names_it = names_it
        self.passed: list[int] = []
        self.tried = 0

    def attempt(self, start: int, length: int) -> Part[list[int]] | Miss:
        self.tried += length
        run = list(range(start, start + length))
        if found := self.bad & set(run):
            return Miss(min(found) - start if self.names_it else None)
        self.passed += run
        return Part(start, length, run)

    def single(self, index: int, miss: Miss) -> Part[list[int]] | None:
        found = self.attempt(index, 1)
        return None if isinstance(found, Miss) else found


@settings(deadline=None)
@given(st.integers(0, 300), st.sets(st.integers(0, 299), max_size=60), st.integers(0, 50), st.integers(0, 3), st.booleans())
def test_exactly_the_failing_records_are_left_out_and_each_other_is_handled_once(
    count: int, bad: set[int], passed: int, failed: int, names_it: bool
) -> None:
    rate, handled = FailureRate(), Handled(bad, names_it=names_it)
    rate.passed(passed)
    for _ in range(failed):
        rate.failed()
    parts = list(attempt_in_parts(count, handled.attempt, handled.single, rate))
    good = [index for index in range(count) if index not in bad]
    assert [index for part in parts for index in part.result] == good
    assert handled.passed == good
    assert all(part.length == len(part.result) > 0 and part.start == part.result[0] for part in parts)


def test_clean_records_are_handled_at_once() -> None:
    handled = Handled(set())
    assert [part.length for part in attempt_in_parts(1000, handled.attempt, handled.single, FailureRate())] == [1000]
    assert handled.tried == 1000


def test_what_is_tried_twice_is_bounded_once_the_rate_is_known() -> None:
    rate = FailureRate()
    for batch in range(20):
        handled = Handled(set(range(batch % 7, 10_000, 1000)))
        parts = list(attempt_in_parts(10_000, handled.attempt, handled.single, rate))
        assert sum(part.length for part in parts) == 9_990
    assert handled.tried < 3 * 10_000
    assert len(parts) < 150


def test_runs_grow_again_when_failures_cease() -> None:
    rate = FailureRate()
    half = Handled(set(range(0, 100, 2)))
    list(attempt_in_parts(100, half.attempt, half.single, rate))
    assert rate.run_length(10_000) < 100
    clean = Handled(set())
    for _ in range(400):
        list(attempt_in_parts(10_000, clean.attempt, clean.single, rate))
    assert rate.run_length(10_000) == 10_000


def test_failure_that_passes_costs_no_record() -> None:
    handled = Handled({3})

    def attempt(start: int, length: int) -> Part[list[int]] | Miss:
        part = handled.attempt(start, length)
        handled.bad = set()  # the destination is back
        return part

    parts = list(attempt_in_parts(10, attempt, handled.single, FailureRate()))
    assert [index for part in parts for index in part.result] == list(range(10))
