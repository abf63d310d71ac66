"""An Airflow whose commands a test runs, without any server: its environment, with an empty database."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from airflow_provider_connect.dev.airflow_server import database_template
from airflow_provider_connect.runtime.spark.cache import cache_directory, made_once


def airflow_home(home: Path, variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of an Airflow in ``home``. Its database is a copy of one in the cache: a migration takes ten seconds."""
    environment = airflow_environment(home, variables)
    home.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(made_once(database_template(cache_directory()), _migrated), home / "airflow.db")
    return environment


def airflow_environment(home: Path, variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of an Airflow in ``home``, whose database may be missing; nothing of another Airflow's."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW__", "AIRFLOW_HOME", "_AIRFLOW"))}
    return inherited | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}?timeout=20",
        **(variables or {}),
    }


def run_python(environment: Mapping[str, str], *arguments: str) -> str:
    """What a Python program prints in ``environment``. Raises RuntimeError with its errors."""
    done = subprocess.run([sys.executable, *arguments], env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{arguments}: {done.stderr[-3000:]}")
    return done.stdout


def _migrated(file: Path) -> None:
    run_python(airflow_environment(file.parent), "-m", "airflow", "db", "migrate")
    (file.parent / "airflow.db").rename(file)
