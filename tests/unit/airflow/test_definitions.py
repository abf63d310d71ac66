"""What the reconciler does with the configs that DAG files define, over memory stores; Airflow's tables are values of the test."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest
from sqlalchemy.orm import Session

from airflow_provider_connect.api_server import reconciler
from airflow_provider_connect.api_server.dags import ConnectorDagRow, ConnectorDags
from airflow_provider_connect.api_server.reconciler import Reconciler
from airflow_provider_connect.api_server.serialized_dags import Definition
from airflow_provider_connect.errors import ConnectException, RetriableException
from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import StatusState
from tests.unit.herder.conftest import CONFIG, SINK, RunEnvironment

TAKEN = {"consumer.override.group.id": "shared"}
"""The consumer group of another connector: a definition that names it is refused."""

VALID = {"tasks.max": "2"}


class Dags:
    """The DAG files, by connector: the config that each defines. ``stored``: connectors of which the bundle of stored connectors has parsed
    a DAG last; ``requests``: the files that the dag-processor is to parse."""

    def __init__(self) -> None:
        self.configs: dict[str, dict[str, str]] = {}
        self.gone: set[str] = set()
        self.stored: set[str] = set()
        self.requests: list[tuple[str, str]] = []

    def define(self, name: str, **config: str) -> None:
        file = f"{name}.py"
        self.configs[name] = {**SINK, "name": name, "airflow.defined.in": file, **config}

    def rows(self) -> list[ConnectorDagRow]:
        return [
            ConnectorDagRow(name, dag_id_for(name), False, name in self.gone, "stored", "connectors", "connectors_000.py")
            if name in self.stored
            else ConnectorDagRow(name, dag_id_for(name), False, name in self.gone, str(config), "dags-folder", f"{name}.py")
            for name, config in self.configs.items()
        ]

    def definition(self, dag_id: str) -> Definition | None:
        (name,) = [name for name in self.configs if dag_id_for(name) == dag_id]
        return None if name in self.stored else Definition(self.configs[name], f"{name}.py", None)


@contextmanager
def no_session() -> Iterator[Session]:
    yield cast("Session", None)


@pytest.fixture
def environment() -> RunEnvironment:
    return RunEnvironment()


@pytest.fixture
def dags(monkeypatch: pytest.MonkeyPatch) -> Dags:
    made = Dags()
    monkeypatch.setattr(ConnectorDags, "read", lambda _self, _session: made.rows())
    monkeypatch.setattr(reconciler, "definition", lambda _session, dag_id: made.definition(dag_id))
    monkeypatch.setattr(reconciler, "request_parse", lambda _session, *file: made.requests.append(file))
    monkeypatch.setattr(reconciler, "agreements", lambda _session: {})
    monkeypatch.setattr(reconciler, "move_agreement", lambda *_: True)
    monkeypatch.setattr(reconciler, "set_paused", lambda *_, **__: True)
    return made


@pytest.fixture
def reads(environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch) -> list[StatusState]:
    """What was read of the status topic, one entry a read."""
    done: list[StatusState] = []
    read = environment.backing.status_store.read

    def noted() -> StatusState:
        done.append(read())
        return done[-1]

    monkeypatch.setattr(environment.backing.status_store, "read", noted)
    return done


def reconciler_of(environment: RunEnvironment, *, released: bool = False) -> Reconciler:
    return Reconciler(environment.herder, no_session, now=lambda: 0.0, grace_seconds=0.0 if released else 600.0)


def refused(environment: RunEnvironment, dags: Dags, loop: Reconciler, *names: str) -> None:
    """Have the connectors run, then FAILED because their DAG files define what is refused."""
    environment.herder.create_connector("other", {**CONFIG, **TAKEN})
    for name in names:
        dags.define(name)
    loop.tick()
    for name in names:
        environment.run(name, State.RUNNING)
        dags.define(name, **TAKEN)
    loop.tick()
    assert [environment.states(name)[0] for name in names] == ["FAILED"] * len(names)
    environment.runs.taken()


def test_one_read_of_the_status_topic_is_enough_for_all_connectors_at_the_start(
    environment: RunEnvironment, dags: Dags, reads: list[StatusState]
) -> None:
    for number in range(50):
        dags.define(f"c{number}")
    reconciler_of(environment).tick()
    reads.clear()
    loop = reconciler_of(environment)
    loop.tick()
    assert len(reads) == 1
    loop.tick()
    assert len(reads) == 1, "and none when nothing has changed"


def test_those_that_are_failed_for_their_files_restart_when_another_process_begins(environment: RunEnvironment, dags: Dags) -> None:
    refused(environment, dags, reconciler_of(environment), "a", "b")
    dags.define("a")
    reconciler_of(environment).tick()
    assert (environment.states("a")[0], environment.states("b")[0]) == ("UNASSIGNED", "FAILED")
    assert environment.runs.taken() == [("trigger", "a", None)]


def test_a_file_that_goes_back_to_the_config_of_before_restarts_its_connector(environment: RunEnvironment, dags: Dags) -> None:
    loop = reconciler_of(environment)
    refused(environment, dags, loop, "a")
    loop.tick()
    assert environment.states("a")[0] == "FAILED"
    dags.define("a")
    loop.tick()
    assert environment.states("a")[0] == "UNASSIGNED"
    assert environment.runs.taken() == [("trigger", "a", None)]


@pytest.mark.parametrize("error", [ConnectException("no run can be started"), RetriableException("the broker is away")])
def test_a_restart_that_fails_is_tried_again_and_holds_up_no_other(
    environment: RunEnvironment, dags: Dags, error: ConnectException, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = [0.0]
    loop = Reconciler(environment.herder, no_session, now=lambda: clock[0])
    refused(environment, dags, loop, "a", "b")
    dags.define("a", **VALID)
    dags.define("b", **VALID)
    accept = environment.herder.accept_definition

    def fail_for_a(name: str) -> None:
        if name == "a":
            raise error
        accept(name)

    monkeypatch.setattr(environment.herder, "accept_definition", fail_for_a)
    caplog.clear()
    for _ in range(2):
        loop.tick()
        clock[0] += 60.0
    assert environment.states("b")[0] == "UNASSIGNED"
    assert [record.getMessage() for record in caplog.records if "Connector a" in record.getMessage()] == [f"Connector a: {error}"]
    monkeypatch.setattr(environment.herder, "accept_definition", accept)
    loop.tick()
    assert [environment.states(name)[0] for name in ("a", "b")] == ["UNASSIGNED", "UNASSIGNED"]
    assert sorted(environment.runs.taken(), key=str) == [("trigger", "a", None), ("trigger", "b", None)]


def test_a_file_that_is_refused_again_before_its_restart_stays_failed(
    environment: RunEnvironment, dags: Dags, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = reconciler_of(environment)
    refused(environment, dags, loop, "a")
    dags.define("a", **VALID)
    with monkeypatch.context() as patched:
        patched.setattr(environment.herder, "refused_definitions", _away)
        with pytest.raises(RetriableException):
            loop.tick()
    dags.define("a", **TAKEN)
    loop.tick()
    assert environment.states("a")[0] == "FAILED"
    assert environment.runs.taken() == []


def test_a_connector_whose_file_is_gone_before_its_restart_is_not_restarted(
    environment: RunEnvironment, dags: Dags, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = reconciler_of(environment)
    refused(environment, dags, loop, "a")
    dags.define("a", **VALID)
    with monkeypatch.context() as patched:
        patched.setattr(environment.herder, "refused_definitions", _away)
        with pytest.raises(RetriableException):
            loop.tick()
    dags.gone = {"a"}
    loop.tick()
    assert (environment.states("a")[0], environment.runs.taken()) == ("FAILED", [])
    dags.gone = set()
    loop.tick()
    assert (environment.states("a")[0], environment.runs.taken()) == ("UNASSIGNED", [("trigger", "a", None)])


def test_a_file_that_returns_as_the_bundle_serves_its_connector_is_parsed_again(environment: RunEnvironment, dags: Dags) -> None:
    """Its version may be the newest for less than a tick: without the request the connector stays STOPPED until the next parse."""
    loop = reconciler_of(environment, released=True)
    dags.define("a")
    loop.tick()
    dags.gone = {"a"}
    loop.tick()
    assert stored(environment, "a") == (TargetState.STOPPED, None)
    dags.gone, dags.stored = set(), {"a"}
    for _ in range(3):
        loop.tick()
    assert dags.requests == [("dags-folder", "a.py")], "once: the file may be gone for good"
    dags.stored = set()
    loop.tick()
    assert stored(environment, "a") == (TargetState.STARTED, "a.py")
    dags.stored = {"a"}  # a parse of the bundle's file that began before the connector was defined again
    loop.tick()
    assert dags.requests == [("dags-folder", "a.py")] * 2
    assert stored(environment, "a") == (TargetState.STARTED, "a.py")


def stored(environment: RunEnvironment, name: str) -> tuple[TargetState | None, str | None]:
    """The connector's target state, and the file that defines it."""
    state = environment.configs.read()
    return state.target_state(name), (state.connector_config(name) or {}).get("airflow.defined.in")


def _away(_names: object) -> list[str]:
    raise RetriableException("the broker is away")
