"""The outcome of each test, as a line of JSON in a file as soon as the test has ended: ``--outcomes-file``. A plugin of pytest.

The process that reports writes the file. So a test that ended its process has a line, too.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from tests.final_failures import FinalFailure

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
_FINAL = "is_final"
_TEXT_LENGTH = 4000


@dataclass(frozen=True, slots=True)
class Outcome:
    """``text`` is the end of the failure's report, of which ``is_final`` means that no second try excuses it."""

    test: str
    outcome: str
    is_final: bool = False
    text: str = ""

    @property
    def reason(self) -> str:
        """The line of the report that names the failure."""
        lines = [line for line in self.text.splitlines() if line.strip()]
        return next((line for line in lines if line.startswith("E ")), lines[-1] if lines else "").removeprefix("E").strip()[:300]


def read_outcomes(file: Path) -> tuple[dict[str, Outcome], int | None]:
    """The outcome of each test, which is its first failure or a final one, and the number of collected tests, which is None if the run did
    not end by itself."""
    outcomes, collected = dict[str, Outcome](), None
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        match json.loads(line):
            case {"collected": int(number)}:
                collected = number
            case values:
                outcome = Outcome(**values)
                if outcome.is_final or outcome.test not in outcomes:
                    outcomes[outcome.test] = outcome
    return outcomes, collected


def by_file(tests: Iterable[str]) -> dict[str, list[str]]:
    """The tests of each file, in their order."""
    files: dict[str, list[str]] = {}
    for test in tests:
        files.setdefault(test.partition("::")[0], []).append(test)
    return files


class _OutcomesFile:
    """A failure in any part of a test is written at once; that a test has passed or was skipped, when all its parts have ended."""

    def __init__(self, path: Path) -> None:
        self._path, self._failed, self._skipped = path, set[str](), set[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test, is_final = report.nodeid, (_FINAL, True) in map(tuple, report.user_properties)
        if report.failed:
            self._failed.add(test)
            self._write(asdict(Outcome(test, FAILED, is_final, report.longreprtext[-_TEXT_LENGTH:])))
        elif report.skipped:
            self._skipped.add(test)
        if report.when == "teardown" and test not in self._failed:
            self._write(asdict(Outcome(test, SKIPPED if test in self._skipped else PASSED)))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._write({"collected": session.testscollected})

    def _write(self, line: object) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(line)}\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes-file", type=Path, help="a file for the outcome of each test, in lines of JSON")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--outcomes-file")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_OutcomesFile(path))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Marks a final failure where it is raised: only strings reach the process that reports."""
    report = yield
    if call.excinfo is not None and call.excinfo.errisinstance(FinalFailure):
        report.user_properties.append((_FINAL, True))
    return report
