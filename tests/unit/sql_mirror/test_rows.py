"""Records become rows and lines of history, by the rules of the stores."""

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from itertools import count, pairwise
from typing import Any

import pytest
from sqlalchemy import Connection, Table, event, select

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.model.batches import ALTERED, BatchRecord, ConnectorType, Stay
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.records import CommitRecord, ConnectorRecord, TaskRecord, UpgradeRecord
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import ConnectorStatus, TaskStatus
from airflow_provider_connect.runtime.model.upgrades import Upgrade, UpgradeState
from airflow_provider_connect.runtime.model.views import OffsetView
from airflow_provider_connect.runtime.sql_mirror.changes import Entry, Kind, write_history
from airflow_provider_connect.runtime.sql_mirror.config_rows import take_configs
from airflow_provider_connect.runtime.sql_mirror.follower import ReadPosition, add_position, move_position
from airflow_provider_connect.runtime.sql_mirror.offset_rows import take_batches, take_offsets
from airflow_provider_connect.runtime.sql_mirror.queries import (
    KeptRead,
    changes,
    forget_history,
    last_runs,
    offset_topics,
    offsets_before,
    records_by_hour,
    run_metrics,
)
from airflow_provider_connect.runtime.sql_mirror.recorded_history import RecordedHistory
from airflow_provider_connect.runtime.sql_mirror.status_rows import take_statuses
from airflow_provider_connect.runtime.sql_mirror.sweep import Sweep
from airflow_provider_connect.runtime.sql_mirror.tables import (
    CURRENT,
    active_topic,
    batch,
    connector_config,
    connector_status,
    history,
    pending_task,
    sink_position,
    source_offset,
    target_state,
    task_config,
    task_status,
)
from tests.unit.sql_mirror.records import BATCHES, CONFIGS, NEW, OFFSETS, OLD, STATUSES, TASK, stream


def rows(database: Connection, table: Table, *columns: str) -> list[tuple[Any, ...]]:
    found = database.execute(select(table).order_by(*table.primary_key.columns)).mappings()
    return [tuple(row[name] for name in columns) for row in found]


def lines(entries: list[Entry], *kinds: Kind) -> list[tuple[str, str | None, str | None]]:
    return [(entry.subject, entry.old, entry.new) for entry in entries if entry.kind in kinds]


def test_no_table_is_read_whole_to_take_records_in(database: Connection) -> None:
    statements: list[tuple[str, Any]] = []
    event.listen(database, "before_cursor_execute", lambda *call: statements.append((call[2], call[3])))
    for take, records in ((take_configs, CONFIGS), (take_statuses, STATUSES), (take_offsets, OFFSETS), (take_batches, BATCHES)):
        write_history(database, take(database, records))
    plans = [
        database.exec_driver_sql(f"explain query plan {text}", values) for text, values in list(statements) if text.startswith("SELECT")
    ]
    assert len(plans) >= 11
    assert [row.detail for plan in plans for row in plan if row.detail.startswith("SCAN connect_")] == []


