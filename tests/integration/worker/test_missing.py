"""What a source lacks: noted beside the connector's state by the check for new data, and gone when it is there."""

from __future__ import annotations

import sqlite3

import pytest

from airflow_provider_connect.herder.herder import Herder
from airflow_provider_connect.model.run import RunState
from tests.integration.herder.conftest import RunsByHand
from tests.integration.worker.environment import RunEnvironment


def note(environment: RunEnvironment) -> str | None:
    return environment.configs().notes.get(environment.connector)


def test_a_missing_file_is_noted_until_it_is_there(environment: RunEnvironment) -> None:
    config = environment.file_source(f"{environment.connector}-lines")
    assert environment.run(config).state is RunState.DONE
    missing = f"There is no file {environment.file}: nothing is read until there is"
    assert (environment.readiness().state, note(environment)) == ("no-work", missing)
    before = environment.configs().offset
    assert (environment.readiness().state, note(environment)) == ("no-work", missing)
    assert environment.configs().offset == before, "it is written once"
    with Herder(environment.settings, RunsByHand()) as herder:
        status = herder.connector_status(environment.connector)
        assert (status.connector.state, status.note) == ("RUNNING", missing)
        assert herder.health_warnings() == ["1 running connectors lack the file or table that they read (airflow connect top)."]
        assert [found.note for _, found in herder.listed() if found is not None] == [missing]
        herder.pause(environment.connector)
        assert herder.health_warnings() == []
        herder.resume(environment.connector)

        environment.file.write_text("one\n")
        assert (environment.readiness().state, note(environment)) == ("work", None)
        assert herder.connector_status(environment.connector).note is None
        environment.file.unlink()
        environment.readiness()
        environment.put_config({**config, "file": f"{environment.file}2"})
        assert note(environment) is None, "a note is about the config before it"
        assert (environment.readiness().state, note(environment)) == ("work", missing.replace(".txt", ".txt2")), "without a plan, too"


@pytest.mark.parametrize("kind", ["files", "logs", "tables"])
def test_other_sources_without_anything_to_read_are_noted(environment: RunEnvironment, kind: str) -> None:
    folder, topic = environment.folder / "in", f"{environment.connector}-data"
    folder.mkdir()
    database = environment.folder / "shop.db"
    sqlite3.connect(database).close()
    config = {
        "files": {"connector.class": "FileSystemSource", "url": str(folder), "topic": topic, "file.minimum.age.ms": "0"},
        "logs": {"connector.class": "LogSource", "paths": f"{folder}/*.log", "topic": topic},
        "tables": {"connector.class": "JdbcSource", "connection.url": f"jdbc:sqlite:{database}", "mode": "bulk", "topic.prefix": topic},
    }[kind]
    assert environment.run({**config, "name": environment.connector}).state is RunState.DONE
    environment.readiness()
    noted = note(environment)
    assert noted is not None
    assert noted.startswith("There is no ")
    (folder / "a.log").write_text("{}\n")
    with sqlite3.connect(database) as connection:
        connection.execute("create table orders (id integer primary key)")
    environment.readiness()
    assert note(environment) is None
