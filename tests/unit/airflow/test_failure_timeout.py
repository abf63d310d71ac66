"""How often those who wait poll: until nothing else is to be expected."""

import pytest

from airflow_provider_connect.client.conditions import FailureTimeout, Verdict

MET, EARLY = Verdict(True, "RUNNING, its tasks 1 RUNNING"), Verdict(True, "RUNNING", is_early=True)
NOT_YET, FAILED = Verdict(False, "UNASSIGNED"), Verdict(False, "FAILED", has_failed=True)


@pytest.mark.parametrize(
    ("polls", "content"),
    [
        ([(0, MET)], [True]),
        ([(0, NOT_YET), (60, NOT_YET)], [False, False]),
        ([(0, FAILED), (9, FAILED), (10, FAILED)], [False, False, True]),
        ([(0, EARLY), (9, EARLY), (10, EARLY)], [False, False, True]),
        ([(0, EARLY), (1, FAILED), (10, FAILED), (11, FAILED)], [False, False, False, True]),
        ([(0, FAILED), (5, NOT_YET), (11, FAILED)], [False, False, False]),
        ([(0, EARLY), (1, MET)], [False, True]),
    ],
)
def test_what_does_not_last_does_not_count(polls: list[tuple[float, Verdict]], content: list[bool]) -> None:
    now = iter([seconds for seconds, _ in polls])
    failure_timeout = FailureTimeout(10, now=lambda: next(now))
    assert [failure_timeout.ends_wait(verdict) for _, verdict in polls] == content


def test_who_has_none_takes_what_is_seen() -> None:
    assert [FailureTimeout(0).ends_wait(verdict) for verdict in (MET, EARLY, NOT_YET, FAILED)] == [True, True, False, True]
