"""A connector that takes long, or fails, is no trouble of the others."""

import threading
import time
from functools import partial

import pytest

from airflow_provider_connect.api_server.repeated_warnings import RepeatedWarnings
from airflow_provider_connect.errors import BadRequestException, RetriableException


def test_a_change_that_takes_long_lets_the_others_go_on_and_is_not_begun_twice() -> None:
    warnings, ends, begun = RepeatedWarnings(), threading.Event(), list[str]()

    def stuck() -> None:
        begun.append("stuck")
        ends.wait(60)

    for _ in range(5):
        warnings.attempt_bounded("stuck", stuck)
        warnings.attempt_bounded("other", lambda: begun.append("other"))
    assert begun.count("stuck") == 1
    assert begun.count("other") == 5
    ends.set()
    while begun.count("stuck") == 1:  # it is begun again once the first has ended
        warnings.attempt_bounded("stuck", stuck)
    assert begun.count("stuck") == 2


def test_nothing_else_is_begun_of_a_connector_while_a_change_goes_on() -> None:
    """A DAG that comes back while its connector is being stopped would be taken in, and then stopped for good."""
    warnings, ends, order = RepeatedWarnings(), threading.Event(), list[str]()

    def stop() -> None:
        ends.wait(60)
        order.append("stopped")

    warnings.attempt_bounded("c", stop)
    warnings.attempt("c", lambda: order.append("defined"))
    warnings.attempt("other", lambda: order.append("other"))
    assert order == ["other"]
    ends.set()
    while "defined" not in order:
        warnings.attempt("c", lambda: order.append("defined"))
    assert order == ["other", "stopped", "defined"]


def test_changes_that_have_ended_and_nobody_asks_for_hold_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connector that was given free is not asked for again."""
    warnings, ends, ended = RepeatedWarnings(), threading.Event(), list[int]()

    def change(number: int) -> None:
        ends.wait(60)
        ended.append(number)

    monkeypatch.setattr("airflow_provider_connect.api_server.repeated_warnings._WAIT_SECONDS", 0.01)
    for number in range(40):
        warnings.attempt_bounded(f"c{number}", partial(change, number))
    ends.set()
    while len(ended) < 32:
        time.sleep(0.01)
    warnings.attempt_bounded("late", partial(change, 99))
    while 99 not in ended:
        assert warnings._running.get("late"), "it was not begun"
        time.sleep(0.01)


@pytest.mark.parametrize("error", [BadRequestException("no"), RetriableException("away")])
def test_what_a_change_raised_is_told_as_without_a_bound(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> None:
        raise error

    warnings = RepeatedWarnings()
    if isinstance(error, RetriableException):
        with pytest.raises(RetriableException, match="away"):
            warnings.attempt_bounded("c", fails)
    else:
        warnings.attempt_bounded("c", fails)
    assert f"Connector c: {error}" in caplog.text
