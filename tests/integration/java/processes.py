"""Processes below a process, listed while they start and end."""

import subprocess
from contextlib import suppress

import psutil

JVM = "connect-java"
"""Part of the command line of a JVM that runs a plugin."""


def children(having: str = JVM, of: int | None = None, *, recursive: bool = False) -> list[psutil.Process]:
    """Children of the process ``of`` (this one by default) with ``having`` in their command lines; with ``recursive``, theirs as well."""
    try:
        below = psutil.Process(of).children(recursive=recursive)
    except psutil.NoSuchProcess:
        return []
    return [child for child in below if having in _command_line(child)]


def jvm_of(process: "subprocess.Popen[str]") -> psutil.Process | None:
    """The run's JVM, wherever below it: in a Spark application it is a child of a Python worker. None: none yet, or no longer."""
    return next(iter(children(of=process.pid, recursive=True)), None)


def _command_line(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):  # it has ended, and other tests may leave ended processes that nothing waits for
        return " ".join(process.cmdline())
    return ""
