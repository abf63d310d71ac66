"""Backfills of sinks on a real broker: what they deliver, also when they are killed, and that nothing of the live connector moves."""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.errors import (
    AlreadyExistsException,
    BadRequestException,
    ConfigException,
    NotFoundException,
)
from airflow_provider_connect.rest.secrets import Secrets
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.backfill_request import AskedRange, Backfill, BackfillRequest
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep
from airflow_provider_connect.runtime.worker.task.checked_connector import check_connector
from tests.integration.herder.conftest import RunsByHand, shown, views
from tests.integration.herder.killed_change import KillPoint
from tests.integration.worker.environment import RunEnvironment, commit_by_hand, make_topic, send, values_of
from tests.integration.worker.killed_run import run_and_kill
from tests.integration.worker.test_jdbc_sink import JSON, Target, notes
from tests.integration.worker.test_offsets import make_anew
from tests.samples import sample
from tests.waiting import HANG_SECONDS

SILENT_SECONDS = 0.5

FILE_STEPS = (
    KillPoint(CommitStep.PUT, "before"),
    KillPoint(CommitStep.PUT),
    KillPoint(CommitStep.PRE_COMMIT),
    KillPoint(CommitStep.COMMIT_GROUP),
)
TABLE_STEPS = (
    KillPoint("connectors.jdbc.sink.offsets:OffsetsTable.write", "after", 2),
    KillPoint("connectors.jdbc.sink.session:SinkSession.commit", "after", 2),
)
READ_AGAIN = (
    None,
    pytest.param(KillPoint(CommitStep.WRITE_RECORDS), marks=pytest.mark.soak),
    KillPoint(CommitStep.COMMIT_TRANSACTION),
)
Stand = tuple[object, ...]


def sink(environment: RunEnvironment, topic: str, **more: str) -> dict[str, str]:
    """A live sink that has delivered all of ``topic`` but what comes later."""
    config = environment.file_sink(topic, **more)
    environment.put_config(config)
    assert environment.run().state is RunState.DONE
    return config


def stand(environment: RunEnvironment) -> Stand:
    """What is of the live connector: its group's offsets with their marks, claim, tasks, entries in the batch log, and its file."""
    state, name = environment.configs(), environment.connector
    tasks = state.all_task_configs(name)
    return environment.group_offsets(), state.claims[name], tasks, environment.batch_log(), environment.lines()


def again(environment: RunEnvironment, backfill: Backfill) -> RunEnvironment:
    """The environment of the backfill's own runs."""
    return RunEnvironment(dict(environment.properties), backfill.name, environment.folder)


def requested(topic: str | None, folder: Path, *ranges: AskedRange, backfill_id: str = "one", **more: str) -> BackfillRequest:
    """Into a file of its own."""
    changes = {"file": str(folder / f"{backfill_id}.out"), **{key.replace("_", "."): text for key, text in more.items()}}
    return BackfillRequest(ranges or (AskedRange(topic),), changes, backfill_id)


def until_done(environment: RunEnvironment, tries: int = 4) -> None:
    results = [environment.run()]
    while results[-1].state is not RunState.DONE and len(results) < tries:
        results.append(environment.run())
    assert results[-1].state is RunState.DONE, results


