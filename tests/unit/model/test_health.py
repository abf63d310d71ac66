"""The one word beside a connector's state, with its reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_connect.data.records import BYTES, Distance
from airflow_provider_connect.runtime.model.health import BEHIND_SECONDS, IDLE_SECONDS, NOTHING_DELIVERED, Pace, health_of
from airflow_provider_connect.runtime.model.views import ConnectorStatusView, Health, HealthWord, StateView, TaskView

NOW = 1_700_000_000_000
TRACE = "java.lang.RuntimeException: Tolerance exceeded in error handler\nCaused by: java.net.ConnectException: db:5432 refuses"
SLOW = Pace(records=2_000, bytes=50_000, seconds=1_000.0, last_ms=NOW - 1000)  # two records in a second
SHORT = Pace(records=1, bytes=10, seconds=2.0, last_ms=NOW - 1000)
STAYS = Pace(records=1, bytes=10, seconds=50_000.0, last_ms=NOW - 1000, stays=True)


def status(state: str = "RUNNING", *tasks: str, trace: str | None = None, trouble: Health | None = None) -> ConnectorStatusView:
    views = [TaskView(number, each, "h:1", trace=TRACE if each == "FAILED" else None) for number, each in enumerate(tasks)]
    return ConnectorStatusView("c", StateView(state, "h:1", trace=trace), views, "sink", trouble)


def health(of: ConnectorStatusView | None, left: int | None = None, pace: Pace | None = None, unit: str = "records") -> Health | None:
    return health_of(of, None if left is None else Distance(left, unit), pace, now_ms=NOW)


@pytest.mark.parametrize(
    ("of", "word", "reason"),
    [
        (status("FAILED", trace=TRACE), HealthWord.FAILING, "db:5432 refuses"),
        (status("RUNNING", "RUNNING", "FAILED"), HealthWord.FAILING, "db:5432 refuses"),
        (status("PAUSED", "FAILED"), HealthWord.FAILING, "db:5432 refuses"),
        (status("UNASSIGNED", trace="no slot is free"), HealthWord.WAITING, "no slot is free"),
        (status(trouble=Health(HealthWord.STUCK, "a call")), HealthWord.STUCK, "a call"),
    ],
)
def test_what_is_wrong_is_named_with_its_cause(of: ConnectorStatusView, word: HealthWord, reason: str) -> None:
    found = health(of, 0, STAYS)
    assert found is not None
    assert found.word is word
    assert reason in str(found.reason)


@pytest.mark.parametrize("of", [None, status("PAUSED"), status("STOPPED"), status("UNASSIGNED"), status("RESTARTING")])
def test_a_connector_that_need_not_deliver_has_no_health(of: ConnectorStatusView | None) -> None:
    assert health(of, 10**9, SLOW) is None
    trouble = Health(HealthWord.MISSING, "There is no file")
    assert health(None if of is None else replace(of, trouble=trouble), 10**9, SLOW) is None


@pytest.mark.parametrize(
    ("left", "pace", "word"),
    [
        (None, None, HealthWord.HEALTHY),
        (10**9, None, HealthWord.HEALTHY),
        (10**9, NOTHING_DELIVERED, HealthWord.IDLE),
        (0, SLOW, HealthWord.HEALTHY),
        (120, SLOW, HealthWord.HEALTHY),
        (121, SLOW, HealthWord.BEHIND),
        (6000, SHORT, HealthWord.HEALTHY),
        (6001, SHORT, HealthWord.BEHIND),
        (6000, STAYS, HealthWord.HEALTHY),
        (6001, STAYS, HealthWord.BEHIND),
        (1, replace(STAYS, last_ms=NOW - round(BEHIND_SECONDS * 1000)), HealthWord.HEALTHY),
        (1, replace(STAYS, last_ms=NOW - round(BEHIND_SECONDS * 1000) - 1), HealthWord.BEHIND),
        (0, replace(STAYS, last_ms=NOW - round(IDLE_SECONDS * 1000)), HealthWord.HEALTHY),
        (0, replace(STAYS, last_ms=NOW - round(IDLE_SECONDS * 1000) - 1), HealthWord.IDLE),
        (121, replace(SLOW, last_ms=NOW - round(IDLE_SECONDS * 1000) - 1), HealthWord.BEHIND),
    ],
)
def test_what_waits_and_the_speed_decide(left: int | None, pace: Pace | None, word: HealthWord) -> None:
    found = health(status(), left, pace)
    assert found is not None
    assert found.word is word
    assert (found.reason is None) == (word is HealthWord.HEALTHY)


def test_the_reason_says_how_much_waits_in_its_unit() -> None:
    assert health(status(), 12_000, SLOW) == Health(HealthWord.BEHIND, "12,000 records wait: more than it delivers in a minute.")
    assert health(status(), 12_000, SLOW, unit=BYTES) == Health(HealthWord.BEHIND, "12,000 bytes wait: more than it delivers in a minute.")
    assert health(status(), 10**9, SLOW, unit="numbers of id") == Health(HealthWord.HEALTHY), "its speed is not known in this unit"
