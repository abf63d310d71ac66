"""A bounded call comes back in time, whatever its act does."""

import threading

import pytest

from airflow_provider_connect.runtime.worker.bounded_call import CallOverdueException, within


def test_an_act_that_ends_in_time_has_been_done() -> None:
    assert within(5, lambda: 1, "doing") == 1


def test_what_the_act_raises_comes_out() -> None:
    def fail() -> None:
        raise KeyError("k")

    with pytest.raises(KeyError, match="k"):
        within(5, fail, "doing")


def test_an_act_that_hangs_is_left_behind() -> None:
    hang = threading.Event()
    with pytest.raises(CallOverdueException, match=r"Committing offsets took more than 0.05 s. A later try may succeed.") as raised:
        within(0.05, hang.wait, "committing offsets")
    hang.set()
    assert raised.value.retriable
    assert "threading.py" in raised.value.stack
