"""Ways back of a herder over memory stores and a file of offsets, with a mirror in memory that is filled by its own rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, StaticPool, create_engine, func, insert, select

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import (
    BadRequestException,
    ConfigException,
    ConflictException,
    ConnectException,
    NotFoundException,
)
from airflow_provider_connect.rest.secrets import Secrets
from airflow_provider_connect.runtime.config.dag_settings import DEFINED_IN
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.history import KeyChange
from airflow_provider_connect.runtime.model.records import ConnectorRecord
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.sql_mirror.changes import write_history
from airflow_provider_connect.runtime.sql_mirror.config_rows import take_configs
from airflow_provider_connect.runtime.sql_mirror.offset_rows import take_offsets
from airflow_provider_connect.runtime.sql_mirror.queries import forget_history
from airflow_provider_connect.runtime.sql_mirror.recorded_history import RecordedHistory
from airflow_provider_connect.runtime.sql_mirror.tables import history, metadata, position
from airflow_provider_connect.runtime.stores.local_backing import LocalBacking
from airflow_provider_connect.runtime.stores.memory import MemoryConfigStore
from airflow_provider_connect.runtime.stores.offset_file import OffsetFile
from airflow_provider_connect.runtime.stores.state_stream import StateRecord
from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord
from airflow_provider_connect.runtime.wire import offset_topic
from tests.unit.herder.conftest import CONFIG, GivenErrors, NotedRuns

SECRET, LATER = "tiny-canary-4711", "tiny-canary-4712"
BEGINS = 1000
A, B = {"filename": "/a"}, {"filename": "/b"}
Offset = Mapping[str, object] | None


class Past:
    """A herder, and a mirror that takes in what the test has it read. ``commit`` is a run's change of offsets, at the test's own time."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        self.settings = WorkerSettings.of({"task.shutdown.graceful.timeout.ms": "200"})
        self.engine = engine
        self.file = OffsetFile(folder / "offsets")
        self.backing = LocalBacking(self.file)
        self.while_waiting: Callable[[], None] = lambda: None
        self.herder = Herder(
            self.settings,
            NotedRuns(),
            probe=GivenErrors(),
            backing=self.backing,
            recorded=RecordedHistory(engine.begin),
            author="anna",
            sleep=lambda _: self.while_waiting(),
        )
        self._taken = self._offset = 0
        self._unread: list[StateRecord] = []

    def take_configs(self) -> None:
        store = self.backing.configs()
        assert isinstance(store, MemoryConfigStore)
        found = [
            StateRecord(TopicPartition("configs", 0), number, 1000 + number, record, None, record.author)
            for number, record in enumerate(store.records)
            if number >= self._taken and isinstance(record, ConnectorRecord)
        ]
        self._taken = len(store.records)
        with self.engine.begin() as connection:
            write_history(connection, take_configs(connection, found))

    def commit(self, at_ms: int, *offsets: tuple[Mapping[str, object], Offset], is_recorded: bool = True) -> None:
        claim = self.backing.configs().claim("c")
        wires = [offset_topic.encode("c", partition, offset) for partition, offset in offsets]
        committer = self.backing.committer("c", claim)
        assert committer is not None
        committer.write([ProducerRecord("file", 0, wire.key, wire.value) for wire in wires])
        values: list[Any] = [offset_topic.decode(wire.key, wire.value) for wire in wires]
        topic = self.settings.offset_topic
        records = [StateRecord(TopicPartition(topic, 0), self._offset + n, at_ms, value, claim) for n, value in enumerate(values)]
        self._offset += len(records)
        self._unread += records
        if is_recorded:
            self.take_offsets()

    def take_offsets(self) -> None:
        records, self._unread = self._unread, []
        with self.engine.begin() as connection:
            write_history(connection, take_offsets(connection, records))

    def offsets(self) -> dict[str, Offset]:
        return {str((view.partition or {})["filename"]): view.offset for view in self.herder.offsets("c")}


@pytest.fixture
def past(tmp_path: Path) -> Iterator[Past]:
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    metadata.create_all(engine)
    past = Past(tmp_path, engine)
    with engine.begin() as connection:
        row = {"topic_partition": 0, "topic_id": "id", "position": 0, "noted": 0, "complete_ms": BEGINS, "since_ms": BEGINS}
        connection.execute(insert(position).values(topic=past.settings.offset_topic, **row))
    yield past
    past.herder.close()
    past.file.close()
    engine.dispose()


def with_offsets(past: Past) -> None:
    """A stopped connector with three changes of offsets: at 2000, 3000 (the second partition is new) and 4000."""
    past.herder.create_connector("c", CONFIG, TargetState.STOPPED)
    past.commit(2000, (A, {"position": 1}))
    past.commit(3000, (A, {"position": 2}), (B, {"position": 7}))
    past.commit(4000, (A, {"position": 3}))


