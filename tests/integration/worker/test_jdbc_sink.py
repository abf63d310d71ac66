"""JdbcSink on a real PostgreSQL and a real broker: runs, kills between the steps of a commit, dead letters, offsets that others set."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.errors import ConfigException, RetriableException
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep
from tests.integration.herder.killed_change import KillPoint
from tests.integration.worker.environment import RunEnvironment, commit_by_hand, make_topic, read_topic, send, send_pairs
from tests.integration.worker.killed_run import run_and_kill
from tests.samples import sample

JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "true"}
FIELDS = [{"field": "id", "type": "int64", "optional": False}, {"field": "text", "type": "string", "optional": True}]
SINK = "connectors.jdbc.sink.session:SinkSession"
KILL_POINTS = (
    KillPoint("connectors.jdbc.sink.postgresql_store:PostgresqlStore._copy", "after", 3),
    KillPoint("connectors.jdbc.sink.offsets:OffsetsTable.write", "after", 2),  # after that of the claim
    KillPoint("connectors.jdbc.sink.postgresql_store:PostgresqlStore.commit", "before", 4),  # after those of two new tables and the claim
    KillPoint(f"{SINK}.commit", "after", 2),
    KillPoint(CommitStep.COMMIT_GROUP, "before", 1),
)


class Target:
    """A schema of its own, with a user's config for it."""

    def __init__(self, postgres: PostgresServer, name: str) -> None:
        self.url = f"{postgres.uri()}?currentSchema={name}"
        self.name = name
        self._connection: Any = psycopg2.connect(postgres.uri())
        self._connection.autocommit = True
        self.do(f"CREATE SCHEMA {name}")
        self.do(f"SET search_path TO {name}")

    def do(self, sql: str) -> list[Any]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def ids(self) -> list[int]:
        return [row[0] for row in self.do("SELECT id FROM notes ORDER BY id")]

    def close(self) -> None:
        self.do(f"DROP SCHEMA {self.name} CASCADE")
        self._connection.close()

    def config(self, environment: RunEnvironment, topic: str, **more: str) -> dict[str, str]:
        own = {
            "name": environment.connector,
            "connector.class": "JdbcSink",
            "connection.url": self.url,
            "topics": topic,
            "auto.create": "true",
        }
        return own | JSON | {"table.name.format": "notes"} | {key.replace("_", "."): value for key, value in more.items()}


@pytest.fixture
def target(postgres: PostgresServer, unique: str) -> Iterator[Target]:
    with closing(Target(postgres, f"s_{unique[-16:]}".replace("-", "_").lower())) as target:
        yield target


def notes(count: int, first: int = 0) -> list[str]:
    schema = {"type": "struct", "optional": False, "fields": FIELDS}
    return [json.dumps({"schema": schema, "payload": {"id": id, "text": f"note {id}"}}) for id in range(first, first + count)]


def test_each_run_writes_what_is_new_once(environment: RunEnvironment, target: Target, unique: str) -> None:
    make_topic(environment.bootstrap, unique, 3)
    send(environment.bootstrap, unique, notes(600), partitions=3)
    config = target.config(environment, unique, tasks_max="2")
    assert environment.readiness(config).state == "work"
    result = environment.run(config)
    assert (result.state, result.error, sum(task.records for task in result.tasks)) == (RunState.DONE, None, 600)
    assert target.ids() == list(range(600))
    assert target.do("SELECT next_offset FROM connect_sink_offsets") == [(200,)] * 3
    assert environment.readiness(config).state == "no-work"
    send(environment.bootstrap, unique, notes(1, 600))
    assert sum(task.records for task in environment.run(config).tasks) == 1
    assert target.ids() == list(range(601))


def test_changes_of_rows_whose_schema_changes_with_each_arrive_in_order(environment: RunEnvironment, target: Target, unique: str) -> None:
    """As Debezium's ExtractNewRecordState gives them: optional structs or not, by the kind of the change, with tombstones between them."""
    chance, changes, rows = random.Random(5), list[tuple[str, str | None]](), dict[int, str]()
    for number in range(20_000):
        id, schema = chance.randrange(3000), {"type": "struct", "optional": chance.random() < 0.6, "fields": FIELDS}
        rows[id] = f"text {number}"
        value: str | None = json.dumps({"schema": schema, "payload": {"id": id, "text": rows[id]}})
        if chance.random() < 0.1:
            del rows[id]
            value = None
        key = {"schema": {"type": "struct", "optional": False, "fields": FIELDS[:1]}, "payload": {"id": id}}
        changes.append((json.dumps(key), value))
    make_topic(environment.bootstrap, unique)
    send_pairs(environment.bootstrap, unique, changes)
    more = {"insert_mode": "upsert", "pk_mode": "record_key", "pk_fields": "id", "delete_enabled": "true"}
    config = target.config(environment, unique, key_converter=JSON["value.converter"], **more)
    result = environment.run(config)
    assert (result.state, result.error, sum(task.records for task in result.tasks)) == (RunState.DONE, None, 20_000)
    assert dict(target.do("SELECT id, text FROM notes")) == rows


@pytest.mark.parametrize(
    "kill_point", sample(KILL_POINTS, 2), ids=lambda kill_point: f"{kill_point.side} {kill_point.method.rpartition(':')[2]}"
)
def test_killed_between_the_steps_of_a_commit_nothing_is_lost_or_doubled(
    environment: RunEnvironment, target: Target, unique: str, kill_point: KillPoint
) -> None:
    make_topic(environment.bootstrap, unique, 2)
    send(environment.bootstrap, unique, notes(500), partitions=2)
    config = target.config(environment, unique, batch_size="50")
    run_and_kill(environment, config, kill_point)
    send(environment.bootstrap, unique, notes(500, 500), partitions=2)
    result = environment.run(config)
    assert (result.state, result.error) == (RunState.DONE, None)
    assert target.ids() == list(range(1000))


