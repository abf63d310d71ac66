"""Java connectors in a shared application: their JVMs, the Python processes that host these, and drivers are killed at steps of commits and
at any time, while verbs, other tasks and other configs come."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import psutil

from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from tests.conftest import worker_properties
from tests.e2e.chaos.deck import Deck
from tests.e2e.chaos.shared_storm import ADDED, SharedStorm
from tests.e2e.chaos.shared_storm import Member as Connector
from tests.e2e.chaos.tally import Kill, Tally
from tests.e2e.faults import shared_application
from tests.e2e.faults.java_environments import FolderEnvironment, JavaMirrorEnvironment, JavaSinkEnvironment, java_plugin_path
from tests.e2e.faults.processes import descendants
from tests.e2e.faults.runs import Fault, Submission
from tests.waiting import HANG_SECONDS, wait_until

STRIKE_SECONDS = 45.0
LATEST_SECONDS = 6.0  # of a kill at any time
MOST_KILLS = 5  # at any time, of one application
ENGINES = ["process"] * 5 + ["spark"]
JVM = "connect-java"
CORES = 9  # of Spark: three tasks of the folder, two of the mirror, one of the sink, and some that end late
_RUNTIME = "airflow_provider_connect.runtime"
_SOURCE_STEPS = (
    "java:KafkaProducer.initTransactions",
    "java:AbstractWorkerSourceTask.sendRecords",
    "java:ExactlyOnceWorkerSourceTask.commitTransaction",
    "java:KafkaProducer.commitTransaction",
)
STEPS = {
    "folder source": _SOURCE_STEPS,
    "mirror source": _SOURCE_STEPS,
    "file sink": ("java:WorkerSinkTask.deliverMessages", "java:WorkerSinkTask.commitOffsets"),
}
"""Of the commits of a task, in its JVM."""
STARTS = {
    "worker": ("java.task.runner:JavaTaskRunner.take_over", "java.jvm.connect_worker:ConnectWorker.start_task"),
    "driver": ("java.task.staying_connector:StayingConnector.task_configs", "worker.application.planner:Planner._publish"),
}
"""Of plans, and of the starts of tasks, in Python."""


class JvmStorm(SharedStorm):
    """Kills ``kills`` times. See the module."""

    label = "java"

    def __init__(self, folder: Path, bootstrap: str, tally: Tally, chance: random.Random) -> None:
        plugins = str(java_plugin_path(folder))
        given = worker_properties(bootstrap, "jvm-storm")
        given |= {"plugin.path": plugins, "java.allowed.locations": plugins, "java.memory": "256m"}
        members = [
            Connector("folder source", "exactly_once", FolderEnvironment.make(folder, given)),
            Connector("mirror source", "exactly_once", JavaMirrorEnvironment.make(folder, given)),
            Connector("file sink", "at_least_once", JavaSinkEnvironment.make(folder, given)),
        ]
        super().__init__(folder, given, tally, chance, members, cores=CORES)
        self._engines = Deck(ENGINES, chance)
        victims = ("java", "java", "worker", "driver")
        self._steps_of = {kind: Deck([(step, each) for step in steps for each in victims], chance) for kind, steps in STEPS.items()}
        starts = [(step, when, victim) for victim, steps in STARTS.items() for step in steps for when in ("before", "after")]
        self._starts, self._at_any_time = Deck(starts, chance), Deck(["java", "java", "java", "worker", "driver"], chance)

    def _fault(self, member: Connector) -> Fault:
        if self._chance.random() < 0.3:
            step, when, victim = self._starts.draw()
            return Fault(f"{_RUNTIME}.{step}", when, self._chance.randint(1, 3), victim=victim)
        step, victim = self._steps_of[member.kind].draw()
        nth = 1 if "init" in step else self._chance.randint(1, 6)
        return Fault(step, "during", nth, victim=victim, linger=self._chance.choice([0.0, 0.3]))

    def _application(self, store: ConfigStore) -> int:
        """One application with a fault, and then with kills at any time. Returns the number of kills."""
        engine, member = self._engines.draw(), self._struck.draw()
        fault = self._fault(member)
        hands_over = self._chance.random() < 0.5
        seconds = self._chance.uniform(15.0, 40.0) if hands_over else 3600.0
        application = self._start(engine, fault, member.environment.runs.connector, seconds=seconds)
        try:
            kills = self._hand_over(application)
            if application.process.poll() is not None and kills:  # in its handover
                return kills
            kills += self._at_step(application, member, fault, engine)
            for _ in range(self._chance.randint(1, MOST_KILLS)):
                if application.process.poll() is None:
                    self._add()
                    self._verb(store)
                    time.sleep(self._chance.uniform(0.0, LATEST_SECONDS))
                    kills += self._strike(application, engine)
            if not hands_over and application.process.poll() is None and self._chance.random() < 0.7:
                self._lives_on(application, f"{engine}, {member.kind}: {fault}")
            if hands_over and application.process.poll() is None and self._has_left(application):
                self._older = application
            else:
                self._end(application, signal.SIGTERM)
            return kills
        finally:
            if application is not self._older:
                shared_application.kill(application)

    def _at_step(self, application: Submission, member: Connector, fault: Fault, engine: str) -> int:
        """Wait for the fault of the application. Returns the number of kills."""
        try:
            self._add()
            wait_until(lambda: application.struck or application.process.poll() is not None, within_seconds=STRIKE_SECONDS)
        except AssertionError:
            self._tally.missed(f"{engine}, {member.kind}: {fault}")
        if application.struck:
            step = f"{engine}: {fault.when} {fault.step.rpartition(':')[2]}"
            self._tally.killed(Kill(fault.victim, f"java {member.kind}", member.guarantee, step))
            return 1
        if application.process.poll() is not None:
            self._tally.broken(f"{engine}, {member.kind}: {fault}: the application has ended\n{application.output()[-2000:]}")
        return 0

    def _add(self) -> None:
        for member in self._members:
            member.environment.add(ADDED)

    def _verb(self, store: ConfigStore) -> None:
        """A restart, a pause and a resume, or another config of any connector; or nothing."""
        act, runs = self._chance.choice(["none", "claim", "pause", "config"]), self._chance.choice(self._members).environment.runs
        if act == "pause":
            store.put_target_state(runs.connector, TargetState.PAUSED)
            time.sleep(self._chance.choice([0.0, 2.0]))
            store.put_target_state(runs.connector, TargetState.STARTED)
        if act == "config":
            config = store.read().connector_config(runs.connector) or {}
            store.put_connector(runs.connector, {**config, "errors.log.enable": str(config.get("errors.log.enable") != "true").lower()})
        if act != "none":
            store.claim(runs.connector)

    def _strike(self, application: Submission, engine: str) -> int:
        """Kill a JVM of a connector or task, its host, or the driver. Returns the number of kills."""
        victim = self._at_any_time.draw()
        jvms = [process for process in descendants(application.process) if JVM in _command_line(process)]
        found = {"java": jvms, "worker": [host for jvm in jvms if (host := _parent(jvm)) is not None]}.get(victim, [])
        driver = application.driver_pid()
        found = [process for process in found if process.pid != driver]
        if victim == "driver" and psutil.pid_exists(driver):  # a fault may have ended it
            found = [psutil.Process(driver)]
        if not found:
            return 0
        process, sign = self._chance.choice(found), self._chance.choice([signal.SIGKILL] * 3 + [signal.SIGTERM])
        of = "connector" if _parent_pid(process) == driver and victim == "java" else "task"
        try:
            process.send_signal(sign if victim == "java" else signal.SIGKILL)
        except psutil.NoSuchProcess:
            return 0
        if victim == "driver":
            application.process.wait(HANG_SECONDS)
        self._tally.killed(Kill(victim, f"java {'any' if victim == 'driver' else of}", "any", f"{engine}: at any time"))
        return 1


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _parent(process: psutil.Process) -> psutil.Process | None:
    try:
        return process.parent()
    except psutil.Error:
        return None


def _parent_pid(process: psutil.Process) -> int | None:
    parent = _parent(process)
    return None if parent is None else parent.pid
