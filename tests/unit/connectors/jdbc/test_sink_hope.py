"""How often what may fail is tried."""

from airflow_provider_connect.connectors.jdbc.sink.hope import Hope


def tries(hope: Hope, chances: int, *, succeeds: bool) -> int:
    """How many of the chances are taken."""
    count = 0
    for _ in range(chances):
        if hope.takes_chance():
            count += 1
            hope.fulfilled() if succeeds else hope.disappointed()
    return count


def test_success_is_tried_always() -> None:
    assert tries(Hope(), 100, succeeds=True) == 100


def test_failure_is_tried_ever_more_seldom_but_never_given_up() -> None:
    hope = Hope()
    assert tries(hope, 127, succeeds=False) == 7  # passed by in between: 1, 2, 4, …, 32, 57 of 64
    assert tries(hope, 65 * 10, succeeds=False) == 10


def test_success_after_failures_brings_hope_back_step_by_step() -> None:
    hope = Hope()
    tries(hope, 127, succeeds=False)
    tries(hope, 100, succeeds=True)
    assert tries(hope, 3, succeeds=False) == 2
