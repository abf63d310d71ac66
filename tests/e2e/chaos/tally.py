"""What a storm has done: kills by victim and guarantee, a verdict for each environment, and whether any guarantee was broken."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.e2e.faults.oracle import Verdict

RUN_VICTIMS = ("process", "driver", "worker", "jvm", "java", "broker connection", "backend", "killed backend")
VICTIMS = (*RUN_VICTIMS, "supervisor", "task", "scheduler", "dag-processor", "api-server")


@dataclass(frozen=True, slots=True)
class Kill:
    """What was struck: a process by SIGKILL, or a connection."""

    victim: str
    direction: str
    guarantee: str
    step: str


@dataclass(slots=True)
class Tally:
    """Filled by several threads; every entry is printed as it comes."""

    kills: list[Kill] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    environments: int = 0
    never_struck: int = 0
    zombies: int = 0
    is_over: bool = False
    _started: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    @contextmanager
    def calming(self) -> Iterator[None]:
        """Let the storms in other threads end after the kill that they are at, if the block is left by an exception."""
        try:
            yield
        except BaseException:
            self.is_over = True
            raise

    def notify(self, text: str) -> None:
        print(f"[{self.seconds:6.1f} s] {text}", flush=True)

    def killed(self, kill: Kill) -> None:
        with self._lock:
            self.kills.append(kill)
            self.notify(f"kill {len(self.kills):3}: {kill.victim} of {kill.direction}, {kill.guarantee}: {kill.step}")

    def woken(self, text: str, *, has_written: bool) -> None:
        """A frozen process went on after a newer run."""
        with self._lock:
            self.zombies += 1
            self.notify(f"zombie {self.zombies:3}: {text}")
        if has_written:
            self.broken(f"a zombie has written: {text}")

    def missed(self, text: str) -> None:
        """A fault whose step the run did not reach: not counted, and tried anew."""
        with self._lock:
            self.never_struck += 1
            self.notify(f"not struck: {text}")

    def judged(self, environment: str, guarantee: str, verdict: Verdict) -> None:
        with self._lock:
            self.environments += 1
            text = f"{environment}, {guarantee}: {verdict.sent} sent, {verdict.lost} lost, {verdict.doubled} doubled"
            self.notify(f"verdict: {text}")
            if not verdict.holds_for(guarantee):
                self.violations.append(text)

    def accounted(self, text: str, *, is_right: bool) -> None:
        """An environment that knows by itself whether it is as promised."""
        with self._lock:
            self.environments += 1
            self.notify(text if is_right else f"VIOLATION: {text}")
            if not is_right:
                self.violations.append(text)

    def broken(self, text: str) -> None:
        """Something other than the records went wrong: a run that never ended, or never reached its end."""
        with self._lock:
            self.violations.append(text)
            self.notify(f"VIOLATION: {text}")

    def report(self) -> str:
        """Counts of victims by guarantee, and what was broken."""
        counts = Counter((kill.victim, kill.guarantee) for kill in self.kills)
        guarantees = sorted({kill.guarantee for kill in self.kills})
        rows = [f"{'':18}" + "".join(f"{guarantee:>15}" for guarantee in guarantees) + f"{'all':>7}"]
        for victim in VICTIMS:
            cells = [counts[victim, guarantee] for guarantee in guarantees]
            rows.append(f"{victim:18}" + "".join(f"{cell:>15}" for cell in cells) + f"{sum(cells):>7}")
        steps = len({(kill.direction, kill.guarantee, kill.step) for kill in self.kills})
        where = f"at {steps} steps in {self.environments} environments"
        rows.append(f"{len(self.kills)} kills {where}, {self.seconds:.0f} s; {self.never_struck} not struck")
        if self.zombies:
            rows.append(f"{self.zombies} zombies")
        rows += [f"VIOLATION: {violation}" for violation in self.violations] or ["no guarantee was broken"]
        return "\n".join(rows)