def test_a_range_is_delivered_again_beside_the_live_connector(
    herder: Herder, launcher: RunsByHand, environment: RunEnvironment, tmp_path: Path, unique: str
) -> None:
    bootstrap, topic, name = environment.bootstrap, make_topic(environment.bootstrap, unique), environment.connector
    send(bootstrap, topic, [f"line {number}" for number in range(20)])
    sink(environment, topic)
    before = stand(environment)
    asked = requested(topic, tmp_path, AskedRange(topic, 0, 5, 9))
    planned = herder.create_backfill(name, asked, dry_run=True)
    assert (herder.backfills(name), launcher.triggered) == ([], []), "a dry run creates nothing"
    created = herder.create_backfill(name, asked)
    assert created == planned
    assert (created.name, created.left, launcher.triggered) == (f"{name}.backfill.one", 4, [created.name])
    own = again(environment, created)
    assert own.readiness().state == "work"
    until_done(own)
    assert (tmp_path / "one.out").read_text().splitlines() == ["line 5", "line 6", "line 7", "line 8"]
    assert own.readiness().state == "no-work"
    [done] = herder.backfills(name)
    assert (done.is_done, done.left, done.state) == (True, 0, State.RUNNING)
    assert herder.partition_lags(created.name).lag == 0
    assert stand(environment) == before
    send(bootstrap, topic, ["line 20"])
    environment.run()
    assert environment.lines() == [f"line {number}" for number in range(21)], "the live connector goes on as if nothing had been"
    assert own.readiness().state == "no-work", "what comes later is not the backfill's"


def test_the_live_connector_may_be_stopped_or_behind(herder: Herder, environment: RunEnvironment, tmp_path: Path, unique: str) -> None:
    """A backfill needs nothing of it but its config."""
    topic = make_topic(environment.bootstrap, unique, partitions=2)
    environment.put_config(environment.file_sink(topic, tasks_max="2"))
    environment.put_target_state(TargetState.STOPPED)
    send(environment.bootstrap, topic, [f"line {number}" for number in range(10)], partitions=2)
    created = herder.create_backfill(environment.connector, requested(None, tmp_path, AskedRange()))
    own = again(environment, created)
    result = own.run()
    assert (result.state, len(result.tasks)) == (RunState.DONE, 2)
    assert sorted((tmp_path / "one.out").read_text().splitlines()) == sorted(f"line {number}" for number in range(10))
    assert environment.group_offsets() == {}
    assert environment.configs().target_state(environment.connector) is TargetState.STOPPED


def test_a_range_may_be_given_by_time(herder: Herder, environment: RunEnvironment, tmp_path: Path, unique: str) -> None:
    """Of each partition by itself; one without records between two instants is left out."""
    topic = make_topic(environment.bootstrap, unique, partitions=3)
    producer = Producer({"bootstrap.servers": environment.bootstrap})
    day = 86_400_000
    first = int(time.time() * 1000) // day * day - 10 * day
    for number in range(10):
        producer.produce(topic, f"day {number}".encode(), partition=number % 2, timestamp=first + number * day)
    producer.flush(HANG_SECONDS)
    environment.put_config(environment.file_sink(topic))

    def instant(number: int) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((first + number * day) / 1000))

    created = herder.create_backfill(environment.connector, requested(None, tmp_path, AskedRange(first=instant(3), end=instant(6))))
    assert [dict(each.partition)["kafka_partition"] for each in created.ranges] == [0, 1]
    until_done(again(environment, created))
    assert sorted((tmp_path / "one.out").read_text().splitlines()) == ["day 3", "day 4", "day 5"]
    later = requested(None, tmp_path, AskedRange(first=instant(100)), backfill_id="later")
    with pytest.raises(BadRequestException, match="no records in these ranges"):
        herder.create_backfill(environment.connector, later)


def test_markers_of_transactions_end_a_range_as_records_do(
    herder: Herder, environment: RunEnvironment, tmp_path: Path, unique: str
) -> None:
    """The last offset of the range is a marker, or a record that was aborted."""
    topic = make_topic(environment.bootstrap, unique)
    producer = Producer({"bootstrap.servers": environment.bootstrap, "transactional.id": f"t-{unique}"})
    producer.init_transactions(HANG_SECONDS)
    for number in range(4):  # two records and a marker each, at 0, 3, 6, 9; the second transaction is aborted
        producer.begin_transaction()
        for part in "ab":
            producer.produce(topic, f"{number}{part}".encode())
        producer.flush(HANG_SECONDS)
        (producer.abort_transaction if number == 1 else producer.commit_transaction)(30)
    environment.put_config(environment.file_sink(topic))
    for number, (asked, lines) in enumerate(
        [
            (AskedRange(topic, 0, 0, 3), ["0a", "0b"]),
            (AskedRange(topic, 0, 1, 5), ["0b"]),
            (AskedRange(topic, 0, 2, 3), []),
            (AskedRange(topic, 0, 7), ["2b", "3a", "3b"]),
        ]
    ):
        created = herder.create_backfill(environment.connector, requested(topic, tmp_path, asked, backfill_id=f"b{number}"))
        own = again(environment, created)
        until_done(own)
        path = tmp_path / f"b{number}.out"
        assert (path.read_text().splitlines() if path.exists() else []) == lines
        assert own.readiness().state == "no-work"
    assert all(each.is_done for each in herder.backfills(environment.connector))


