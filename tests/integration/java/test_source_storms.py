"""Storms over the runs of Java sources: each run is killed at a random time, process or JVM, or stopped while the next one takes over and
then let go. In the end each record is there once, in order.

``SEED`` repeats the times of a storm, though not what the runs have done by then.
"""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.integration.java.conftest import JavaRuns
from tests.integration.java.processes import jvm_of
from tests.integration.java.test_debezium import Orders, orders
from tests.integration.java.test_mirror_maker import Mirror, mirror_plugins, origin
from tests.kafka_topics import create_topic
from tests.waiting import wait_until

__all__ = ["mirror_plugins", "orders", "origin"]
LONGEST_SECONDS = 2.5
"""From the start of a run's JVM to the strike: a run without much to do takes some three seconds."""
TRIES = 4
"""Runs for each strike: one may have ended before."""

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1500)]


@dataclass(slots=True)
class Storm:
    """``add`` makes some records; ``config`` is the source's that reads them."""

    runs: JavaRuns
    config: Path
    add: Callable[[], None]
    chance: random.Random = field(default_factory=lambda: random.Random(os.environ.get("SEED", "1")))

    def rage(self, *, kills: int, zombies: int) -> None:
        """So many of each, in a random order, and a run that is let alone."""
        left = ["run", "jvm"] * (kills // 2) + ["stop"] * zombies
        self.chance.shuffle(left)
        tries = TRIES * len(left)
        while left:
            tries -= 1
            assert tries, f"runs end before they are struck; {len(left)} strikes are left"
            self.add()
            if self._strike(left[-1]):
                left.pop()
        code, output = self.runs.run(self.config)
        assert code == 0, output

    def _strike(self, what: str) -> bool:
        process = self.runs.start(self.config)
        wait_until(lambda: jvm_of(process) is not None or process.poll() is not None)
        time.sleep(self.chance.uniform(0.0, LONGEST_SECONDS))
        jvm = jvm_of(process)
        if jvm is None or process.poll() is not None:
            self.runs.ended(process)
            return False
        if what == "stop":
            self._outlived(process, jvm)
        else:
            (jvm if what == "jvm" else process).kill()
            self.runs.ended(process)
        return True

    def _outlived(self, zombie: "subprocess.Popen[str]", jvm: psutil.Process) -> None:
        """The next run takes over from one that is stopped, which goes on afterwards and may write nothing."""
        for pid in (jvm.pid, zombie.pid):
            os.kill(pid, signal.SIGSTOP)
        try:
            code, output = self.runs.run(self.config)
        finally:
            for pid in (zombie.pid, jvm.pid):
                os.kill(pid, signal.SIGCONT)
        assert code == 0, output
        self.runs.ended(zombie)


def test_lines_of_a_file_come_once(java_runs: JavaRuns, unique: str) -> None:
    java_runs.make_topic(unique)
    lines: list[str] = []

    def add() -> None:
        new = [f"line {number}" for number in range(len(lines), len(lines) + 20_000)]
        with java_runs.input.open("a") as file:
            file.writelines(f"{line}\n" for line in new)
        lines.extend(new)

    Storm(java_runs, java_runs.source(unique, unique, batch_size="100"), add).rage(kills=24, zombies=3)
    assert java_runs.records(unique) == lines
    assert java_runs.offset(unique) == {"position": sum(len(line) + 1 for line in lines)}


def test_records_of_another_cluster_come_once(java_runs: JavaRuns, mirror_plugins: Path, origin: str, unique: str) -> None:
    java_runs.use(mirror_plugins, memory="256m")
    create_topic(origin, unique, 1)
    mirror, count = Mirror(java_runs, origin, unique), 0

    def add() -> None:
        nonlocal count
        mirror.write(count, count + 10_000)
        count += 10_000

    Storm(java_runs, mirror.config("Source", source_consumer_max_poll_records="100"), add).rage(kills=20, zombies=3)
    assert mirror.copied() == [*range(count)]


def test_changes_of_a_table_come_once(orders: Orders) -> None:
    """Its first run, which takes the snapshot, is let alone: a snapshot that is killed begins again, and its rows come twice."""
    config, count = orders.config(max_batch_size="100", max_queue_size="200"), 1
    orders.execute("INSERT INTO {orders} VALUES (1, 'new')")
    code, output = orders.runs.run(config)
    assert code == 0, output

    def add() -> None:
        nonlocal count
        first, count = count + 1, count + 1000
        orders.execute(
            "DO $$ BEGIN FOR n IN 0..99 LOOP INSERT INTO {orders} "
            f"SELECT {first} + 10 * n + m, 'new' FROM generate_series(0, 9) m; COMMIT; END LOOP; END $$"
        )

    Storm(orders.runs, config, add).rage(kills=18, zombies=2)
    assert orders.changes() == [("r", 1), *(("c", number) for number in range(2, count + 1))]
