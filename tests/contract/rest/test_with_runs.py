"""A sample of the recorded sessions against the whole product, with real runs. ``make contract`` replays all of them.

The sample is chosen by a seed, which is printed; ``CONNECT_SEED`` repeats one.
"""

import os
import random
import time
from pathlib import Path

import pytest

from tests.contract.rest.__main__ import PATIENCE
from tests.contract.rest.replay import replay
from tests.contract.rest.scenarios import scenarios
from tests.contract.rest.stacks import product
from tests.contract.rest.to_come import IN_AIRFLOW_ONLY, TO_COME, unexpected

BUDGET_SECONDS = 90.0


@pytest.mark.timeout(900)
def test_a_sample_of_sessions_is_as_with_kafka_connect(tmp_path: Path) -> None:
    """As many as begin within the budget, one at least."""
    seed = int(os.environ.get("CONNECT_SEED") or random.SystemRandom().randrange(1_000_000))
    print(f"CONNECT_SEED={seed}")
    late = {scenario for scenario, _ in TO_COME}
    sample = [one for one in scenarios() if one.profile == "default" and one.needs_runs and one.name not in late]
    random.Random(seed).shuffle(sample)
    wrong, replayed = [], 0
    with product("default", tmp_path, Path(os.environ["AIRFLOW_PROVIDER_CONNECT_CACHE"])) as server:
        until = time.monotonic() + BUDGET_SECONDS
        for scenario in sample:
            outcomes = list(replay(scenario, server, patience=PATIENCE))
            wrong += unexpected(outcomes, TO_COME, IN_AIRFLOW_ONLY)
            replayed += len(outcomes)
            print(f"{scenario.name}: {len(outcomes)} steps")
            if time.monotonic() > until:
                break
    assert wrong == [], f"CONNECT_SEED={seed}"
    assert replayed > 0
