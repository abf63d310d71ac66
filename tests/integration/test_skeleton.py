"""What ``connect-new`` makes passes its own tests, ruff and mypy, as it is made; the tutorial takes a source of it further."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.skeleton.new import Kind, main
from tests.conftest import CACHE, CHECKOUT
from tests.integration.pages import Shell, run_steps, steps
from tests.waiting import HANG_SECONDS

FUNCTIONS = (Kind.SOURCE, Kind.SINK, Kind.TRANSFORMATION)
CHECKS = (
    ("ruff", "check"),
    ("ruff", "format", "--check"),
    ("mypy", "--follow-imports", "silent", "--cache-dir", str(CACHE / "mypy-skeleton")),  # silent: what it reports of this checkout
)


def checked(package: Path, module: str, *arguments: str, **environment: str) -> str:
    """What ``python -m module`` printed in the package, as its author would run it. Fails the test where it fails."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "AIRFLOW_"))}
    command = [sys.executable, "-W", "ignore", "-m", module, *arguments]
    done = subprocess.run(
        command, cwd=package, env={**kept, **environment}, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


ALONE = [*([f"--{kind}"] for kind in Kind), *([f"--{kind}", "--decorated"] for kind in FUNCTIONS)]


@pytest.mark.parametrize(
    "arguments", [pytest.param(each, marks=pytest.mark.soak if number else []) for number, each in enumerate(ALONE)], ids=" ".join
)
def test_a_package_passes_its_own_tests(arguments: list[str], tmp_path: Path) -> None:
    main(["my-connector", *arguments, "--directory", str(tmp_path)])
    assert " passed" in checked(tmp_path / "my-connector", "pytest", "-q")


@pytest.mark.soak
@pytest.mark.parametrize("kinds", [pytest.param(Kind, id="classes"), pytest.param(FUNCTIONS, id="functions")])
def test_a_package_with_all_kinds_passes_all_checks_and_is_found_where_it_is_installed(kinds: Iterable[Kind], tmp_path: Path) -> None:
    decorated = ["--decorated"] if kinds is FUNCTIONS else []
    main(["my-connector", *(f"--{kind}" for kind in kinds), *decorated, "--directory", str(tmp_path)])
    package, location = tmp_path / "my-connector", tmp_path / "plugins" / "my-connector-0.1.0"
    for check in CHECKS:
        checked(package, *check, MYPYPATH=str(CHECKOUT))  # mypy does not see what is installed for editing
    assert " passed" in checked(package, "pytest", "-q")
    checked(package, "pip", "install", "--no-deps", "--no-build-isolation", "--target", str(location), ".")
    catalog = PluginCatalog([str(location.parent)])
    found = {str(plugin.kind): plugin.version for plugin in catalog.plugins() if "my_connector" in plugin.reference}
    assert found == dict.fromkeys(map(str, kinds), "0.1.0")


@pytest.mark.parametrize(
    ("arguments", "tea"),
    [
        pytest.param([], '"value": "tea"', id="classes"),
        pytest.param(["--decorated"], '"value": {"position": 4, "line": "tea"}}', id="functions"),
    ],
)
def test_the_readme_of_a_package_runs(arguments: list[str], tea: str, bootstrap: str, unique: str, tmp_path: Path) -> None:
    """The lines of its section on use, with the package on ``plugin.path``."""
    label = f"p{unique[-8:]}"
    main([f"{label}-connector", "--both", *arguments, "--directory", str(tmp_path)])
    package = tmp_path / f"{label}-connector"
    location = tmp_path / "plugins" / "package-0.1.0"
    checked(package, "pip", "install", "--no-deps", "--no-build-isolation", "--target", str(location), ".")
    worker = package / "worker.properties"
    worker.write_text(worker.read_text().replace("localhost:9092", bootstrap) + f"plugin.path={location.parent}\n")
    use = (package / "README.md").read_text().split("## Use it")[1].split("## Release it")[0]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    with Shell(package, environment) as shell:
        printed = run_steps(shell, steps(use), package, [], compares=False)
    assert tea in printed
    with closing(sqlite3.connect(package / "connect-data" / f"{label}-sink.db")) as database:
        assert [row[-1] for row in database.execute("SELECT * FROM records ORDER BY rowid")] == ["tea", "bread"]


def test_the_code_of_the_pages_for_authors_passes_its_tests(tmp_path: Path) -> None:
    """All of it in one generated package, as an author would put it there."""
    main(["shop", *(f"--{kind}" for kind in Kind), "--directory", str(tmp_path)])
    package, written = tmp_path / "shop", 0
    for page in sorted((CHECKOUT / "docs").glob("*.md")):
        if page.name.startswith("writing-") or page.name == "testing-plugins.md":
            for step in steps(page.read_text(encoding="utf-8")):
                if step.file is not None:
                    (package / step.file).write_text(step.text, encoding="utf-8")
                    written += 1
    assert written == 13
    checked(package, "ruff", "check")
    assert " passed" in checked(package, "pytest", "-q")