@pytest.mark.parametrize("kill_point", sample(FILE_STEPS, 1), ids=str)
def test_a_backfill_that_is_killed_loses_and_doubles_nothing(
    herder: Herder, environment: RunEnvironment, tmp_path: Path, unique: str, kill_point: KillPoint
) -> None:
    topic = make_topic(environment.bootstrap, unique, partitions=2)
    send(environment.bootstrap, topic, [f"line {number}" for number in range(40)], partitions=2)
    sink(environment, topic)
    before = stand(environment)
    created = herder.create_backfill(
        environment.connector,
        requested(topic, tmp_path, AskedRange(topic, 0, 3, 18), AskedRange(topic, 1, 5, 20)),
    )
    own = again(environment, created)
    run_and_kill(own, environment.configs().connector_config(created.name) or {}, kill_point)
    until_done(own)
    expected = [f"line {2 * at}" for at in range(3, 18)] + [f"line {2 * at + 1}" for at in range(5, 20)]
    assert Counter((tmp_path / "one.out").read_text().splitlines()) == Counter(expected)
    assert stand(environment) == before
    assert [each.is_done for each in herder.backfills(environment.connector)] == [True]


@pytest.fixture
def target(postgres: PostgresServer, unique: str) -> Iterator[Target]:
    with closing(Target(postgres, f"s_{unique[-16:]}".replace("-", "_").lower())) as target:
        yield target


@pytest.mark.parametrize("kill_point", [None, TABLE_STEPS[0], pytest.param(TABLE_STEPS[1], marks=pytest.mark.soak)], ids=str)
def test_a_backfill_into_the_live_connectors_own_table(
    herder: Herder, environment: RunEnvironment, target: Target, unique: str, kill_point: KillPoint | None
) -> None:
    """A database keeps offsets by the connector's name: the live ones stay, and each row of the range is there once more."""
    topic = make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, topic, notes(30))
    environment.put_config(target.config(environment, topic))
    assert environment.run().state is RunState.DONE
    live = _offset_rows(target, environment.connector)
    before = environment.group_offsets()
    created = herder.create_backfill(environment.connector, BackfillRequest([AskedRange(topic, 0, 10, 25)], {}, "one"))
    own = again(environment, created)
    if kill_point is not None:
        run_and_kill(own, environment.configs().connector_config(created.name) or {}, kill_point)
    until_done(own)
    assert Counter(target.ids()) == Counter([*range(30), *range(10, 25)])
    assert (_offset_rows(target, environment.connector), environment.group_offsets()) == (live, before)
    assert _offset_rows(target, created.name) != live


def _offset_rows(target: Target, connector: str) -> list[Any]:
    [table] = [row[0] for row in target.do("SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()")
               if "offset" in row[0]]  # fmt: skip
    return target.do(f"SELECT * FROM \"{table}\" WHERE connector = '{connector}' ORDER BY topic, kafka_partition")


