"""Offsets of sources over the herder: reported in every state, altered and reset of STOPPED connectors, all or nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Producer

from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.errors import (
    BadRequestException,
    ConflictException,
    ConnectException,
    NotFoundException,
    StoreTimeoutException,
)
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.herder.offsets import OffsetKeeper
from airflow_provider_connect.runtime.model.ids import partition_for
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.stores.offset_change import OffsetChange
from airflow_provider_connect.runtime.wire import offset_topic
from tests.integration.herder.conftest import AskedHere, RunsByHand, ordered, shown, views
from tests.integration.worker.environment import RunEnvironment, make_topic, read_topic, values_of
from tests.integration.worker.test_jdbc_source import Shop, rows_of, run
from tests.waiting import HANG_SECONDS

OffsetKeeperCheck = OffsetKeeper._check
ALTERED = "The offsets for this connector have been altered successfully"
RESET = "The offsets for this connector have been reset successfully"
LINES = ["one", "two", "three"]


def stopped_source(environment: RunEnvironment, herder: Herder, topic: str, **more: str) -> dict[str, object]:
    """A file source that has delivered three lines, 14 bytes, and was stopped; its partition."""
    make_topic(environment.bootstrap, topic)
    environment.file.write_text("one\ntwo\nthree\n")
    assert environment.run(environment.file_source(topic, **more)).state is RunState.DONE
    herder.stop(environment.connector)
    return {"filename": str(environment.file)}


def test_offsets_are_read_altered_and_reset(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    file = stopped_source(environment, herder, unique)
    assert shown(herder.offsets(environment.connector)) == [(file, {"position": 14})]

    assert herder.alter_offsets(environment.connector, views((file, {"position": 4}))) == ALTERED
    assert shown(herder.offsets(environment.connector)) == [(file, {"position": 4})]
    herder.resume(environment.connector)
    environment.run()
    assert values_of(environment.bootstrap, unique) == [*LINES, "two", "three"]

    herder.stop(environment.connector)
    assert herder.reset_offsets(environment.connector) == RESET
    assert herder.offsets(environment.connector) == []
    assert herder.reset_offsets(environment.connector) == RESET
    assert herder.alter_offsets(environment.connector, views((file, None))) == ALTERED
    assert herder.offsets(environment.connector) == []
    herder.resume(environment.connector)
    environment.run()
    assert values_of(environment.bootstrap, unique) == [*LINES, "two", "three", *LINES]


def test_of_two_offsets_for_one_partition_the_last_counts_and_others_stay(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    file, other = stopped_source(environment, herder, unique), {"filename": "/data/other.txt"}
    herder.alter_offsets(environment.connector, views((other, {"position": 7}), (file, {"position": 8})))
    herder.alter_offsets(environment.connector, views((file, {"position": 1}), (file, {"position": 4})))
    assert shown(herder.offsets(environment.connector)) == ordered([(file, {"position": 4}), (other, {"position": 7})])
    herder.alter_offsets(environment.connector, herder.offsets(environment.connector))
    assert len(herder.offsets(environment.connector)) == 2


def test_records_are_those_of_connect(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    """``tasks-fencing-`` 0 first, then the offset under its Java partition, then the tombstone; no reader has to check headers."""
    file = stopped_source(environment, herder, unique)
    seen = len(environment.config_log())
    herder.alter_offsets(environment.connector, views((file, {"position": 4})))
    herder.reset_offsets(environment.connector)
    written = [(record.key, record.value) for record in environment.config_log()[seen:]]
    assert written == [(f"tasks-fencing-{environment.connector}".encode(), b'{"task-count":0}')] * 2
    key = offset_topic.key_bytes(environment.connector, file)
    records = [record for record in read_topic(environment.bootstrap, environment.settings.offset_topic) if record.key == key]
    assert [record.value for record in records] == [b'{"position":14}', b'{"position":4}', None]
    assert {record.partition for record in records} == {partition_for(key, 5)}


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        ({"position": "four"}, "The value for the 'position' key in the offset is expected to be a Long value"),
        ({"position": -1}, "The value for the 'position' key in the offset should be a non-negative value"),
        ({"line": 1}, "Offset objects should either be null or contain the key 'position'"),
        ({"position": {"a": 1}}, "Offsets may only contain primitive types as values, but field position contains MAP"),
    ],
)
def test_offsets_that_the_connector_refuses(
    environment: RunEnvironment, herder: Herder, unique: str, offset: dict[str, object], message: str
) -> None:
    file = stopped_source(environment, herder, unique)
    with pytest.raises(BadRequestException, match=message):
        herder.alter_offsets(environment.connector, views((file, {"position": 0}), (file, offset)))
    assert shown(herder.offsets(environment.connector)) == [(file, {"position": 14})]
    with pytest.raises(BadRequestException, match="Partition objects cannot be null"):
        herder.alter_offsets(environment.connector, views((None, {"position": 1})))
    assert herder.alter_offsets(environment.connector, views((None, None))) == ALTERED


def test_only_a_stopped_connector_whose_run_has_ended(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    environment.file.write_text("one\n")
    environment.run(environment.file_source(unique))
    wanted = views(({"filename": str(environment.file)}, {"position": 0}))
    text = f"issuing a 'PUT' request to the '/connectors/{environment.connector}/stop' endpoint"
    attempts: tuple[Callable[[], object], ...] = (
        lambda: herder.alter_offsets(environment.connector, wanted),
        lambda: herder.reset_offsets(environment.connector),
    )
    for reach in (herder.resume, herder.pause):
        reach(environment.connector)
        for change in attempts:
            with pytest.raises(BadRequestException, match=text):
                change()
        assert len(herder.offsets(environment.connector)) == 1
    herder.stop(environment.connector)
    with pytest.raises(BadRequestException, match="need to be provided"):
        herder.alter_offsets(environment.connector, [])
    with pytest.raises(NotFoundException, match="Connector nobody not found"):
        herder.reset_offsets("nobody")
    with pytest.raises(NotFoundException, match="Connector nobody not found"):
        herder.offsets("nobody")


def test_a_run_that_lives_is_waited_for_and_then_refused(
    environment: RunEnvironment, launcher: RunsByHand, probe: AskedHere, unique: str
) -> None:
    launcher.alive.add(environment.connector)
    slept: list[float] = []
    with Herder(environment.settings, RunsByHand(), probe=probe) as other:
        stopped_source(environment, other, unique)
    with (
        Herder(environment.settings, launcher, probe=probe, sleep=slept.append) as herder,
        pytest.raises(ConflictException, match="has not ended"),
    ):
        herder.reset_offsets(environment.connector)
    assert sum(slept) > 5
    assert probe.asked == []


def test_a_zombie_commits_nothing_after_the_change(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    """Its task is frozen in the middle of a transaction, and wakes when the offsets have been altered."""
    file = stopped_source(environment, herder, unique)
    zombie = Producer(
        {"bootstrap.servers": environment.bootstrap, "transactional.id": f"{environment.settings.group_id}-{environment.connector}-0"}
    )
    zombie.init_transactions(HANG_SECONDS)
    zombie.begin_transaction()
    wire = offset_topic.encode(environment.connector, file, {"position": 999})
    zombie.produce(environment.settings.offset_topic, wire.value, wire.key, partition_for(wire.key, 5))
    zombie.flush(HANG_SECONDS)
    herder.alter_offsets(environment.connector, views((file, {"position": 4})))
    with pytest.raises(Exception, match=r"(?i)fenced|epoch"):
        zombie.commit_transaction(HANG_SECONDS)
    assert shown(herder.offsets(environment.connector)) == [(file, {"position": 4})]
    uncommitted = read_topic(environment.bootstrap, environment.settings.offset_topic, read_committed=False)
    assert [record.value for record in uncommitted if record.key == wire.key][-1] == b'{"position":4}'


def test_stop_writes_over_what_a_killed_task_has_aborted(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    """A real worker without exactly-once support believes the last record on the topic, committed or not."""
    file = stopped_source(environment, herder, unique)
    herder.resume(environment.connector)
    killed = Producer(
        {"bootstrap.servers": environment.bootstrap, "transactional.id": f"{environment.settings.group_id}-{environment.connector}-0"}
    )
    killed.init_transactions(HANG_SECONDS)
    killed.begin_transaction()
    wire = offset_topic.encode(environment.connector, file, {"position": 999})
    killed.produce(environment.settings.offset_topic, wire.value, wire.key, partition_for(wire.key, 5))
    killed.flush(HANG_SECONDS)
    herder.stop(environment.connector)
    uncommitted = read_topic(environment.bootstrap, environment.settings.offset_topic, read_committed=False)
    assert [record.value for record in uncommitted if record.key == wire.key][-1] == b'{"position":14}'


@pytest.mark.parametrize("meanwhile", ["resume", "claim"])
def test_who_comes_between_makes_the_change_none(
    environment: RunEnvironment, herder: Herder, probe: AskedHere, unique: str, meanwhile: str
) -> None:
    """The connector is resumed, and perhaps runs, while its plugin is asked: nothing is written."""
    file = stopped_source(environment, herder, unique)

    def come_between() -> None:
        herder.resume(environment.connector)
        if meanwhile == "claim":
            environment.run()
            herder.stop(environment.connector)

    probe.before = come_between
    with pytest.raises(ConnectException, match="STOPPED state" if meanwhile == "resume" else "by another process"):
        herder.alter_offsets(environment.connector, views((file, {"position": 4})))
    assert shown(herder.offsets(environment.connector)) == [(file, {"position": 14})]


def test_a_run_waits_for_a_change_that_is_being_committed(
    environment: RunEnvironment, herder: Herder, probe: AskedHere, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was resumed after the last check of the change, and goes on from what the change commits."""
    file = stopped_source(environment, herder, unique)
    results: list[object] = []

    def check_then_wait(self: object, name: str, claim: object, *, check: Callable[..., None] = OffsetKeeperCheck) -> None:
        check(self, name, claim)
        herder.resume(name)
        thread.start()
        time.sleep(1.5)

    thread = threading.Thread(target=lambda: results.append(environment.run()))
    monkeypatch.setattr("airflow_provider_connect.runtime.herder.offsets.OffsetKeeper._check", check_then_wait)
    assert herder.alter_offsets(environment.connector, views((file, {"position": 8}))) == ALTERED
    thread.join(HANG_SECONDS)
    assert values_of(environment.bootstrap, unique) == [*LINES, "three"]


