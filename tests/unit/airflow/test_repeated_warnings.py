"""A connector that takes long, or fails, is no trouble of the others."""

import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from airflow_provider_connect.api_server.repeated_warnings import RepeatedWarnings
from airflow_provider_connect.api_server.ticker import error_line
from airflow_provider_connect.errors import BadRequestException, RetriableException
from tests.waiting import HANG_SECONDS


def test_a_change_that_takes_long_lets_the_others_go_on_and_is_not_begun_twice() -> None:
    warnings, ends, begun = RepeatedWarnings(now=time.monotonic), threading.Event(), list[str]()

    def stuck() -> None:
        begun.append("stuck")
        ends.wait(HANG_SECONDS)

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
    warnings, ends, order = RepeatedWarnings(now=time.monotonic), threading.Event(), list[str]()

    def stop() -> None:
        ends.wait(HANG_SECONDS)
        order.append("stopped")

    warnings.attempt_bounded("c", stop)
    warnings.attempt("c", lambda: order.append("defined"))
    warnings.attempt("other", lambda: order.append("other"))
    assert order == ["other"]
    ends.set()
    while "defined" not in order:
        warnings.attempt("c", lambda: order.append("defined"))
    assert order == ["other", "stopped", "defined"]


def test_changes_that_have_ended_and_no_process_asks_for_delay_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connector that was given free is not asked for again."""
    warnings, ends, ended = RepeatedWarnings(now=time.monotonic), threading.Event(), list[int]()

    def change(number: int) -> None:
        ends.wait(HANG_SECONDS)
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


AWAY = RetriableException("away")


def fails_with(error: Exception) -> Callable[[], None]:
    def fails() -> None:
        raise error

    return fails


class Pass:
    """Passes over three connectors with a clock of their own; ``cost`` is how long each failure takes."""

    def __init__(self, *, cost: float = 0.0) -> None:
        self.clock, self.cost, self.worked, self.tried = 0.0, cost, list[str](), list[str]()
        self.warnings = RepeatedWarnings(now=lambda: self.clock)

    def over(self, *names: str, failing: dict[str, Exception], bounded: bool = False) -> list[str]:
        """The connectors whose changes worked."""
        self.worked.clear()
        self.tried.clear()
        attempt = self.warnings.attempt_bounded if bounded else self.warnings.attempt
        for name in names:
            attempt(name, partial(self._change, name, failing))
        self.warnings.end_pass()
        return list(self.worked)

    def _change(self, name: str, failing: dict[str, Exception]) -> None:
        self.tried.append(name)
        if name in failing:
            self.clock += self.cost
            raise failing[name]
        self.worked.append(name)


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("error", [BadRequestException("no"), AWAY, KeyError("dag"), ValueError("odd")])
def test_an_error_of_one_connector_leaves_out_no_other(error: Exception, bounded: bool, caplog: pytest.LogCaptureFixture) -> None:
    passes = Pass()
    assert passes.over("a", "b", "c", failing={"b": error}, bounded=bounded) == ["a", "c"]
    passes.clock = 60.0
    assert passes.over("a", "b", "c", failing={"b": error}, bounded=bounded) == ["a", "c"]
    assert [record.getMessage() for record in caplog.records] == [f"Connector b: {error_line(error)}"], "once"


def test_a_connector_whose_change_may_have_cost_a_timeout_waits_longer_each_time() -> None:
    passes, tried = Pass(), []
    for second in range(100):
        passes.clock = float(second)
        passes.over("a", "b", failing={"b": AWAY})
        tried += [second] if "b" in passes.tried else []
    assert tried == [0, 1, 3, 7, 15, 31, 61, 91]


def test_an_error_of_all_connectors_is_raised_behind_the_pass() -> None:
    passes = Pass()
    with pytest.raises(RetriableException, match="away"):
        passes.over("a", "b", failing={"a": AWAY, "b": RetriableException("away too")})
    assert passes.tried == ["a", "b"]
    passes.clock = 60.0
    assert passes.over("a", "b", failing={}) == ["a", "b"]


def test_errors_that_take_long_end_the_pass_and_the_next_one_begins_with_the_others() -> None:
    passes = Pass(cost=8.0)
    failing: dict[str, Exception] = {"a": AWAY, "b": AWAY}
    names = ("x", "a", "b", "c", "d")
    with pytest.raises(RetriableException, match="away"):
        passes.over(*names, failing=failing)
    assert passes.tried == ["x", "a", "b"]
    passes.clock += 0.5
    assert passes.over(*names, failing=failing) == ["x", "c", "d"]


def test_one_kind_of_change_that_works_does_not_clear_the_warning_of_another(caplog: pytest.LogCaptureFixture) -> None:
    warnings = RepeatedWarnings(now=time.monotonic)
    for _ in range(3):
        warnings.attempt("c", fails_with(BadRequestException("no")), "definition")
        warnings.attempt("c", list, "target state")
    assert caplog.text.count("Connector c: no") == 1