def test_offsets_outside_of_the_range_are_never_delivered(herder: Herder, environment: RunEnvironment, tmp_path: Path, unique: str) -> None:
    """Not even where an admin has set the group's offsets, or removed them."""
    topic = make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, topic, [f"line {number}" for number in range(20)])
    environment.put_config(environment.file_sink(topic))
    created = herder.create_backfill(environment.connector, requested(topic, tmp_path, AskedRange(topic, 0, 5, 9)))
    own, at = again(environment, created), TopicPartition(topic, 0)
    commit_by_hand(environment.bootstrap, own.group, {at: 2})
    until_done(own)
    expected = ["line 5", "line 6", "line 7", "line 8"]
    assert (tmp_path / "one.out").read_text().splitlines() == expected
    herder.stop(created.name)
    herder.alter_offsets(created.name, views(({"kafka_topic": topic, "kafka_partition": 0}, {"kafka_offset": 7})))
    herder.resume(created.name)
    until_done(own)
    assert (tmp_path / "one.out").read_text().splitlines() == [*expected, "line 7", "line 8"], "its own offsets can be changed like any"
    herder.stop(created.name)
    herder.alter_offsets(created.name, views(({"kafka_topic": topic, "kafka_partition": 0}, {"kafka_offset": 15})))
    assert [each.left for each in herder.backfills(environment.connector)] == [4]
    herder.resume(created.name)
    until_done(own)
    found = (tmp_path / "one.out").read_text().splitlines()[6:]
    assert found == expected, "an offset behind the range counts as none"
    assert [each.is_done for each in herder.backfills(environment.connector)] == [True]


def test_a_preview_reads_the_range_alone(herder: Herder, environment: RunEnvironment, tmp_path: Path, unique: str) -> None:
    topic = make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, topic, [f"line {number}" for number in range(20)])
    environment.put_config(environment.file_sink(topic))
    created = herder.create_backfill(environment.connector, requested(topic, tmp_path, AskedRange(topic, 0, 5, 9)))
    from airflow_provider_connect.runtime.worker.preview.runner import PreviewRunner

    runner = PreviewRunner(environment.settings)
    config = environment.configs().connector_config(created.name) or {}
    found = runner.preview(created.name, config, records=10)
    assert [record.value for record in found.records] == ["line 5", "line 6", "line 7", "line 8"], found


def test_a_deleted_backfill_leaves_the_live_connector(herder: Herder, environment: RunEnvironment, tmp_path: Path, unique: str) -> None:
    topic = make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, topic, ["a", "b"])
    sink(environment, topic)
    before = stand(environment)
    created = herder.create_backfill(environment.connector, requested(topic, tmp_path))
    with pytest.raises(AlreadyExistsException):
        herder.create_backfill(environment.connector, requested(topic, tmp_path))
    herder.delete_connector(created.name)
    assert (herder.backfills(environment.connector), stand(environment)) == ([], before)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (AskedRange("{topic}", 0, 0, 21), "ends at offset 20 now"),
        (AskedRange("{topic}", 0, 5, 5), "nothing from offset 5"),
        (AskedRange("{topic}", 1), "no partition 1"),
        (AskedRange("other"), "reads no topic other"),
        (AskedRange("__consumer_offsets"), "reads no topic __consumer_offsets"),
        (AskedRange(first="yesterday"), "is not an instant"),
    ],
)
def test_ranges_that_cannot_be_delivered_are_refused(
    herder: Herder, environment: RunEnvironment, tmp_path: Path, unique: str, *, asked: AskedRange, reason: str
) -> None:
    topic = make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, topic, [f"line {number}" for number in range(20)])
    environment.put_config(environment.file_sink(topic))
    named = AskedRange(asked.topic and asked.topic.format(topic=topic), asked.partition, asked.first, asked.end)
    with pytest.raises(BadRequestException, match=reason):
        herder.create_backfill(environment.connector, requested(topic, tmp_path, named))
    assert environment.configs().connectors() == [environment.connector]


def test_an_unknown_connector_has_no_backfills(herder: Herder, tmp_path: Path) -> None:
    for call in (lambda: herder.create_backfill("nothing", requested("t", tmp_path)), lambda: herder.backfills("nothing")):
        with pytest.raises(NotFoundException):
            call()


