"""A log that is rotated in every way while runs read it and are killed: each line is on the topic once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.worker.delivery.commit_steps import SOURCE_STEPS
from tests.conftest import CHECKOUT
from tests.final_failures import expect_each_once
from tests.integration.herder.killed_change import KillPoint
from tests.integration.worker.environment import RunEnvironment, values_of
from tests.integration.worker.killed_run import run_and_kill

STEPS = SOURCE_STEPS["exactly_once"]
TIMEOUT_MS = 500
KILLS = int(os.environ.get("KILLS", "60"))


@pytest.mark.parametrize(
    "kills", [pytest.param(3, id="a sample", marks=pytest.mark.soak), pytest.param(KILLS, id="a storm", marks=pytest.mark.soak)]
)
def test_each_line_of_a_rotated_log_is_delivered_once(environment: RunEnvironment, unique: str, kills: int) -> None:
    seed = int(os.environ.get("SEED", "7"))
    chance = random.Random(seed)
    folder = environment.folder / "logs"
    folder.mkdir()
    config = log_source(environment, unique, folder)
    with writer(folder, seed) as writing:
        done = 0
        while done < kills:
            done += run_is_killed(environment, config, KillPoint(chance.choice(STEPS), "after", chance.randint(1, 3)))
            if chance.random() < 0.5:
                assert environment.run(config).state is RunState.DONE
        written = int(writing.communicate()[0])
    environment.run(config)
    time.sleep(2 * TIMEOUT_MS / 1000)
    assert environment.run(config).state is RunState.DONE
    found = Counter(int(value.split()[0]) for value in values_of(environment.bootstrap, unique))
    lost = [number for number in range(written) if number not in found]
    doubled = [number for number, count in found.items() if count > 1]
    print(f"seed {seed}: {written} lines, {done} kills, {environment.runs} runs, {len(lost)} lost, {len(doubled)} doubled")
    expect_each_once(found.elements(), range(written))


def log_source(environment: RunEnvironment, topic: str, folder: Path) -> dict[str, str]:
    environment.properties["transaction.boundary.poll.linger.ms"] = "0"
    return {
        "name": environment.connector,
        "connector.class": "LogSource",
        "paths": f"{folder}/*.log",
        "topic": topic,
        "batch.max.bytes": "8192",
        "line.timeout.ms": str(TIMEOUT_MS),
    }


def writer(folder: Path, seed: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.integration.logs.rotation", str(folder), str(seed)]
    return subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def run_is_killed(environment: RunEnvironment, config: dict[str, str], kill_point: KillPoint) -> bool:
    """False: the run ended before that step."""
    try:
        run_and_kill(environment, config, kill_point)
    except AssertionError:
        return False
    return True