def test_an_upgrade_is_recorded_in_the_history_with_its_reason(database: Connection) -> None:
    held = Upgrade(UpgradeState.HELD, to="[2,3)", old="1.0", new="2.1", class_name="C", reason="other fields", claim=NEW)
    found = take_configs(database, stream("configs", UpgradeRecord("orders", held), UpgradeRecord("orders", None)))
    write_history(database, found)
    reported = [(entry.kind, entry.connector, entry.claim, entry.note) for entry in found]
    assert reported == [(Kind.UPGRADE, "orders", str(NEW), "other fields"), (Kind.UPGRADE, "orders", None, None)]
    assert Upgrade.of_json(json.loads(found[0].new or "")) == held


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_how_records_are_cut_into_batches_makes_no_difference(database: Connection, size: int) -> None:
    entries: list[Entry] = []
    for take, records in ((take_configs, CONFIGS), (take_statuses, STATUSES), (take_offsets, OFFSETS), (take_batches, BATCHES)):
        for start in range(0, len(records), size):
            found = take(database, records[start : start + size])
            write_history(database, found)
            entries += found
    assert rows(database, target_state, "connector", "state") == [("orders", "PAUSED")]
    assert rows(database, task_config, "task", "config") == [(0, '{"file":"b"}')]
    assert rows(database, pending_task, "task", "config") == [(1, '{"file":"pending"}')]
    assert rows(database, connector_status, "state", "claim", "changed_ms") == [("RUNNING", "id:5", 0)]
    assert rows(database, task_status, "state", "trace", "claim") == [("FAILED", "why", "id:9")]
    assert rows(database, active_topic, "topic", "discovered_ms") == [("lines", 1234)]
    assert rows(database, source_offset, "source_partition", "source_offset", "changed_ms") == [('{"file":"a"}', '{"position":2}', 2000)]
    assert rows(database, sink_position, "task", "kafka_partition", "position") == [(0, 0, 9), (0, 1, 7)]
    assert lines(entries, Kind.TARGET_STATE) == [("", "STARTED", "PAUSED"), ("", "STARTED", None)]
    assert lines(entries, Kind.TASKS) == [("", "[]", '[{"file":"a"}]'), ("", '[{"file":"a"}]', '[{"file":"b"}]')]
    assert [json.loads(new or "null") for _, _, new in lines(entries, Kind.RESTART)] == [{"include-tasks": True, "only-failed": False}]
    assert [json.loads(new or "null") for _, _, new in lines(entries, Kind.TOPIC)][-1] is None
    partition = '{"kafka_partition":1,"kafka_topic":"lines"}'
    assert [line for line in lines(entries, Kind.OFFSET) if line[0] == partition] == [
        (partition, None, '{"kafka_offset":7}'),
        (partition, '{"kafka_offset":7}', '{"kafka_offset":8}'),
        (partition, '{"kafka_offset":8}', '{"kafka_offset":7}'),
    ]
    assert [(run.run, run.records, run.cpu_seconds, run.first_ms, run.last_ms) for run in run_metrics(database)] == [
        ("two", 0, 0.0, 2000, 2000),
        ("one", 9, 0.7, 0, 1000),
    ]
    assert offset_topics(database) == ["own"]


def test_what_every_database_can_keep_is_mirrored_and_nothing_else(database: Connection) -> None:
    long = "x" * 251
    config = {"text": "\0 \ud800 ü 😀", "x" * 1000: "long"}
    take_configs(database, stream("configs", *(ConnectorRecord(name, config) for name in ("ü", "\0", "\ud800", long, "a b", "a b "))))
    assert [(name, json.loads(text)) for name, text in rows(database, connector_config, "connector", "config")] == [
        ("a b", config),
        ("ü", config),
    ]
    take_statuses(database, stream("status", TaskStatus("a", 0, State.FAILED, "\0host", trace="\ud800\0")))
    assert rows(database, task_status, "worker_id", "trace") == [("\\x00host", "\\ud800\\x00")]
    foreign = BatchRecord(TASK, "run", NEW, ConnectorType.SINK)
    odd = [
        replace(foreign, task=ConnectorTaskId("orders", -1)),
        replace(foreign, run=long),
        replace(foreign, claim=Claim(1, long)),
        replace(foreign, seconds=float("inf")),
        replace(foreign, seconds=1.1e9),
        replace(foreign, cpu_seconds=float("nan")),
        replace(foreign, cpu_seconds=-0.5),
        replace(foreign, bytes=2**51),
        replace(foreign, records=-1),
        replace(foreign, failed=-1),
        replace(foreign, next={"lines": {2**31: 1}}),
    ]
    assert take_batches(database, stream("batches", *odd)) == []
    assert run_metrics(database) == []


