"""A sample of ``make chaos``: those who control connectors are killed, and after they are back nothing half-done is left."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.e2e.chaos.tally import Tally
from tests.e2e.control.killable import KillableAirflow
from tests.e2e.control.storm import DELETE, PATCH_SINK, PATCH_SOURCE, ControlStorm

pytestmark = pytest.mark.soak


@pytest.mark.timeout(600)
def test_nothing_half_done_stays(tmp_path: Path) -> None:
    seed = int(os.environ.get("SEED", "1"))
    chance, tally = random.Random(seed), Tally()
    acts = [chance.choice([PATCH_SOURCE, PATCH_SINK, DELETE]), chance.choice(["scheduler", "dag-processor"])]
    with KillableAirflow(tmp_path / "control") as airflow:
        ControlStorm(airflow, tally, chance, with_runs=False).run(acts)
    print(f"seed {seed}: {tally.report()}")
    assert tally.violations == []
    assert len(tally.kills) == len(acts)
