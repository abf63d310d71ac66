"""What runs deliver while they run, and how fast."""

from airflow_provider_connect.runtime.model.progress import Progress, Rates
from airflow_provider_connect.runtime.model.views import WorkerView


def test_a_rate_is_that_of_the_last_half_minute() -> None:
    rates, key = Rates(), ("c", "claim")
    assert rates.of({key: (100, 50.0)}, 0.0) == {key: 2.0}  # of the whole run
    assert rates.of({key: (110, 50.0)}, 1.0) == {key: 2.2}
    assert rates.of({key: (200, 60.0)}, 10.0) == {key: 10.0}
    assert rates.of({key: (200, 60.0)}, 39.0) == {key: 200 / 60}  # nothing has come since the second call: commits are far apart
    assert rates.of({("c", "other"): (5, None)}, 40.0) == {("c", "other"): None}
    assert rates.of({("c", "other"): (5, None)}, 50.0) == {("c", "other"): 0.0}


def test_the_applications_of_a_connector_count_together() -> None:
    workers = [
        WorkerView("h:1", "c", "one", [0], records=70, bytes=700, seconds=5.0, failed=2),
        WorkerView("h:2", "c", "two", [1], records=30, bytes=None, seconds=10.0),
        WorkerView("h:3", "new", "one", [0]),
    ]
    assert Rates().progress(workers, 0.0) == {"c": Progress(100, 700, 10.0, failed=2), "new": Progress()}


def test_what_is_left_takes_its_time_at_the_rate_of_now() -> None:
    assert [Progress(5, 50, 2.0).seconds_left(100, unit) for unit in (None, "records", "bytes")] == [50.0, 50.0, None]
    assert [Progress(5, 50, rate).seconds_left(left, None) for rate, left in ((None, 100), (0.0, 100), (2.0, None), (2.0, 0))] == [None] * 4
