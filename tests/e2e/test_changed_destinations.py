"""The short form of a storm of ``make chaos``: destinations that others change between runs of their sinks."""

import random
from pathlib import Path

import pytest

from tests.e2e.chaos.destination_storm import DestinationStorm
from tests.e2e.chaos.tally import Tally
from tests.final_failures import LostRecords

pytestmark = pytest.mark.soak
ROUNDS = 30  # some with each kind of destination


@pytest.mark.parametrize("seed", [1])
def test_nothing_is_lost_or_doubled_by_changes_of_others(bootstrap: str, tmp_path: Path, seed: int) -> None:
    tally = Tally()
    DestinationStorm(tmp_path / "runs", bootstrap, tally, random.Random(seed)).run(ROUNDS)
    if tally.violations:
        raise LostRecords(tally.violations)
    assert tally.environments == ROUNDS