def test_offset_that_an_admin_has_set_wins(environment: RunEnvironment, target: Target, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, notes(10))
    config = target.config(environment, unique)
    environment.run(config)
    commit_by_hand(environment.bootstrap, environment.group, {TopicPartition(unique, 0): 7})
    environment.run(config)
    assert target.ids() == [*range(7), 7, 7, 8, 8, 9, 9]
    assert target.do("SELECT next_offset FROM connect_sink_offsets") == [(10,)]


def test_bad_records_become_dead_letters_and_the_others_arrive(environment: RunEnvironment, target: Target, unique: str) -> None:
    target.do("CREATE TABLE notes (id bigint CHECK (id % 100 <> 3), text text)")
    make_topic(environment.bootstrap, unique)
    values = notes(1000)
    values[50] = '{"schema": 1}'
    values[60] = '{"schema": {"type": "int32", "optional": false}, "payload": 5}'
    send(environment.bootstrap, unique, values)
    dead_letters = f"{unique}-letters"
    errors = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": dead_letters,
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    errors["errors.deadletterqueue.topic.replication.factor"] = "1"
    result = environment.run(target.config(environment, unique) | errors)
    assert (result.state, result.error) == (RunState.DONE, None)
    bad = {50, 60, *range(3, 1000, 100)}
    assert target.ids() == [id for id in range(1000) if id not in bad]
    found = read_topic(environment.bootstrap, dead_letters)
    assert {(record.value or b"").decode() for record in found} == {values[id] for id in bad}


@pytest.mark.parametrize("way", ["queue", "log"])
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once", pytest.param("at_most_once", marks=pytest.mark.soak)])
def test_a_refused_record_that_holds_infinity_is_the_only_one_left_out(
    environment: RunEnvironment, target: Target, unique: str, way: str, guarantee: str
) -> None:
    """Its timestamp has no value in Python: who decodes it in order to report it fails in the middle of a put."""
    target.do("CREATE TABLE notes (id bigint CHECK (id % 1000 <> 503), at timestamp)")
    make_topic(environment.bootstrap, unique)
    kill_point = {"name": "org.apache.kafka.connect.data.Timestamp", "version": 1, "field": "at", "type": "int64", "optional": True}
    schema = {"type": "struct", "optional": False, "fields": [FIELDS[0], kill_point]}
    infinity, count = 9223372036825200000, 4000
    values = [json.dumps({"schema": schema, "payload": {"id": id, "at": infinity if id % 2 else id}}) for id in range(count)]
    send(environment.bootstrap, unique, values)
    dead_letters = f"{unique}-letters"
    errors = {"errors.tolerance": "all", "errors.log.enable": "true", "delivery.guarantee": guarantee, "batch.size": "700"}
    if way == "queue":
        errors |= {"errors.deadletterqueue.topic.name": dead_letters, "errors.deadletterqueue.topic.replication.factor": "1"}
    result = environment.run(target.config(environment, unique) | errors)
    assert (result.state, result.error) == (RunState.DONE, None)
    bad = set(range(503, count, 1000))
    assert target.ids() == [id for id in range(count) if id not in bad]
    assert target.do("SELECT count(*) FROM notes WHERE at = 'infinity'") == [(count // 2 - len(bad),)]
    if way == "queue":
        assert [(record.value or b"").decode() for record in read_topic(environment.bootstrap, dead_letters)] == [
            values[id] for id in sorted(bad)
        ]


def test_bad_input_is_refused_before_anything_moves(environment: RunEnvironment, target: Target, unique: str) -> None:
    target.do("CREATE TABLE there (id int)")
    upsert = {"insert.mode": "upsert", "pk.mode": "record_value"}
    there = {"table.name.format": "there"}
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, notes(1))
    refused: dict[tuple[str, str], dict[str, str]] = {
        ("auto.create", "There is no table"): {"auto.create": "false"},
        ("pk.mode", "insert.mode=upsert needs a primary key"): {"insert.mode": "upsert"},
        ("delete.enabled", "Set pk.mode to record_key"): {"delete.enabled": "true"},
        ("pk.fields", "has no column key. It has: id"): {**upsert, **there, "pk.fields": "key"},
        ("fields.whitelist", "has no column word"): {**there, "fields.whitelist": "word"},
        ("pk.fields", "takes three names"): {"pk.mode": "kafka", "pk.fields": "a,b"},
        ("table.name.pattern", "does not match"): {"table.name.pattern": "x(.*)"},
        ("db.timezone", "no such time zone"): {"db.timezone": "Mars"},
        ("connection.url", "no such database"): {"connection.url": target.url.replace("/postgres?", "/none?")},
        ("connection.url", "can run code"): {"connection.url": "jdbc:h2:mem:x;INIT=RUNSCRIPT FROM 'http://x'"},
    }
    for (key, text), change in refused.items():
        with pytest.raises(ConfigException, match=re.escape(key)) as error:
            environment.readiness(target.config(environment, unique) | change)
        assert text in error.value.message, (key, text)
    with pytest.raises(RetriableException, match=r"connection\.url"):
        environment.readiness(target.config(environment, unique) | {"connection.url": "jdbc:postgresql://127.0.0.1:1/x"})
