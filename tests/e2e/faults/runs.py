"""Runs of a connector as Airflow would start them: one spark-submit after another in the same settings, with a fault in the first."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from airflow_provider_connect.runtime.model.run import PID_FILE, RESULT_FILE, RUN_FILE, RunResult, RunSpec, RunState
from airflow_provider_connect.runtime.spark.run_directory import write_private
from airflow_provider_connect.runtime.spark.submit_options import submit_options
from tests.waiting import HANG_SECONDS, wait_until

CHECKOUT = Path(__file__).resolve().parents[3]
APPLICATION = CHECKOUT / "spark_jobs" / "run_connector.py"
INJECTED = Path(__file__).parent / "injected"
CUT = "cut"


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong in a run, once. ``step`` is a ``CommitStep`` or ``module:Class.method`` of the product; see
    ``injected/sitecustomize.py``. ``signal`` is ``CUT`` for a connection."""

    step: str
    when: str = "before"  # or after, or during
    nth: int = 1
    signal: str = "SIGKILL"
    victim: str = "worker"
    linger: float = 0.0

    def __str__(self) -> str:
        return f"{self.signal} of the {self.victim} {self.when} {self.step.rpartition(':')[2]}, call {self.nth}"


@dataclass(slots=True)
class Submission:
    """One spark-submit under way."""

    directory: Path
    process: subprocess.Popen[bytes]
    token: Path

    def wait(self) -> RunResult | None:
        """The result; None: the application ended without one."""
        self.process.wait(HANG_SECONDS)
        path = self.directory / RESULT_FILE
        return RunResult.from_json(path.read_text()) if path.exists() else None

    @property
    def struck(self) -> bool:
        """Whether the fault has happened."""
        return self.token.exists()

    def victim_pid(self) -> int:
        """The Python worker in which the fault happened."""
        path = Path(f"{self.token}.pid")
        wait_until(lambda: path.exists() and path.read_text() != "")
        return int(path.read_text())

    def driver_pid(self) -> int:
        path = self.directory / PID_FILE
        wait_until(path.exists)
        return int(path.read_text())

    def output(self) -> str:
        return (self.directory / "output").read_text(errors="replace")


@dataclass(slots=True)
class Runs:
    """All runs of one connector. ``folder`` takes a directory for each; ``preexec`` is what spark-submit's process does first."""

    folder: Path
    connector: str
    settings: Mapping[str, str]
    config: Mapping[str, str]
    master: str = "local[2]"
    count: int = field(default=0)
    conf: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    python_path: Sequence[str] = ()
    preexec: Callable[[], None] | None = None

    def submit(self, fault: Fault | None = None) -> Submission:
        """Start one application, as a child of this process."""
        self.count += 1
        directory = self.folder / f"{self.connector}-{self.count}-{uuid.uuid4().hex[:6]}"
        directory.mkdir(mode=0o700, parents=True)
        spec = RunSpec(self.connector, self.settings, f"run-{self.count}", define=self.config, secrets=self.secrets)
        write_private(directory / RUN_FILE, spec.to_json())
        options = submit_options(self.master, scratch=directory)
        options.conf.update(self.conf)
        environment = {**options.environment(), **self.environment}
        token = directory / "struck"
        path = [*self.python_path, str(CHECKOUT)]
        environment["PYTHONPATH"] = os.pathsep.join(path)
        if fault is not None:
            request = self.fault_request(fault, token)
            environment |= {"FAULT": request, "PYTHONPATH": os.pathsep.join([str(INJECTED), *path])}
            if not self.master.startswith("local"):
                options.conf.update({"spark.executorEnv.FAULT": request, "spark.executorEnv.PYTHONPATH": str(INJECTED)})
        command = options.command(self.master, str(APPLICATION), "--run-dir", str(directory))
        with (directory / "output").open("wb") as output:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=self.preexec,  # noqa: PLW1509  (calls the kernel only)
            )
        return Submission(directory, process, token)

    def fault_request(self, fault: Fault, token: Path) -> str:
        """The fault as ``injected/sitecustomize.py`` takes it. ``token`` lies in the run's directory."""
        addresses = {"bootstrap": self.settings["bootstrap.servers"], "database": self.config.get("connection.url", "")}
        return json.dumps({**asdict(fault), **addresses, "connector": self.connector, "token": str(token), "run_dir": str(token.parent)})

    def until_done(self, tries: int = 4) -> RunResult:
        """Run again as Airflow's retries would, until a run reports that it reached the end."""
        for _ in range(tries):
            submission = self.submit()
            result = submission.wait()
            if result is not None and result.state is RunState.DONE:
                return result
        raise AssertionError(f"{self.connector} is not done after {tries} tries: {result}\n{submission.output()[-4000:]}")


@contextmanager
def frozen(runs: Runs, fault: Fault, *, must_strike: bool = True) -> Iterator[tuple[Submission, Callable[[], None]]]:
    """A run whose worker has been stopped by ``fault``, and what lets it go on. Unless it must be struck, it may have ended."""
    submission = runs.submit(fault)
    wait_until(lambda: submission.struck or submission.process.poll() is not None)
    assert submission.struck or not must_strike, submission.output()[-4000:]
    pid = submission.victim_pid() if submission.struck else 0
    try:
        yield submission, lambda: os.kill(pid, signal.SIGCONT)
    finally:
        if submission.process.poll() is None:
            os.kill(pid, signal.SIGCONT)
            submission.process.kill()
            submission.process.wait()


def ending(result: RunResult | None) -> str:
    """How a run ended, in words."""
    if result is None:
        return "gone"
    return str(result.state) if result.error is None else f"{result.state}, {result.error}"
