"""Sinks that deliver exactly once, on a real broker: whose offsets a destination holds, and what follows where it has changed since."""

from __future__ import annotations

import dataclasses
import re
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable, write_deltalake

from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep, StepHook
from airflow_provider_connect.runtime.worker.task.sink_runner import SinkTaskRunner
from tests.integration.lake.tables import catalog_in, rows_of, table_of
from tests.integration.worker.destinations import KINDS, Kind, config, in_another_cluster, make_again, reason, run
from tests.integration.worker.environment import RunEnvironment, make_topic, send
from tests.integration.worker.note_runs import notes
from tests.samples import sample
from tests.waiting import HANG_SECONDS


def kinds(*kept: str) -> pytest.MarkDecorator:
    """All kinds of destinations; ``make test`` has those of the names ``kept``."""
    return pytest.mark.parametrize("kind", sample(KINDS.values(), *map([*KINDS].index, kept)), ids=KINDS)


def names(*kept: str, of: Iterable[str] = KINDS) -> pytest.MarkDecorator:
    names = [*of]
    return pytest.mark.parametrize("name", sample(names, *map(names.index, kept)), ids=names)


def delivers(environment: RunEnvironment, given: dict[str, str]) -> None:
    result = run(environment, given)
    assert (result.state, result.error, [task.trace for task in result.tasks]) == (RunState.DONE, None, [None])


def with_ten(environment: RunEnvironment, topic: str, kind: Kind) -> dict[str, str]:
    """The config of a connector that has delivered ten notes of a new topic."""
    make_topic(environment.bootstrap, topic)
    send(environment.bootstrap, topic, notes(10))
    given = config(environment, kind, topic)
    delivers(environment, given)
    return given


def refusal(environment: RunEnvironment, given: dict[str, str]) -> str:
    result = run(environment, given)
    assert result.state is RunState.FAILED
    return reason(result)


def in_database(environment: RunEnvironment, sql: str) -> None:
    with closing(sqlite3.connect(environment.folder / "notes.db")) as database:
        database.execute(sql)
        database.commit()


@kinds("files", "iceberg")
def test_a_topic_that_was_created_anew_is_delivered_from_its_first_record(environment: RunEnvironment, unique: str, kind: Kind) -> None:
    given = with_ten(environment, unique, kind)
    make_again(environment, unique)
    send(environment.bootstrap, unique, notes(15, 100))
    if kind is KINDS["files"]:  # names of files hold offsets, which begin anew
        assert "(then with the id " in refusal(environment, given)
        assert kind.ids(environment.folder) == list(range(10))
        given |= {"topics.dir": "again"}
    delivers(environment, given)
    assert kind.ids(environment.folder) == [*range(10), *range(100, 115)]


@kinds("delta", "table")
def test_offsets_of_another_cluster_are_refused_by_name(environment: RunEnvironment, unique: str, kind: Kind) -> None:
    given = with_ten(environment, unique, kind)
    scope = TopicAdmin(environment.settings).topic_id(environment.settings.config_topic)
    make_again(environment, unique)
    other = in_another_cluster(environment, unique)
    send(environment.bootstrap, unique, notes(5, 100))
    text = refusal(other, given)
    assert "another Connect cluster (config topic id " in text
    assert kind.ids(environment.folder) == list(range(10))
    if kind is KINDS["files"]:
        return
    adopted = text.partition("destination.adopt=")[2].partition(" ")[0]
    assert adopted == scope or kind is KINDS["delta"], "a Delta table keeps numbers alone"
    delivers(other, given | {"destination.adopt": adopted})
    assert kind.ids(environment.folder) == [*range(10), *range(100, 105)]


def test_files_that_were_moved_away_let_a_connector_of_another_cluster_adopt_their_folder(environment: RunEnvironment, unique: str) -> None:
    kind = KINDS["files"]
    given = with_ten(environment, unique, kind)
    make_again(environment, unique)
    other = in_another_cluster(environment, unique)
    send(environment.bootstrap, unique, notes(5, 100))
    remedy = re.search(r"; or move the files of \S+ elsewhere, and remove (\S+)", refusal(other, given))
    assert remedy is not None
    for path in [*environment.folder.rglob(f"{unique}+0+*"), environment.folder / remedy[1]]:
        path.unlink()
    adopted = refusal(other, given).partition("destination.adopt=")[2].partition(" ")[0]
    delivers(other, given | {"destination.adopt": adopted})
    assert kind.ids(environment.folder) == list(range(100, 105))