def test_a_run_may_deliver_more_than_a_short_number_holds(database: Connection) -> None:
    value = BatchRecord(TASK, "run", NEW, ConnectorType.SINK, 3 * 10**9, 3 * 10**12, next={"lines": {0: 3 * 10**9}})
    take_batches(database, stream("batches", value))
    assert [(run.records, run.bytes) for run in run_metrics(database)] == [(3 * 10**9, 3 * 10**12)]
    assert rows(database, sink_position, "position") == [(3 * 10**9,)]


def test_a_zombie_changes_nothing_and_a_real_worker_everything(database: Connection) -> None:
    write_history(database, take_statuses(database, STATUSES))
    zombie = TaskStatus("orders", 0, State.RUNNING, "zombie", claim=OLD, timestamp=9000)
    assert take_statuses(database, stream("status", zombie)) == []
    real = TaskStatus("orders", 0, State.PAUSED, "real:8083", timestamp=9000)
    write_history(database, take_statuses(database, stream("status", real)))
    assert take_statuses(database, stream("status", zombie)) == []  # the row has no claim any more; the history has
    gone = ConnectorStatus("orders", State.DESTROYED, claim=NEW, timestamp=9500)
    entries = take_statuses(database, stream("status", gone))
    assert [(entry.kind, entry.subject, entry.new) for entry in entries] == [("status", "", None), ("task-status", "0", None)]
    assert rows(database, task_status, "worker_id") == []


def test_a_commit_that_counts_missing_tasks_is_reported(database: Connection) -> None:
    take_configs(database, CONFIGS)
    take_configs(database, stream("configs", CommitRecord("orders", 3)))
    assert rows(database, task_config, "task", "config") == [(0, '{"file":"b"}')]


def test_undoing_gives_back_what_was_before_the_first_change(database: Connection) -> None:
    write_history(database, take_offsets(database, OFFSETS))
    first, *_, last = reversed(changes(database, "orders"))
    assert offsets_before(database, "orders", first.id) == [OffsetView({"file": "a"}, None), OffsetView({"file": "b"}, None)]
    assert offsets_before(database, "orders", last.id) == [OffsetView({"file": "b"}, {"position": 1})]


def test_history_page_by_page_and_by_kind(database: Connection) -> None:
    write_history(database, take_configs(database, CONFIGS))
    write_history(database, take_offsets(database, OFFSETS))
    everything = changes(database)
    first = changes(database, limit=4)
    assert first + changes(database, before_id=first[-1].id) == everything
    assert {change.kind for change in changes(database, "orders", kinds=[Kind.OFFSET, Kind.TASKS])} == {"offset", "tasks"}
    assert {change.connector for change in changes(database, "gone")} == {"gone"}


def test_old_history_can_be_forgotten(database: Connection) -> None:
    write_history(database, take_batches(database, BATCHES))
    write_history(database, take_offsets(database, OFFSETS))
    old = len([change for change in changes(database) if change.at_ms < 2000])
    assert forget_history(database, before_ms=2000, most=1)
    assert len([change for change in changes(database) if change.at_ms < 2000]) == old - 1
    while forget_history(database, before_ms=2000, most=1):
        continue
    assert {change.at_ms for change in changes(database)} == {2000, 3000}
    assert [run.run for run in run_metrics(database)] == ["two"]
    assert rows(database, source_offset, "source_offset") == [('{"position":2}',)]


