"""Connectors of every guarantee in one shared application, whose processes are killed at steps of their commits while verbs come."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired

from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.run import LEFT_FILE
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.stores.backing import TopicBacking
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from tests.e2e.chaos.deck import PROCESSES, Deck, StepDecks
from tests.e2e.chaos.tally import Kill, Tally
from tests.e2e.faults import shared_application
from tests.e2e.faults.environments import PLAIN, SinkEnvironment, SourceEnvironment
from tests.e2e.faults.java_environments import JavaEnvironment
from tests.e2e.faults.runs import Fault, Submission
from tests.e2e.faults.steps import STEPS
from tests.e2e.faults.table_environments import TableSinkEnvironment, TableSourceEnvironment
from tests.waiting import HANG_SECONDS, wait_until

ADDED = 500
PARTITIONS = 3  # of the sinks' topics
STRIKE_SECONDS = 60.0
HANDOVER_SECONDS = 8.0
ENGINES = ["process"] * 4 + ["spark"]
QUICK = {"transaction.boundary.poll.linger.ms": "0", "offset.flush.interval.ms": "0"}
Environment = SourceEnvironment | SinkEnvironment | TableSourceEnvironment | TableSinkEnvironment | JavaEnvironment


@dataclass(frozen=True, slots=True)
class Member:
    kind: str
    guarantee: str
    environment: Environment

    @property
    def is_complete(self) -> bool:
        """Whether all records have arrived; at most once, whether the last record of each partition has."""
        if self.guarantee == "at_most_once" and isinstance(self.environment, SourceEnvironment | SinkEnvironment):
            return set(self.environment.sent[-PARTITIONS:]) <= set(self.environment.arrived())
        return self.environment.verdict().lost == 0


def members_of_every_guarantee(folder: Path, given: Mapping[str, str], database: str) -> list[Member]:
    """Connectors of Python. ``database``: SQLAlchemy's address of a PostgreSQL."""
    return [
        *(Member("source", each, SourceEnvironment.make(folder, given, each)) for each in STEPS["source"]),
        *(Member("sink", each, SinkEnvironment.make(folder, given, each)) for each in STEPS["sink"]),
        Member("table source", "exactly_once", TableSourceEnvironment.make(folder, given, database)),
        Member("table sink", "exactly_once", TableSinkEnvironment.make(folder, given, database)),
    ]