@kinds("file")
def test_another_group_on_the_same_cluster_goes_on(environment: RunEnvironment, unique: str, kind: Kind) -> None:
    """By the topic's id the records are the same."""
    given = with_ten(environment, unique, kind)
    send(environment.bootstrap, unique, notes(5, 10))
    delivers(in_another_cluster(environment, unique), given)
    assert kind.ids(environment.folder) == list(range(15))


@kinds("table")
def test_a_destination_that_a_config_comes_back_to_gets_what_no_other_has(environment: RunEnvironment, unique: str, kind: Kind) -> None:
    topic = make_topic(environment.bootstrap, unique)
    first, second = environment.folder / "first", environment.folder / "second"
    for number, folder in enumerate((first, second, first)):
        folder.mkdir(exist_ok=True)
        send(environment.bootstrap, topic, notes(5, 5 * number))
        delivers(environment, {"name": environment.connector, "topics": topic} | kind.settings(folder))
    assert (kind.ids(first), kind.ids(second)) == ([*range(5), *range(10, 15)], [*range(5, 10)])


@names("files", of=("delta", "files"))
def test_what_an_emptied_folder_lacks_is_delivered_again(environment: RunEnvironment, unique: str, name: str) -> None:
    kind = KINDS[name]
    given = with_ten(environment, unique, kind)
    shutil.rmtree(environment.folder / ("notes" if name == "delta" else "topics"))
    send(environment.bootstrap, unique, notes(5, 10))
    text = refusal(environment, given | {"destination.rollback": "fail"})
    assert "The destination holds no offset of" in text
    assert "Set destination.rollback=redeliver" in text
    delivers(environment, given)
    assert kind.ids(environment.folder) == list(range(15))


def without_offsets(environment: RunEnvironment, name: str) -> None:
    """Take away what keeps the offsets, and leave the records: hidden files, a folder of state, a table that is a copy of its rows."""
    folder = environment.folder
    match name:
        case "file":
            for path in folder.glob(".notes.txt*"):
                path.unlink()
        case "files":
            shutil.rmtree(folder / "topics" / "_connect" / environment.connector)
        case "delta":
            rows = DeltaTable(folder / "notes").to_pyarrow_table()
            shutil.rmtree(folder / "notes")
            write_deltalake(folder / "notes", rows)
        case "iceberg":
            with closing(catalog_in(folder)) as catalog:
                table = catalog.load_table("shop.notes")
                rows = table.scan().to_arrow()
                catalog.drop_table("shop.notes")
                catalog.create_table("shop.notes", table.schema()).append(rows)
        case "table":
            in_database(environment, "DROP TABLE connect_sink_offsets")


def emptied(environment: RunEnvironment, name: str) -> None:
    """Take away the records."""
    folder = environment.folder
    match name:
        case "file":
            (folder / "notes.txt").rename(folder / "moved.txt")
        case "files":
            shutil.rmtree(folder / "topics" / name_of_topic(environment))
        case "delta":
            DeltaTable(folder / "notes").delete()
        case "iceberg":
            table_of(folder, "shop.notes").delete()
        case "table":
            in_database(environment, "DELETE FROM notes")


def name_of_topic(environment: RunEnvironment) -> str:
    """The only topic whose files there are."""
    [name] = [path.name for path in (environment.folder / "topics").iterdir() if path.name != "_connect"]
    return name


@names("file", "iceberg")
def test_records_without_their_offsets_are_not_doubled_without_a_word(environment: RunEnvironment, unique: str, name: str) -> None:
    kind = KINDS[name]
    given = with_ten(environment, unique, kind)
    without_offsets(environment, name)
    send(environment.bootstrap, unique, notes(5, 10))
    text = refusal(environment, given)
    assert "The destination holds no offset of" in text
    assert kind.ids(environment.folder) == list(range(10))
    emptied(environment, name)
    delivers(environment, given | {"destination.rollback": "redeliver"})
    assert kind.ids(environment.folder) == list(range(15))