def test_a_sweep_removes_what_its_topic_does_not_hold(database: Connection) -> None:
    for take, records in ((take_configs, CONFIGS), (take_statuses, STATUSES), (take_offsets, OFFSETS), (take_batches, BATCHES)):
        take(database, records)
    held = Sweep(database, "configs", 99)
    held.configs(CONFIGS)
    held.statuses(STATUSES)
    held.batches(BATCHES)
    Sweep(database, "offsets", 99).offsets(OFFSETS)
    Sweep(database, "another topic of offsets", 99).offsets([])
    assert [entry for entry in held.entries if entry.kind is not Kind.MIRROR] == []
    assert rows(database, source_offset, "source_offset") == [('{"position":2}',)]
    swept = Sweep(database, "offsets", 99)
    for verb in (swept.configs, swept.statuses, swept.offsets, swept.batches):
        verb([])
    assert [table.name for table in CURRENT if rows(database, table)] == []
    assert {(entry.kind, entry.new, entry.at_ms) for entry in swept.entries} == {
        (kind, None, 99) for kind in Kind if kind not in (Kind.RESTART, Kind.UPGRADE, Kind.TASKS, Kind.LOG_LEVEL, Kind.MIRROR)
    }
    write_history(database, swept.entries)
    assert len(rows(database, history, "note")) == len(swept.entries)


def test_passwords_by_type_are_in_no_table(database: Connection) -> None:
    """A plugin's key of type PASSWORD may have any name; a task's config names no connector class."""

    def hide(config: Mapping[str, str], of: Mapping[str, str] | None = None) -> Mapping[str, str]:
        is_shop = {**(of or {}), **config}.get("connector.class") == "Shop"
        return {key: "[hidden]" if is_shop and key == "pin" else value for key, value in config.items()}

    task = ConnectorTaskId("shop", 0)
    reported = stream(
        "configs",
        ConnectorRecord("shop", {"connector.class": "Shop", "pin": "canary", "colour": "red"}),
        TaskRecord(task, {"pin": "canary", "part": "1"}),
        CommitRecord("shop", 1),
        ConnectorRecord("shop", {"connector.class": "Shop", "pin": "canary-2", "colour": "red"}),
    )
    entries = take_configs(database, reported, hide=hide)
    write_history(database, entries)
    tables = (connector_config, pending_task, task_config, history)
    everything = str([list(database.execute(select(table)).tuples()) for table in tables])
    assert "canary" not in everything
    assert '"part": "1"' in everything or '"part":"1"' in everything
    assert everything.count("[hidden]") >= 3
    assert len([entry for entry in entries if entry.kind is Kind.CONFIG]) == 2, "another secret is another config"


def test_the_last_run_of_a_connector_is_what_its_newest_claim_has_delivered(database: Connection) -> None:
    def delivered(connector: str, task: int, run: str, claim: Claim, records: int) -> BatchRecord:
        return BatchRecord(ConnectorTaskId(connector, task), run, claim, ConnectorType.SINK, records, 10 * records, 1.0, 0.5)

    take_configs(database, CONFIGS)
    entries = [
        delivered("orders", 0, "one", OLD, 5),
        delivered("never", 0, "one", OLD, 5),
        delivered("orders", 0, "two", NEW, 3),
        delivered("orders", 1, "two", NEW, 4),
    ]
    take_batches(database, stream("batches", *entries))
    (last,) = last_runs(database)
    assert (last.connector, last.run, last.tasks, last.records, last.bytes, last.seconds) == ("orders", "two", 2, 7, 70, 2.0)


def test_the_last_run_that_stays_has_what_all_its_claims_have_delivered(database: Connection) -> None:
    take_configs(database, CONFIGS)
    entry = BatchRecord(TASK, "one", Claim(2, "id"), ConnectorType.SINK, 99, 990, 1.0, 0.5, stay=Stay.OPEN)
    entries = [
        entry,
        replace(entry, run="two", claim=OLD, records=13, bytes=130),
        replace(entry, run="two", claim=NEW, records=1, bytes=10),
    ]
    take_batches(database, stream("batches", *entries))
    (last,) = last_runs(database)
    assert [last] == run_metrics(database, limit=1)
    assert (last.run, last.tasks, last.tries, last.records, last.first_ms, last.last_ms) == ("two", 1, 2, 14, 1000, 2000)