class SharedStorm:
    """Kills ``kills`` times: the driver, the process of a task, or Spark's JVM. Between two applications a quarter of the drivers is killed
    too, at any time; half of the others hand their connectors over to the next application, and many of these, or of their successors, are
    killed meanwhile. ``properties`` are the worker's, ``members`` the connectors."""

    label = "shared"

    def __init__(
        self, folder: Path, properties: Mapping[str, str], tally: Tally, chance: random.Random, members: Sequence[Member], *, cores: int = 0
    ) -> None:
        self._folder, self._tally, self._chance = folder, tally, chance
        self._properties = {**properties, **PLAIN, **QUICK}
        self._settings = WorkerSettings.of(self._properties)
        self._members = list(members)
        self._cores = cores or len(self._members) + 2
        self._struck, self._engines = Deck(self._members, chance), Deck(ENGINES, chance)
        self._victims, self._steps = Deck(["worker", "worker", "driver", "jvm"], chance), StepDecks(chance)
        self._applications = 0
        self._older: Submission | None = None  # hands its connectors over

    def run(self, kills: int) -> None:
        TopicBacking(self._settings).ensure()
        with ConfigStore(self._settings, timeout_seconds=HANG_SECONDS) as store:
            for member in self._members:
                runs = member.environment.runs
                store.put_connector(runs.connector, {**runs.config, "airflow.application": shared_application.NAME})
            done = 0
            while done < kills and not self._tally.is_over:
                done += self._application(store)
        last = self._start("process", None)
        try:
            self._hand_over(last)
            for member in self._members:
                member.environment.add(ADDED)
            for member in self._members:
                with suppress(AssertionError):
                    wait_until(lambda: member.is_complete)  # noqa: B023
        finally:
            self._end(last, signal.SIGTERM)
        for member in self._members:
            self._tally.judged(f"{self.label} {member.kind}", member.guarantee, member.environment.verdict())

    def _start(self, engine: str, fault: Fault | None, struck: str = "", *, seconds: float = 3600.0) -> Submission:
        self._applications += 1
        directory = self._folder / f"application-{self._applications}" / "try-1"
        directory.parent.mkdir()
        return shared_application.start(directory, self._properties, engine, fault, cores=self._cores, struck=struck, seconds=seconds)

    def _hand_over(self, newer: Submission) -> int:
        """Wait until the application before ``newer`` has handed its connectors over, or kill one of both meanwhile. Returns the number of
        kills."""
        older, self._older = self._older, None
        if older is None:
            return 0
        victim = self._chance.choice([None, older, newer])
        if victim is not None:
            time.sleep(self._chance.uniform(0.0, HANDOVER_SECONDS))
            if victim.process.poll() is None:
                self._tally.killed(Kill("driver", "shared", "any", f"handover: the {'older' if victim is older else 'newer'}"))
                self._end(victim, signal.SIGKILL)
                self._end(older, signal.SIGTERM)
                return 1
        with suppress(TimeoutExpired):
            older.process.wait(STRIKE_SECONDS)
        if older.process.poll() is None:
            self._tally.broken(f"application {newer.directory.parent.name} has not taken over")
            self._end(older, signal.SIGTERM)
        return 0

    def _application(self, store: ConfigStore) -> int:
        """One application with a fault. Returns the number of kills."""
        engine, victim, member = self._engines.draw(), self._victims.draw(), self._struck.draw()
        victim = "driver" if victim == "jvm" and engine == "process" else victim
        step, when, nth = self._steps.draw(member.kind, member.guarantee)
        fault = Fault(step, when, nth, PROCESSES[victim][1], victim, linger=self._chance.choice([0.0, 0.3]))
        hands_over = self._chance.random() < 0.5
        application = self._start(engine, fault, seconds=self._chance.uniform(5.0, 20.0) if hands_over else 3600.0)
        kills = self._hand_over(application)
        if application.process.poll() is not None and kills:  # in its handover
            return kills
        shown = f"{engine}, {member.kind}, {member.guarantee}: {fault}"
        try:
            for one in self._members:
                one.environment.add(ADDED)
            self._verb(store)
            wait_until(lambda: application.struck or application.process.poll() is not None, within_seconds=STRIKE_SECONDS)
        except AssertionError:
            self._tally.missed(shown)
        kills += int(application.struck)
        if application.struck:
            self._tally.killed(Kill(victim, f"shared {member.kind}", member.guarantee, f"{engine}: {when} {step.rpartition(':')[2]}"))
        elif application.process.poll() is not None:
            self._tally.broken(f"{shown}: the application has ended\n{application.output()[-2000:]}")
        if victim == "worker" and not hands_over and application.process.poll() is None and self._chance.random() < 0.5:
            self._lives_on(application, shown)
        if application.process.poll() is None and self._chance.random() < 0.25:
            self._tally.killed(Kill("driver", "shared", "any", f"{engine}: at any time"))
            kills += 1
            self._end(application, signal.SIGKILL)
        elif hands_over and self._has_left(application):
            self._older = application
        else:
            self._end(application, signal.SIGTERM)
        return kills

    def _has_left(self, application: Submission) -> bool:
        """Wait until the application offers its connectors. False: it has ended."""
        try:
            wait_until(
                lambda: (application.directory / LEFT_FILE).exists() or application.process.poll() is not None,
                within_seconds=STRIKE_SECONDS,
            )
        except AssertionError:
            self._tally.broken(f"{application.directory.parent.name} offers nothing\n{application.output()[-2000:]}")
        return application.process.poll() is None

    def _lives_on(self, application: Submission, shown: str) -> None:
        """The application that has lost a process delivers everything; at most once, what comes after the loss."""
        for member in self._members:
            if member.guarantee == "at_most_once":
                member.environment.add(PARTITIONS)
            try:
                wait_until(lambda: member.is_complete)  # noqa: B023
            except AssertionError:
                self._tally.broken(f"{shown}: {member.kind}, {member.guarantee} is not complete\n{application.output()[-4000:]}")

    def _verb(self, store: ConfigStore) -> None:
        """A claim as of a new config, or a pause and a resume, of any connector; or nothing."""
        act, name = self._chance.choice(["none", "claim", "pause"]), self._chance.choice(self._members).environment.runs.connector
        if act == "pause":
            store.put_target_state(name, TargetState.PAUSED)
            store.put_target_state(name, TargetState.STARTED)
        if act != "none":
            store.claim(name)

    def _end(self, application: Submission, sign: signal.Signals) -> None:
        """End the application's driver: by SIGTERM at the end of its batches, or by SIGKILL."""
        with suppress(AssertionError, ProcessLookupError, TimeoutExpired):
            if application.process.poll() is None:
                wait_until((application.directory / "driver.pid").exists)
                os.kill(application.driver_pid(), sign)
                application.process.wait(HANG_SECONDS)
        shared_application.kill(application)
