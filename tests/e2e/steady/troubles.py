"""Every kind of trouble, one method each, in the order of the first round. Each returns what was done, and raises AssertionError where it
had no effect."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import psutil

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.run import LEFT_FILE
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from tests.e2e.faults import shared_application
from tests.e2e.faults.connections import end_backends
from tests.e2e.faults.environments import SourceEnvironment
from tests.e2e.faults.runs import Submission
from tests.e2e.steady.growth import role_of
from tests.e2e.steady.members import (
    AT_LEAST_ONCE,
    Member,
    MovedSinkEnvironment,
    PartitionedSinkEnvironment,
    ReplacedFileEnvironment,
    RotatedLogEnvironment,
    ShelfEnvironment,
    TolerantSinkEnvironment,
)
from tests.kafka_topics import add_partitions
from tests.waiting import HANG_SECONDS, wait_until

_DOWN_SECONDS, _FROZEN_SECONDS, _PAUSED_SECONDS = 5.0, 15.0, 8.0
_Environment = TypeVar("_Environment")


@dataclass(slots=True)
class SharedApplication:
    """The application's driver, which is started again when it has ended, as Airflow does."""

    start: Callable[[], Submission]
    settings: WorkerSettings
    submission: Submission | None = None
    starts: int = 0

    @property
    def pid(self) -> int:
        assert self.submission is not None
        return self.submission.process.pid

    @property
    def is_alive(self) -> bool:
        return self.submission is not None and self.submission.process.poll() is None

    def ensure(self) -> bool:
        """Start a driver unless one runs. Returns whether one has ended."""
        if self.is_alive:
            return False
        has_ended = self.submission is not None
        self.starts += 1
        self.submission = self.start()
        return has_ended

    def hand_over(self) -> None:
        """Have the driver hand over, and start the next one once it offers its connectors. Raises AssertionError, TimeoutExpired."""
        assert self.submission is not None
        older = self.submission
        os.kill(older.driver_pid(), signal.SIGUSR1)
        wait_until((older.directory / LEFT_FILE).exists)
        self.starts += 1
        self.submission = self.start()
        assert older.process.wait(HANG_SECONDS) == 0

    def processes(self, role: str) -> list[psutil.Process]:
        found = []
        for process in psutil.Process(self.pid).children(recursive=True):
            try:
                if role_of(process.cmdline()) == role:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def end(self) -> None:
        if self.submission is not None:
            shared_application.kill(self.submission)


class HostedLauncher:
    """A herder's launcher for connectors of one application: as in Airflow, they run while it runs, and a stopped one has left it."""

    def __init__(self, settings: WorkerSettings, application: SharedApplication) -> None:
        self._configs, self._application = ConfigStore(settings), application

    def is_running(self, connector: str) -> bool:
        return self._application.is_alive and self._configs.read().target_state(connector) not in (None, TargetState.STOPPED)

    def running(self) -> Mapping[str, Sequence[str]]:
        return {}

    def end(self, connector: str) -> None:
        """The config topic has ended it."""

    def trigger(self, connector: str, tasks: Sequence[int] | None = None) -> None:
        """The application follows the config topic."""

    def obstacle(self, connector: str | None = None) -> str | None:
        return None

    def forget(self, connector: str) -> None:
        """It has no DAG."""


