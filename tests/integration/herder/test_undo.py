"""Going back: earlier offsets and earlier configs, by the history that a real mirror has recorded; also when the process is killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Engine, select

from airflow_provider_connect.errors import BadRequestException, ConfigException, ConflictException, NotFoundException
from airflow_provider_connect.rest.secrets import Secrets
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.history import KeyChange, by_partition
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.sql_mirror.follower import MirrorFollower
from airflow_provider_connect.runtime.sql_mirror.queries import forget_history
from airflow_provider_connect.runtime.sql_mirror.recorded_history import RecordedHistory
from airflow_provider_connect.runtime.sql_mirror.tables import history, metadata
from tests.integration.herder.conftest import AskedHere, RunsByHand, shown, views
from tests.integration.herder.killed_change import KillPoint, Undo, change_and_kill
from tests.integration.herder.test_killed_changes import CHANGE, KEEPER, OWNER, by_position, some_or_all
from tests.integration.herder.test_sink_offsets import at, offset
from tests.integration.sql_mirror.conftest import open_database, until
from tests.integration.worker.environment import RunEnvironment, make_topic, send, values_of

FIRST, SECOND = {"task": 0}, {"task": 1}
UNDO_KILL_POINTS = [
    KillPoint(f"{KEEPER}._claim_no_tasks"),
    KillPoint("runtime.herder.history:ConnectorHistory._await_recorded"),
    KillPoint(f"{OWNER}.commit"),
    KillPoint(f"{CHANGE}.take_over"),
    KillPoint(f"{CHANGE}._flush"),
    KillPoint(f"{KEEPER}._check"),
]
SINK_KILL_POINTS = [
    KillPoint("runtime.stores.group_offsets:GroupOffsets.delete", "before"),
    KillPoint("runtime.stores.group_offsets:GroupOffsets.delete"),
    KillPoint(f"{KEEPER}._claim_no_tasks"),
    KillPoint(f"{OWNER}.commit"),
]


@dataclass(slots=True)
class Mirrored:
    """A mirror of the environment's topics, which is followed wherever the herder waits."""

    environment: RunEnvironment
    url: str
    engine: Engine
    follower: MirrorFollower
    herder: Herder

    def catch_up(self, *, is_sink: bool = False) -> None:
        """Follow until the mirror has the offsets that hold."""
        recorded, name, topics = RecordedHistory(self.engine.begin), self.environment.connector, [self.environment.settings.offset_topic]
        until(lambda: recorded.offsets_now(name, topics, is_sink=is_sink) == by_partition(self.herder.offsets(name)), self.follower)


def run(environment: RunEnvironment, config: Mapping[str, str]) -> None:
    """A run of the connector with this config."""
    environment.put_config(config)
    environment.run()


def _stepping(follower: MirrorFollower) -> Callable[[float], None]:
    """A sleep in which the mirror goes on."""

    def step(_: float) -> None:
        follower.step(0.1)

    return step


@pytest.fixture
def mirrored(environment: RunEnvironment, tmp_path: Path) -> Iterator[Mirrored]:
    """The mirror follows before anything is written: its history is whole."""
    url = f"sqlite:///{tmp_path / 'mirror.db'}"
    engine = open_database(url)
    metadata.create_all(engine)
    follower = MirrorFollower(environment.settings, engine.begin, holder="one", now=time.time)
    recorded = RecordedHistory(engine.begin)
    until(lambda: recorded.begins_ms(environment.settings.offset_topic), follower)
    probe = AskedHere(environment.settings)
    sleep, author = _stepping(follower), "anna"
    with Herder(environment.settings, RunsByHand(), probe=probe, recorded=recorded, author=author, sleep=sleep) as herder:
        yield Mirrored(environment, url, engine, follower, herder)
    follower.close()
    engine.dispose()


