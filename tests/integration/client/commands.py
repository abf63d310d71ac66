"""Runs ``airflow connect`` commands, several in one process: each such process takes seconds to start."""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.conftest import CHECKOUT
from tests.integration.herder.killed_change import KillPoint
from tests.waiting import HANG_SECONDS

_SCRIPT = """
import contextlib, io, json, sys
from airflow.cli.cli_parser import get_parser
done = []
for command in json.loads(sys.argv[1]):
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            arguments = get_parser().parse_args(["connect", *command])
            arguments.func(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
            if isinstance(end.code, str):
                err.write(end.code)
    done.append([code, out.getvalue(), err.getvalue()])
print("DONE" + json.dumps(done))
"""

_KILLED = """
import json, sys
from airflow.cli.cli_parser import get_parser
from tests.integration.herder.killed_change import KillPoint
KillPoint(*json.loads(sys.argv[1])).arm()
arguments = get_parser().parse_args(["connect", *json.loads(sys.argv[2])])
arguments.func(arguments)
"""


@dataclass(frozen=True)
class Done:
    """What came of one command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


def run_commands(environment: Mapping[str, str], commands: Sequence[Sequence[str]]) -> list[Done]:
    """One after the other, in one process."""
    command = [sys.executable, "-W", "ignore", "-c", _SCRIPT, json.dumps(commands)]
    done = subprocess.run(command, env={**environment, "COLUMNS": "300"}, capture_output=True, text=True, check=False, timeout=HANG_SECONDS)
    answers = [line.removeprefix("DONE") for line in done.stdout.splitlines() if line.startswith("DONE")]
    assert answers, done.stdout + done.stderr
    return [Done(*each) for each in json.loads(answers[-1])]


def run_and_kill(environment: Mapping[str, str], command: Sequence[str], point: KillPoint) -> None:
    """One command, in a process that dies at ``point``."""
    asked = json.dumps([point.method, point.side, point.nth]), json.dumps(command)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _KILLED, *asked],
        env={**environment, "PYTHONPATH": str(CHECKOUT)},
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr
