"""Runs of LogSource where some folders and files raise errors of I/O: what else there is is read, and then the run fails."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connectors.logs.files import LogFile
from airflow_provider_connect.errors import ConnectException, RetriableException
from airflow_provider_connect.sdk.allowed_paths import AllowedFolder
from airflow_provider_connect.sdk.task import SourceTask
from tests.unit.connectors.logs.test_source import Logs, logs, started, texts
from tests.waiting import wait_until

__all__ = ["logs"]  # a fixture
UNREADABLE = Path("/sys/devices/virtual/net/lo/speed")
"""A regular file whose content the kernel refuses to read: a loop has no speed."""


def polled_until_failure(task: SourceTask) -> tuple[list[Any], ConnectException]:
    """The values up to the first failure, and this."""
    found: list[Any] = []

    def failure() -> ConnectException | None:
        try:
            batches = task.poll()
        except ConnectException as error:
            return error
        assert batches is not None, f"the run ended without a failure, after {found}"
        found.extend(texts(batches))
        return None

    error: ConnectException = wait_until(failure, lambda: f"a failure, but {found}")
    return found, error


def polled(task: SourceTask, count: int) -> list[Any]:
    found: list[Any] = []

    def are_polled() -> bool:
        found.extend(texts(task.poll() or []))
        return len(found) >= count

    wait_until(are_polled, lambda: f"{count} values, but {found}")
    return found


def break_folder(monkeypatch: pytest.MonkeyPatch, folder: Path, number: int) -> None:
    """Let each listing of the folder raise the error of this number, as a mount does whose server is gone."""
    real = AllowedFolder.open

    def broken(self: AllowedFolder, name: str, *arguments: Any) -> int:
        if self.path == str(folder) and name == ".":
            raise OSError(number, "of the test")
        return real(self, name, *arguments)

    monkeypatch.setattr(AllowedFolder, "open", broken)


@pytest.mark.parametrize("pattern", ["*/*.log", "**/*.log"])
def test_a_file_system_s_own_folder_is_not_listed(logs: Logs, monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    """navidrome/navidrome 328: only root may list it, so a scan of a whole file system failed."""
    for name in ("a", "lost+found"):
        (logs.folder / name).mkdir()
    logs.write("one\n", logs.folder / "a" / "app.log")
    logs.config["paths"] = f"{logs.folder}/{pattern}"
    break_folder(monkeypatch, logs.folder / "lost+found", errno.EACCES)
    assert logs.read() == ["one"]
    assert logs.has_new_data() is False


@pytest.fixture(params=["false", "true"], ids=["bounded", "follow"])
def folders(request: pytest.FixtureRequest, logs: Logs) -> Logs:
    """Three folders with a line each."""
    for name in "abc":
        (logs.folder / name).mkdir()
        logs.write(f"{name}\n", logs.folder / name / "app.log")
    logs.config |= {"paths": f"{logs.folder}/**/app.log", "follow": request.param, "poll.interval.ms": "10"}
    return logs


def test_the_lines_of_other_folders_are_read_before_a_run_fails_at_one(folders: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    task = started(folders.config)
    break_folder(monkeypatch, folders.folder / "a", errno.ESTALE)
    found, error = polled_until_failure(task)
    assert found == ["b", "c"]
    assert isinstance(error, RetriableException)
    assert f"{folders.folder}/a (of the test)" in str(error)
    assert polled_until_failure(task)[0] == []
    folders.write("b again\n", folders.folder / "b" / "app.log")
    assert polled_until_failure(task)[0] == ["b again"]
    assert folders.has_new_data() is True
    monkeypatch.undo()
    assert polled(task, 1) == ["a"]
    task.stop()


def break_file(monkeypatch: pytest.MonkeyPatch, path: Path, opens: int) -> list[int]:
    """Let the file be opened so often and no more. The number may be changed."""
    real, left = LogFile.open, [opens]

    def broken(self: LogFile, folder: AllowedFolder) -> Any:
        if f"{folder.path}/{self.name}" == str(path):
            if not left[0]:
                raise OSError(errno.EIO, "of the test")
            left[0] -= 1
        return real(self, folder)

    monkeypatch.setattr(LogFile, "open", broken)
    return left


@pytest.mark.parametrize("opens", [0, 1])
def test_the_lines_of_other_files_are_read_before_a_run_fails_at_one(folders: Logs, monkeypatch: pytest.MonkeyPatch, opens: int) -> None:
    bad = folders.folder / "a" / "app.log"
    left, task = break_file(monkeypatch, bad, opens), started(folders.config)
    found, error = polled_until_failure(task)
    assert found == ["b", "c"]
    assert isinstance(error, RetriableException)
    assert f"{bad} (of the test)" in str(error)
    left[0] = 100
    assert polled(task, 1) == ["a"]
    task.stop()


def test_a_file_that_is_known_is_read_on_when_it_can_be_read_again(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    logs.config["follow"] = "true"
    left, task = break_file(monkeypatch, logs.log, 100), started(logs.config)
    logs.write("one\n")
    assert polled(task, 1) == ["one"]
    left[0] = 0
    logs.write("two\n")
    assert polled_until_failure(task)[0] == []
    left[0] = 100
    assert polled(task, 1) == ["two"]
    task.stop()


@pytest.mark.skipif(not UNREADABLE.exists(), reason="the kernel has no such file")
def test_a_file_that_the_kernel_refuses_to_read_is_named(logs: Logs) -> None:
    logs.write("one\n")
    logs.config["paths"] = f"{UNREADABLE},{logs.config['paths']}"
    task = started(logs.config)
    found, error = polled_until_failure(task)
    assert found == ["one"]
    assert f"{UNREADABLE} (Invalid argument)" in str(error)
    task.stop()


def test_of_many_paths_that_cannot_be_read_a_few_are_named(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(8):
        logs.write("x\n", logs.folder / f"{number}.log")

    def refuse(*_: object, **named: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(LogFile, "open", refuse)
    error = polled_until_failure(started(logs.config))[1]
    assert not isinstance(error, RetriableException)
    assert "4.log (Permission denied) and 3 more" in str(error)
