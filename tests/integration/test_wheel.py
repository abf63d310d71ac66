"""The wheel: built from a copy of this checkout, installed beside Airflow and nothing of ours, and found by it."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
OURS = ("airflow_provider_connect", "__editable__", "_airflow_provider_connect")


@pytest.fixture(scope="session")
def bare_airflow(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with Airflow and Spark, in which this package came from the wheel alone.

    It sees the libraries of the environment that runs the tests, link by link, but not the checkout that is installed there.
    """
    home = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(home, with_pip=False, symlinks=True)
    libraries = next(home.glob("lib/python*/site-packages"))
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(OURS) and not (libraries / entry.name).exists():
            (libraries / entry.name).symlink_to(entry)
    python = home / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "--no-compile", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return python


def run(python: Path, home: Path, *arguments: str, examples: bool = False) -> str:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "_AIRFLOW", "PYTHON"))}
    environment = inherited | {"AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": str(examples)}
    done = subprocess.run([str(python), *arguments], env=environment, cwd=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_holds_the_examples_the_jobs_the_migrations_and_the_types(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, inside in (("dags", "examples"), ("spark_jobs", "spark_jobs"), ("airflow_provider_connect", "")):
        for file in (CHECKOUT / folder).rglob("*.py"):
            path = Path("airflow_provider_connect", inside, file.relative_to(CHECKOUT / folder))
            assert str(path) in names
    assert {
        "airflow_provider_connect/py.typed",
        "airflow_provider_connect/rest/ui/connect.js",
        "airflow_provider_connect/runtime/sql_mirror/alembic.ini",
        "airflow_provider_connect/runtime/sql_mirror/migrations/script.py.mako",
    } <= names
    templates = (CHECKOUT / "airflow_provider_connect" / "skeleton" / "templates").glob("*")
    assert {str(file.relative_to(CHECKOUT)) for file in templates} <= names


def test_it_holds_nothing_else(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"airflow_provider_connect"}


def test_airflow_loads_no_example_of_ours_by_itself(bare_airflow: Path, tmp_path: Path) -> None:
    code = "from airflow.dag_processing.bundles.manager import DagBundlesManager as Manager; print(sorted(Manager()._bundle_config))"
    bundles = run(bare_airflow, tmp_path, "-W", "ignore", "-c", code, examples=True).splitlines()[-1]
    assert "example_dags" in bundles, "Airflow's own"
    assert "connect" not in bundles


def test_airflow_lists_the_provider_and_its_commands(bare_airflow: Path, tmp_path: Path) -> None:
    providers = json.loads(run(bare_airflow, tmp_path, "-m", "airflow", "providers", "list", "--output", "json"))
    assert "airflow-provider-connect" in {provider["package_name"] for provider in providers}
    assert "settings" in run(bare_airflow, tmp_path, "-m", "airflow", "connect", "--help")


def test_the_package_is_the_wheels_and_its_examples_parse(bare_airflow: Path, tmp_path: Path) -> None:
    code = (
        "import json, pathlib, airflow_provider_connect as package; from airflow.dag_processing.dagbag import DagBag; "
        "from airflow_provider_connect.operators.spark_submit import application_path; "
        "folder = pathlib.Path(package.__file__).parent / 'examples'; "
        "bag = DagBag(folder, bundle_path=folder, bundle_name='examples'); "
        "print(json.dumps([package.__file__, application_path(), bag.import_errors, sorted(bag.dags)]))"
    )
    package, application, errors, dags = json.loads(run(bare_airflow, tmp_path, "-W", "ignore", "-c", code).splitlines()[-1])
    assert not Path(package).is_relative_to(CHECKOUT)
    assert application == str(Path(package).parent / "spark_jobs" / "run_connector.py")
    assert errors == {}
    assert {"connect.demo-file-source", "connect.demo-file-sink"} <= set(dags)
