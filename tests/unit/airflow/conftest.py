"""An Airflow of its own for these tests: made before Airflow is first imported, with no database behind it."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

_HOME = tempfile.mkdtemp(prefix="airflow-home-")
os.environ |= {
    "AIRFLOW_HOME": _HOME,
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_FOLDER": f"{_HOME}/dags",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
}


def pytest_unconfigure() -> None:
    """Nothing of it is left in the temporary folder."""
    shutil.rmtree(_HOME, ignore_errors=True)


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the connections, variables and options of the user who runs it, nor settings that were good in another test."""
    for name in list(os.environ):
        if name.startswith(("AIRFLOW_CONN_", "AIRFLOW_VAR_", "AIRFLOW__CONNECT__")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AIRFLOW__CONNECT__RUN_DIRECTORY", str(tmp_path / "private"))


@pytest.fixture
def run_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for runs, set as the option."""
    path = tmp_path / "runs"
    monkeypatch.setenv("AIRFLOW__CONNECT__RUN_DIRECTORY", str(path))
    return path