@dataclass(slots=True)
class Troubles:
    """``database``: SQLAlchemy's address of the members' PostgreSQL."""

    application: SharedApplication
    kafka: KafkaServer
    database: str
    members: Sequence[Member]
    herder: Herder
    store: ConfigStore
    chance: random.Random
    moves: int = 0
    joined: int = 0
    bad: int = 0
    partitions: int = 3

    def first_round(self) -> list[Callable[[], str]]:
        """Each trouble once. Those that need minutes to show come early."""
        return [
            self.a_topic_gets_partitions,
            self.a_shared_process_is_killed,
            self.the_driver_is_killed,
            self.the_driver_hands_over,
            self.a_task_hangs_with_the_interpreter,
            *self.later_rounds(),
        ]

    def later_rounds(self) -> list[Callable[[], str]]:
        """All that leave the driver alive, so that its growth is seen."""
        return [
            self.a_task_sleeps_and_is_restarted,
            self.a_task_expands,
            self.a_task_process_is_killed,
            self.the_broker_is_restarted,
            self.the_broker_freezes,
            self.database_backends_are_ended,
            self.the_database_restarts,
            self.a_connector_is_paused_and_resumed,
            self.a_connector_is_stopped_and_resumed,
            self.a_sink_gets_another_file,
            self.records_are_bad,
            self.logs_are_rotated,
            self.a_file_is_replaced,
            self.a_connector_is_restarted,
            self.a_task_is_restarted,
            self.a_connector_joins_and_leaves,
        ]

    # ── processes ──

    def a_shared_process_is_killed(self) -> str:
        return self._kill("shared process") or self._kill("task process") or _none("process of tasks")

    def a_task_process_is_killed(self) -> str:
        return self._kill("task process") or self._kill("shared process") or _none("process of a task")

    def _kill(self, role: str) -> str:
        found = self.application.processes(role)
        if not found:
            return ""
        victim = self.chance.choice(found)
        victim.kill()
        return f"{role} {victim.pid} killed"

    def the_driver_is_killed(self) -> str:
        pid = self.application.pid
        below = psutil.Process(pid).children(recursive=True)
        psutil.Process(pid).kill()
        assert self.application.submission is not None
        self.application.submission.process.wait(HANG_SECONDS)
        left = psutil.wait_procs(below, HANG_SECONDS)[1]
        assert left == [], f"processes outlive their driver: {left}"
        self.application.ensure()
        return f"driver {pid} killed with {len(below)} processes below it"

    def the_driver_hands_over(self) -> str:
        began = time.monotonic()
        self.application.hand_over()
        return f"the next driver has everything after {time.monotonic() - began:.1f} s"

    def a_task_hangs_with_the_interpreter(self) -> str:
        """A shared process is killed after a minute of silence; in a process of its own, a restart replaces the task."""
        member, shelf = self._of(ShelfEnvironment)
        self._order(shelf, "hang")
        return f"{member.name} hangs"

    def a_task_sleeps_and_is_restarted(self) -> str:
        member, shelf = self._of(ShelfEnvironment)
        self._order(shelf, "sleep")
        time.sleep(1)
        self.herder.restart_connector(member.name, include_tasks=True, only_failed=False)
        return f"{member.name} sleeps in put, and is restarted"

    def a_task_expands(self) -> str:
        member, shelf = self._of(ShelfEnvironment)
        self._order(shelf, "expand")
        return f"{member.name} exceeds task.memory.max"

    def _order(self, shelf: ShelfEnvironment, word: str) -> None:
        shelf.order(word)
        wait_until(lambda: not shelf.order_file.exists(), f"{shelf.runs.connector} takes the order to {word}")

    # ── servers ──

    def the_broker_is_restarted(self) -> str:
        self.kafka.kill()
        time.sleep(_DOWN_SECONDS)
        self.kafka.start()
        return f"broker killed, and started after {_DOWN_SECONDS:g} s"

    def the_broker_freezes(self) -> str:
        self.kafka.pause()
        time.sleep(_FROZEN_SECONDS)
        self.kafka.resume()
        return f"broker frozen for {_FROZEN_SECONDS:g} s"

    def database_backends_are_ended(self) -> str:
        return self._end_backends("SIGTERM", "backends terminated")

    def the_database_restarts(self) -> str:
        """One backend is killed, so that PostgreSQL ends all of them and recovers."""
        return self._end_backends("SIGKILL", "backend killed, PostgreSQL recovers")

    def _end_backends(self, sign: str, done: str) -> str:
        names = [member.name for member in self.members if member.kind.startswith("table")]
        self.chance.shuffle(names)
        deadline = time.monotonic() + HANG_SECONDS
        while time.monotonic() < deadline:
            for name in names:
                if end_backends(self.database, name, sign):
                    time.sleep(1)  # a database that recovers refuses connections from then on
                    return f"{name}: {done}"
            time.sleep(0.2)
        return _none("backend of a connector")

    # ── verbs ──

    def a_connector_is_paused_and_resumed(self) -> str:
        name = self._any().name
        self.herder.pause(name)
        self._until_state(name, "PAUSED")
        time.sleep(_PAUSED_SECONDS)
        self.herder.resume(name)
        self._until_state(name, "RUNNING")
        return f"{name} paused for {_PAUSED_SECONDS:g} s"

    def a_connector_is_stopped_and_resumed(self) -> str:
        name = self._any().name
        self.herder.stop(name)
        self._until_state(name, "STOPPED")
        self.herder.resume(name)
        self._until_state(name, "RUNNING")
        return f"{name} stopped and resumed"

    def a_sink_gets_another_file(self) -> str:
        member, sink = self._of(MovedSinkEnvironment)
        self.moves += 1
        changed = sink.move(self.moves)
        self.store.put_connector(member.name, {**self.store.read().connector_configs[member.name], **changed})
        self.store.claim(member.name)
        sink.add(20)
        file = changed["file"]
        wait_until(lambda: _has_lines(file), f"{member.name} writes to {file}")
        return f"{member.name} writes to its file number {self.moves + 1}"

    def a_connector_is_restarted(self) -> str:
        name = self._any().name
        self.herder.restart_connector(name, include_tasks=self.chance.random() < 0.5, only_failed=False)
        return f"{name} restarted"

    def a_task_is_restarted(self) -> str:
        name = self._any().name
        self.herder.restart_task(name, 0)
        return f"{name}, task 0 restarted"

    def a_connector_joins_and_leaves(self) -> str:
        """A file source, deleted when it has delivered."""
        member = next(member for member in self.members if isinstance(member.environment, SourceEnvironment))
        self.joined += 1
        guest = SourceEnvironment.make(member.environment.runs.folder, self.application.settings.originals, AT_LEAST_ONCE)
        name = guest.runs.connector
        self.store.put_connector(name, {**guest.runs.config, "airflow.application": shared_application.NAME})
        try:
            wait_until(lambda: guest.verdict().lost == 0, f"{name} delivers")
        finally:
            self.herder.delete_connector(name)
        return f"{name} joined, delivered and left"

    def _until_state(self, name: str, state: str) -> None:
        def reached() -> bool:
            found = self.herder.connector_status(name)
            return found.connector.state == state and all(task.state == state for task in found.tasks)

        wait_until(reached, f"{name} is {state}: {self._shown(name)}")

    def _shown(self, name: str) -> str:
        found = self.herder.connector_status(name)
        return f"{found.connector.state}, {[task.state for task in found.tasks]}"

    # ── data ──

    def a_topic_gets_partitions(self) -> str:
        """They are read when the connector is planned again, after five minutes at the latest."""
        _, sink = self._of(PartitionedSinkEnvironment)
        before, self.partitions = self.partitions, self.partitions + 2
        add_partitions(sink.bootstrap, sink.topic, self.partitions)
        sink.send_to(range(before, self.partitions), 100)
        return f"{sink.topic} has {self.partitions} partitions"

    def records_are_bad(self) -> str:
        _, sink = self._of(TolerantSinkEnvironment)
        sink.add_bad(5)
        self.bad += 5
        return f"{sink.topic} has {self.bad} bad records"

    def logs_are_rotated(self) -> str:
        logs = [member.environment for member in self.members if isinstance(member.environment, RotatedLogEnvironment)]
        for log in logs:
            log.rotate()
        return f"{len(logs)} logs rotated"

    def a_file_is_replaced(self) -> str:
        """When all of it is delivered and committed; else lines of the old file would be lost, as in any program that reads it."""
        member, source = self._of(ReplacedFileEnvironment)
        wait_until(lambda: source.verdict().lost == 0, f"{member.name} has delivered its file")
        time.sleep(2)
        source.replace()
        return f"{source.file.name} replaced by a shorter file"

    def _of(self, kind: type[_Environment]) -> tuple[Member, _Environment]:
        found = [(member, member.environment) for member in self.members if isinstance(member.environment, kind)]
        return self.chance.choice(found)

    def _any(self) -> Member:
        return self.chance.choice(self.members)


def _none(what: str) -> str:
    raise AssertionError(f"there is no {what}")


def _has_lines(file: str) -> bool:
    try:
        with open(file, "rb") as opened:
            return bool(opened.read(1))
    except FileNotFoundError:
        return False
