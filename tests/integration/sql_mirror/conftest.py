"""A mirror on real databases, followers of it, and what they follow."""

import time
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine, create_engine, event, make_url, text

from airflow_provider_connect.dev.own_server import LOOPBACK
from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.sql_mirror.follower import MirrorFollower
from airflow_provider_connect.runtime.sql_mirror.tables import metadata
from tests.mariadb_server import MariadbServer
from tests.waiting import HANG_SECONDS, pauses

Follow = Callable[..., MirrorFollower]


@pytest.fixture(params=["sqlite", "postgresql", pytest.param("mariadb", marks=pytest.mark.soak)])
def url(request: pytest.FixtureRequest, unique: str) -> str:
    """The address of an empty database of each kind. MariaDB stands for MySQL, of which there is no package to start here."""
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path') / 'mirror.db'}"
    name = f"mirror_{unique[-8:]}"
    if request.param == "mariadb":
        return _made_in_mariadb(request.getfixturevalue("mariadb"), name)
    server: PostgresServer = request.getfixturevalue("postgres")
    engine = create_engine(server.url(), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"create database {name}"))
    engine.dispose()
    return server.url(name)


def _made_in_mariadb(server: MariadbServer, name: str) -> str:
    """With names that compare without case unless a column asks for more, as Airflow's guide has its database made."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"create database {name} character set utf8mb4 collate utf8mb4_unicode_ci")
    return f"mysql+pymysql://root@{LOOPBACK}:{server.port}/{name}?charset=utf8mb4"


@pytest.fixture
def database(url: str) -> Iterator[Engine]:
    """The database with the tables in it."""
    engine = open_database(url)
    metadata.create_all(engine)
    yield engine
    engine.dispose()


def open_database(url: str) -> Engine:
    """An engine that waits for other writers, as Airflow's does."""
    is_sqlite = make_url(url).get_backend_name() == "sqlite"
    engine = create_engine(url, connect_args={"timeout": 60} if is_sqlite else {})
    if is_sqlite:
        event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA journal_mode=WAL"))
    return engine


@pytest.fixture
def follow(settings: WorkerSettings, database: Engine) -> Iterator[Follow]:
    """Makes followers, one of which holds the lease; all are closed at the end."""
    made: list[MirrorFollower] = []

    def make(holder: str = "one", now: Callable[[], float] = time.time, **changes: WorkerSettings) -> MirrorFollower:
        made.append(MirrorFollower(changes.get("settings", settings), database.begin, holder=holder, now=now))
        return made[-1]

    yield make
    for follower in made:
        follower.close()


def until(condition: Callable[[], object], follower: MirrorFollower | None = None) -> None:
    """Steps, or waits, until ``condition`` holds."""
    deadline, pause_seconds = time.monotonic() + HANG_SECONDS, pauses()
    while not condition():
        assert time.monotonic() < deadline, f"not within {HANG_SECONDS:g} s"
        if follower is None:
            time.sleep(next(pause_seconds))
        else:
            follower.step(0.1)
