"""Environments whose runs a real Airflow schedules: the task's supervisor, the task process and the scheduler are killed."""

from __future__ import annotations

import random
import time

from tests.e2e.chaos.deck import FILES, Deck, StepDecks
from tests.e2e.chaos.tally import Kill, Tally
from tests.e2e.chaos.through_airflow import AirflowRuns
from tests.e2e.faults.environments import SinkEnvironment, SourceEnvironment
from tests.e2e.faults.runs import Fault

ADDED = 1_500
OVERLAP_SECONDS = 12.0  # so long a step takes after its scheduler was killed, that the next scheduler starts a second copy beside it
RunEnvironment = SourceEnvironment | SinkEnvironment


class AirflowStorm:
    """Kills ``kills`` times, one connector after another; all connectors are defined once."""

    def __init__(self, runs: AirflowRuns, tally: Tally, chance: random.Random) -> None:
        self._runs, self._tally, self._chance = runs, tally, chance
        self._steps = StepDecks(chance)
        self._victims = Deck(["supervisor", "task", "scheduler"], chance)
        self._lingers = Deck([0.0, OVERLAP_SECONDS], chance)

    def run(self, kills: int) -> None:
        groups = FILES[: min(len(FILES), kills)]
        environments = [self._make(*group) for group in groups]
        self._runs.define([environment.runs.config for environment in environments])
        for number, (environment, (kind, guarantee)) in enumerate(zip(environments, groups, strict=True)):
            share = kills // len(groups) + (number < kills % len(groups))
            name = f"{kind} environment through Airflow"
            try:
                for kill in range(share):
                    if kill:
                        environment.add(ADDED)
                    self._kill(environment, kind, guarantee)
                self._runs.until_success(environment.runs.connector)
                self._tally.judged(name, guarantee, environment.verdict())
            except Exception as error:  # (an environment that cannot be played to its end is a violation too, and the others go on)
                self._tally.broken(f"{name}, {guarantee}: {error!r}")

    def _make(self, kind: str, guarantee: str) -> RunEnvironment:
        make = SourceEnvironment.make if kind == "source" else SinkEnvironment.make
        return make(self._runs.stack.directory, self._runs.properties, guarantee)

    def _kill(self, environment: RunEnvironment, kind: str, guarantee: str) -> None:
        victim = self._victims.draw()
        linger = self._lingers.draw() if victim == "scheduler" else 0.0
        while True:
            step, when, nth = self._steps.draw(kind, guarantee)
            for call in dict.fromkeys([nth, 1]):
                fault = Fault(step, when, call, victim=victim, linger=linger)
                if self._strikes(environment, fault):
                    self._tally.killed(Kill(victim, kind, guarantee, f"{when} {step.rpartition(':')[2]}, call {call}"))
                    return
                self._tally.missed(f"{kind}, {guarantee}: {fault}")
                environment.add(ADDED)

    def _strikes(self, environment: RunEnvironment, fault: Fault) -> bool:
        """Whether the fault happened in a run; returns when Airflow has ended the run, with whatever result."""
        run = self._runs.start(environment.runs.connector, fault)
        if run.wait_until_struck() and fault.victim == "scheduler":
            time.sleep(0.5)
            self._runs.restart_scheduler()
        run.wait()
        return run.struck
