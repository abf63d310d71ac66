"""The author's line that raised an exception, and traces for logs without this package's frames. Knows traces only as text."""

from __future__ import annotations

import os
import re
import sysconfig
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

_TRACEBACK: Final = "Traceback (most recent call last):\n"
_FRAME: Final = re.compile(r'^  File "(.+)", line (\d+)', re.MULTILINE)
_OURS: Final = os.path.join(Path(__file__).resolve().parents[3], "")
_STANDARD_LIBRARY: Final = os.path.join(sysconfig.get_path("stdlib"), "")
_INSTALLED: Final = ("site-packages", "dist-packages")
_LIBRARIES: Final = frozenset(
    {
        *("adbc_driver_manager", "adbc_driver_postgresql", "adbc_driver_sqlite", "asyncssh", "confluent_kafka", "deltalake", "duckdb"),
        *("fastavro", "fsspec", "httpx", "numpy", "obstore", "pandas", "polars", "py4j", "pyarrow", "pyiceberg", "pymysql", "pyspark"),
        *("regex", "requests", "sqlalchemy"),
    }
)
"""Import names of the libraries that this package itself calls."""


def line_of_author(trace: str) -> str:
    """`` (file, line number)`` of the author's last frame, which may have called a library. Empty if no frame is the author's.

    The author's files are the files of the first package or module that this package calls. The libraries of this package do not count. If
    there are several exceptions, the last one counts.
    """
    for part in reversed(trace.split(_TRACEBACK)):
        frames = [(found[1], found[2]) for found in _FRAME.finditer(part)]
        own = _author_frames(frames)
        if own:
            return " ({}, line {})".format(*own[-1])
    return ""


def without_framework(trace: str) -> str:
    """``trace`` for a log, without this package's frames, unless it has no others."""
    if not line_of_author(trace):
        return trace
    kept: list[str] = []
    is_ours = False
    for line in trace.splitlines():
        frame = _FRAME.match(line)
        if frame is not None:
            is_ours = frame[1].startswith(_OURS)
        elif not line.startswith("    "):
            is_ours = False
        if not is_ours:
            kept.append(line)
    return "\n".join(kept)


def _author_frames(frames: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    first = next((file for file, _ in frames if _is_foreign(file)), None)
    if first is None or _is_library(first):
        return []
    root = _root(first)
    return [(file, line) for file, line in frames if file == root or file.startswith(os.path.join(root, ""))]


def _is_foreign(file: str) -> bool:
    is_standard = file.startswith(_STANDARD_LIBRARY) and not any(f"/{name}/" in file for name in _INSTALLED)
    return os.path.isabs(file) and not (is_standard or file.startswith(_OURS))  # "<string>", and "pyarrow/types.pxi" of compiled modules


def _is_library(file: str) -> bool:
    parts = Path(file).parts
    return any(each in _INSTALLED and following.removesuffix(".py") in _LIBRARIES for each, following in pairwise(parts))


def _root(file: str) -> str:
    """The folder of the top-level package that contains ``file``, or the file itself if it is a module."""
    root = file
    while os.path.exists(os.path.join(os.path.dirname(root), "__init__.py")):
        root = os.path.dirname(root)
    return root
