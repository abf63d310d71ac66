"""A connector that takes long, or fails, is no trouble of the others."""

import threading

import pytest

from airflow_provider_connect.complaints import Complaints
from airflow_provider_connect.errors import BadRequestException, RetriableException


def test_a_change_that_takes_long_lets_the_others_go_on_and_is_not_begun_twice() -> None:
    complaints, ends, begun = Complaints(), threading.Event(), list[str]()

    def stuck() -> None:
        begun.append("stuck")
        ends.wait(60)

    for _ in range(5):
        complaints.attempt_bounded("stuck", stuck)
        complaints.attempt_bounded("other", lambda: begun.append("other"))
    assert begun.count("stuck") == 1
    assert begun.count("other") == 5
    ends.set()
    while begun.count("stuck") == 1:  # it is begun again once the first has ended
        complaints.attempt_bounded("stuck", stuck)
    assert begun.count("stuck") == 2


@pytest.mark.parametrize("error", [BadRequestException("no"), RetriableException("away")])
def test_what_a_change_raised_is_told_as_without_a_bound(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> None:
        raise error

    complaints = Complaints()
    if isinstance(error, RetriableException):
        with pytest.raises(RetriableException, match="away"):
            complaints.attempt_bounded("c", fails)
    else:
        complaints.attempt_bounded("c", fails)
    assert f"Connector c: {error}" in caplog.text
