"""What a connector waits for is noted beside its state, and gone when it is there; what it cannot wait for fails its run. Previews show
the same."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_connect.errors import MissingException
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.records import NoteKind
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.model.views import HealthWord
from airflow_provider_connect.runtime.stores.backing import TopicBacking
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.worker.missing import note_call
from airflow_provider_connect.runtime.worker.preview.process import _answer
from airflow_provider_connect.runtime.worker.task.long_calls import LongCalls
from tests.integration.herder.conftest import RunsByHand
from tests.integration.worker.environment import RunEnvironment, make_topic, read_topic, send_pairs
from tests.waiting import wait_until

ATTENTION = ["1 running connectors need attention: what they use is not there, cannot be read, or does not answer (airflow connect top)."]


def note(environment: RunEnvironment, kind: NoteKind = NoteKind.MISSING) -> str | None:
    return environment.configs().notes_of(kind).get(environment.connector)


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
        assert herder.health_warnings() == ATTENTION
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


def test_a_call_that_does_not_return_is_noted_with_its_line_until_it_does(
    environment: RunEnvironment, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LongCalls.__init__, "__kwdefaults__", {"first_seconds": 0.2})
    make_topic(environment.bootstrap, unique)
    send_pairs(environment.bootstrap, unique, [("1", "one")])
    asks, gate = (environment.file.with_suffix(suffix) for suffix in (".asks", ".gate"))
    run = environment.start(environment.slow_sink(unique, asks=str(asks), gate=str(gate)))
    try:
        wait_until(asks.exists, "the call is made")
        noted = f"Connector {environment.connector}, task 0: no batch has ended for .*; its thread is at plugins.py:.* in put"
        wait_until(lambda: re.fullmatch(noted, note(environment, NoteKind.LONG_CALL) or ""), "the call is noted")
        with Herder(environment.settings, RunsByHand()) as herder:
            trouble = herder.connector_status(environment.connector).trouble
            assert trouble is not None
            assert (trouble.word, trouble.reason) == (HealthWord.STUCK, note(environment, NoteKind.LONG_CALL))
            assert herder.health_warnings() == ATTENTION
    finally:
        gate.touch()
    assert run.wait().state is RunState.DONE
    assert note(environment, NoteKind.LONG_CALL) is None


def test_a_note_of_a_killed_runs_call_goes_with_the_next_run(environment: RunEnvironment) -> None:
    config = environment.file_source(f"{environment.connector}-lines")
    assert environment.run(config).state is RunState.DONE
    raw = environment.configs().connector_configs[environment.connector]
    note_call(TopicBacking(environment.settings).configs, environment.connector, "task 0: no batch has ended", of=raw)
    assert note(environment, NoteKind.LONG_CALL) is not None
    environment.readiness()
    assert note(environment, NoteKind.LONG_CALL) is None


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
    assert noted.startswith(("There is no ", "No table matches "))
    (folder / "a.log").write_text("{}\n")
    with sqlite3.connect(database) as connection:
        connection.execute("create table orders (id integer primary key)")
    environment.readiness()
    assert note(environment) is None


def test_a_table_whose_name_no_topic_can_have_is_noted_and_the_others_are_read(environment: RunEnvironment) -> None:
    topic, database = f"{environment.connector}-", environment.folder / "shop.db"
    with sqlite3.connect(database) as connection:
        connection.executescript(
            "create table orders (id integer primary key); insert into orders values (1); "
            'create table "order items" (id integer primary key)'
        )
    config = {"connector.class": "JdbcSource", "connection.url": f"jdbc:sqlite:{database}", "topic.prefix": topic, "name": topic[:-1]}
    config |= {"mode": "incrementing", "incrementing.column.name": "id"}
    assert environment.run(config).state is RunState.DONE
    assert len(read_topic(environment.bootstrap, f"{topic}orders")) == 1
    assert environment.readiness().state == "no-work"
    noted = note(environment)
    assert noted is not None
    assert noted.startswith("1 table is not read, and all others are: order items. ")
    with Herder(environment.settings, RunsByHand()) as herder:
        assert herder.connector_status(environment.connector).note == noted
    environment.put_config({**config, "table.exclude": "order items"})
    environment.readiness()
    assert note(environment) is None


def test_a_topic_that_a_transformation_gives_an_invalid_name_is_refused_with_the_remedy(environment: RunEnvironment) -> None:
    environment.file.write_text("a\n")
    route = {"transforms": "r", "transforms.r.type": "RegexRouter", "transforms.r.regex": ".*", "transforms.r.replacement": "order items"}
    outcome = environment.run(environment.file_source(f"{environment.connector}-lines", **route))
    assert outcome.state is RunState.FAILED
    [task] = environment.statuses().tasks.values()
    assert "Records may not go to topic order items. Topic name is invalid" in str(task.trace)
    assert "RegexRouter" in str(task.trace)


JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
ROW = '{"schema": {"type": "struct", "fields": [{"field": "id", "type": "int32"}]}, "payload": {"id": 1}}'


def preview(environment: RunEnvironment, config: dict[str, str]) -> dict[str, Any]:
    request = {"connector": environment.connector, "config": config, "records": 2, "seconds": 20.0, "timeout_seconds": 60.0}
    return dict(_answer(environment.settings, {})(request))


@pytest.mark.parametrize("kind", ["line", "files", "logs", "tables", "topics", "pattern", "mirror"])
def test_every_connector_waits_in_the_same_way(environment: RunEnvironment, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """As Kafka Connect's file source and its sinks do."""
    folder, topic = environment.folder / "in", f"{environment.connector}-data"
    folder.mkdir()
    sqlite3.connect(database := environment.folder / "shop.db").close()
    clusters = {"source.cluster.alias": "a", **{f"{end}.cluster.bootstrap.servers": environment.bootstrap for end in ("source", "target")}}
    own, text = {
        "line": ({"connector.class": "FileStreamSource", "file": f"{folder}/x", "topic": topic}, f"There is no file {folder}/x"),
        "files": ({"connector.class": "FileSystemSource", "url": str(folder), "topic": topic}, "There is no file yet that its settings"),
        "logs": ({"connector.class": "LogSource", "paths": f"{folder}/*.log", "topic": topic}, f"There is no file like {folder}/*.log"),
        "tables": (
            {"connector.class": "JdbcSource", "connection.url": f"jdbc:sqlite:{database}", "mode": "incrementing", "topic.prefix": topic}
            | {"incrementing.column.name": "id"},
            "No table matches its settings",
        ),
        "topics": ({"connector.class": "FileStreamSink", "file": f"{folder}/x", "topics": topic}, f"There is no topic {topic}: nothing is"),
        "pattern": (
            {"connector.class": "FileStreamSink", "file": f"{folder}/x", "topics.regex": f"{topic}.*"},
            f"There is no topic that topics.regex={topic}.* matches",
        ),
        "mirror": (
            {
                "connector.class": "MirrorSource",
                "topics": topic,
                "heartbeats.replication.enabled": "false",
                "offset-syncs.topic.replication.factor": "1",
            }
            | clusters,
            "There is no topic in cluster a",
        ),
    }[kind]
    config = {**own, "name": environment.connector}
    found = preview(environment, config)
    assert (found["read"], found["missing"].startswith(text)) == (0, True), found
    TopicAdmin(environment.settings).ensure_internal_topics()
    environment.put_config(config)
    assert environment.readiness().state == "work"
    assert environment.run().state is RunState.DONE
    environment.readiness()
    assert f"Connector {environment.connector} waits: {text}" in caplog.text
    assert note(environment) == found["missing"], "dry run and list show one sentence"
    with Herder(environment.settings, RunsByHand()) as herder:
        status = herder.connector_status(environment.connector)
        assert {status.connector.state, *(task.state for task in status.tasks)} == {"RUNNING"}
        assert herder.health_warnings() == [
            "1 running connectors need attention: what they use is not there, cannot be read, or does not answer (airflow connect top)."
        ]


