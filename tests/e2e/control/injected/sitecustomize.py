"""Loaded by every Python process of a stack that has this folder on its PYTHONPATH: a verb's process ends by SIGKILL at one of its steps.

``KILL_STEPS`` is a JSON list of methods, ``module:Class.method``; ``KILL_FILE`` is written while the process lives, and names which of them
strikes next: ``step``, ``when`` (before, after), ``token``, a file that is made just before the end. Product code knows nothing of this.
"""

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
from pathlib import Path

FILE = Path(os.environ.get("KILL_FILE", os.devnull))
STEPS: list[str] = json.loads(os.environ.get("KILL_STEPS", "[]"))


def strike_if_asked(step: str, when: str) -> None:
    """The file is moved first, so that only the process that has it dies of it."""
    with contextlib.suppress(FileNotFoundError):
        request = json.loads(FILE.read_text())
        if (request["step"], request["when"]) == (step, when):
            FILE.rename(request["token"])
            os.kill(os.getpid(), signal.SIGKILL)


def wrap(module: object, step: str) -> None:
    owner_name, method_name = step.partition(":")[2].rsplit(".", 1)
    owner = getattr(module, owner_name)
    original = getattr(owner, method_name)

    def deadly(*args: object, **kwargs: object) -> object:
        strike_if_asked(step, "before")
        result = original(*args, **kwargs)
        strike_if_asked(step, "after")
        return result

    setattr(owner, method_name, deadly)


class Finder(importlib.abc.MetaPathFinder):
    """Wraps the steps of a module right after it is executed."""

    def __init__(self) -> None:
        self._left = {step.partition(":")[0] for step in STEPS}

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name not in self._left:
            return None
        self._left.discard(name)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: object) -> None:
            execute(module)  # type: ignore[arg-type]
            for step in STEPS:
                if step.partition(":")[0] == name:
                    wrap(module, step)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if STEPS:
    sys.meta_path.insert(0, Finder())