@pytest.fixture
def with_probe(environment: RunEnvironment, launcher: RunsByHand) -> Iterator[Herder]:
    """A herder that has configs checked by their plugins, in a process of its own."""
    with PluginProbe(environment.settings) as probe, Herder(environment.settings, launcher, probe=probe) as herder:
        yield herder


def test_a_destination_that_cannot_be_shared_is_refused_with_the_way_out(
    with_probe: Herder, environment: RunEnvironment, tmp_path: Path, unique: str
) -> None:
    topic = make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, topic, ["a"])
    environment.put_config(environment.file_sink(topic))
    for changes in ({}, {"file": str(environment.file)}):
        for dry_run in (True, False):
            with pytest.raises(ConfigException, match="Give the backfill a destination of its own: another value of file"):
                with_probe.create_backfill(environment.connector, BackfillRequest([AskedRange()], dict(changes), "one"), dry_run=dry_run)
    created = with_probe.create_backfill(environment.connector, requested(topic, tmp_path))
    stored = environment.configs().connector_config(created.name) or {}
    by_hand = {**stored, "backfill.changed": "", "file": str(environment.file)}
    with pytest.raises(ConfigException, match="another value of file"):
        check_connector(created.name, by_hand, environment.settings, {})


@pytest.mark.parametrize("kind", ["consumer", "admin"])
def test_no_client_goes_where_the_policy_does_not_let_it(
    herder: Herder, environment: RunEnvironment, tmp_path: Path, unique: str, kind: str
) -> None:
    """Not even to find out the ranges, or for a dry run: the other server would get the values of variables."""
    topic = make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, topic, ["a"])
    environment.put_config(environment.file_sink(topic))
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.settimeout(SILENT_SECONDS)
        servers = {f"{kind}.override.bootstrap.servers": f"127.0.0.1:{elsewhere.getsockname()[1]}"}
        changes = {**requested(topic, tmp_path).changes, **servers}
        for dry_run in (True, False):
            with pytest.raises(ConfigException, match=f"{kind}.override.bootstrap.servers: .*policy does not allow"):
                herder.create_backfill(environment.connector, BackfillRequest([AskedRange()], changes, "one"), dry_run=dry_run)
        with pytest.raises(TimeoutError):
            elsewhere.accept()


def test_a_secret_goes_nowhere_but_where_it_went_before(herder: Herder, environment: RunEnvironment, unique: str) -> None:
    """Another address takes the secret of the live connector only if it is given again."""
    topic = make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, topic, ["a"])
    environment.put_config(
        {
            "name": environment.connector,
            "connector.class": "JdbcSink",
            "topics": topic,
            "connection.url": "jdbc:postgresql://db/x",
            "connection.user": "u",
            "connection.password": "secret-4711",
            **JSON,
        }
    )
    restored = Secrets(lambda *_: []).restore_patch
    moved = BackfillRequest([AskedRange()], {"connection.url": "jdbc:postgresql://elsewhere/x"}, "moved")
    with pytest.raises(ConfigException, match="give the secret again") as refused:
        herder.create_backfill(environment.connector, moved, restored)
    assert "secret-4711" not in str(refused.value)
    herder.create_backfill(environment.connector, BackfillRequest([AskedRange()], {"table.name.format": "again"}, "same"), restored)
    stored = environment.configs().connector_config(f"{environment.connector}.backfill.same") or {}
    assert stored["connection.password"] == "secret-4711"


def test_a_group_that_all_sinks_share_is_not_the_backfills(environment: RunEnvironment, tmp_path: Path, unique: str) -> None:
    """With ``consumer.group.id`` among the worker's settings every sink has the same group; the backfill must not move its offsets."""
    environment.properties["consumer.group.id"] = f"shared-{unique}"
    topic = make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, topic, ["a", "b", "c"])
    environment.put_config(environment.file_sink(topic))
    from tests.integration.herder.conftest import AskedHere

    with Herder(environment.settings, RunsByHand(), probe=AskedHere(environment.settings)) as herder:
        created = herder.create_backfill(environment.connector, requested(topic, tmp_path, AskedRange(end=2)))
        until_done(again(environment, created))
        assert [each.is_done for each in herder.backfills(environment.connector)] == [True]
        assert herder.offsets(environment.connector) == []
    assert (tmp_path / "one.out").read_text().splitlines() == ["a", "b"]


