"""What every test may ask for: a real broker, worker settings of its own, free ports. A test's folder is its mark."""

import os
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.dev.ports import free_ports
from airflow_provider_connect.dev.postgres_server import PostgresServer
from tests.mariadb_server import MariadbServer, MissingServerError

CHECKOUT = Path(__file__).resolve().parent.parent
CACHE = CHECKOUT / ".dev" / "cache"
os.environ.setdefault("AIRFLOW_PROVIDER_CONNECT_CACHE", str(CACHE))
CACHE.mkdir(mode=0o700, parents=True, exist_ok=True)

WorkerSettings = Callable[..., dict[str, str]]


FOLDERS = ("unit", "contract", "integration", "e2e")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test below ``tests/unit`` is marked ``unit``, and so on; the quick folders run first."""
    for item in items:
        if (folder := _folder(item)) in FOLDERS:
            item.add_marker(folder)
    items.sort(key=lambda item: FOLDERS.index(_folder(item)) if _folder(item) in FOLDERS else len(FOLDERS))


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(CHECKOUT / "tests").parts[0]


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


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A real broker that all tests of the session share. A test that stops or freezes a broker starts one of its own."""
    soon = {"log.cleaner.backoff.ms": "500"}  # a test that waits for compaction would wait for 15 s
    with KafkaServer(tmp_path_factory.mktemp("kafka"), CACHE, soon) as server:
        yield server


@pytest.fixture(scope="session")
def bootstrap(kafka: KafkaServer) -> str:
    """``host:port`` of the shared broker."""
    return kafka.bootstrap_servers


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL that all tests of the session share."""
    with PostgresServer() as server:
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
    """A port of the loopback interface that nobody listens on."""
    return free_ports(1)[0]