def test_a_change_of_offsets_is_its_users_and_no_run(database: Connection) -> None:
    take_configs(database, CONFIGS)
    positions = {"t": {0: 5}}
    run = BatchRecord(TASK, "one", OLD, ConnectorType.SINK, 5, 50, 1.0, 0.5, next=positions)
    altered = BatchRecord(TASK, ALTERED, NEW, ConnectorType.SINK, next={"t": {0: 2}})
    of_run, of_user = stream("batches", run, altered)
    write_history(database, take_batches(database, [of_run, replace(of_user, author="ann")]))
    assert [(found.run, found.records) for found in (*run_metrics(database), *last_runs(database))] == [("one", 5)] * 2
    lines = RecordedHistory(lambda: nullcontext(database)).offset_lines("orders", "batches", limit=9).lines
    assert [(line.who, line.run, line.new) for line in lines] == [
        ("ann", None, '{"kafka_offset":2}'),
        (None, "one", '{"kafka_offset":5}'),
    ]
    assert [change.run for change in changes(database, kinds=[Kind.OFFSET])] == [None, "one"]


def test_the_last_runs_of_a_thousand_connectors_are_three_statements(database: Connection) -> None:
    numbers = {"records": 1, "bytes": 2, "seconds": 0.5, "cpu_seconds": 0.25, "first_ms": 1}
    values = {"task": 0, "type": "sink", "ranges": "{}", "run": "one", **numbers}
    names = [f"c{number:04}" for number in range(1000)]
    database.execute(connector_config.insert(), [{"connector": name, "config": "{}", "changed_ms": 1} for name in names])
    runs = [{**values, "connector": name, "claim": f"id:{name}{at}", "last_ms": at} for name in names for at in (7, 8, 9)]
    database.execute(batch.insert(), runs)
    sent: list[str] = []
    event.listen(database, "before_cursor_execute", lambda _connection, _cursor, statement, *_: sent.append(statement))
    found = last_runs(database)
    assert {run.connector: (run.last_ms, run.records) for run in found} == dict.fromkeys(names, (9, 1))
    assert len(sent) == 3


def test_what_is_kept_is_read_again_after_each_transaction_of_the_mirror_and_not_before(database: Connection) -> None:
    at, reads = TopicPartition("batches", 0), count()
    kept = KeptRead(lambda _: next(reads))
    positions = [ReadPosition("id", 5, 0, 0), ReadPosition("id", 6, 0, 0), ReadPosition("other", 6, 0, 0)]
    assert [kept(database), kept(database)] == [0, 0]
    add_position(database, at, positions[0])
    assert [kept(database), kept(database)] == [1, 1]
    for before, after in pairwise(positions):
        move_position(database, at, before, after)
    assert [kept(database), kept(database)] == [2, 2]
    forget_history(database, before_ms=10**12)
    assert kept(database) == 3
    sent: list[str] = []
    event.listen(database, "before_cursor_execute", lambda _connection, _cursor, statement, *_: sent.append(statement))
    move_position(database, at, positions[2], replace(positions[2], complete_ms=9))  # the mirror has found nothing new
    assert kept(database) == 3
    assert len(sent) == 2


def test_the_records_of_a_day_are_counted_by_the_hour_of_a_runs_last_entry(database: Connection) -> None:
    take_configs(database, CONFIGS)
    hour, now = 3_600_000, 500_000 * 3_600_000 + 1234
    ends = {0: now - 30, 1: now - 60, 2: now - hour, 3: now - 23 * hour, 4: now - 24 * hour, 5: now + 2 * hour}
    rows = [("orders", task, at, 10**task) for task, at in ends.items()] + [("gone", 0, now, 7)]
    for connector, task, at, records in rows:
        numbers = {"records": records, "bytes": 0, "seconds": 0.0, "cpu_seconds": 0.0, "first_ms": at, "last_ms": at}
        values = {"connector": connector, "task": task, "claim": "id:1", "run": "one", "type": "sink", "ranges": "{}", **numbers}
        database.execute(batch.insert().values(values))
    assert records_by_hour(database, now_ms=now) == {"orders": [1000, *[0] * 21, 100, 100011]}
