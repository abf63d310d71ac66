"""Loaded by every Python process of a run that has this folder on its PYTHONPATH: makes one step of a commit fatal.

``FAULT`` is JSON: ``step`` (a ``CommitStep``, or ``module:Class.method``), ``when`` (before, after; during: so many seconds after its
begin as the fault lingers, wherever the process is by then), ``nth`` call, ``signal``, ``victim``
(worker, driver, jvm; or broker connection, backend, which the process only loses) and ``token``, a file whose creation makes the fault
happen only once however many processes come by. A ``CommitStep`` is struck by the hook of the deliveries, a method by a wrapper.

A step ``java:Class.method`` is in the JVM of a Java task of ``connector``: the fault strikes when the thread of the task is seen in it
for the ``nth`` time. Its victims are worker (the process that has started the JVM), driver, and java, the JVM.
"""

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

FAULT = json.loads(os.environ.get("FAULT", "null"))
JAVA = "airflow_provider_connect.runtime.java.jvm.connect_worker"
HOOK = "airflow_provider_connect.runtime.worker.delivery.commit_steps"
CALLS = count(1)


def victim_pid() -> int:
    if FAULT["victim"] == "java":
        return int(FAULT["java_pid"])
    if FAULT["victim"] == "worker":
        return os.getpid()
    driver = int((Path(FAULT["run_dir"]) / "driver.pid").read_text())
    if FAULT["victim"] == "driver":
        return driver
    stat = Path(f"/proc/{driver}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])  # the JVM is the driver's parent


def strike() -> None:
    with contextlib.suppress(FileExistsError):
        os.close(os.open(FAULT["token"], os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        Path(f"{FAULT['token']}.pid").write_text(str(os.getpid()))
        if FAULT["victim"] in ("broker connection", "backend"):
            if not lose_connections():
                os.unlink(FAULT["token"])  # nothing has happened
            return
        sign = getattr(signal, FAULT["signal"])
        if FAULT["victim"] == "worker" and FAULT["when"] != "during":
            signal.pthread_kill(threading.get_ident(), sign)  # a signal to the process may let this thread go on into its step first
            return
        os.kill(victim_pid(), sign)
        if FAULT["victim"] != "worker":
            time.sleep(float(FAULT.get("linger", 0)))  # whether the step still happens is left to chance


def lose_connections() -> bool:
    """Those to the broker, for as long as the fault lingers, or the backends of the run. False: there are none at this step."""
    from tests.e2e.faults import connections  # here: every process of a run loads this module, and few need that one

    linger = float(FAULT["linger"])
    if FAULT["victim"] == "broker connection":
        return connections.cut(FAULT["bootstrap"], linger)
    if not connections.end_backends(FAULT["database"], FAULT["connector"], FAULT["signal"]):
        return False
    time.sleep(linger)
    return True


def module_name() -> str:
    """The module that is changed right after it is executed."""
    name, colon, _ = FAULT["step"].partition(":")
    return JAVA if name == "java" else name if colon else HOOK


@contextlib.contextmanager
def around(step: str) -> Iterator[None]:
    """Strikes before or after a step; the hook in place of ``commit_steps.unobserved``."""
    is_nth = step == FAULT["step"] and next(CALLS) == FAULT["nth"]
    if is_nth and FAULT["when"] == "before":
        strike()
    if is_nth and FAULT["when"] == "during":
        later = threading.Timer(float(FAULT["linger"]), strike)
        later.daemon = True  # a process that has ended is not held up
        later.start()
    yield
    if is_nth and FAULT["when"] == "after":
        strike()


def watch_java(worker: object, task: object) -> None:
    """Strike when the thread of the task is in the step. Ends with the JVM."""
    name, step = f"task-thread-{task.connector}-{task.number}", f".{FAULT['step'].partition(':')[2]}("  # type: ignore[attr-defined]
    lang, writers = worker.jvm.java.java.lang, worker.jvm.java.java.io  # type: ignore[attr-defined]
    thread, was_in = None, False
    with contextlib.suppress(Exception):
        while True:
            if thread is None:
                thread = next((each for each in lang.Thread.getAllStackTraces().keySet() if each.getName() == name), None)
                continue
            stack, text = lang.Throwable(), writers.StringWriter()
            stack.setStackTrace(thread.getStackTrace())
            stack.printStackTrace(writers.PrintWriter(text))
            is_in = step in text.toString()
            if is_in and not was_in and next(CALLS) == FAULT["nth"]:
                FAULT["java_pid"] = worker.jvm.pid  # type: ignore[attr-defined]
                strike()
                return
            was_in = is_in


def wrap_java(module: object) -> None:
    original = module.ConnectWorker.start_task  # type: ignore[attr-defined]

    def start_task(worker: object, task: object, *args: object, **kwargs: object) -> None:
        if task.connector == FAULT["connector"]:  # type: ignore[attr-defined]
            threading.Thread(target=watch_java, args=(worker, task), daemon=True).start()
        original(worker, task, *args, **kwargs)

    module.ConnectWorker.start_task = start_task  # type: ignore[attr-defined]


def wrap(module: object) -> None:
    if FAULT["step"].startswith("java:"):
        wrap_java(module)
        return
    if ":" not in FAULT["step"]:
        module.unobserved = around  # type: ignore[attr-defined]
        return
    owner_name, method_name = FAULT["step"].partition(":")[2].rsplit(".", 1)
    owner = getattr(module, owner_name)
    original = getattr(owner, method_name)

    def step(*args: object, **kwargs: object) -> object:
        with around(FAULT["step"]):
            return original(*args, **kwargs)

    setattr(owner, method_name, step)


class Finder(importlib.abc.MetaPathFinder):
    """Wraps the step's module right after it is executed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name != module_name():
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: object) -> None:
            execute(module)  # type: ignore[arg-type]
            if module.__name__ == name:  # type: ignore[attr-defined]  # one importer serves all that is in a zip
                wrap(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if FAULT is not None:
    sys.meta_path.insert(0, Finder())
