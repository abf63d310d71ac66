"""How often what may fail is tried."""

from airflow_provider_connect.connectors.jdbc.sink.postgresql_store import AdaptiveRetry


def tries(retry: AdaptiveRetry, chances: int, *, succeeds: bool) -> int:
    """How many of the chances are taken."""
    count = 0
    for _ in range(chances):
        if retry.should_try():
            count += 1
            retry.succeeded() if succeeds else retry.failed()
    return count


def test_success_is_tried_always() -> None:
    assert tries(AdaptiveRetry(), 100, succeeds=True) == 100


def test_failure_is_tried_ever_more_seldom_but_never_left_for_good() -> None:
    retry = AdaptiveRetry()
    assert tries(retry, 127, succeeds=False) == 7  # passed by in between: 1, 2, 4, …, 32, 57 of 64
    assert tries(retry, 65 * 10, succeeds=False) == 10


def test_success_after_failures_is_tried_more_often_step_by_step() -> None:
    retry = AdaptiveRetry()
    tries(retry, 127, succeeds=False)
    tries(retry, 100, succeeds=True)
    assert tries(retry, 3, succeeds=False) == 2