def test_the_workers_bounds_of_a_run_are_not_a_backfills(herder: Herder, environment: RunEnvironment, tmp_path: Path, unique: str) -> None:
    """It has one run; another would never come."""
    environment.properties |= {"batch.max.records": "1", "batch.max.duration.ms": "1"}
    topic = make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, topic, [f"line {number}" for number in range(5000)])
    environment.put_config(environment.file_sink(topic))
    created = herder.create_backfill(environment.connector, requested(topic, tmp_path))
    own = again(environment, created)
    assert own.run().state is RunState.DONE
    assert len((tmp_path / "one.out").read_text().splitlines()) == 5000


def test_a_failed_backfill_shows_it(herder: Herder, environment: RunEnvironment, tmp_path: Path, unique: str) -> None:
    topic = make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, topic, ["a"])
    environment.put_config(environment.file_sink(topic))
    request = requested(topic, tmp_path, value_converter="org.apache.kafka.connect.json.JsonConverter")
    created = herder.create_backfill(environment.connector, request)
    assert again(environment, created).run().state is RunState.FAILED
    [found] = herder.backfills(environment.connector)
    assert (found.state, found.is_done, found.left) == (State.FAILED, False, 1)


def test_records_of_a_topic_that_was_made_anew_are_not_delivered(
    herder: Herder, environment: RunEnvironment, tmp_path: Path, unique: str
) -> None:
    topic = make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, topic, [f"old {number}" for number in range(10)])
    environment.put_config(environment.file_sink(topic))
    created = herder.create_backfill(environment.connector, requested(topic, tmp_path, AskedRange(topic, 0, 5, 9)))
    make_anew(environment, topic)
    make_topic(environment.bootstrap, topic)
    send(environment.bootstrap, topic, [f"new {number}" for number in range(10)])
    result = again(environment, created).run()
    assert (result.state, result.tasks[0].retriable) == (RunState.FAILED, False)
    assert f"Topic {topic} was created anew since this backfill was requested" in (result.tasks[0].trace or "")
    assert not (tmp_path / "one.out").exists()


# ── sources ──


def table_source(environment: RunEnvironment, target: Target, topic: str) -> dict[str, str]:
    """A live source that has read its table of 30 rows into ``topic`` plus the table's name."""
    target.do("CREATE TABLE notes (id bigint PRIMARY KEY, text text)")
    target.do("INSERT INTO notes SELECT id, 'note ' || id FROM generate_series(0, 29) AS id")
    config = {
        "name": environment.connector,
        "connector.class": "JdbcSource",
        "connection.url": target.url,
        "table.include": "notes",
        "schema.pattern": target.name,
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "topic.prefix": f"{topic}-",
        "transforms": "id",
        "transforms.id.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
        "transforms.id.field": "id",
    }
    environment.put_config(config)
    assert environment.run().state is RunState.DONE
    return config


