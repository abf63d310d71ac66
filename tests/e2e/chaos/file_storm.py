"""Runs between topics and files, object stores, lakes and logs: killed at steps of their commits, or frozen and woken up too late."""

from __future__ import annotations

import random
from pathlib import Path

from tests.conftest import worker_properties
from tests.e2e.chaos.deck import PROCESSES, Deck, StepDecks
from tests.e2e.chaos.tally import Kill, Tally
from tests.e2e.faults.file_environments import GUARANTEE, PairEnvironment
from tests.e2e.faults.pairs import Pairs
from tests.e2e.faults.process_runs import ProcessRuns
from tests.e2e.faults.runs import Fault, Runs, ending, frozen

KILLS_AN_ENVIRONMENT = 5
ADDED = 1_500
PROGRAMS = ["process"] * 9 + ["spark"]
LATEST_SECONDS = 0.3  # of a kill in the course of a step


class FileStorm:
    """Kills ``kills`` times, a few in each environment, with new records before each; one more run of each environment freezes, and goes on
    after a newer one. Nine of ten runs are processes of ``connect-run``, the others Spark's."""

    def __init__(self, folder: Path, bootstrap: str, tally: Tally, chance: random.Random, pairs: Pairs) -> None:
        folder.mkdir(parents=True)
        self._folder, self._bootstrap, self._tally, self._chance, self._pairs = folder, bootstrap, tally, chance, pairs
        self._kinds, self._programs = Deck(pairs.kinds(), chance), Deck(PROGRAMS, chance)
        self._victims = Deck(list(PROCESSES), chance)
        self._steps = StepDecks(chance, ("before", "after", "during"))
        self._frozen_steps = StepDecks(chance)

    def run(self, kills: int) -> None:
        done = number = 0
        while done < kills and not self._tally.is_over:
            number += 1
            kind, wanted = self._kinds.draw(), min(KILLS_AN_ENVIRONMENT, kills - done)
            name = f"{kind} environment {number}"
            try:
                self._environment(name, kind, wanted)
            except Exception as error:  # (an environment that cannot be played to its end is a violation too, and the others go on)
                self._tally.broken(f"{name}: {error!r}")
            done += wanted

    def _environment(self, name: str, kind: str, kills: int) -> None:
        environment = self._pairs.make(kind, self._folder, worker_properties(self._bootstrap, name.replace(" ", "-")))
        runs = ProcessRuns.of(environment.runs)
        for number in range(kills):
            if number:
                environment.add(ADDED)
            self._kill(environment, runs, kind)
            if self._tally.is_over:
                return
        environment.add(ADDED)
        self._wake(environment, runs, kind)
        environment.add(ADDED)
        environment.settle(runs)
        runs.until_done()
        self._tally.judged(name, GUARANTEE, environment.verdict())

    def _kill(self, environment: PairEnvironment, quick: Runs, kind: str) -> None:
        """One kill that strikes. A step that a run does not reach so often is tried at its first call, then another one."""
        is_quick = self._programs.draw() == "process"
        runs, victim = (quick, "worker") if is_quick else (environment.runs, self._victims.draw())
        while True:
            step, when, nth = self._steps.draw(kind, GUARANTEE)
            linger = self._chance.uniform(0, LATEST_SECONDS) if when == "during" else self._chance.choice([0.0, 0.5])
            for call in dict.fromkeys([nth, 1]):
                fault = Fault(step, when, call, victim=victim, linger=linger)
                submission = runs.submit(fault)
                result = submission.wait()
                if submission.struck:
                    shown = f"{when} {step.rpartition(':')[2]}, call {call}"
                    self._tally.killed(Kill("process" if is_quick else victim, kind, GUARANTEE, shown))
                    return
                self._tally.missed(f"{kind}: {fault}: {ending(result)[:300]}")
                environment.add(ADDED)

    def _wake(self, environment: PairEnvironment, runs: Runs, kind: str) -> None:
        """A run freezes at a step of its commit, and goes on when a newer one has ended."""
        while True:
            step, when, nth = self._frozen_steps.draw(kind, GUARANTEE)
            for call in dict.fromkeys([nth, 1]):
                fault = Fault(step, when, call, "SIGSTOP")
                with frozen(runs, fault, must_strike=False) as (zombie, wake):
                    if zombie.struck:
                        runs.until_done()
                        before = environment.seen()
                        wake()
                        text = f"{kind}: {fault}: {ending(zombie.wait())[:200]}"
                        self._tally.woken(text, has_written=environment.seen() != before)
                        return
                self._tally.missed(f"{kind}: {fault}")
                environment.add(ADDED)
