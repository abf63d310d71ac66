"""The private directory with the files of one try of a run. Knows nothing of Airflow and Spark.

The path is ``«base»/«dag»/«run»[/«map index»]/try-«n»``, so a retry on the same host finds the results of earlier tries.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_connect.runtime.model.run import (
    FAILURES_FILE,
    LEFT_FILE,
    PID_FILE,
    PROGRESS_FILE,
    RESULT_FILE,
    RUN_FILE,
    RunResult,
    RunSpec,
    TaskResult,
)

REQUEST, ANSWER = ".asked", ".answered"  # of secrets (``secret_requests``)
_STALE_SECONDS = 7 * 86_400
_UNREAD_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """``path`` is the try's own directory. Its parent contains all tries of the run."""

    path: Path

    @classmethod
    def make(cls, base: Path, dag_id: str, run_id: str, *, map_index: int = -1, try_number: int = 1) -> "RunDirectory":
        """Create the directory of a try, with mode 0700. If Airflow starts a second copy of a try, the copy gets its own directory."""
        run = base / _directory_name(dag_id) / _directory_name(run_id)
        if map_index >= 0:
            run /= str(map_index)
        run.mkdir(mode=0o700, parents=True, exist_ok=True)
        for copy in range(1000):
            path = run / f"try-{try_number}{f'.{copy}' if copy else ''}"
            try:
                path.mkdir(mode=0o700)
            except FileExistsError:
                continue
            return cls(path)
        raise FileExistsError(f"{run} has a thousand copies of try {try_number}")

    def write_spec(self, spec: RunSpec) -> None:
        """Write ``run.json`` atomically, with mode 0600 from its first byte."""
        write_private(self.path / RUN_FILE, spec.to_json())

    def scratch(self) -> Path:
        """A folder for temporary files of the application."""
        path = self.path / "scratch"
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    def result(self) -> RunResult | None:
        """The application's result. None: the application ended without a result."""
        return _result(self.path / RESULT_FILE)

    def failures(self) -> list[str]:
        """The traces of the connector and tasks of a run that stays that are FAILED now."""
        try:
            return [str(trace) for trace in json.loads((self.path / FAILURES_FILE).read_text(encoding="utf-8"))]
        except (OSError, ValueError, TypeError):
            return []

    def driver_pid(self) -> int | None:
        """The process id of the application's driver. None until the driver has written it."""
        try:
            return int((self.path / PID_FILE).read_text().strip())
        except (OSError, ValueError):
            return None

    def tasks_left(self) -> list[int] | None:
        """The tasks that earlier tries of this run did not finish. None: all tasks, as far as this host knows."""
        newest: dict[int, TaskResult] = {}
        for result in self._earlier_results():
            newest |= {task.task: task for task in result.tasks if task.task not in newest or not _is_done(newest[task.task])}
        left = sorted(number for number, task in newest.items() if not _is_done(task))
        return left if left and len(left) < len(newest) else None

    def _earlier_results(self) -> Iterator[RunResult]:
        tries = sorted((path for path in self.path.parent.glob("try-*") if path != self.path), key=lambda path: path.stat().st_mtime_ns)
        results = (_result(path / RESULT_FILE) or _result(path / PROGRESS_FILE) for path in tries)
        return (result for result in results if result is not None)

    @property
    def has_left(self) -> bool:
        """Whether the application lives on, although its result is there, to hand its connectors over to the next run."""
        return (self.path / LEFT_FILE).exists()

    def forget_secrets(self) -> None:
        """Remove ``run.json``, which contains secrets, and the scratch folder. Neither is needed after the application has ended."""
        (self.path / RUN_FILE).unlink(missing_ok=True)
        if self.has_left:
            return
        shutil.rmtree(self.path / "scratch", ignore_errors=True)

    def remove_run(self) -> None:
        """Remove the directories of all tries of this run. An application that has left removes its own."""
        if not self.has_left:
            shutil.rmtree(self.path.parent, ignore_errors=True)

    def remove(self) -> None:
        """Remove the directory of this try, and that of the run if it has no other try."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            self.path.parent.rmdir()


def write_private(path: Path, text: str) -> None:
    """Write a small file of a run atomically, readable only by its owner: under another name with mode 0600, then renamed."""
    unfinished = path.with_name(f".{path.name}.partial")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    unfinished.rename(path)


def forget_secrets_left(base: Path, dag_id: str, *, now: float) -> None:
    """Remove the files ``run.json`` of runs of this DAG that were killed before they removed the file, and requests for secrets with their
    answers. A file is removed if a driver has read it, or if it is an hour old. Called at the start of a run. ``now`` is in seconds since
    1970."""
    for pattern in (RUN_FILE, f"*{REQUEST}", f"*{ANSWER}", ".*.partial"):
        for file in (base / _directory_name(dag_id)).rglob(pattern):
            try:
                if (file.parent / PID_FILE).exists() or now - file.stat().st_mtime > _UNREAD_SECONDS:
                    file.unlink()
            except FileNotFoundError:
                continue


def remove_stale_runs(base: Path, dag_id: str, *, now: float) -> None:
    """Remove the directories of runs of this DAG that have not changed for a week. Successful runs remove their own directories. ``now`` is
    in seconds since 1970."""
    for run in (base / _directory_name(dag_id)).glob("*"):
        try:
            changed = max(path.stat().st_mtime for path in (run, *run.rglob(LEFT_FILE)))
            if now - changed > _STALE_SECONDS:
                shutil.rmtree(run, ignore_errors=True)
        except FileNotFoundError:
            continue


def _is_done(task: TaskResult) -> bool:
    return task.trace is None and task.stopped_by is None


def _result(path: Path) -> RunResult | None:
    try:
        return RunResult.from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _directory_name(text: str) -> str:
    """A name for ``text`` that is readable, unique, and short enough for a file system."""
    readable = re.sub(r"[^A-Za-z0-9_.-]", "_", text).lstrip(".")[:80]
    return f"{readable}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