@pytest.mark.parametrize("kill_point", READ_AGAIN, ids=str)
def test_a_range_of_a_table_is_read_again_into_another_topic(
    with_probe: Herder, environment: RunEnvironment, target: Target, unique: str, kill_point: KillPoint | None
) -> None:
    """The live source's offsets stay, and it goes on behind them; the backfill delivers each row of its range once."""
    topic = unique
    for prefix in (topic, f"again-{topic}"):
        make_topic(environment.bootstrap, f"{prefix}-notes")
    table_source(environment, target, topic)
    before = shown(with_probe.offsets(environment.connector))
    changes = {"rows.from": "10", "rows.to": "25", "topic.prefix": f"again-{topic}-", "batch.max.rows": "5"}
    created = with_probe.create_backfill(environment.connector, BackfillRequest([AskedRange()], changes, "one"))
    assert (created.is_done, created.left, created.ranges) == (None, None, [])
    own = again(environment, created)
    if kill_point is not None:
        run_and_kill(own, environment.configs().connector_config(created.name) or {}, kill_point)
    until_done(own)
    assert [int(value) for value in values_of(environment.bootstrap, f"again-{topic}-notes")] == list(range(10, 25))
    assert own.readiness().state == "no-work"
    assert shown(with_probe.offsets(environment.connector)) == before
    target.do("INSERT INTO notes VALUES (30, 'new')")
    environment.run()
    assert [int(value) for value in values_of(environment.bootstrap, f"{topic}-notes")] == list(range(31))
    assert own.readiness().state == "no-work", "what comes later is not the backfill's"


@pytest.mark.parametrize("kill_point", READ_AGAIN, ids=str)
def test_the_files_of_a_day_are_read_again(
    with_probe: Herder, environment: RunEnvironment, unique: str, kill_point: KillPoint | None
) -> None:
    """Of a live source that archives what it has read."""
    folder, days = environment.folder / "in", [datetime(2026, 1, day, 12, tzinfo=UTC).timestamp() for day in (29, 30, 31)]
    folder.mkdir()
    for number, day in enumerate(days):
        (folder / f"{number}.json").write_text("".join(f"{number * 10 + row}\n" for row in range(10)))
        os.utime(folder / f"{number}.json", (day, day))
    config = {"name": environment.connector, "connector.class": "FileSystemSource", "url": str(folder), "topic": unique, **JSON}
    config["value.converter.schemas.enable"] = "false"
    environment.put_config({**config, "cleanup.policy": "archive"})
    assert environment.run().state is RunState.DONE
    before = shown(with_probe.offsets(environment.connector))
    changes = {"file.modified.from": "2026-01-30T00:00:00Z", "file.modified.to": "2026-01-31T00:00:00Z", "topic": f"again-{unique}"}
    with pytest.raises(ConfigException, match=r"set cleanup\.policy=none"):
        with_probe.create_backfill(environment.connector, BackfillRequest([], changes, "one"))
    changes |= {"cleanup.policy": "none", "url": str(folder / "finished"), "batch.max.rows": "3"}
    own = again(environment, with_probe.create_backfill(environment.connector, BackfillRequest([], changes, "one")))
    if kill_point is not None:
        run_and_kill(own, environment.configs().connector_config(own.connector) or {}, kill_point)
    until_done(own)
    assert [int(value) for value in values_of(environment.bootstrap, f"again-{unique}")] == list(range(10, 20))
    assert own.readiness().state == "no-work", own.readiness()
    assert shown(with_probe.offsets(environment.connector)) == before
    assert len(values_of(environment.bootstrap, unique)) == 30


def test_a_source_that_nothing_bounds_has_no_backfills(
    with_probe: Herder, environment: RunEnvironment, target: Target, tmp_path: Path, unique: str
) -> None:
    table_source(environment, target, unique)
    with pytest.raises(BadRequestException, match=r"is a source, .* rows\.from"):
        with_probe.create_backfill(environment.connector, BackfillRequest([AskedRange(first=5)], {"rows.from": "5"}, "one"))
    with pytest.raises(ConfigException, match=r"set rows\.from or rows\.to"):
        with_probe.create_backfill(environment.connector, BackfillRequest([], {"topic.prefix": "x-"}, "one"))
    (tmp_path / "lines").write_text("a")
    environment.put_config(environment.file_source(unique, file=str(tmp_path / "lines")))
    with pytest.raises(ConfigException, match="No setting of this source bounds what it reads"):
        with_probe.create_backfill(environment.connector, BackfillRequest([], {"topic": "x"}, "one"))