# ── offsets ──


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        (4000, {"/a": {"position": 3}, "/b": {"position": 7}}),
        (3999, {"/a": {"position": 2}, "/b": {"position": 7}}),
        (2500, {"/a": {"position": 1}}),
        (1500, {}),
        ("1970-01-01T00:00:02Z", {"/a": {"position": 1}}),
    ],
)
def test_offsets_are_those_of_the_instant(past: Past, to: str | int, expected: dict[str, Offset]) -> None:
    with_offsets(past)
    before = past.offsets()
    planned = past.herder.undo_offsets("c", to=to, dry_run=True)
    assert past.offsets() == before, "a dry run changes nothing"
    assert past.herder.undo_offsets("c", to=to).returns == planned.returns
    assert past.offsets() == expected


def test_a_change_is_undone_with_all_that_came_after_it(past: Past) -> None:
    with_offsets(past)
    newest, second, _ = past.herder.offsets_history("c").changes
    assert [(move.partition, move.old, move.new) for move in second.moves] == [
        (A, {"position": 1}, {"position": 2}),
        (B, None, {"position": 7}),
    ]
    past.herder.undo_offsets("c", entry=second.entry)
    assert past.offsets() == {"/a": {"position": 1}}
    assert newest.entry > second.entry


def test_only_a_stopped_connector_goes_back(past: Past) -> None:
    with_offsets(past)
    past.herder.resume("c")
    assert past.herder.undo_offsets("c", to=2500, dry_run=True).returns
    with pytest.raises(BadRequestException, match="STOPPED"):
        past.herder.undo_offsets("c", to=2500)
    assert past.offsets()["/a"] == {"position": 3}


def test_an_undo_waits_for_the_mirror_and_refuses_while_it_lags(past: Past) -> None:
    with_offsets(past)
    past.commit(5000, (A, {"position": 4}), is_recorded=False)
    waits = []
    past.while_waiting = lambda: waits.append(1)
    with pytest.raises(ConflictException, match="An API server has to follow"):
        past.herder.undo_offsets("c", to=2500)
    assert (past.offsets()["/a"], bool(waits)) == ({"position": 4}, True)
    past.while_waiting = past.take_offsets
    past.herder.undo_offsets("c", to=2500)
    assert past.offsets() == {"/a": {"position": 1}}


def test_what_the_history_does_not_have_is_refused(past: Past) -> None:
    with_offsets(past)
    for asked, text in (
        ({"to": BEGINS - 1}, "begins at 1000"),
        ({"to": 2**50}, "in the future"),
        ({"to": "2026-01-31T14:00"}, "is not an instant"),
        ({}, "one of the two"),
        ({"to": 2000, "entry": 1}, "one of the two"),
    ):
        with pytest.raises(BadRequestException, match=text):
            past.herder.undo_offsets("c", **asked)
    with pytest.raises(NotFoundException, match="no change of offsets 4711"):
        past.herder.undo_offsets("c", entry=4711)
    with pytest.raises(NotFoundException):
        past.herder.undo_offsets("unknown", to=2000)
    with past.engine.begin() as connection:
        forget_history(connection, 3500)
    with pytest.raises(BadRequestException, match="begins at 3500"):
        past.herder.undo_offsets("c", to=3000)


def test_a_process_without_a_database_has_no_history(past: Past) -> None:
    with Herder(past.settings, NotedRuns(), probe=GivenErrors(), backing=LocalBacking(past.file)) as herder:
        herder.create_connector("c", CONFIG, TargetState.STOPPED)
        verbs: list[Callable[[], object]] = [
            lambda: herder.config_history("c"),
            lambda: herder.offsets_history("c"),
            lambda: herder.undo_offsets("c", to=2000),
            lambda: herder.rollback_config("c", 1, lambda patch, _: patch),
        ]
        for verb in verbs:
            with pytest.raises(BadRequestException, match="keeps no history"):
                verb()


# ── configs ──


def rolled_back(past: Past, revision: int) -> dict[str, str]:
    info = past.herder.rollback_config("c", revision, Secrets(past.herder.plugin_config).restore_patch)
    return dict(info.config)


def test_a_config_goes_back_and_its_secret_stays(past: Past) -> None:
    first_config = {**CONFIG, "api.token": SECRET, "airflow.schedule": "none"}
    past.herder.create_connector("c", first_config, TargetState.STOPPED, author="bert")
    past.herder.put_connector_config("c", {**CONFIG, "topic": "b", "batch.size": "7", "api.token": LATER, "airflow.schedule": "5m"})
    past.take_configs()
    second, first = past.herder.config_history("c").revisions
    assert (first.who, second.who) == ("bert", "anna")
    assert second.changes == [
        KeyChange("airflow.schedule", "none", "5m"),
        KeyChange("batch.size", None, "7"),
        KeyChange("topic", "lines", "b"),
    ]
    with past.engine.begin() as connection:
        assert not any("canary" in f"{row.old} {row.new}" for row in connection.execute(select(history)))
    assert rolled_back(past, first.revision) == {**CONFIG, "name": "c", "api.token": LATER}
    assert past.herder.config_state().connector_configs["c"]["airflow.schedule"] == "none"
    past.take_configs()
    assert past.herder.config_history("c", limit=1).revisions[0].who == "anna"


