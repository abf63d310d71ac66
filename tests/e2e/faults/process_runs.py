"""Runs of a connector without Spark: ``connect-run`` as a process, whose threads are the tasks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from airflow_provider_connect.runtime.model.run import RunResult, RunState
from airflow_provider_connect.standalone.one_run import DONE, FAILED, LATER, SIGNALLED, WRONG
from tests.e2e.faults.runs import CHECKOUT, INJECTED, Fault, Runs, Submission
from tests.integration.standalone.agent import properties
from tests.waiting import HANG_SECONDS

_STATES: Mapping[int, RunState] = {
    DONE: RunState.DONE,
    FAILED: RunState.FAILED,
    WRONG: RunState.FAILED,
    LATER: RunState.FAILED,
    SIGNALLED: RunState.STOPPED,
}
_CUT_SHORT = "was ended before the end of what there is"  # ends with 0, where no signal did it


@dataclass(slots=True)
class ProcessSubmission(Submission):
    """One ``connect-run`` under way."""

    connector: str

    def wait(self) -> RunResult | None:
        """What its exit code means; None: it was killed."""
        code = self.process.wait(HANG_SECONDS)
        if code < 0:
            return None
        last = next(reversed(self.output().strip().splitlines()), "no output")
        state = RunState.STOPPED if code == DONE and _CUT_SHORT in last else _STATES[code]
        return RunResult(self.connector, state, error=None if state is RunState.DONE else last, retriable=code == LATER)


class ProcessRuns(Runs):
    """As ``Runs``. Whatever victim a fault names, it is the process."""

    @classmethod
    def of(cls, runs: Runs) -> Self:
        """For the same connector, in turns with the other."""
        return cls(runs.folder, runs.connector, runs.settings, runs.config)

    def submit(self, fault: Fault | None = None) -> Submission:
        self.count += 1
        directory = self.folder / f"{self.connector}-p{self.count}-{uuid.uuid4().hex[:6]}"
        directory.mkdir(mode=0o700, parents=True)
        command, token = self.command(directory), directory / "struck"
        path, environment = [*self.python_path, str(CHECKOUT)], {**os.environ, **self.environment}
        if fault is not None:
            environment["FAULT"] = self.fault_request(fault, token)
            path.insert(0, str(INJECTED))
        environment["PYTHONPATH"] = os.pathsep.join(path)
        with (directory / "output").open("wb") as output:
            process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        return ProcessSubmission(directory, process, token, self.connector)

    def command(self, directory: Path) -> list[str]:
        """The command line of a run, whose files are written into ``directory``."""
        connector, worker = directory / "connector.json", directory / "worker.properties"
        connector.write_text(json.dumps(dict(self.config)))
        worker.write_text(properties(self.settings))
        return [sys.executable, "-m", "airflow_provider_connect.standalone.one_run", str(connector), "--worker", str(worker)]