def _table(environment: RunEnvironment) -> None:
    with sqlite3.connect(environment.folder / "shop.db") as connection:
        connection.execute("create table orders (id integer primary key, line text)")


def _drop(environment: RunEnvironment) -> None:
    with sqlite3.connect(environment.folder / "shop.db") as connection:
        connection.execute("drop table orders")


@pytest.mark.parametrize(
    ("kind", "make", "remove"),
    [
        ("FileSystemSource", lambda each: (each.folder / "in").mkdir(), lambda each: shutil.rmtree(each.folder / "in")),
        ("JdbcSource", _table, _drop),
    ],
)
def test_what_a_source_cannot_wait_for_fails_its_tasks_by_name(
    environment: RunEnvironment, kind: str, make: Callable[[RunEnvironment], None], remove: Callable[[RunEnvironment], None]
) -> None:
    """Also where its plan finds out, as a sink's tasks do."""
    jdbc = f"jdbc:sqlite:{environment.folder}/shop.db"
    config = {
        "FileSystemSource": {"url": f"{environment.folder}/in", "topic": environment.connector},
        "JdbcSource": {"connection.url": jdbc, "mode": "bulk", "table.include": "orders", "topic.prefix": environment.connector},
    }[kind]
    config |= {"name": environment.connector, "connector.class": kind}
    make(environment)
    assert environment.run(config).state is RunState.DONE
    remove(environment)
    for _ in range(2):
        result = environment.run()
        assert (result.state, result.retriable) == (RunState.FAILED, False)
        [status] = environment.statuses().tasks_of(environment.connector)
        connector = environment.statuses().connector(environment.connector)
        assert connector is not None
        assert (connector.state, connector.trace, status.state) == ("RUNNING", None, "FAILED")
        assert f"{MissingException.__name__}: Invalid value" in str(status.trace)
        with pytest.raises(MissingException) as refused:
            environment.readiness()
        assert str(result.error) in refused.value.message
        assert preview(environment, config)["error"] == refused.value.message
    with Herder(environment.settings, RunsByHand()) as herder:
        assert herder.health_warnings() == ["1 connectors have FAILED, or a task of theirs (airflow connect top)."]
    make(environment)
    assert environment.run().state is RunState.DONE
    assert environment.states() == {0: "RUNNING"}


