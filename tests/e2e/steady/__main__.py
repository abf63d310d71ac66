"""``make steady``: thirty connectors of thirteen classes in one shared application, records without end, and one trouble after the other.

The first half has each trouble once, the next quarter those that leave the driver alive, the last quarter none. Then the records of each
connector are counted. The growth of the application's processes since the first round is shown, and that in the calm is judged: in the
time before it, there are as many troubles as in months of real life. Exit code 1 if a guarantee was broken, a trouble had no effect, or a
process grows by an amount that matters over a day.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from subprocess import TimeoutExpired

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.spark.cache import cache_directory
from airflow_provider_connect.runtime.stores.backing import TopicBacking
from airflow_provider_connect.runtime.stores.config_cache import ConfigCache
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.worker.application.readiness import WORK, check_hosted, request_hosting
from tests.conftest import worker_properties
from tests.e2e.faults import shared_application
from tests.e2e.faults.environments import PLAIN
from tests.e2e.faults.runs import Submission
from tests.e2e.steady.growth import DAY_SECONDS, QUANTITIES, Growth, Quantity, Trend, table, usages
from tests.e2e.steady.members import Feeds, Member, TolerantSinkEnvironment, install_plugins, members
from tests.e2e.steady.troubles import HostedLauncher, SharedApplication, Troubles
from tests.waiting import HANG_SECONDS, wait_until

BEAT_SECONDS, SAMPLE_SECONDS, HOST_AGAIN_SECONDS = 3.0, 3.0, 10.0
ROUND_SECONDS = 900.0
START_SECONDS, END_SECONDS = 300.0, 480.0  # new partitions are found within five minutes
SETTINGS = {
    "transaction.boundary.poll.linger.ms": "0",
    "offset.flush.interval.ms": "5000",
    "status.update.interval.ms": "5000",
    "task.memory.max": "1g",
    "connections.max.idle.ms": "60000",
}
BROKER = {"connections.max.idle.ms": "45000"}  # idle connections are cut all the time
PROCESSES = Quantity("processes", 24.0, 3.0)


@dataclass(slots=True)
class Steady:
    """The run. ``most_troubles``: of the first round; None: all. ``violations``: what has gone wrong, in words."""

    seconds: float
    members: Sequence[Member]
    application: SharedApplication
    troubles: Troubles
    folder: Path
    most_troubles: int | None = None
    growth: Growth = field(default_factory=Growth)
    violations: list[str] = field(default_factory=list)
    _started: float = field(default_factory=time.monotonic)
    _beats: Iterator[int] = field(default_factory=count)
    _beat_at: float = 0.0
    _sample_at: float = 0.0
    _host_at: float = 0.0
    _is_measured: bool = False
    _failed: set[str] = field(default_factory=set)
    _calm_from: float = 0.0

    def notify(self, text: str) -> None:
        print(f"[{time.monotonic() - self._started:7.1f} s] {text}", flush=True)

    def run(self) -> None:
        """Steps: 1 all connectors deliver; 2 each trouble once; 3 troubles that leave the driver alive; 4 none; 5 the rest is delivered."""
        self.application.ensure()
        self._until(lambda: all(member.is_complete for member in self.members), START_SECONDS, "the first records")  # 1
        self.notify(f"{len(self.members)} connectors have delivered their first records")
        half = time.monotonic() + self.seconds / 2
        self._round(self.troubles.first_round()[: self.most_troubles], half)  # 2
        self._tick_until(half)
        self._is_measured = True
        calm = time.monotonic() + self.seconds / 4
        while time.monotonic() < calm:  # 3
            later = self.troubles.later_rounds()
            self.troubles.chance.shuffle(later)
            self._round(later, min(calm, time.monotonic() + ROUND_SECONDS), until=calm)
        self.notify("calm")
        self._calm_from = time.monotonic() - self._started
        self._tick_until(time.monotonic() + self.seconds / 4)  # 4
        self._is_measured = False
        self._until_delivered()  # 5
        self._check_states()

    def _round(self, troubles: Sequence[Callable[[], str]], end: float, *, until: float | None = None) -> None:
        """The troubles one after the other, spread over the time to ``end``. Those that are not begun ``until`` then are left out."""
        for number, trouble in enumerate(troubles):
            if until is not None and time.monotonic() >= until:
                return
            name = trouble.__name__.replace("_", " ")
            try:
                self.notify(f"{name}: {trouble()}")
            except (AssertionError, ConnectException) as error:
                self._broken(f"{name}: {error}")
            left = len(troubles) - number - 1
            self._tick_until(time.monotonic() + max(2 * BEAT_SECONDS, (end - time.monotonic()) / (left + 1)))

    def _tick_until(self, end: float) -> None:
        while time.monotonic() < end:
            self._tick()
            time.sleep(0.2)

    def _tick(self, *, beats: bool = True) -> None:
        """Records, a sample, and what Airflow does for an application and for FAILED connectors, each when it is due."""
        now = time.monotonic()
        if self.application.ensure():
            self._broken("the application has ended by itself")
        if beats and now >= self._beat_at:
            self._beat_at = now + BEAT_SECONDS
            number = next(self._beats)
            for member in self.members:
                member.beat(number)
        if now >= self._sample_at:
            self._sample_at = now + SAMPLE_SECONDS
            if self._is_measured:
                self.growth.note(now - self._started, usages(self.application.pid, time.time()))
        if now >= self._host_at:
            self._host_at = now + HOST_AGAIN_SECONDS
            self._host_failed()

    def _host_failed(self) -> None:
        """A connector that has FAILED is hosted again, as by the retry of its run in Airflow."""
        try:
            self._host_each_failed()
        except ConnectException as error:
            self.notify(f"states are unknown for now: {error.message}")

    def _host_each_failed(self) -> None:
        """Those that are FAILED as a whole, and were so at the last look."""
        before, self._failed = self._failed, set()
        for info, status in self.troubles.herder.listed():
            if status is None:
                continue
            states = [task.state for task in status.tasks]
            if status.connector.state != "FAILED" and set(states) != {"FAILED"}:
                continue
            self._failed.add(info.name)
            if info.name not in before:
                continue
            trace = next(filter(None, [status.connector.trace, *(task.trace for task in status.tasks)]), "")
            found = check_hosted(self.application.settings, info.name, ConfigCache(self.folder / "cache"))
            if found.state == WORK:
                self.notify(f"{info.name} is FAILED, and hosted again: {(trace.strip().splitlines() or [''])[-1]}")
                request_hosting(self.application.settings, info.name)

    def _until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Raises AssertionError."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds:g} s: {what}")
            self._tick(beats=False)
            time.sleep(0.5)

    def _until_delivered(self) -> None:
        left = list(self.members)

        def is_delivered() -> bool:
            left[:] = [member for member in left if not member.is_complete]
            return not left

        try:
            self._until(is_delivered, END_SECONDS, "all records")
        except AssertionError as error:
            self._broken(f"{error}: missing of {[member.name for member in left]}")

    def _check_states(self) -> None:
        states = Counter(task.state for _, status in self.troubles.herder.listed() if status is not None for task in status.tasks)
        self.notify(f"tasks: {dict(states)}")
        if set(states) != {"RUNNING"}:
            self._broken(f"tasks are {dict(states)} at the end")

    def judge(self) -> None:
        """Counts records, prints the tables, and adds what is wrong."""
        print(f"\n{'connector':30}{'kind':16}{'guarantee':15}{'sent':>9}{'lost':>7}{'doubled':>9}")
        for member in self.members:
            verdict = member.environment.verdict()
            print(f"{member.name:30}{member.kind:16}{member.guarantee:15}{verdict.sent:9}{verdict.lost:7}{verdict.doubled:9}")
            if not verdict.holds_for(member.guarantee):
                self.violations.append(f"{member.name}, {member.guarantee}: {verdict}")
            if isinstance(member.environment, TolerantSinkEnvironment) and len(set(member.environment.dead_letters())) < min(
                5, self.troubles.bad
            ):
                self.violations.append(f"{member.name}: bad records are missing from its dead letter queue")
        rows = self.growth.rows()
        print(f"\n{table(rows)}" if rows else "\nThe run was too short to measure growth")
        calm = self.growth.rows(self._calm_from)
        print(f"\ncalm:\n{table(calm)}" if calm else "\nThe calm was too short to measure growth")
        for row in calm:
            self.violations += row.grown()
        sums = self.growth.total(self._calm_from)
        for quantity, found in zip((PROCESSES, *QUANTITIES), sums, strict=True):
            if found is not None:
                print(f"all processes, calm: {found.last / quantity.unit:.0f} {quantity.name}, {_a_day(found, quantity)} a day")
        if sums[0] is not None and sums[0].counts_for(PROCESSES):
            self.violations.append("the number of processes grows")

    def _broken(self, text: str) -> None:
        self.violations.append(text)
        self.notify(f"VIOLATION: {text}")


def _a_day(found: Trend, quantity: Quantity) -> str:
    return f"{found.slope * DAY_SECONDS / quantity.unit:+.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make steady", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="without the start, and without the wait for the last records")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="the same seed, the same troubles")
    parser.add_argument("--troubles", type=int, help="only so many of the first round; default: all")
    parser.add_argument("--keep", type=Path, help="a new folder for all files, which stays")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"seed {arguments.seed}, {arguments.seconds:g} s", flush=True)
    with ExitStack() as stack:
        folder = arguments.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="steady-")))
        folder.mkdir(parents=True, exist_ok=True)
        steady = _steady(stack, folder, arguments)
        try:
            steady.run()
        except AssertionError as error:
            steady.violations.append(str(error))
        finally:
            _end(steady.application)
        steady.judge()
    print(f"\nseed {arguments.seed}; {steady.application.starts} drivers")
    print(
        "\n".join(f"VIOLATION: {violation}" for violation in steady.violations)
        or "no guarantee was broken, and no growth that was measured matters"
    )
    return 1 if steady.violations else 0


def _steady(stack: ExitStack, folder: Path, arguments: argparse.Namespace) -> Steady:
    """Starts the servers, and writes the configs of all members."""
    kafka = stack.enter_context(KafkaServer(folder / "kafka", cache_directory(), BROKER))
    database = stack.enter_context(PostgresServer()).url()
    feeds = stack.enter_context(Feeds().serving())
    given = worker_properties(kafka.bootstrap_servers, "steady") | {"plugin.path": str(install_plugins(folder))}
    properties = given | PLAIN | SETTINGS
    settings = WorkerSettings.of(properties)
    TopicBacking(settings).ensure()
    runs = folder / "runs"
    runs.mkdir()
    numbers = count(1)
    application = SharedApplication(lambda: _started(runs / f"driver-{next(numbers)}" / "try-1", properties), settings)
    stack.callback(application.end)
    store = stack.enter_context(ConfigStore(settings))
    herder = stack.enter_context(closing(Herder(settings, HostedLauncher(settings, application))))
    found = members(folder, given, database, feeds)
    for member in found:
        store.put_connector(member.name, {**member.config, "airflow.application": shared_application.NAME})
    troubles = Troubles(application, kafka, database, found, herder, store, random.Random(arguments.seed))
    return Steady(arguments.seconds, found, application, troubles, folder, arguments.troubles)


def _started(directory: Path, properties: dict[str, str]) -> Submission:
    directory.parent.mkdir()
    return shared_application.start(directory, properties, "process")


def _end(application: SharedApplication) -> None:
    """By SIGTERM, so that each task ends after its batch and commits."""
    if application.is_alive:
        with suppress(TimeoutExpired, ProcessLookupError, AssertionError):
            assert application.submission is not None
            wait_until((application.submission.directory / "driver.pid").exists)
            os.kill(application.pid, signal.SIGTERM)
            application.submission.process.wait(HANG_SECONDS)
    application.end()


if __name__ == "__main__":
    sys.exit(main())
