"""Which lines of the package the tests run, measured by SlipCover at a third of what coverage.py costs, for coverage.py's reports."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import cast

from coverage import CoverageData
from slipcover import Slipcover

PACKAGE = Path(__file__).resolve().parent.parent / "airflow_provider_connect"
_WRITE_SECONDS = 300
DATA = PACKAGE.parent / ".dev" / "coverage.data"


class LineCoverage:
    """Finds the package's modules for Python's import, has their code measured, and writes down which lines have run: at the end of the
    session, and every few minutes, because a test may end the process. ``name`` is the process's own."""

    def __init__(self, name: str) -> None:
        self._lines, self._name, self._written = Slipcover(), name, time.monotonic()

    def begin(self) -> None:
        """Before the first import of the package."""
        assert PACKAGE.name not in sys.modules
        Slipcover.find_functions = staticmethod(_find_functions)
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] != PACKAGE.name:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _MeasuredLoader(self._lines, spec.loader)
        return spec

    def pytest_runtest_logfinish(self) -> None:
        if time.monotonic() > self._written + _WRITE_SECONDS:
            self.pytest_sessionfinish()
            self._written = time.monotonic()

    def pytest_sessionfinish(self) -> None:
        self._lines.get_coverage()  # adds up what has run; without lines such as x: int, which coverage.py counts
        data = CoverageData(str(DATA), suffix=self._name)
        data.erase()
        data.add_lines({file: lines for file, lines in self._lines.all_seen.items() if Path(file).is_relative_to(PACKAGE)})
        data.touch_files([str(file) for file in PACKAGE.rglob("*.py")])
        data.write()


_find = Slipcover.find_functions


def _find_functions(items: Iterable[object], visited: set[object]) -> list[FunctionType]:
    """Of a copy: another thread may add to a module's names meanwhile."""
    found: list[FunctionType] = _find(list(items), visited)
    return found


class _MeasuredLoader(SourceFileLoader):
    def __init__(self, lines: Slipcover, of: SourceFileLoader) -> None:
        super().__init__(of.name, of.path)
        self._lines = lines

    def get_code(self, fullname: str) -> CodeType:
        return cast("CodeType", self._lines.instrument(super().get_code(fullname)))

    def exec_module(self, module: ModuleType) -> None:
        self._lines.register_module(module)
        super().exec_module(module)
