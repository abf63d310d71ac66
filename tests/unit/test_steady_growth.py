"""What ``make steady`` calls a growth: a leak is found among noise, and neither noise nor a step is taken for one."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.e2e.steady.growth import MIB, QUANTITIES, WARM_UP_SECONDS, Growth, Usage, role_of, table, trend

MEMORY, THREADS = QUANTITIES[:2]
NOISE = random.Random(7)


def points(value: Callable[[float], float], seconds: float = 240.0) -> list[tuple[float, float]]:
    """A value every three seconds."""
    return [(float(at), value(at)) for at in range(0, int(seconds), 3)]


@pytest.mark.parametrize(
    ("value", "seconds", "counts"),
    [
        (lambda _: 100 * MIB, 240, False),
        (lambda _: (100 + NOISE.gauss(0, 4)) * MIB, 240, False),
        (lambda at: (100 + 30 * (at > 200)) * MIB, 240, False),  # a step
        (lambda at: (100 + at / 12 + NOISE.gauss(0, 2)) * MIB, 240, True),  # 20 MB in four minutes
        (lambda at: (100 + at / 60) * MIB, 240, False),  # 4 MB in four minutes: what buffers take
        (lambda at: (100 + at / 60 + NOISE.gauss(0, 4)) * MIB, 3600, True),  # the same for an hour
        (lambda at: (100 + at / 600) * MIB, 10_800, False),  # 144 MB a day
    ],
)
def test_a_growth_of_memory_counts(value: Callable[[float], float], seconds: float, counts: bool) -> None:
    found = trend(points(value, seconds))
    assert found is not None
    assert found.counts_for(MEMORY) is counts


def test_a_thread_every_minute_counts() -> None:
    found = trend(points(lambda at: 20 + at // 60, 600))
    assert found is not None
    assert found.counts_for(THREADS)
    assert found.slope * 60 == pytest.approx(1, rel=0.1)


def test_too_few_values_have_no_trend() -> None:
    assert trend(points(lambda at: at, 27)) is None


def test_rows_are_of_roles_after_their_warm_up_with_the_process_that_grows_most() -> None:
    growth = Growth()
    for at in range(0, 600, 3):
        steady = Usage((1, 0.0), "driver", at, (50.0 * MIB, 30.0, 40.0, 50.0))
        leaking = Usage((2, 0.0), "driver", at, (50.0 * MIB, 30.0 + at // 20, 40.0, 50.0))
        started = Usage((3, at), "task process", 1.0, (at * MIB, at, at, at))  # a process that is young
        growth.note(at, [steady, leaking, started])
    (row,) = growth.rows()
    assert (row.role, row.processes) == ("driver", 2)
    assert row.trends[0].seconds == 600 - 3 - WARM_UP_SECONDS
    (grown,) = row.grown()
    assert grown.startswith("driver: 59, +4")
    assert grown.endswith("threads")
    assert "driver" in table([row])
    processes, memory, *_ = growth.total(300)
    assert processes is not None
    assert memory is not None
    assert (processes.slope, processes.last) == (0, 3)
    assert memory.slope == MIB


@pytest.mark.parametrize(
    ("command", "role"),
    [
        (["python", "-m", "airflow_provider_connect.runtime.worker.application.process_host", "5"], "shared process"),
        (["python", "-m", "airflow_provider_connect.runtime.worker.application.task_processes", "5"], "task process"),
        (["python", "-I", "-S", "/somewhere/memory_watch.py", "1"], "memory watch"),
        ([], "other"),
    ],
)
def test_roles_are_those_of_the_programs(command: list[str], role: str) -> None:
    assert role_of(command) == role
