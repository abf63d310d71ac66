"""Tables of races show each aim, whether it was raced or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmark.lake_works import LAKE_WORKS
from tests.benchmark.race import Run
from tests.benchmark.report import race_table
from tests.benchmark.session import Plan
from tests.benchmark.staying_work import staying_table
from tests.benchmark.table_works import TABLE_WORKS
from tests.benchmark.works import WORKS, Aimed

ALL = {**WORKS, **TABLE_WORKS, **LAKE_WORKS}


def run_of(records: int, contestant: str, seconds: float) -> Run:
    return Run("W", contestant, records, seconds, seconds, 1, records)


@pytest.mark.parametrize("work", [*TABLE_WORKS.values(), *LAKE_WORKS.values()], ids=lambda work: work.name)
def test_rows_are_those_of_the_aims_unless_others_are_given(work: Aimed) -> None:
    plan = Plan([], [], [5_000_000], [], 1, Path("raw"))
    assert plan.rows_of(work) == sorted({records for records, _ in work.aims})
    assert Plan([], [], [], [7], 1, Path("raw")).rows_of(work) == [7]


@pytest.mark.parametrize("work", ALL.values(), ids=list(ALL))
def test_each_aim_is_in_the_table(work: Aimed) -> None:
    raced = [run_of(records, name, 8) for records, name in list(work.aims)[:1]]
    table = race_table(work, [*raced, *(run_of(run.records, "ours", 2) for run in raced)])
    assert [line.count("not raced") for line in table.splitlines() if "≥" in line] == [0, *[1] * (len(work.aims) - 1)][: len(work.aims)]
    if raced:
        assert f"| 4.00 × | ≥ {work.aims[raced[0].records, raced[0].contestant]} × | 4.00 × |" in table


def test_the_table_of_runs_that_stay_has_percentiles_beside_their_aims_and_what_rest_costs() -> None:
    late = [
        Run("staying", f"topic → file: {name}", 1, ms / 1000, 0.0, 0, 1) for name in ("ours", "connect-default") for ms in range(1, 101)
    ]
    table = staying_table([*late, Run("staying", "ours", 30, 60.0, 0.6, 250_000_000, 3)])
    assert "| topic → file | 1 | connect-default | 100 | 50.5 |  | 99.0 |  | 100.0 |" in table
    assert "| topic → file | 1 | ours | 100 | 50.5 | ≤ 10 | 99.0 | ≤ 50 | 100.0 |" in table
    assert "| ours | 30 | 3 | 1.0 | 250 | less than connect-default |" in table
