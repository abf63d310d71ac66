"""What ``connect-new`` makes passes its own tests, ruff and mypy, as it is made; the tutorial takes a source of it further."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from airflow_provider_connect.skeleton.new import main
from tests.conftest import CACHE, CHECKOUT

CHECKS = (
    ("ruff", "check"),
    ("ruff", "format", "--check"),
    ("mypy", "--follow-imports", "silent", "--cache-dir", str(CACHE / "mypy-skeleton")),  # silent: what it says of this checkout
    ("pytest", "-q"),
)


def test_a_package_passes_its_own_tests(tmp_path: Path) -> None:
    main(["my-connector", "--both", "--directory", str(tmp_path)])
    package = tmp_path / "my-connector"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "AIRFLOW_"))}
    for check in CHECKS:
        command = [sys.executable, "-W", "ignore", "-m", *check]
        environment = {**kept, "MYPYPATH": str(CHECKOUT)}  # mypy does not see what is installed for editing
        done = subprocess.run(command, cwd=package, env=environment, capture_output=True, text=True, check=False, timeout=250)
        assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
