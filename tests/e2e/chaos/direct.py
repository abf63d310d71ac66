"""Environments whose runs are spark-submits of our own: driver, Python worker and JVM are killed, connections are lost."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from airflow_provider_connect.runtime.model.run import RunResult, RunState
from tests.conftest import worker_properties
from tests.e2e.chaos.deck import CONNECTIONS, PROCESSES, Deck, StepDecks
from tests.e2e.chaos.tally import Kill, Tally
from tests.e2e.faults.environments import MirrorEnvironment, SinkEnvironment, SourceEnvironment
from tests.e2e.faults.runs import Fault, ending
from tests.e2e.faults.table_environments import TableSinkEnvironment, TableSourceEnvironment

KILLS_AN_ENVIRONMENT = 4
ADDED = 1_500
RunEnvironment = MirrorEnvironment | SourceEnvironment | SinkEnvironment | TableSourceEnvironment | TableSinkEnvironment


class DirectStorm:
    """Kills ``kills`` times, a few in each environment, with new records before each. ``groups`` are kinds of environments with their
    guarantees; those with tables need ``database``, SQLAlchemy's address of a PostgreSQL, and lose connections too."""

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        tally: Tally,
        chance: random.Random,
        *,
        groups: Sequence[tuple[str, str]],
        database: str = "",
    ) -> None:
        folder.mkdir(parents=True)
        self._folder, self._bootstrap, self._tally, self._chance, self._database = folder, bootstrap, tally, chance, database
        self._groups = Deck(groups, chance)
        self._steps = StepDecks(chance)
        self._struck = PROCESSES | (CONNECTIONS if database else {})
        self._victims = Deck(list(self._struck), chance)

    def run(self, kills: int) -> None:
        done = number = 0
        while done < kills and not self._tally.is_over:
            number += 1
            kind, guarantee = self._groups.draw()
            wanted = min(KILLS_AN_ENVIRONMENT, kills - done)
            try:
                self._environment(f"{kind} environment {number}", kind, guarantee, wanted)
            except Exception as error:  # (an environment that cannot be played to its end is a violation too, and the others go on)
                self._tally.broken(f"{kind} environment {number}, {guarantee}: {error!r}")
            done += wanted

    def _environment(self, name: str, kind: str, guarantee: str, kills: int) -> None:
        environment = self._made(kind, worker_properties(self._bootstrap, name.replace(" ", "-")), guarantee)
        for number in range(kills):
            if number:
                environment.add(ADDED)
            self._kill(environment, kind, guarantee)
            if self._tally.is_over:
                return
        environment.runs.until_done()
        self._tally.judged(name, guarantee, environment.verdict())

    def _made(self, kind: str, settings: dict[str, str], guarantee: str) -> RunEnvironment:
        if kind == "mirror source":
            return MirrorEnvironment.make(self._folder, settings)
        if kind == "table source":
            return TableSourceEnvironment.make(self._folder, settings, self._database)
        if kind == "table sink":
            return TableSinkEnvironment.make(self._folder, settings, self._database)
        return (SourceEnvironment if kind == "source" else SinkEnvironment).make(self._folder, settings, guarantee)

    def _kill(self, environment: RunEnvironment, kind: str, guarantee: str) -> None:
        """One kill that strikes. A step that a run does not reach so often is tried at its first call, then another one."""
        name = self._victims.draw()
        victim, signal = self._struck[name]
        while True:
            step, when, nth = self._steps.draw(kind, guarantee)
            for call in dict.fromkeys([nth, 1]):
                fault = Fault(step, when, call, signal, victim, linger=self._chance.choice([0.0, 0.5]))
                submission = environment.runs.submit(fault)
                result = submission.wait()
                if submission.struck:
                    self._tally.killed(Kill(name, kind, guarantee, f"{when} {step.rpartition(':')[2]}, call {call}"))
                    if name in CONNECTIONS:
                        self._outlived(fault, result)
                    return
                self._tally.missed(f"{kind}, {guarantee}: {fault}")
                environment.add(ADDED)

    def _outlived(self, fault: Fault, result: RunResult | None) -> None:
        """A run that has lost a connection reaches its end, or fails and may be tried again."""
        self._tally.notify(f"the run was {ending(result)}")
        if result is None or (result.state is not RunState.DONE and not result.retriable):
            self._tally.broken(f"{fault}: the run was {ending(result)}")
