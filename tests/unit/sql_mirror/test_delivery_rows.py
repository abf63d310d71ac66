"""The deliveries of runs that stay, from entries of the batch log to the ranges of events: each range once, and none left out."""

from itertools import count
from typing import Any

from sqlalchemy import Connection

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.model.batches import BatchRecord, ConnectorType, Stay
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.sql_mirror.delivery_rows import last_deliveries, pending_connectors, take_deliveries
from airflow_provider_connect.runtime.sql_mirror.offset_rows import take_batches
from airflow_provider_connect.runtime.stores.state_stream import StateRecord
from tests.unit.sql_mirror.records import NEW, OLD

_offsets = count()


def entry(database: Connection, first: int, end: int, *, claim: Claim = OLD, stay: Stay | None = Stay.OPEN, **other: Any) -> None:
    """An entry of a task of ``orders`` that the mirror reads; Any: fields of the entry."""
    task, kind = ConnectorTaskId("orders", other.pop("task", 0)), other.pop("type", ConnectorType.SOURCE)
    record = BatchRecord(task, "run", claim, kind, end - first, 10 * end, ranges={"t": {0: (first, end)}}, stay=stay, **other)
    offset = next(_offsets)
    take_batches(database, [StateRecord(TopicPartition("batches", 0), offset, 1000 * offset, record)])


def taken(database: Connection, *, now_ms: int = 1) -> list[list[list[int]]]:
    return [found.new["t"]["0"] for found in take_deliveries(database, "orders", now_ms=now_ms)]


def test_each_range_is_taken_once(database: Connection) -> None:
    entry(database, 0, 5)
    assert pending_connectors(database) == {"orders": 0}
    assert taken(database, now_ms=7) == [[[0, 5]]]
    assert pending_connectors(database) == {}
    entry(database, 0, 5)  # the mirror reads it again
    assert pending_connectors(database) == {"orders": 7}
    assert taken(database) == []
    assert pending_connectors(database) == {}
    entry(database, 0, 9)
    entry(database, 0, 12)
    assert taken(database) == [[[5, 12]]]


def test_what_is_not_committed_is_taken_again(database: Connection) -> None:
    entry(database, 0, 5)
    with database.begin_nested() as transaction:
        assert taken(database) == [[[0, 5]]]
        transaction.rollback()
    assert taken(database) == [[[0, 5]]]


def test_a_run_that_ends_is_not_taken(database: Connection) -> None:
    entry(database, 0, 5, stay=None)
    assert pending_connectors(database) == {}


def test_tasks_of_a_source_that_write_to_one_topic_repeat_nothing(database: Connection) -> None:
    entry(database, 0, 8, datasets=[("file", "/a")])
    entry(database, 2, 9, task=1, datasets=[("file", "/b")])
    (found,) = take_deliveries(database, "orders", now_ms=1)
    assert (found.new, found.records, found.datasets) == ({"t": {"0": [[0, 9]]}}, 15, [("file", "/a"), ("file", "/b")])
    entry(database, 0, 9)
    assert taken(database) == []


def test_a_process_that_is_replaced_under_its_claim_loses_no_range(database: Connection) -> None:
    entry(database, 0, 5, type=ConnectorType.SINK)
    entry(database, 5, 8, type=ConnectorType.SINK)
    assert taken(database) == [[[0, 8]]]


def test_what_a_killed_source_has_not_reported_is_taken_with_the_next_claim(database: Connection) -> None:
    entry(database, 0, 5)
    assert taken(database) == [[[0, 5]]]
    entry(database, 8, 9, claim=NEW)
    assert taken(database) == [[[5, 9]]]
    entry(database, 8, 11, claim=NEW)
    assert taken(database) == [[[9, 11]]]


def test_what_an_exactly_once_sink_has_committed_before_it_was_killed_is_taken_with_the_next_claim(database: Connection) -> None:
    """The destination's offset was ahead of the entry."""
    entry(database, 0, 5, type=ConnectorType.SINK)
    entry(database, 8, 9, claim=NEW, type=ConnectorType.SINK)
    assert taken(database) == [[[0, 5]], [[5, 9]]]


def test_records_that_a_change_of_offsets_has_skipped_are_not_taken(database: Connection) -> None:
    entry(database, 0, 5, type=ConnectorType.SINK)
    entry(database, 8, 8, claim=Claim(7, "id"), type=ConnectorType.SINK, stay=None)
    entry(database, 8, 9, claim=NEW, type=ConnectorType.SINK)
    assert taken(database) == [[[0, 5]], [[8, 9]]]


def test_records_of_others_between_two_runs_are_not_taken(database: Connection) -> None:
    entry(database, 0, 5, stay=Stay.OVER)
    entry(database, 8, 9, claim=NEW)
    assert taken(database) == [[[0, 5]], [[8, 9]]]


def test_the_last_deliveries_are_those_of_the_newest_claim(database: Connection) -> None:
    assert last_deliveries(database, "orders") is None
    entry(database, 0, 5)
    entry(database, 5, 9, claim=NEW)
    found = last_deliveries(database, "orders")
    assert found is not None
    assert (found.claim, found.ranges, found.bytes) == (NEW, {"t": {"0": [[5, 9]]}}, 90)
