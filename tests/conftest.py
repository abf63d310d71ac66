"""What every test may ask for: a real broker, worker settings of its own, free ports. A test's folder is its mark.

Processes of xdist share the tests by groups, each whole in one process, so that its servers start once. Groups that take long come first.
"""

import functools
import gc
import json
import logging
import os
import random
import re
import sys
import threading
import time
import uuid
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.dev.own_server import free_ports
from airflow_provider_connect.dev.postgres_server import PostgresServer
from tests import LINE_COVERAGE, outcomes
from tests.debian_packages import MissingServerError
from tests.group_scheduling import GroupScheduling
from tests.mariadb_server import MariadbServer
from tests.paused_collector import paused_collector
from tests.waiting import HANG_SECONDS

CHECKOUT = Path(__file__).resolve().parent.parent
CACHE = CHECKOUT / ".dev" / "cache"
os.environ.setdefault("AIRFLOW_PROVIDER_CONNECT_CACHE", str(CACHE))
CACHE.mkdir(mode=0o700, parents=True, exist_ok=True)

WorkerSettings = Callable[..., dict[str, str]]


FOLDERS = ("unit", "contract", "integration", "e2e")
OF_ONE_SERVER = (
    "contract/rest",
    "integration/airflow",
    "integration/client",
    "integration/clients",
    "integration/mirror_maker",
    "integration/registry",
)
LONGEST = ("integration/airflow", "integration/test_readme.py")
GARBAGE = (10_000, 10, 10)  # new objects, and rounds of younger ones, before a round of the collector
STARTS = frozenset({"subprocess.Popen", "os.fork", "os.posix_spawn"})  # events that Python audits

SLOW = [HealthCheck.too_slow]  # a loaded machine is no mistake of a strategy
settings.register_profile("fixed", derandomize=True, max_examples=60, deadline=None, suppress_health_check=SLOW)  # the same in every run
settings.register_profile("random", database=None, max_examples=400, deadline=None, suppress_health_check=SLOW)
settings.load_profile("random" if "SEED" in os.environ else "fixed")


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.register(outcomes)
    parser.addoption("--durations-file", type=Path, help="a JSON file for the seconds of each test, of each file and of each folder")
    parser.addoption("--shuffle", metavar="SEED", help="run modules, and the tests of each, in the random order of this seed")
    parser.addoption("--no-process", action="store_true", help="skip each test that starts a process, as soon as it does")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--durations-file")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations(path))
    terminal = config.pluginmanager.getplugin("terminalreporter")
    if isinstance(terminal, pytest.TerminalReporter) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailureNames(terminal))
    if LINE_COVERAGE is not None:
        config.pluginmanager.register(LINE_COVERAGE)
    if config.getoption("--no-process"):
        sys.addaudithook(_skip_a_process)


def _skip_a_process(event: str, _: object) -> None:
    """In the thread of the test: a server that runs in another one may start what it likes."""
    if event in STARTS and "PYTEST_CURRENT_TEST" in os.environ and threading.current_thread() is threading.main_thread():
        pytest.skip("starts a process")