def test_revisions_of_a_big_config_come_page_by_page(past: Past) -> None:
    past.herder.create_connector("c", {**CONFIG, "note": "0"}, TargetState.STOPPED)
    for number in range(1, 6):
        past.herder.put_connector_config("c", {**CONFIG, "note": f"{number} {'x' * 300_000}"})
    past.take_configs()
    pages: list[list[str]] = []
    before = None
    while not pages or before is not None:
        found = past.herder.config_history("c", limit=1000, before=before)
        pages.append([(each.config or {})["note"][0] for each in found.revisions])
        before = found.next_before
    assert pages == [["5"], ["4"], ["3"], ["2", "1", "0"]]


def test_a_secret_goes_to_no_other_address(past: Past) -> None:
    past.herder.create_connector("c", {**CONFIG, "api.url": "http://old", "api.token": SECRET}, TargetState.STOPPED)
    past.herder.put_connector_config("c", {**CONFIG, "api.url": "http://new", "api.token": LATER})
    past.take_configs()
    with pytest.raises(ConfigException, match=r"api\.url has changed"):
        rolled_back(past, past.herder.config_history("c").revisions[1].revision)


def test_a_secret_that_is_gone_is_asked_for(past: Past) -> None:
    past.herder.create_connector("c", {**CONFIG, "api.token": SECRET}, TargetState.STOPPED)
    past.take_configs()
    past.herder.patch_connector_config("c", {"api.token": None})
    with pytest.raises(ConfigException, match=r"api\.token"):
        rolled_back(past, past.herder.config_history("c").revisions[0].revision)


def test_what_is_hidden_is_never_written_as_it_is_shown(past: Past) -> None:
    """A plugin that did not answer has all of its settings hidden in the history."""
    past.herder.create_connector("c", {**CONFIG, "batch.size": "7"}, TargetState.STOPPED)
    past.take_configs()
    with past.engine.begin() as connection:
        text = json.dumps({**CONFIG, "name": "c", "batch.size": "[hidden]"})
        connection.execute(history.update().values(new=text))
    past.herder.patch_connector_config("c", {"batch.size": None})
    with pytest.raises(ConfigException, match=r"batch\.size.*put the config with the value itself"):
        rolled_back(past, past.herder.config_history("c").revisions[0].revision)
    assert "batch.size" not in past.herder.connector_config("c")


def test_a_rollback_is_checked_like_a_put(past: Past) -> None:
    past.herder.create_connector("c", CONFIG, TargetState.STOPPED)
    past.herder.delete_connector("c")
    past.take_configs()
    deleted, created = past.herder.config_history("c").revisions
    assert (deleted.config, deleted.who) == (None, "anna")
    with pytest.raises(NotFoundException):
        rolled_back(past, created.revision)
    past.herder.create_connector("c", CONFIG, TargetState.STOPPED)
    with pytest.raises(BadRequestException, match="was deleted in revision"):
        rolled_back(past, deleted.revision)
    with pytest.raises(NotFoundException, match="no revision 4711"):
        rolled_back(past, 4711)
    probe = past.herder._probe
    assert isinstance(probe, GivenErrors)
    probe.errors = {"file": ["there is no such file"]}
    with pytest.raises(ConfigException, match="there is no such file"):
        rolled_back(past, created.revision)


def test_a_revision_of_a_dag_file_names_the_version_of_its_bundle(past: Past) -> None:
    config = {**CONFIG, "name": "c", DEFINED_IN: "orders.py"}
    past.herder.define_connector("c", config, "orders.py", "3f2a9c1")
    past.herder.define_connector("c", config, "orders.py", "7777777")
    past.herder.define_connector("c", {**config, "batch.size": "7"}, "orders.py", "8b1d0e5")
    past.take_configs()
    assert [each.who for each in past.herder.config_history("c").revisions] == ["orders.py@8b1d0e5", "orders.py@3f2a9c1"]


def test_a_connector_of_a_dag_file_is_rolled_back_there(past: Past) -> None:
    past.herder.define_connector("c", {**CONFIG, "name": "c", DEFINED_IN: "orders.py"}, "orders.py")
    past.take_configs()
    (first,) = past.herder.config_history("c").revisions
    assert (first.who, DEFINED_IN in (first.config or {})) == ("orders.py", False)
    with pytest.raises(ConnectException, match=r"orders\.py") as raised:
        rolled_back(past, first.revision)
    assert raised.value.status_code == 409


def test_a_connector_that_never_was_has_no_history(past: Past) -> None:
    with pytest.raises(NotFoundException):
        past.herder.config_history("c")
    with past.engine.begin() as connection:
        assert connection.scalar(select(func.count()).select_from(history)) == 0
