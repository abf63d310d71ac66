"""The private directory with the files of one try of a run. Knows nothing of Airflow and Spark.

The path is ``«base»/«dag»/«run»[/«map index»]/try-«n»``, so a retry on the same host finds the results of earlier tries.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_connect.runtime.model.run import (
    FAILURES_FILE,
    PID_FILE,
    PROGRESS_FILE,
    RESULT_FILE,
    RUN_FILE,
    RunResult,
    RunSpec,
    TaskResult,
)

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
        temporary = self.path / f".{RUN_FILE}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(spec.to_json())
        temporary.rename(self.path / RUN_FILE)

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

    def forget_secrets(self) -> None:
        """Remove the scratch folder and ``run.json``, which contains secrets and is not needed after the application has ended."""
        (self.path / RUN_FILE).unlink(missing_ok=True)
        shutil.rmtree(self.path / "scratch", ignore_errors=True)

    def remove_run(self) -> None:
        """Remove the directories of all tries of this run."""
        shutil.rmtree(self.path.parent, ignore_errors=True)


def forget_secrets_left(base: Path, dag_id: str, *, now: float) -> None:
    """Remove the files ``run.json`` of runs of this DAG that were killed before they removed the file. A file is removed if a driver has
    read it, or if it is an hour old. Called at the start of a run. ``now`` is in seconds since 1970."""
    for pattern in (RUN_FILE, f".{RUN_FILE}"):
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
            if now - run.stat().st_mtime > _STALE_SECONDS:
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
