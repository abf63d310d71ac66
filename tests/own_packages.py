"""Packages beside the environment that runs the tests: in it, every Airflow of the tests would load them."""

from __future__ import annotations

import hashlib
import shutil
import sys
from functools import partial
from pathlib import Path

from airflow_provider_connect.runtime.spark.cache import cache_directory, made_once
from tests.package_clients import fetch

FAB = Path(__file__).resolve().parent / "integration" / "airflow" / "fab.txt"
OPENLINEAGE = FAB.with_name("openlineage.txt")


def own_packages(requirements: Path) -> Path:
    """A folder for ``PYTHONPATH`` with the packages of a file, which pins each of them; installed once."""
    return made_once(cache_directory() / requirements.stem / mark_of(requirements), partial(_install, requirements))


def mark_of(requirements: Path) -> str:
    """Another one for other packages, and for another Python."""
    return hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]


def _install(requirements: Path, folder: Path) -> None:
    uv = Path(sys.executable).parent / "uv"
    command = [str(uv), "pip", "install", "--python", sys.executable] if uv.exists() else [sys.executable, "-m", "pip", "install"]
    done = fetch([*command, "-q", "--target", str(folder), "--no-deps", "-r", str(requirements)])
    if done.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        raise RuntimeError(f"{requirements.name} cannot be installed: {done.stderr}")
