"""DAGs of stored connectors: one that cannot be run, refused or removed is no trouble of the others."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.models import import_all_models
from airflow.models.base import Base
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from sqlalchemy import Engine, create_engine, insert, select, text
from sqlalchemy.orm import Session

from airflow_provider_connect.api_server import dag_follower
from airflow_provider_connect.api_server.dag_follower import DagFollower
from airflow_provider_connect.api_server.dags import DagRemoval
from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.model.states import TargetState

NOW = 1_800_000_000.0
CONFIG = {"connector.class": "FileStreamSource", "file": "/in.txt", "topic": "lines"}
NAMES = ("a", "b", "c")


class Database:
    """Airflow's tables in SQLite's memory."""

    def __init__(self) -> None:
        self.engine: Engine = create_engine("sqlite://")
        import_all_models()
        Base.metadata.create_all(self.engine)

    @contextmanager
    def sessions(self) -> Iterator[Session]:
        with Session(self.engine) as session:
            yield session
            session.commit()

    def add_dags(self, *names: str, is_stale: bool = False) -> None:
        parsed = datetime.fromtimestamp(NOW, UTC) - timedelta(hours=1)
        with self.sessions() as session:
            session.execute(text("PRAGMA foreign_keys=OFF"))
            session.add_all(
                DagModel(
                    dag_id=dag_id_for(name),
                    bundle_name="connectors",
                    relative_fileloc="connectors_000.py",
                    fileloc="connectors_000.py",
                    is_stale=is_stale,
                    last_parsed_time=parsed,
                )
                for name in names
            )

    def dag_ids(self, model: Any) -> list[str]:
        with self.sessions() as session:
            return sorted(session.scalars(select(model.dag_id)))


class Refusals:
    """What the herder was asked; ``failing``: what it raises, by connector."""

    def __init__(self) -> None:
        self.refused, self.accepted, self.failing = list[str](), list[str](), dict[str, Exception]()

    def refuse_dag(self, name: str, _reason: str) -> None:
        if name in self.failing:
            raise self.failing[name]
        self.refused.append(name)

    def accept_dags(self, names: Collection[str]) -> None:
        if failing := self.failing.keys() & set(names):
            raise self.failing[min(failing)]
        self.accepted += names


def state_of(*names: str, version: int = 0) -> ClusterConfigState:
    state = ClusterConfigState()
    for name in names:
        state.connector_configs[name] = {"name": name, **CONFIG, "version": str(version)}
        state.target_states[name] = TargetState.STARTED
    return state


@pytest.fixture
def database() -> Database:
    return Database()


def follower(database: Database, control: Refusals, clock: list[float], refused: Collection[str] = ()) -> DagFollower:
    def check(name: str, _config: object) -> dict[str, list[str]]:
        return {"airflow.queue": [f"no DAG of {name}"]} if name in refused else {}

    return DagFollower(database.sessions, "connectors", None, worker={}, check=check, control=control, now=lambda: clock[0])


def test_a_dag_that_cannot_be_run_takes_back_no_run_of_another(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def start_run(session: Session, dag_id: str, *, now: datetime) -> bool:
        if dag_id == dag_id_for("b"):
            raise KeyError("dag")  # as a DAG that cannot be deserialized
        values = {"dag_id": dag_id, "run_id": "r", "state": "queued", "run_type": "manual", "run_after": now}
        session.execute(insert(DagRun).values(**values, log_template_id=1, clear_number=0))
        return True

    monkeypatch.setattr(dag_follower, "start_run", start_run)
    database.add_dags(*NAMES)
    loop = follower(database, Refusals(), [NOW])
    monkeypatch.setattr(dag_follower, "dag_marks", lambda _session, _ids: {dag_id_for(name): loop._expected[name] for name in NAMES})
    loop.tick(state_of(*NAMES))
    assert database.dag_ids(DagRun) == [dag_id_for("a"), dag_id_for("c")]


@pytest.mark.parametrize("error", [RetriableException("away"), KeyError("trace")])
def test_a_refusal_that_cannot_be_written_holds_up_no_other_and_is_retried(database: Database, error: Exception) -> None:
    control, clock = Refusals(), [NOW]
    loop, state = follower(database, control, clock, refused=("a", "b")), state_of(*NAMES)
    control.failing = {"a": error}
    loop.tick(state)
    assert (control.refused, control.accepted) == (["b"], ["c"])
    control.failing = {}
    clock[0] += 2.0
    loop.tick(state)
    loop.tick(state)
    assert (control.refused, control.accepted) == (["b", "a"], ["c"])


def test_connectors_that_could_not_be_accepted_are_accepted_later(database: Database) -> None:
    control, clock = Refusals(), [NOW]
    loop, state = follower(database, control, clock), state_of("a")
    control.failing = {"a": RetriableException("away")}
    with pytest.raises(RetriableException):
        loop.tick(state)
    control.failing = {}
    loop.tick(state)
    loop.tick(state)
    assert control.accepted == ["a"]


def test_a_dag_that_cannot_be_removed_keeps_no_other(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    database.add_dags(*NAMES, is_stale=True)
    with database.engine.begin() as connection:
        refusal = f"CREATE TRIGGER kept BEFORE DELETE ON dag WHEN old.dag_id = '{dag_id_for('b')}' BEGIN SELECT RAISE(ABORT, 'kept'); END"
        connection.execute(text(refusal))
    clock = [NOW]
    removal = DagRemoval(database.sessions, now=lambda: clock[0])
    for _ in range(2):
        removal.tick(ClusterConfigState())
        clock[0] += 60.0
    assert database.dag_ids(DagModel) == [dag_id_for("b")]
    assert caplog.text.count("cannot be deleted: IntegrityError: kept") == 1
