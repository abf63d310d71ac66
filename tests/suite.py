"""All that CI runs after set-up: ``python -m tests.suite``, with arguments for pytest. Tests that failed run once more, alone.

A test that is seen to pass then is unstable: it is named with its first failure, and written to ``.dev/unstable.json``. The second try
has servers and a process of its own for each file, a quiet machine and doubled limits. There is none if more than ``MOST_FAILED`` tests
have failed, if a failure is final, if pytest did not run all tests, or if the time is nearly over. With ``STRICT=1``, there is never one.
``TESTS_END``, in seconds since 1970, is when CI ends. Lint and types are checked, and what tests need is fetched, next to the tests. The
last line reports each part.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.outcomes import FAILED, PASSED, Outcome, by_file, read_outcomes

CHECKOUT = Path(__file__).resolve().parent.parent
DEV = CHECKOUT / ".dev"
UNSTABLE = CHECKOUT / "tests" / "unstable.toml"
MOST_FAILED = 5
SECOND_TRY_SECONDS = 300.0  # no second try begins with less
_QUIET_SECONDS = 120.0
_OK, _FAILED = 0, 1  # exit codes of pytest
_ALONE = ("-q", "-o", "timeout=1200")
_LOOPS, _REFERENCE_SECONDS = 400_000, 0.0053  # what the loop takes on the reference machine, an AMD EPYC with Python 3.11


@dataclass(frozen=True, slots=True)
class Tried:
    """What one pytest has run. ``collected`` is None if it did not end by itself."""

    exit_code: int
    collected: int | None
    outcomes: Mapping[str, Outcome]

    def of(self, outcome: str) -> dict[str, Outcome]:
        return {test: found for test, found in self.outcomes.items() if found.outcome == outcome}

    @property
    def problem(self) -> str | None:
        """Why the outcomes are not those of all tests."""
        if self.collected is None or self.exit_code not in (_OK, _FAILED):
            return f"pytest ended with exit code {self.exit_code} after {len(self.outcomes)} tests"
        if self.collected != len(self.outcomes):
            return f"{len(self.outcomes)} of {self.collected} tests have run"
        if self.exit_code and not self.of(FAILED):
            return "pytest failed, and no test did: see its errors above"
        return None


@dataclass(frozen=True, slots=True)
class Result:
    """``failed`` have failed for good, ``unstable`` only at their first try. ``problem`` is what else fails the run."""

    passed: int
    failed: Mapping[str, Outcome]
    unstable: Mapping[str, Outcome]
    problem: str | None

    @property
    def is_green(self) -> bool:
        return not self.failed and self.problem is None

    def __str__(self) -> str:
        counts = f"{self.passed:,} passed, {len(self.unstable)} unstable, {len(self.failed)} failed"
        return counts if self.problem is None else f"{counts}; {self.problem}"


def run_tests(
    arguments: Sequence[str], *, folder: Path = CHECKOUT, dev: Path = DEV, end: float | None = None, strict: bool = False, most_load: float
) -> Result:
    """pytest with ``arguments`` in ``folder``, and a second try of what failed, when the machine's load is below ``most_load``. Files are
    written to ``dev``. ``end``: ``TESTS_END``."""
    first = _try(arguments, dev / "outcomes.jsonl", folder, _seconds_to(end))
    failed = first.of(FAILED)
    if not failed and first.problem is None:
        return Result(len(first.of(PASSED)), {}, {}, None)
    problem = first.problem or ("tests are never repeated with STRICT=1" if strict else why_no_second_try(failed, _seconds_to(end)))
    if problem is not None:
        return Result(len(first.of(PASSED)), failed, {}, problem)
    _wait_until_quiet(most_load)
    print(f"{len(failed)} failed, and run once more, alone: {', '.join(failed)}", flush=True)
    again: dict[str, Outcome] = {}
    for number, (file, tests) in enumerate(by_file(failed).items()):
        named = dev / "second-try.txt"
        named.write_text("".join(f"{test}\n" for test in tests), encoding="utf-8")
        again |= _try([*_ALONE, f"@{named}"], dev / f"outcomes-{number}.jsonl", folder, _seconds_to(end), turn=f"again{number}").outcomes
        print(f"{file}: {', '.join(sorted({again[test].outcome for test in tests if test in again})) or 'did not end'}", flush=True)
    passed = {test for test, outcome in again.items() if outcome.outcome == PASSED}
    unstable = {test: outcome for test, outcome in failed.items() if test in passed}
    (dev / "unstable.json").write_text(json.dumps({test: one.text for test, one in unstable.items()}, indent=1) + "\n", encoding="utf-8")
    lost = {test: again.get(test, outcome) for test, outcome in failed.items() if test not in passed}
    return Result(len(first.of(PASSED)) + len(unstable), lost, unstable, None)


def why_no_second_try(failed: Mapping[str, Outcome], seconds_left: float) -> str | None:
    """None if the tests may run again."""
    if final := [test for test, outcome in failed.items() if outcome.is_final]:
        return f"no second try, because records were lost or doubled, or secrets shown: {', '.join(final)}"
    if len(failed) > MOST_FAILED:
        return f"no second try of more than {MOST_FAILED} tests"
    return None if seconds_left >= SECOND_TRY_SECONDS else "no time left for a second try"


def _seconds_to(end: float | None) -> float:
    return float("inf") if end is None else max(1.0, end - time.time())


def _try(arguments: Sequence[str], outcomes: Path, folder: Path, seconds: float, *, turn: str = "") -> Tried:
    outcomes.unlink(missing_ok=True)  # a pytest that does not start would leave those of an earlier run
    command = [sys.executable, "-m", "pytest", f"--outcomes-file={outcomes}", *arguments]
    environment = {**os.environ, **({"TEST_TURN": turn, "TEST_TIMEOUT_SCALE": "2"} if turn else {})}
    with subprocess.Popen(command, cwd=folder, env=environment) as running:
        try:
            code = running.wait(None if seconds == float("inf") else seconds)
        except subprocess.TimeoutExpired:
            running.kill()
            code = running.wait()
    found, collected = read_outcomes(outcomes)
    return Tried(code, collected, found)


def _wait_until_quiet(most_load: float) -> None:
    """Wait until the servers of the first try, and lint and types, have ended."""
    until = time.monotonic() + _QUIET_SECONDS
    while os.getloadavg()[0] > most_load and time.monotonic() < until:
        time.sleep(2)


def slowness() -> float:
    """How many times slower than the reference machine this one is now, with its other load: the median of five tries of 0.01 s each."""
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(_LOOPS):
            pass
        seconds.append(time.perf_counter() - began)
    return sorted(seconds)[2] / _REFERENCE_SECONDS


def known_unstable(file: Path = UNSTABLE) -> list[str]:
    """A line for each test that has been unstable, the oldest first."""
    tests = tomllib.loads(file.read_text(encoding="utf-8")).get("test", [])
    return [f"{one['seen']} {one['name']}: {one['cause']}" for one in sorted(tests, key=lambda one: one["seen"])]


def main(arguments: Sequence[str]) -> int:
    began, machine = time.monotonic(), slowness()
    end = float(os.environ["TESTS_END"]) if "TESTS_END" in os.environ else None
    DEV.mkdir(exist_ok=True)
    with (DEV / "fetched.log").open("w") as log, (DEV / "static.log").open("w") as static_log:
        fetching = subprocess.Popen([sys.executable, "-m", "tests.fetched"], stdout=log, stderr=log)
        static = subprocess.Popen(["make", "-s", "static"], cwd=CHECKOUT, stdout=static_log, stderr=static_log)
        strict = os.environ.get("STRICT", "0") not in ("", "0")
        result = run_tests(arguments, end=end, strict=strict, most_load=os.cpu_count() or 1)
        parts, is_green = [str(result)], result.is_green
        fetching.terminate()
        if static.wait():
            parts.append("lint or types failed")
            is_green = False
    print((DEV / "static.log").read_text(), end="")
    if result.is_green:
        covered = subprocess.run([sys.executable, "-m", "tests.covered"], cwd=CHECKOUT, capture_output=True, text=True, check=False)
        parts.append((covered.stdout + covered.stderr).strip())
        is_green = is_green and not covered.returncode
    for line in known_unstable():
        print(f"was unstable: {line}")
    for kind, tests in (("UNSTABLE", result.unstable), ("FAILED", result.failed)):
        for test, outcome in tests.items():
            print(f"{kind} {test}: {outcome.reason}")
    parts += [f"{(time.monotonic() - began) / 60:.0f} min", f"machine {machine:.1f} × slower than the reference"]
    print(("" if is_green else "RED: ") + "; ".join(parts))
    return 0 if is_green else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
