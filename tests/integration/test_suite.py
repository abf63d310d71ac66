"""The second try of tests that failed, with pytest's own processes and a folder of tests of its own."""

from __future__ import annotations

import os
import textwrap
import time
from pathlib import Path

import pytest

from tests.outcomes import FAILED, Outcome
from tests.suite import CHECKOUT, MOST_FAILED, SECOND_TRY_SECONDS, Result, known_unstable, run_tests, why_no_second_try

LEFT_SECONDS = 5

CONFTEST = """\
from tests import outcomes
from tests.group_scheduling import GroupScheduling


def pytest_addoption(parser, pluginmanager):
    pluginmanager.register(outcomes)


def pytest_xdist_make_scheduler(config, log):
    return GroupScheduling(config, log, lambda test: test.partition("::")[0])
"""
GOOD = "def test_{name}(): pass"
FAILS_ONCE = """\
    from pathlib import Path

    def test_fails_once():
        note = Path(__file__).with_name("note")
        seen = note.exists()
        note.touch()
        assert seen, "for the first time"
"""
CRASHES = """\
    import os

    def test_before(): pass
    def test_crashes(): {crash}
    def test_after(): pass
    def test_last(): pass
"""
IN_CHILDREN = "os.kill(os.getpid(), 9) if 'PYTEST_XDIST_WORKER' in os.environ else None"


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)


def run(folder: Path, *, end: float | None = None, **files: str) -> Result:
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p xdist.plugin -p pytest_timeout --max-worker-restart 3\n")
    (folder / "conftest.py").write_text(CONFTEST)
    for number in range(3):
        (folder / f"test_good{number}.py").write_text("\n".join(GOOD.format(name=name) for name in "abc"))
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(textwrap.dedent(text))
    (folder / "dev").mkdir()
    return run_tests(["-q", "-n", "2"], folder=folder, dev=folder / "dev", end=end, most_load=1e9)


def test_what_passes_alone_is_unstable_and_a_crash_costs_one_test(tmp_path: Path) -> None:
    result = run(tmp_path, once=FAILS_ONCE, crash=CRASHES.format(crash=IN_CHILDREN))
    assert result.is_green
    assert str(result) == "14 passed, 2 unstable, 0 failed"
    assert result.unstable["test_once.py::test_fails_once"].reason == "AssertionError: for the first time"
    assert "crashed while running" in result.unstable["test_crash.py::test_crashes"].reason
    assert "for the first time" in (tmp_path / "dev" / "unstable.json").read_text()


def test_what_fails_again_or_ends_its_process_again_fails_the_run(tmp_path: Path) -> None:
    crash = CRASHES.format(crash="os.kill(os.getpid(), 9)")
    result = run(tmp_path, crash=crash, once=FAILS_ONCE, always="def test_fails(): assert 1 == 2")
    assert not result.is_green
    assert str(result) == "13 passed, 1 unstable, 2 failed"
    assert sorted(result.failed) == ["test_always.py::test_fails", "test_crash.py::test_crashes"]


def test_a_counted_loss_is_final(tmp_path: Path) -> None:
    lost = """\
        from tests.e2e.faults.oracle import Verdict

        def test_loses(): Verdict(10, 1, 0).expect("at_least_once")
    """
    result = run(tmp_path, lost=lost, once=FAILS_ONCE)
    assert not result.is_green
    assert result.problem == "no second try, because records were lost or doubled, or secrets shown: test_lost.py::test_loses"
    assert len(result.failed) == 2


def test_a_file_that_cannot_be_imported_fails_the_run(tmp_path: Path) -> None:
    assert run(tmp_path, broken="import nothing_of_this_name").problem == "pytest failed, and no test did: see its errors above"


def test_a_pytest_that_does_not_start_leaves_no_outcomes_of_an_earlier_run(tmp_path: Path) -> None:
    (tmp_path / "outcomes.jsonl").write_text('{"test": "test_a", "outcome": "passed"}\n{"collected": 1}\n')
    result = run_tests(["--no-such-option"], folder=tmp_path, dev=tmp_path, most_load=1e9)
    assert (result.passed, result.problem) == (0, "pytest ended with exit code 4 after 0 tests")


def test_a_run_beyond_its_end_is_killed_and_named(tmp_path: Path) -> None:
    result = run(tmp_path, end=time.time() + LEFT_SECONDS, endless="import time\ndef test_endless(): time.sleep(600)")
    assert str(result.problem).startswith("pytest ended with exit code -9 after ")


def test_many_failures_and_a_late_one_have_no_second_try() -> None:
    failed = {f"test_{number}": Outcome(f"test_{number}", FAILED) for number in range(MOST_FAILED)}
    assert why_no_second_try(failed, SECOND_TRY_SECONDS) is None
    assert why_no_second_try(failed, SECOND_TRY_SECONDS - 1) == "no time left for a second try"
    more = failed | {"another": Outcome("another", FAILED)}
    assert why_no_second_try(more, SECOND_TRY_SECONDS) == "no second try of more than 5 tests"


def test_the_known_unstable_tests_exist() -> None:
    for line in known_unstable():
        _, name, _ = line.split(" ", 2)
        file, _, test = name.rstrip(":").partition("::")
        assert f"def {test.partition('[')[0]}(" in (CHECKOUT / file).read_text(), line
    assert "TESTS_END" in (CHECKOUT / ".ci" / "run").read_text()
    assert os.access(CHECKOUT / ".ci" / "run", os.X_OK)
