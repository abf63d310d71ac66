"""Tables that eight connections write to while runs bring them into other tables, one mode after another; of the runs some are killed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.model.run import RunResult, RunState
from tests.conftest import worker_properties
from tests.e2e.chaos.deck import StepDecks
from tests.e2e.chaos.tally import Kill, Tally
from tests.e2e.faults.runs import Fault, Runs
from tests.e2e.writers.modes import MODES, Mode
from tests.e2e.writers.scene import WriterScene

KILLED_SHARE = 0.3
VICTIMS = ("worker", "driver", "jvm")
SETTINGS = {"transaction.boundary.poll.linger.ms": "0", "offset.flush.interval.ms": "0"}  # many commits


class WriterStorm:
    """``seconds`` for all modes together, in equal parts."""

    def __init__(self, folder: Path, bootstrap: str, postgres: PostgresServer, tally: Tally, seed: int) -> None:
        folder.mkdir(parents=True)
        self._folder, self._bootstrap, self._postgres, self._tally, self._seed = folder, bootstrap, postgres, tally, seed

    def run(self, seconds: float) -> None:
        for number, mode in enumerate(MODES):
            if self._tally.is_over:
                return
            try:
                self._mode(mode, seconds / len(MODES), self._seed + number)
            except Exception as error:  # (a scene that cannot be played to its end is a violation too, and the others go on)
                self._tally.broken(f"writers, {mode.name}: {error!r}")

    def _mode(self, mode: Mode, seconds: float, seed: int) -> None:
        settings = worker_properties(self._bootstrap, f"writers-{seed}") | SETTINGS

        def make(config: Mapping[str, str]) -> KilledRuns:
            chance = random.Random(f"{seed}/{config['connector.class']}")
            return KilledRuns(Runs(self._folder, config["name"], settings, config), mode, self._tally, chance)

        account = WriterScene(mode, settings, self._postgres, make).live_through(seconds, seed)
        self._tally.accounted(f"writers, seed {seed}, {account}", is_right=not account.problems)


class KilledRuns:
    """Runs of Spark, some of which die at a step of a commit that chance has chosen, if they come to it."""

    def __init__(self, runs: Runs, mode: Mode, tally: Tally, chance: random.Random) -> None:
        self._runs, self._tally, self._chance = runs, tally, chance
        self._guarantee = runs.config["delivery.guarantee"]
        self._direction = "table sink" if runs.config["connector.class"] == "JdbcSink" else "table source"
        self._kind = self._direction if mode.is_exactly_once or self._direction == "table sink" else "source"  # whose steps there are
        self._steps = StepDecks(chance)
        self._was_killed = False

    def goes_by(self) -> None:
        if self._chance.random() >= KILLED_SHARE:
            self.ends_well()
            return
        step, when, nth = self._steps.draw(self._kind, self._guarantee)
        fault = Fault(step, when, nth, victim=self._chance.choice(VICTIMS), linger=self._chance.choice([0.0, 0.5]))
        submission = self._runs.submit(fault)
        result = submission.wait()
        self._was_killed = submission.struck
        if submission.struck:
            self._tally.killed(Kill(fault.victim, self._direction, self._guarantee, f"{when} {step.rpartition(':')[2]}, call {nth}"))
        elif result is None or result.state is not RunState.DONE:
            self._tally.broken(f"{self._runs.connector} failed by itself: {result}\n{submission.output()[-2000:]}")

    def ends_well(self) -> RunResult:
        """Only the first run after a kill may have to be tried again."""
        before, was_killed, self._was_killed = self._runs.count, self._was_killed, False
        result = self._runs.until_done()
        if self._runs.count > before + 1 and not was_killed:
            self._tally.broken(f"{self._runs.connector} came to its end at try {self._runs.count - before} only")
        return result
