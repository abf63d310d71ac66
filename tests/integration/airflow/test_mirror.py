"""The SQL mirror in Airflow's own database, filled by the API server."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, select

from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.sql_mirror.changes import Kind
from airflow_provider_connect.runtime.sql_mirror.queries import changes, offsets_before, run_metrics
from airflow_provider_connect.runtime.sql_mirror.tables import connector_config, source_offset, task_status
from tests.integration.airflow.conftest import Airflow
from tests.waiting import wait_until

Connector = tuple[Path, dict[str, str]]


@pytest.fixture
def engine(airflow: Airflow) -> Iterator[Engine]:
    is_sqlite = airflow.database_url.startswith("sqlite")
    engine = create_engine(airflow.database_url, connect_args={"timeout": 60} if is_sqlite else {})
    yield engine
    engine.dispose()


@pytest.mark.soak
def test_a_run_is_in_the_mirror_with_its_figures(airflow: Airflow, engine: Engine, unique: str, file_source: Connector) -> None:
    name, (file, config) = f"mirrored-{unique}", file_source
    file.write_text("".join(f"{number}\n" for number in range(100)))
    airflow.write_dag(name, config)
    run = airflow.run(name)

    def offset(connection: Connection) -> str | None:
        return connection.scalar(select(source_offset.c.source_offset).where(source_offset.c.connector == name))

    def ask(question: Callable[[Connection], Any]) -> Any:  # a query's own type
        with engine.connect() as connection:
            return question(connection)

    (measured,) = wait_until(lambda: ask(lambda connection: run_metrics(connection, name)), "the run's metrics")
    assert (measured.run, measured.type, measured.records, measured.tries) == (run, "source", 100, 1)
    assert measured.seconds > 0
    assert measured.cpu_seconds > 0
    wait_until(lambda: ask(offset), "its offset")
    state = select(task_status.c.state).where(task_status.c.connector == name)
    assert ask(lambda connection: connection.scalar(state)) == "RUNNING"
    (change,) = ask(lambda connection: changes(connection, name, kinds=[Kind.OFFSET]))
    assert (change.run, change.old) == (run, None)
    (defined,) = ask(lambda connection: changes(connection, name, kinds=[Kind.CONFIG]))
    assert (defined.who, json.loads(defined.new)["topic"]) == (f"{name}.py", config["topic"])

    with file.open("a") as more:
        more.write("one more\n")
    second = airflow.run(name)
    wait_until(lambda: len(ask(lambda connection: run_metrics(connection, name))) == 2, "the second run's metrics")
    wait_until(lambda: len(ask(lambda connection: changes(connection, name, kinds=[Kind.OFFSET]))) == 2, "the second offset")
    newest = ask(lambda connection: changes(connection, name, kinds=[Kind.OFFSET]))[0]
    assert newest.run == second
    (undone,) = ask(lambda connection: offsets_before(connection, name, newest.id))
    assert json.loads(change.new) == undone.offset

    airflow.put_target_state(name, TargetState.STOPPED)
    kinds = [Kind.TARGET_STATE]
    wait_until(lambda: [c.new for c in ask(lambda connection: changes(connection, name, kinds=kinds))][:1] == ["STOPPED"], "STOPPED")
    assert (
        ask(lambda connection: connection.scalar(select(connector_config.c.connector).where(connector_config.c.connector == name))) == name
    )