@pytest.mark.usefixtures("probe")
@pytest.mark.parametrize("is_written", [True, False])
def test_a_change_that_the_broker_does_not_confirm_is_searched_for(
    environment: RunEnvironment, herder: Herder, unique: str, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    file = stopped_source(environment, herder, unique)

    def unconfirmed(self: OffsetChange, *arguments: Any, write: Callable[..., None] = OffsetChange.write, **keywords: Any) -> None:
        if is_written:
            write(self, *arguments, **keywords)
        raise StoreTimeoutException("no answer", stage="committing")

    monkeypatch.setattr(OffsetChange, "write", unconfirmed)
    wanted = views((file, {"position": 4}))
    if is_written:
        assert herder.alter_offsets(environment.connector, wanted) == ALTERED
    else:
        with pytest.raises(StoreTimeoutException, match="no answer"):
            herder.alter_offsets(environment.connector, wanted)
    assert shown(herder.offsets(environment.connector)) == [(file, {"position": 4 if is_written else 14})]


def test_several_at_once_end_with_the_offsets_of_one(environment: RunEnvironment, probe: AskedHere, unique: str) -> None:
    """Two processes, here two herders, alter two partitions together: never one of each."""
    with (
        Herder(environment.settings, RunsByHand(), probe=probe) as first,
        Herder(environment.settings, RunsByHand(), probe=probe) as second,
    ):
        file = stopped_source(environment, first, unique)
        other = {"filename": "/data/other.txt"}
        outcomes: list[str] = []

        def alter(herder: Herder, position: int) -> None:
            try:
                herder.alter_offsets(environment.connector, views((file, {"position": position}), (other, {"position": position})))
                outcomes.append("altered")
            except ConflictException:
                outcomes.append("conflict")

        threads = [threading.Thread(target=alter, args=(herder, n)) for n, herder in enumerate([first, second] * 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANG_SECONDS)
        found = [offset for _, offset in shown(first.offsets(environment.connector))]
        assert "altered" in outcomes
        assert len(outcomes) == 6
        assert found[0] == found[1]


def test_keys_of_several_entries_are_found_in_whatever_order(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    """The partition was written in its connector's own order; REST gives it in another; its task finds what was altered."""
    make_topic(environment.bootstrap, unique)
    environment.run(environment.numbers(unique, until="10"))
    herder.stop(environment.connector)
    own = {"z": 1, "task": 0, "a": "x"}
    wire = offset_topic.encode(environment.connector, own, {"next": 10})
    producer = Producer({"bootstrap.servers": environment.bootstrap})
    producer.produce(environment.settings.offset_topic, wire.value, wire.key, partition_for(wire.key, 5))
    producer.flush(HANG_SECONDS)
    message = "The framework-managed offsets for this connector have been altered successfully. However, if this connector manages offsets "
    text = herder.alter_offsets(environment.connector, views(({"a": "x", "task": 0, "z": 1}, {"next": 5}), ({"b": 1, "a": 2}, {"next": 6})))
    assert text.startswith(message)
    known = environment.offsets()
    assert known.get(own) == {"next": 5}
    assert known.get({"b": 1, "a": 2}) == {"next": 6}
    assert len(herder.offsets(environment.connector)) == 3
    assert herder.reset_offsets(environment.connector).startswith("The framework-managed offsets for this connector have been reset")
    assert herder.offsets(environment.connector) == []


def test_a_table_that_was_filled_again_is_read_once_its_offset_is_set_or_reset(
    environment: RunEnvironment, herder: Herder, postgres: PostgresServer, unique: str
) -> None:
    def alter(partition: dict[str, str]) -> str:
        return herder.alter_offsets(environment.connector, views((partition, {"incrementing": 38})))

    def reset(_: dict[str, str]) -> str:
        return herder.reset_offsets(environment.connector)

    with closing(Shop(postgres, f"s_{unique[-16:]}")) as shop:
        shop.make_orders()
        shop.do("INSERT INTO orders (word) SELECT 'x' FROM generate_series(1, 30)")
        assert run(environment, shop.config(mode="incrementing")) == 30
        for count, remedy, message in ((40, alter, ALTERED), (50, reset, RESET)):
            shop.do("TRUNCATE orders RESTART IDENTITY")
            shop.do(f"INSERT INTO orders (word) SELECT 'x' FROM generate_series(1, {count})")
            waiting = environment.readiness()
            assert waiting.state == "no-work"
            assert f"since it was read up to {count - 10}: it is not read. To read it from its beginning" in str(waiting.missing)
            assert environment.run().tasks == []
            herder.stop(environment.connector)
            assert remedy(shop.partition()) == message
            herder.resume(environment.connector)
            assert environment.readiness().state == "work"
            assert environment.run().state is RunState.DONE
            assert environment.readiness().missing is None
        arrived = [row["id"] for row in rows_of(environment, f"{shop.name}-orders")]
    assert arrived == [*range(1, 31), 39, 40, *range(1, 51)]