def test_offsets_go_back_to_before_a_run_and_are_read_again_once(mirrored: Mirrored, unique: str) -> None:
    environment, herder = mirrored.environment, mirrored.herder
    name, topic = environment.connector, make_topic(environment.bootstrap, unique)
    for end in ("100", "200"):
        run(environment, environment.numbers(topic, tasks_max="2", tasks="2", until=end))
        mirrored.catch_up()
    before, after = [(FIRST, {"next": 100}), (SECOND, {"next": 100})], [(FIRST, {"next": 200}), (SECOND, {"next": 200})]

    newest, oldest = herder.offsets_history(name).changes
    assert (newest.run, oldest.run) == ("run-2", "run-1")
    assert sorted([(move.partition, move.old, move.new) for move in newest.moves], key=str) == [
        (FIRST, {"next": 100}, {"next": 200}),
        (SECOND, {"next": 100}, {"next": 200}),
    ]
    with pytest.raises(BadRequestException, match="STOPPED"):
        herder.undo_offsets(name, entry=newest.entry)
    planned = herder.undo_offsets(name, entry=newest.entry, dry_run=True)
    assert [(each.now, each.then, each.effect) for each in planned.returns] == [({"next": 200}, {"next": 100}, "read again")] * 2
    assert shown(herder.offsets(name)) == after, "a dry run changes nothing"

    herder.stop(name)
    assert len(herder.undo_offsets(name, entry=newest.entry).returns) == 2
    assert shown(herder.offsets(name)) == before
    assert herder.undo_offsets(name, to=planned.to_ms).returns == [], "it is done already"
    herder.resume(name)
    environment.run()
    assert len(values_of(environment.bootstrap, topic)) == 400 + 200
    mirrored.catch_up()
    again, undone = herder.offsets_history(name).changes[:2]
    assert (again.run, undone.run, undone.who) == ("run-3", None, "anna")

    herder.stop(name)
    herder.undo_offsets(name, entry=oldest.entry)
    assert shown(herder.offsets(name)) == []


def test_an_instant_that_the_history_does_not_have_is_refused(mirrored: Mirrored, unique: str) -> None:
    environment, herder = mirrored.environment, mirrored.herder
    name, topic = environment.connector, make_topic(environment.bootstrap, unique)
    run(environment, environment.numbers(topic, until="10"))
    mirrored.catch_up()
    herder.stop(name)
    begins = herder.offsets_history(name).begins_ms
    assert begins is not None
    now = int(time.time() * 1000)
    with mirrored.engine.begin() as connection:
        forget_history(connection, now - 1)
    for asked, text in (
        ({"to": begins}, "begins at"),
        ({"to": now + 3_600_000}, "in the future"),
        ({"to": "2026-01-31T14:00"}, "is not an instant"),
        ({}, "one of the two"),
        ({"to": now, "entry": 1}, "one of the two"),
    ):
        with pytest.raises(BadRequestException, match=text):
            herder.undo_offsets(name, **asked)
    with pytest.raises(NotFoundException, match="no change of offsets 4711"):
        herder.undo_offsets(name, entry=4711)


def test_offsets_do_not_go_back_while_the_history_lags(mirrored: Mirrored, unique: str) -> None:
    """No process follows the topics: a change that is not recorded would stay."""
    environment, herder = mirrored.environment, mirrored.herder
    name, topic = environment.connector, make_topic(environment.bootstrap, unique)
    run(environment, environment.numbers(topic, until="10"))
    mirrored.catch_up()
    then = herder.offsets_history(name).changes[0].to_ms
    run(environment, environment.numbers(topic, until="20"))
    herder.stop(name)
    recorded = RecordedHistory(mirrored.engine.begin)
    alone = Herder(environment.settings, RunsByHand(), probe=AskedHere(environment.settings), recorded=recorded, sleep=lambda _: None)
    with alone, pytest.raises(ConflictException, match="An API server has to follow"):
        alone.undo_offsets(name, to=then)
    assert shown(herder.offsets(name)) == [(FIRST, {"next": 20})]
    herder.undo_offsets(name, to=then)
    assert shown(herder.offsets(name)) == [(FIRST, {"next": 10})]


@pytest.mark.soak
def test_a_killed_undo_has_changed_all_or_nothing(mirrored: Mirrored, unique: str) -> None:
    environment, herder = mirrored.environment, mirrored.herder
    name, topic = environment.connector, make_topic(environment.bootstrap, unique)
    for end in ("100", "200"):
        run(environment, environment.numbers(topic, tasks_max="2", tasks="2", until=end))
        mirrored.catch_up()
    herder.stop(name)
    old, new = [(FIRST, {"next": 200}), (SECOND, {"next": 200})], [(FIRST, {"next": 100}), (SECOND, {"next": 100})]
    undo = Undo(herder.offsets_history(name).changes[1].to_ms, mirrored.url)
    for kill_point in UNDO_KILL_POINTS:
        mirrored.catch_up()
        change_and_kill(environment, kill_point, undo)
        assert shown(herder.offsets(name)) in (old, new), kill_point
        herder.alter_offsets(name, views(*old))
    change_and_kill(environment, KillPoint(f"{CHANGE}._flush"), Undo(undo.to_ms, mirrored.url))
    herder.undo_offsets(name, to=undo.to_ms)
    assert shown(herder.offsets(name)) == new
    herder.resume(name)
    environment.run()
    assert len(values_of(environment.bootstrap, topic)) == 400 + 200, "relative to the chosen offsets none is lost and none doubled"


