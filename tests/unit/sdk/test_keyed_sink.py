"""Sinks into stores without transactions: what comes again replaces itself, whatever fails in between."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from airflow_provider_connect.errors import ConnectException, RetriableException
from airflow_provider_connect.sdk import (
    STRING_SCHEMA,
    Batch,
    ConfigDef,
    ConfigKey,
    DataException,
    ExactlyOnceSupport,
    KeyedSink,
    TopicPartition,
)
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED
from airflow_provider_connect.sdk.keyed_sink import record_keys
from airflow_provider_connect.sdk.testing import CommitStep, Fault, MemorySinkContext, SinkConnectorSuite, run
from airflow_provider_connect.sdk.testing.calls import start_task
from tests.columns import from_kafka

P = TopicPartition("suite", 0)
REFUSED = "refused"
STORES: dict[str, dict[str, Any]] = {}


class Connection:
    def __init__(self, store: dict[str, Any]) -> None:
        self.store = store
        self.is_open = True
        self.is_written = False

    def close(self) -> None:
        self.is_open = False


class StoreSink(KeyedSink):
    """Values under keys of a mapping."""

    config_def: ClassVar[ConfigDef] = ConfigDef(ConfigKey("store"))

    def open(self) -> Connection:
        return Connection(STORES.setdefault(self.config["store"], {}))

    def upsert(self, connection: Connection, keys: Sequence[str], batch: Batch) -> None:
        assert connection.is_open
        values = [None] * len(batch) if batch.value is None else batch.value.to_pylist()
        for key, value in zip(keys, values, strict=True):
            if value == REFUSED:
                raise DataException(f"refused: {key}")
            connection.store[key] = value


class StoreSuite(SinkConnectorSuite):
    connector_class: ClassVar[type[KeyedSink]] = StoreSink
    overwrites = True
    refused_values = (REFUSED, REFUSED)

    @pytest.fixture(autouse=True)
    def store(self) -> None:
        self.name = uuid.uuid4().hex

    def config(self) -> dict[str, str]:
        return {"store": self.name}

    def delivered(self) -> list[Any]:
        store = STORES.get(self.name, {})
        return [store[key] for key in sorted(store, key=lambda key: int(key.rpartition("/")[2]))]


class TestStoreSink(StoreSuite):
    pass


def batch(*values: str, first: int = 0) -> Batch:
    return from_kafka(Batch.of("suite", values, value_schema=STRING_SCHEMA, kafka_partition=0), first_offset=first)


@pytest.fixture
def config() -> dict[str, str]:
    return {"store": uuid.uuid4().hex}


def test_keys_are_those_of_the_records_in_kafka() -> None:
    whole = batch("a", "b", "c", first=7)
    assert record_keys(whole, {"other": "x"}) == ["suite/0/7", "suite/0/8", "suite/0/9"]
    moved = whole.slice(1).replace(topic="other", kafka_partition=5)
    assert record_keys(moved, {"suite": "x", "other": "y"}) == ["suite/x/0/8", "suite/x/0/9"]


def test_a_topic_that_was_created_anew_replaces_nothing(config: dict[str, str]) -> None:
    """Reported for confluentinc/kafka-connect-elasticsearch (101, 374, 499): documents had positions in Kafka for versions, or for ids."""
    for number, (id, value) in enumerate([("first", "a"), ("first", "a"), ("second", "b")], 1):
        task = start_task(StoreSink(), config, MemorySinkContext(config, [P], claim_epoch=number, topic_ids={"suite": id}), ALL_ALLOWED)
        task.open([P])
        task.put(batch(value))
        task.pre_commit({P: 1})
    assert STORES[config["store"]] == {"suite/first/0/0": "a", "suite/second/0/0": "b"}


def test_it_is_at_least_once_and_alters_offsets_without_the_store(config: dict[str, str]) -> None:
    assert StoreSink().exactly_once_support(config) is ExactlyOnceSupport.UNSUPPORTED
    assert StoreSink().alter_offsets(config, {P: 3})
    assert config["store"] not in STORES


STEPS = (CommitStep.PUT, CommitStep.PRE_COMMIT, CommitStep.COMMIT_GROUP)


@pytest.mark.parametrize("fault", [Fault(step, side) for step in STEPS for side in ("before", "after")], ids=str)
def test_a_kill_at_any_step_loses_and_doubles_nothing(fault: Fault, config: dict[str, str]) -> None:
    killed = run(StoreSink(), config, batches=[batch("a", "b"), batch("c", first=2)], fault=fault)
    assert killed.is_killed
    again = [batch("a"), batch("b", "c", first=1)]
    run(StoreSink(), config, batches=again, claim_epoch=2, offsets=killed.offsets)
    assert STORES[config["store"]] == {f"suite/id-of-suite/0/{number}": value for number, value in enumerate("abc")}


class Drops(StoreSink):
    """Loses its connection in the middle of a batch, and when it makes records durable: ``losses`` times."""

    losses: ClassVar[list[str]] = []
    opened: ClassVar[int] = 0
    max_retries = 3

    def open(self) -> Connection:
        type(self).opened += 1
        return super().open()

    def upsert(self, connection: Connection, keys: Sequence[str], batch: Batch) -> None:
        super().upsert(connection, keys[:1], batch.slice(0, 1))
        connection.is_written = True
        self._lose("upsert")
        super().upsert(connection, keys, batch)

    def commit(self, connection: Connection) -> None:
        if connection.is_written:
            self._lose("commit")

    def _lose(self, step: str) -> None:
        if step in self.losses:
            self.losses.remove(step)
            raise RetriableException(f"lost in {step}")


@pytest.mark.parametrize("losses", [["upsert"], ["commit"], ["upsert", "commit", "commit"]], ids=" ".join)
def test_a_lost_connection_is_opened_again_and_all_since_the_commit_comes_again(losses: list[str], config: dict[str, str]) -> None:
    Drops.losses, Drops.opened = [*losses], 0
    done = run(Drops(), config, batches=[batch("a", "b"), batch("c", first=2)])
    assert (Drops.losses, Drops.opened, done.offsets) == ([], 1 + len(losses), {P: 3})
    assert list(STORES[config["store"]].values()) == ["a", "b", "c"]


def test_losses_without_end_fail_the_task(config: dict[str, str]) -> None:
    Drops.losses = ["upsert"] * 9
    with pytest.raises(ConnectException, match="Failed after 3 retries"):
        run(Drops(), config, batches=[batch("a")])


# Mistakes of authors


class CountsItsRecords(StoreSink):
    """Keys that another cut into batches changes."""

    def upsert(self, connection: Connection, keys: Sequence[str], batch: Batch) -> None:
        super().upsert(connection, [f"{len(batch)}-{key}" for key in keys], batch)


class Appends(StoreSink):
    def upsert(self, connection: Connection, keys: Sequence[str], batch: Batch) -> None:
        first = len(connection.store)
        super().upsert(connection, [f"n/{first + number}" for number in range(len(keys))], batch)


@pytest.mark.parametrize("wrong", [CountsItsRecords, Appends])
def test_the_suite_finds_the_mistake(wrong: type[KeyedSink]) -> None:
    tried = type(wrong.__name__, (StoreSuite,), {"connector_class": wrong})()
    tried.name = uuid.uuid4().hex
    with pytest.raises(AssertionError):
        tried.test_redelivered_records_overwrite_themselves_after_a_kill()