class FailureNames:
    """Prints the name of each failed test at once: a run of hours may end without its summary."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._terminal.write_line(f"\nFAILED {report.nodeid}: {report.when}", red=True)


class Durations:
    """Adds up how long tests take, with their fixtures, in all processes, and writes it at the end of the session."""

    def __init__(self, path: Path) -> None:
        self._path, self._started = path, time.monotonic()
        self._tests: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._tests[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        files: dict[str, float] = defaultdict(float)
        folders: dict[str, float] = defaultdict(float)
        for test, seconds in self._tests.items():
            file = test.partition("::")[0]
            files[file] += seconds
            folders["/".join(Path(file).parent.parts[1:3])] += seconds
        found = {"seconds": round(time.monotonic() - self._started), "folders": _longest_first(folders)}
        found |= {"files": _longest_first(files), "tests": _longest_first(self._tests)}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _longest_first(seconds: Mapping[str, float]) -> dict[str, float]:
    return {name: round(seconds[name], 2) for name in sorted(seconds, key=lambda name: -seconds[name])}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling:
    return GroupScheduling(config, log, lambda test: _group(Path(test.partition("::")[0]).relative_to("tests")))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected and imported stays until the end: the garbage collector does not go through these million objects each time, and
    runs more seldom, because a heap that is small without them would count as grown after every few tests."""
    with paused_collector():
        collected = yield
        gc.freeze()
    gc.set_threshold(*GARBAGE)
    return collected


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test below ``tests/unit`` is marked ``unit``, and so on. In one process the quick folders run first, in several the slow ones."""
    for item in items:
        if (folder := _folder(item)) in FOLDERS:
            item.add_marker(folder)
        if config.getoption("--no-process") and item.get_closest_marker("process"):
            item.add_marker(pytest.mark.skip("starts a process"))
    if (seed := config.getoption("--shuffle")) is not None:
        _shuffle(items, random.Random(seed))
    items.sort(key=_slow_first if hasattr(config, "workerinput") else _quick_first)


def _shuffle(items: list[pytest.Item], order: random.Random) -> None:
    """The same order in each process. Tests of a module stay together, because they share its servers."""
    order.shuffle(items)
    modules = dict.fromkeys(item.path for item in items)
    ranks = {module: rank for rank, module in enumerate(modules)}
    items.sort(key=lambda item: ranks[item.path])


def _folder(item: pytest.Item) -> str:
    return _below_tests(item).parts[0]


def _below_tests(item: pytest.Item) -> Path:
    return _relative(item.path)


@functools.cache
def _relative(path: Path) -> Path:
    return path.relative_to(CHECKOUT / "tests")


def _group(path: Path) -> str:
    """A file, for the servers of its module; or a folder with a server for all of its files."""
    return str(path.parent) if str(path.parent) in OF_ONE_SERVER else str(path)


def _quick_first(item: pytest.Item) -> int:
    return FOLDERS.index(_folder(item)) if _folder(item) in FOLDERS else len(FOLDERS)


def _slow_first(item: pytest.Item) -> tuple[int, int]:
    group = _group(_below_tests(item))
    return LONGEST.index(group) if group in LONGEST else len(LONGEST), -_quick_first(item)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, object, object]:
    """Half a surrogate pair that a test has logged becomes an escape: xdist ends the whole session over a report that is not UTF-8."""
    return _escaped((yield))


def _escaped(value: object) -> object:
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {_escaped(key): _escaped(each) for key, each in value.items()}
        case list() | tuple():
            return type(value)(map(_escaped, value))
    return value


@pytest.fixture(autouse=True)
def unmasked() -> Iterator[None]:
    """A run in the test's own process masks what it logs and prints, for good: later tests would pay for the masks of all runs."""
    streams, show, handlers = (sys.stdout, sys.stderr), warnings.showwarning, logging.getLogger().handlers
    filters = [(handler, [*handler.filters]) for handler in [*handlers, logging.lastResort] if handler is not None]
    yield
    for handler, before in filters:
        handler.filters[:] = before
    (sys.stdout, sys.stderr), warnings.showwarning = streams, show


@pytest.fixture
def timings(record_property: Callable[[str, object], None]) -> list[str]:
    """Lines about how long something took, printed at the end of the session, also by one of several processes."""
    lines: list[str] = []
    record_property(_TIMINGS, lines)  # before the test ends: its report holds what there is by then
    return lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in [report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)]:
        for lines in (value for name, value in report.user_properties if name == _TIMINGS):
            terminalreporter.section(report.nodeid)
            for line in lines:
                terminalreporter.write_line(line)


_TIMINGS = "timings"
UNFENCED = {"broker.session.timeout.ms": str(int(1000 * HANG_SECONDS))}
"""With Kafka's 9 s, a broker that gets no processor for that long is fenced: it leads no partition and refuses new topics."""


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A real broker that all tests of the session share. A test that stops or freezes a broker starts one of its own."""
    with KafkaServer(tmp_path_factory.mktemp("kafka"), CACHE, UNFENCED) as server:
        yield server


@pytest.fixture(scope="session")
def bootstrap(kafka: KafkaServer) -> str:
    """``host:port`` of the shared broker."""
    return kafka.bootstrap_servers


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL that all tests of the session share. A test that makes a replication slot drops it, or the WAL grows. Without
    autovacuum, which would write megabytes of WAL between two looks at a slot."""
    with PostgresServer(wal_level="logical", autovacuum="off") as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariadbServer]:
    """A real MariaDB that all tests of the session share; where none can be had, its tests are skipped."""
    try:
        server = MariadbServer(CACHE).start()
    except MissingServerError as error:
        pytest.skip(str(error))
    yield server
    server.stop()


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    """A name that no other test has, fit for topics, groups and connectors."""
    return f"{re.sub(r'[^a-zA-Z0-9]+', '-', request.node.name).strip('-')[:40]}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def worker_settings(bootstrap: str, unique: str) -> WorkerSettings:
    """Makes the properties of a worker group that belongs to this test alone; arguments are added with ``_`` for ``.``."""

    def make(**changes: str) -> dict[str, str]:
        return worker_properties(bootstrap, unique) | {name.replace("_", "."): value for name, value in changes.items()}

    return make


def worker_properties(bootstrap_servers: str, name: str) -> dict[str, str]:
    """Settings of a worker group ``name`` on a broker of one node."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "group.id": f"group-{name}",
        "config.storage.topic": f"configs-{name}",
        "config.storage.replication.factor": "1",
        "offset.storage.topic": f"offsets-{name}",
        "offset.storage.replication.factor": "1",
        "offset.storage.partitions": "5",
        "status.storage.topic": f"status-{name}",
        "status.storage.replication.factor": "1",
        "status.storage.partitions": "2",
        "batch.storage.topic": f"batches-{name}",
        "batch.storage.replication.factor": "1",
        "connectors.allowed.paths": "/",  # tests have folders of their own
    }


@pytest.fixture
def free_port() -> int:
    """A port of the loopback interface that no process listens on."""
    return free_ports(1)[0]
