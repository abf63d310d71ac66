"""A floor for each module that carries records or state, beside that of the whole: ``python -m tests.covered``, after the tests."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import coverage

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = CHECKOUT / "airflow_provider_connect"
ROOMS = ("worker", "stores", "herder")
FLOOR = 85.0


def shares() -> dict[str, float]:
    """The percentage that the last tests have run of each module of the rooms, by its path in the package."""
    measured = coverage.Coverage(config_file=str(CHECKOUT / "pyproject.toml"))
    measured.load()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "coverage.json"
        measured.json_report(outfile=str(file))
        found = json.loads(file.read_text())["files"]
    paths = {(CHECKOUT / name).relative_to(PACKAGE): one["summary"]["percent_covered"] for name, one in found.items()}
    return {str(path): share for path, share in paths.items() if path.parts[0] in ROOMS}


def main() -> None:
    """Ends with 1 where a module is below the floor."""
    found = shares()
    wrong = [f"{name}: {share:.0f} %, the floor is {FLOOR:.0f}" for name, share in sorted(found.items()) if share < FLOOR]
    if wrong or not found:
        sys.exit("\n".join(wrong) or "There is nothing measured: run make test first")


if __name__ == "__main__":
    main()
