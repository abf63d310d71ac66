"""The short form of a storm of ``make chaos``: topics deleted in the middle of runs, and records of up to a mebibyte."""

import random
from pathlib import Path

import pytest

from tests.e2e.chaos.tally import Tally
from tests.e2e.chaos.topic_storm import TopicStorm

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("seed", [1])
def test_no_record_is_missing_behind_a_deletion_and_large_ones_arrive(bootstrap: str, tmp_path: Path, seed: int) -> None:
    tally = Tally()
    TopicStorm(tmp_path / "topics", bootstrap, tally, random.Random(seed)).run(deletions=4)
    assert tally.violations == []
    assert tally.environments == 4 * 2 + 2
