"""The floors of coverage, of the whole and of each module that carries records or state: ``python -m tests.covered``, after the tests."""

from __future__ import annotations

import io
import json
import sys
import tempfile
from pathlib import Path

import coverage
from coverage.exceptions import NoDataError

from tests.line_coverage import DATA, PACKAGE

CHECKOUT = PACKAGE.parent
ROOMS = ("runtime/worker", "runtime/java/task", "runtime/java/config", "runtime/stores", "runtime/herder")
FLOOR = 85.0


def measured() -> coverage.Coverage:
    """What all processes of the last tests have run. Ends with 1 where nothing is measured."""
    found = coverage.Coverage(config_file=str(CHECKOUT / "pyproject.toml"))
    try:
        found.combine([str(DATA.parent)], strict=True, keep=True)
    except NoDataError:
        sys.exit("There is nothing measured: run make test first")
    found.save()
    return found


def shares(found: coverage.Coverage) -> dict[str, float]:
    """The percentage that has run of each module of the rooms, by its path in the package."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "coverage.json"
        found.json_report(outfile=str(file))
        files = json.loads(file.read_text())["files"]
    paths = {(CHECKOUT / name).relative_to(PACKAGE): one["summary"]["percent_covered"] for name, one in files.items()}
    return {str(path): share for path, share in paths.items() if str(path).startswith(ROOMS)}


def main() -> None:
    """Ends with 1 where the whole or a module is below its floor."""
    found = measured()
    whole, floor = found.report(file=io.StringIO()), found.config.fail_under
    wrong = [f"{PACKAGE.name}: {whole:.1f} %, the floor is {floor:.0f}"] if whole < floor else []
    wrong += [f"{name}: {share:.0f} %, the floor is {FLOOR:.0f}" for name, share in sorted(shares(found).items()) if share < FLOOR]
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"Coverage: {whole:.1f} %")


if __name__ == "__main__":
    main()
