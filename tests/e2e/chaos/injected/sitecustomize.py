"""Loaded by every Python process of a stack whose variables have this folder on PYTHONPATH: the fault that ``FAULT_FILE`` names, if any.

As ``faults/injected``, whose code does it; but the file may change from run to run, and victims are found from the Python worker upwards:
worker, JVM (which is spark-submit's process), Airflow's task process, its supervisor. ``pid`` in the file names any other victim.
"""

import importlib.util
import os
from pathlib import Path

FILE = Path(os.environ.get("FAULT_FILE", os.devnull))
STRIKES = Path(__file__).parents[2] / "faults" / "injected" / "sitecustomize.py"
ABOVE_JVM = {"jvm": 0, "task": 1, "supervisor": 2}


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def victim_pid(fault: dict[str, object]) -> int:
    if fault["victim"] == "worker":
        return os.getpid()
    if fault["victim"] not in ABOVE_JVM:
        return of_this_stack(int(str(fault["pid"])))
    pid = os.getpid()
    while Path(f"/proc/{pid}/comm").read_text().strip() != "java":
        pid = parent_of(pid)
    for _ in range(ABOVE_JVM[str(fault["victim"])]):
        pid = parent_of(pid)
    return of_this_stack(pid)


def of_this_stack(pid: int) -> int:
    """The same; but a process that is not the stack's (its own parent has ended, its number is another's by now) is never struck."""
    mark = f"CONNECT_STACK_MARK={os.environ['CONNECT_STACK_MARK']}".encode()
    if mark not in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        raise ProcessLookupError(f"process {pid} is none of this stack")
    return pid


def load(text: str) -> None:
    os.environ["FAULT"] = text
    try:
        spec = importlib.util.spec_from_file_location("injected_fault", STRIKES)
        assert spec is not None
        assert spec.loader is not None
        strikes = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(strikes)
        strikes.victim_pid = lambda: victim_pid(strikes.FAULT)  # type: ignore[attr-defined]
    finally:
        del os.environ["FAULT"]  # what this process starts asks the file anew


if FILE.is_file():
    load(FILE.read_text())