@names("delta")
def test_a_destination_that_is_restored_in_the_middle_of_a_run_gets_all(environment: RunEnvironment, unique: str, name: str) -> None:
    kind, topic = KINDS[name], make_topic(environment.bootstrap, unique)
    folder, backup = environment.folder / "data", environment.folder / "backup"
    folder.mkdir()
    given = {"name": environment.connector, "topics": topic} | kind.settings(folder)
    for number in range(2):
        send(environment.bootstrap, topic, notes(5, 5 * number))
        delivers(environment, given)
        if number == 0:
            shutil.copytree(folder, backup)
    send(environment.bootstrap, topic, notes(5, 10))
    run(dataclasses.replace(environment, step=restoring(folder, backup)), given)
    environment.runs += 1
    for _ in range(2):
        run(environment, given)
    send(environment.bootstrap, topic, notes(5, 15))
    delivers(environment, given)
    assert kind.ids(folder) == list(range(20))


def restoring(folder: Path, backup: Path) -> StepHook:
    """Puts the backup in the place of the folder when the rows of a run are there and not committed."""

    @contextmanager
    def step(at: CommitStep) -> Iterator[None]:
        if at is CommitStep.PRE_COMMIT and backup.exists():
            shutil.rmtree(folder)
            backup.rename(folder)
        yield

    return step


