import random

import pytest

from airflow_provider_connect.runtime.stores.backoff import Backoff


def test_waits_grow_to_the_most() -> None:
    backoff = Backoff(300, 10_000, 2.0, 0.0)
    assert [backoff.delay_ms(attempt, random.Random(1)) for attempt in range(7)] == [300, 600, 1200, 2400, 4800, 9600, 10_000]


@pytest.mark.parametrize("attempt", [0, 3, 50, 5000])
def test_jitter_stays_within_its_share(attempt: int) -> None:
    backoff, source = Backoff(300, 10_000, 2.0, 0.25), random.Random(7)
    plain = Backoff(300, 10_000, 2.0, 0.0).delay_ms(attempt, source)
    waits = [backoff.delay_ms(attempt, source) for _ in range(200)]
    assert all(0.75 * plain <= wait <= 1.25 * plain for wait in waits)
    assert max(waits) > plain > min(waits)


def test_multiplier_one_never_grows() -> None:
    assert Backoff(50, 100, 1.0).delay_ms(9, random.Random()) == 50