@pytest.mark.parametrize("kind", ["FileStreamSink", "FileSystemSink", "JdbcSink", "IcebergSink", "DeltaSink"])
def test_a_dry_run_of_a_sink_fails_where_its_run_would(environment: RunEnvironment, kind: str) -> None:
    topic, here = make_topic(environment.bootstrap, f"{environment.connector}-data"), environment.folder
    send_pairs(environment.bootstrap, topic, [("k", ROW)])
    sqlite3.connect(here / "shop.db").close()
    own, text = {
        "FileStreamSink": ({"file": f"{here}/in/x"}, f"There is no folder {here}/in"),
        "FileSystemSink": ({"url": f"{here}/in"}, f"There is no folder {here}/in"),
        "JdbcSink": ({"connection.url": f"jdbc:sqlite:{here}/shop.db", "table.name.format": "orders"}, "There is no table orders"),
        "IcebergSink": (
            {"iceberg.catalog.type": "sql", "iceberg.catalog.uri": f"sqlite:///{here}/c.db", "iceberg.tables": "shop.orders"}
            | {"iceberg.catalog.warehouse": f"file://{here}/lake"},
            "There is no table shop.orders",
        ),
        "DeltaSink": ({"delta.table.path": f"{here}/orders"}, "There is no Delta table"),
    }[kind]
    config = {**own, **JSON, "name": environment.connector, "connector.class": kind, "topics": topic}
    failed = preview(environment, config)
    assert text in failed["error"], failed
    result = environment.run(config)
    named = text.rpartition(" ")[2]
    assert (result.state, result.retriable, named in str(result.error)) == (RunState.FAILED, False, True), result.error
