"""The private directory of a run, and what a retry finds in it."""

import stat
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.model.run import (
    PID_FILE,
    PROGRESS_FILE,
    RESULT_FILE,
    RUN_FILE,
    UNREPORTED,
    RunResult,
    RunSpec,
    RunState,
    TaskResult,
)
from airflow_provider_connect.runtime.spark.run_directory import RunDirectory, forget_secrets_left, remove_stale_runs

SPEC = RunSpec("orders", {"group.id": "connect"}, "scheduled__2026-01-01T00:00:00+00:00", secrets={"${airflow:shop:password}": "pw"})


def make(base: Path, try_number: int = 1, map_index: int = -1) -> RunDirectory:
    return RunDirectory.make(base, "connect.orders", SPEC.run_id, map_index=map_index, try_number=try_number)


def report(directory: RunDirectory, *tasks: TaskResult, state: RunState = RunState.FAILED) -> None:
    (directory.path / RESULT_FILE).write_text(RunResult("orders", state, tasks=list(tasks)).to_json())


def test_the_directory_and_its_files_are_the_owners_alone(tmp_path: Path) -> None:
    directory = make(tmp_path)
    directory.write_spec(SPEC)
    file = directory.path / RUN_FILE
    assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert RunSpec.from_json(file.read_text()) == SPEC


def test_the_path_shows_names_and_nothing_of_the_config(tmp_path: Path) -> None:
    assert make(tmp_path).path.relative_to(tmp_path).parts[0].startswith("connect.orders-")


def test_what_holds_secrets_is_removed_when_the_application_has_ended(tmp_path: Path) -> None:
    directory = make(tmp_path)
    directory.write_spec(SPEC)
    (directory.scratch() / "file").write_text("x")
    directory.forget_secrets()
    assert list(directory.path.iterdir()) == []


def test_a_second_copy_of_a_try_gets_a_directory_of_its_own(tmp_path: Path) -> None:
    assert make(tmp_path).path != make(tmp_path).path


def test_the_first_try_runs_all_tasks(tmp_path: Path) -> None:
    assert make(tmp_path).tasks_left() is None


@pytest.mark.parametrize(
    ("tries", "left"),
    [
        ([[TaskResult(0), TaskResult(1, trace="no"), TaskResult(2)]], [1]),
        ([[TaskResult(0), TaskResult(1, stopped_by="paused")]], [1]),
        ([[TaskResult(0), TaskResult(1, trace="no"), TaskResult(2, trace="no")], [TaskResult(1), TaskResult(2, trace="no")]], [2]),
        ([[TaskResult(0, trace="no"), TaskResult(1, trace="no")]], None),
        ([[]], None),
    ],
)
def test_a_retry_runs_the_tasks_that_are_not_done(tmp_path: Path, tries: list[list[TaskResult]], left: list[int] | None) -> None:
    for number, tasks in enumerate(tries, start=1):
        report(make(tmp_path, number), *tasks)
    assert make(tmp_path, len(tries) + 1).tasks_left() == left


def test_a_try_that_ended_without_a_word_reports_nothing(tmp_path: Path) -> None:
    first = make(tmp_path, 1)
    assert first.result() is None
    (first.path / RESULT_FILE).write_text("{half")
    assert first.result() is None
    assert make(tmp_path, 2).tasks_left() is None


def test_a_retry_leaves_out_what_was_done_before_the_driver_died(tmp_path: Path) -> None:
    progress = RunResult("orders", RunState.FAILED, tasks=[TaskResult(0), TaskResult(1, "FAILED", UNREPORTED)])
    (make(tmp_path, 1).path / PROGRESS_FILE).write_text(progress.to_json())
    assert make(tmp_path, 2).tasks_left() == [1]


def test_mapped_tasks_keep_apart(tmp_path: Path) -> None:
    report(make(tmp_path, 1, map_index=0), TaskResult(0), TaskResult(1, trace="no"))
    assert make(tmp_path, 2, map_index=1).tasks_left() is None
    assert make(tmp_path, 2, map_index=0).tasks_left() == [1]


def test_a_run_that_is_done_leaves_nothing(tmp_path: Path) -> None:
    make(tmp_path, 1)
    second = make(tmp_path, 2)
    second.remove_run()
    assert not second.path.parent.exists()


def test_runs_that_nothing_touched_for_a_week_are_removed(tmp_path: Path) -> None:
    directory = make(tmp_path)
    touched = directory.path.parent.stat().st_mtime
    remove_stale_runs(tmp_path, "connect.orders", now=touched + 86_400)
    assert directory.path.exists()
    remove_stale_runs(tmp_path, "connect.orders", now=touched + 8 * 86_400)
    assert not directory.path.exists()


def test_ids_with_odd_characters_and_great_length_become_names(tmp_path: Path) -> None:
    directory = RunDirectory.make(tmp_path, "connect." + "x" * 242, "manual__../../" + "é" * 200)
    assert directory.path.is_relative_to(tmp_path)
    assert len(directory.path.relative_to(tmp_path).parts) == 3


def test_the_drivers_process_id(tmp_path: Path) -> None:
    directory = make(tmp_path)
    assert directory.driver_pid() is None
    (directory.path / "driver.pid").write_text("123")
    assert directory.driver_pid() == 123


def test_secrets_that_a_killed_run_has_left_are_removed_when_the_next_one_starts(tmp_path: Path) -> None:
    killed, waiting, others = (RunDirectory.make(tmp_path, dag, run) for dag, run in (("a", "1"), ("a", "2"), ("b", "1")))
    for directory in (killed, waiting, others):
        directory.write_spec(RunSpec("orders", {}, "run"))
    for directory in (killed, others):
        (directory.path / PID_FILE).write_text("1")  # its driver has read the file
    (killed.path / f".{RUN_FILE}.partial").write_text("half written")
    (killed.path / "digest.answered").write_text("a secret that no driver has read")
    now = (waiting.path / RUN_FILE).stat().st_mtime
    forget_secrets_left(tmp_path, "a", now=now + 60)
    assert [path.name for path in killed.path.iterdir()] == [PID_FILE]
    assert ((waiting.path / RUN_FILE).exists(), (others.path / RUN_FILE).exists()) == (True, True)
    forget_secrets_left(tmp_path, "a", now=now + 3700)
    assert list(waiting.path.iterdir()) == []