@some_or_all(SINK_KILL_POINTS)
def test_a_killed_undo_of_a_sink(mirrored: Mirrored, unique: str, kill_points: list[KillPoint]) -> None:
    """Back to before a run that read a second topic: offsets move back in the first, and go in the second."""
    environment, herder, name = mirrored.environment, mirrored.herder, mirrored.environment.connector
    one, two = (make_topic(environment.bootstrap, f"{unique}-{number}") for number in (1, 2))
    send(environment.bootstrap, one, [f"first {number}" for number in range(5)])
    run(environment, environment.file_sink(one))
    mirrored.catch_up(is_sink=True)
    send(environment.bootstrap, one, [f"second {number}" for number in range(5)])
    send(environment.bootstrap, two, [f"other {number}" for number in range(3)])
    run(environment, environment.file_sink(f"{one},{two}"))
    mirrored.catch_up(is_sink=True)
    herder.stop(name)
    old = by_position(views((at(one, 0), offset(10)), (at(two, 0), offset(3))))
    new = by_position(views((at(one, 0), offset(5))))
    assert by_position(herder.offsets(name)) == old
    planned = herder.undo_offsets(name, entry=herder.offsets_history(name).changes[0].entry, dry_run=True)
    assert sorted((each.effect, each.records or 0) for each in planned.returns) == [("read again", 5), ("read from the beginning", 0)]
    for kill_point in kill_points:
        mirrored.catch_up(is_sink=True)
        change_and_kill(environment, kill_point, Undo(planned.to_ms, mirrored.url))
        herder.stop(name)
        assert by_position(herder.offsets(name)) in (old, new), kill_point
        herder.alter_offsets(name, views((at(one, 0), offset(10)), (at(two, 0), offset(3))))
    mirrored.catch_up(is_sink=True)
    herder.undo_offsets(name, to=planned.to_ms)
    assert by_position(herder.offsets(name)) == new
    lines = len(environment.lines())
    herder.resume(name)
    environment.run()
    expected = [*(f"second {number}" for number in range(5)), *(f"other {number}" for number in range(3))]
    assert sorted(environment.lines()[lines:]) == sorted(expected)


# ── configs ──

SECRET, LATER = "tiny-canary-4711", "tiny-canary-4712"


def test_a_config_goes_back_without_its_old_secret(mirrored: Mirrored) -> None:
    environment, herder, name = mirrored.environment, mirrored.herder, mirrored.environment.connector
    config = environment.file_source("a", **{"api.token": SECRET, "airflow.schedule": "none"})
    herder.create_connector(name, config, TargetState.STOPPED, author="bert")
    herder.put_connector_config(name, {**config, "topic": "b", "batch.size": "7", "api.token": LATER})
    until(lambda: len(herder.config_history(name).revisions) == 2, mirrored.follower)
    second, first = herder.config_history(name).revisions
    assert (first.who, second.who) == ("bert", "anna")
    assert list(second.changes) == [KeyChange("batch.size", None, "7"), KeyChange("topic", "a", "b")]
    with mirrored.engine.begin() as connection:
        assert not any("canary" in f"{row.old} {row.new}" for row in connection.execute(select(history)))

    restored = Secrets(herder.plugin_config).restore_patch
    info = herder.rollback_config(name, first.revision, restored)
    assert (info.config["topic"], "batch.size" in info.config, info.config["api.token"]) == ("a", False, LATER)
    herder.patch_connector_config(name, {"api.token": None})
    with pytest.raises(ConfigException, match=r"api\.token"):
        herder.rollback_config(name, first.revision, restored)
    with pytest.raises(NotFoundException, match="no revision 4711"):
        herder.rollback_config(name, 4711, restored)


def test_what_is_hidden_is_never_written_as_it_is_shown(mirrored: Mirrored) -> None:
    """A config whose plugin did not answer is hidden whole; going back to it must not write the mark."""
    environment, herder, name = mirrored.environment, mirrored.herder, mirrored.environment.connector
    herder.create_connector(name, environment.file_source("a", **{"batch.size": "7"}), TargetState.STOPPED)
    until(lambda: herder.config_history(name).revisions, mirrored.follower)
    number = herder.config_history(name).revisions[0].revision
    with mirrored.engine.begin() as connection:
        text = connection.scalar(select(history.c.new).where(history.c.id == number)) or ""
        connection.execute(history.update().where(history.c.id == number).values(new=text.replace('"7"', '"[hidden]"')))
    herder.patch_connector_config(name, {"batch.size": None})
    with pytest.raises(ConfigException, match=r"batch\.size.*put the config with the value itself"):
        herder.rollback_config(name, number, Secrets(herder.plugin_config).restore_patch)
    assert "batch.size" not in herder.connector_config(name)