def test_a_topic_that_is_created_anew_between_the_claim_and_the_first_read(
    environment: RunEnvironment, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds enough records by then for the offset to be one of its own."""
    kind, opened = KINDS["file"], SinkTaskRunner._open_partitions
    given = with_ten(environment, unique, kind)
    send(environment.bootstrap, unique, notes(5, 10))

    def then_made_again(self: SinkTaskRunner, *arguments: Any) -> Any:
        ends = opened(self, *arguments)
        admin = AdminClient({"bootstrap.servers": environment.bootstrap})
        admin.delete_topics([unique])[unique].result(HANG_SECONDS)
        make_topic(environment.bootstrap, unique)
        send(environment.bootstrap, unique, notes(20, 100))
        return ends

    with monkeypatch.context() as patch:
        patch.setattr(SinkTaskRunner, "_open_partitions", then_made_again)
        assert "was created anew during this run" in refusal(environment, given)
    delivers(environment, given)
    assert kind.ids(environment.folder) == [*range(10), *range(100, 120)]


def test_files_behind_an_offset_that_went_back_are_not_doubled(environment: RunEnvironment, unique: str) -> None:
    kind, state = KINDS["files"], environment.folder / "topics" / "_connect"
    topic = make_topic(environment.bootstrap, unique)
    given = config(environment, kind, topic, flush_size="2")
    for number in range(2):
        send(environment.bootstrap, topic, notes(5, 5 * number))
        delivers(environment, given)
        if number == 0:
            shutil.copytree(state, environment.folder / "backup")
    shutil.rmtree(state)
    (environment.folder / "backup").rename(state)
    send(environment.bootstrap, topic, notes(5, 10))
    assert "The destination holds offset 5 of" in refusal(environment, given | {"flush.size": "3"})
    assert kind.ids(environment.folder) == list(range(10))


@pytest.mark.parametrize("change", ["one table is rolled back", pytest.param("the table of offsets is dropped", marks=pytest.mark.soak)])
def test_one_of_several_tables_went_back(environment: RunEnvironment, unique: str, change: str) -> None:
    topic, tables, kept = make_topic(environment.bootstrap, unique), ("shop.notes", "shop.copy"), list[int]()
    given = config(environment, KINDS["iceberg"], topic) | {"iceberg.tables": ",".join(tables)}
    for number in range(2):
        send(environment.bootstrap, topic, notes(5, 5 * number))
        delivers(environment, given)
        kept += [each.snapshot_id for each in table_of(environment.folder, "shop.copy").snapshots()][-1:]
    send(environment.bootstrap, topic, notes(5, 10))
    count = 15
    if change == "one table is rolled back":
        table_of(environment.folder, "shop.copy").manage_snapshots().rollback_to_snapshot(kept[0]).commit()
        delivers(environment, given)
    else:
        with closing(catalog_in(environment.folder)) as catalog:
            catalog.drop_table("connect.sink_offsets")
        assert "The destination holds no offset of" in refusal(environment, given)
        count = 10
    for name in tables:
        assert sorted(row["id"] for row in rows_of(environment.folder, name)) == list(range(count))


def test_two_connectors_that_write_a_topic_into_one_file(environment: RunEnvironment, unique: str) -> None:
    kind = KINDS["file"]
    with_ten(environment, unique, kind)
    second = dataclasses.replace(environment, connector=f"second-{unique}")
    given = config(second, kind, unique)
    assert f"that belong to connector {environment.connector}" in refusal(second, given)
    other = make_topic(environment.bootstrap, f"other-{unique}")
    send(environment.bootstrap, other, notes(5, 10))
    delivers(second, given | {"topics": other})
    assert kind.ids(environment.folder) == list(range(15))


@pytest.mark.parametrize(
    ("back_to", "expires"),
    [
        pytest.param("the first run", False, marks=pytest.mark.soak),
        ("the first run", True),
        pytest.param("the beginning", False, marks=pytest.mark.soak),
        pytest.param("the beginning", True, marks=pytest.mark.soak),
    ],
)
def test_what_a_rollback_has_removed_is_delivered_again(environment: RunEnvironment, unique: str, back_to: str, expires: bool) -> None:
    kind, topic = KINDS["iceberg"], make_topic(environment.bootstrap, unique)
    given, counts = config(environment, kind, topic), [1]
    for number in range(2):
        send(environment.bootstrap, topic, notes(5, 5 * number))
        delivers(environment, given)
        counts.append(len(table_of(environment.folder, "shop.notes").snapshots()))
    kept = counts[1] if back_to == "the first run" else counts[0]
    table = table_of(environment.folder, "shop.notes")
    ids = [each.snapshot_id for each in table.snapshots()]  # as they were written
    table.manage_snapshots().rollback_to_snapshot(ids[kept - 1]).commit()
    if expires:
        table_of(environment.folder, "shop.notes").maintenance.expire_snapshots().by_ids(ids[kept:]).commit()
    send(environment.bootstrap, topic, notes(5, 10))
    delivers(environment, given)
    assert kind.ids(environment.folder) == list(range(15))


@pytest.mark.parametrize("back_to", ["the first run", pytest.param("the beginning", marks=pytest.mark.soak)])
def test_what_a_restore_of_a_delta_table_has_removed_is_delivered_again(environment: RunEnvironment, unique: str, back_to: str) -> None:
    kind, topic = KINDS["delta"], make_topic(environment.bootstrap, unique)
    given, versions = config(environment, kind, topic), [0]
    for number in range(2):
        send(environment.bootstrap, topic, notes(5, 5 * number))
        delivers(environment, given)
        versions.append(DeltaTable(str(environment.folder / "notes")).version())
    DeltaTable(str(environment.folder / "notes")).restore(versions[1] if back_to == "the first run" else versions[0])
    send(environment.bootstrap, topic, notes(5, 10))
    assert "it has been rolled back, restored or emptied" in refusal(environment, given | {"destination.rollback": "fail"})
    delivers(environment, given)
    assert kind.ids(environment.folder) == list(range(15))


def test_a_database_that_was_restored_gets_what_it_lacks(environment: RunEnvironment, unique: str) -> None:
    kind, topic = KINDS["table"], make_topic(environment.bootstrap, unique)
    given = config(environment, kind, topic)
    for number in range(2):
        send(environment.bootstrap, topic, notes(5, 5 * number))
        delivers(environment, given)
        if number == 0:
            shutil.copy(environment.folder / "notes.db", environment.folder / "backup.db")
    shutil.copy(environment.folder / "backup.db", environment.folder / "notes.db")
    send(environment.bootstrap, topic, notes(5, 10))
    delivers(environment, given)
    assert kind.ids(environment.folder) == list(range(15))


def test_a_second_connector_does_not_replace_files_of_the_first(environment: RunEnvironment, unique: str) -> None:
    kind = KINDS["files"]
    with_ten(environment, unique, kind)
    second = dataclasses.replace(environment, connector=f"second-{unique}")
    for guarantee in ("exactly_once", "at_least_once"):
        text = refusal(second, config(second, kind, unique, delivery_guarantee=guarantee))
        assert f"would replace those that connector {environment.connector} writes" in text
    assert kind.ids(environment.folder) == list(range(10))
