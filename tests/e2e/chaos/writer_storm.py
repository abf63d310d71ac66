"""Tables that eight connections write to while runs bring them into others, one mode after another; some of the runs are struck."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg2

from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.runtime.model.run import RunResult, RunState
from tests.conftest import worker_properties
from tests.e2e.chaos.deck import PROCESSES, StepDecks
from tests.e2e.chaos.tally import Kill, Tally
from tests.e2e.faults.connections import backends
from tests.e2e.faults.runs import Fault, Runs, Submission, ending
from tests.e2e.writers.environment import WriterEnvironment
from tests.e2e.writers.modes import MODES, Mode

STRUCK_SHARE = 0.4
BACKEND = "backend"
POLL_SECONDS = 0.02
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
            except Exception as error:  # (an environment that cannot be played to its end is a violation too, and the others go on)
                self._tally.broken(f"writers, {mode.name}: {error!r}")

    def _mode(self, mode: Mode, seconds: float, seed: int) -> None:
        settings = worker_properties(self._bootstrap, f"writers-{seed}") | SETTINGS

        def make(config: Mapping[str, str]) -> StruckRuns:
            chance = random.Random(f"{seed}/{config['connector.class']}")
            return StruckRuns(Runs(self._folder, config["name"], settings, config), mode, self._postgres.uri(), self._tally, chance)

        account = WriterEnvironment(mode, settings, self._postgres, make).live_through(seconds, seed)
        self._tally.accounted(f"writers, seed {seed}, {account}", is_right=not account.problems)


class StruckRuns:
    """Runs of Spark. Of some a process dies at a step of a commit that chance has chosen, if they reach it; of some the database ends a
    connection."""

    def __init__(self, runs: Runs, mode: Mode, database: str, tally: Tally, chance: random.Random) -> None:
        """``database`` is libpq's address, of a user who may end others' connections."""
        self._runs, self._database, self._tally, self._chance = runs, database, tally, chance
        self._guarantee = runs.config["delivery.guarantee"]
        self._direction = "table sink" if runs.config["connector.class"] == "JdbcSink" else "table source"
        self._kind = self._direction if mode.is_exactly_once or self._direction == "table sink" else "source"  # whose steps there are
        self._steps = StepDecks(chance)
        self._was_struck = False

    def run_once(self) -> None:
        if self._chance.random() >= STRUCK_SHARE:
            self.ends_well()
            return
        victim = self._chance.choice([*PROCESSES, BACKEND])
        (self._lose_connection if victim == BACKEND else partial(self._lose_process, victim))()

    def ends_well(self) -> RunResult:
        """Only the first run after one that was struck may have to be tried again."""
        before, was_struck, self._was_struck = self._runs.count, self._was_struck, False
        result = self._runs.until_done()
        if self._runs.count > before + 1 and not was_struck:
            self._tally.broken(f"{self._runs.connector} reached its end at try {self._runs.count - before} only")
        return result

    def _lose_process(self, victim: str) -> None:
        step, when, nth = self._steps.draw(self._kind, self._guarantee)
        submission = self._runs.submit(Fault(step, when, nth, victim=victim, linger=self._chance.choice([0.0, 0.5])))
        result = submission.wait()
        if submission.struck:
            self._struck(victim, f"{when} {step.rpartition(':')[2]}, call {nth}")
        elif result is None or result.state is not RunState.DONE:
            self._failed(submission, result)

    def _lose_connection(self) -> None:
        """What has offsets goes on by another connection; all else is tried again."""
        submission = self._runs.submit()
        is_lost = self._end_connection(submission, self._chance.uniform(0, 1))
        result = submission.wait()
        if is_lost:
            self._struck(BACKEND, f"the run was {ending(result)}")
        if result is None or (result.state is not RunState.DONE and not (is_lost and result.retriable)):
            self._failed(submission, result)

    def _end_connection(self, submission: Submission, after_seconds: float) -> bool:
        """End a connection that the run has so long after its first; False: it had none then."""
        begun = None
        with closing(psycopg2.connect(self._database)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            while submission.process.poll() is None:
                for pid in backends(connection, self._runs.connector)[:1]:
                    begun = begun or time.monotonic()
                    if time.monotonic() > begun + after_seconds:
                        cursor.execute("SELECT pg_terminate_backend(%s)", (pid,))
                        if cursor.fetchone() == (True,):
                            return True
                time.sleep(POLL_SECONDS)
        return False

    def _struck(self, victim: str, text: str) -> None:
        self._was_struck = True
        self._tally.killed(Kill(victim, self._direction, self._guarantee, text))

    def _failed(self, submission: Submission, result: RunResult | None) -> None:
        error = None if result is None else result.error
        self._tally.broken(f"{self._runs.connector} failed by itself: {error}\n{submission.output()[-2000:]}")
