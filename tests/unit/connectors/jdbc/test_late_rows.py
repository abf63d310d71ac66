"""Rows that become visible behind those that were read: with an overlap each is sent once, in SQLite files, without a broker."""

import logging
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connectors.jdbc.source import late_rows
from airflow_provider_connect.connectors.jdbc.source.connector import JdbcSourceConnector
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.testing import MemoryConnectorContext, MemorySourceContext
from tests.columns import there

NUMBERS = {"mode": "incrementing", "incrementing.overlap": "10"}
TIMES = {"mode": "timestamp", "timestamp.overlap.ms": "10000"}
BOTH = {"mode": "timestamp+incrementing", "timestamp.overlap.ms": "10000"}


class Table:
    """A table of a file, and a source of it whose offsets are kept."""

    def __init__(self, file: Path, config: Mapping[str, str], key: str = "INTEGER PRIMARY KEY NOT NULL") -> None:
        self.file = file
        self.offsets: dict[str, Any] = {}
        self.config = {"name": "shop", "connection.url": f"jdbc:sqlite:{file}", "topic.prefix": "x-", "batch.max.rows": "3", **config}
        self.config |= {"incrementing.column.name": "id", "timestamp.column.name": "at"}
        self.do(f"CREATE TABLE orders (id {key}, at TIMESTAMP NOT NULL)")

    def do(self, sql: str) -> None:
        with sqlite3.connect(self.file) as database:
            database.execute(sql)

    def insert(self, *seconds: int) -> None:
        for second in seconds:
            self.do(f"INSERT INTO orders VALUES ({second}, '2026-01-01 00:{second // 60:02d}:{second % 60:02d}')")

    def _offset(self, partition: Any, default: Any = None) -> Any:
        return self.offsets.get(str(dict(partition)), default)

    def connector(self) -> JdbcSourceConnector:
        connector = JdbcSourceConnector()
        connector.allowed_paths = AllowedPaths(("/",))
        context = MemoryConnectorContext()
        context.offset = self._offset  # type: ignore[method-assign]
        connector.initialize(context)
        connector.start(connector.config_def.parse(self.config))
        return connector

    def has_new_data(self) -> bool | None:
        connector = self.connector()
        return connector.has_new_data(connector.config_def.parse(self.config), self._offset)

    def run(self, pages: int = 1000) -> list[int]:
        """The ids of the rows of one run, which is killed after so many pages; all that was polled is committed."""
        connector = self.connector()
        [of_task] = connector.task_configs(4)
        task = connector.task_class()
        task.allowed_paths = connector.allowed_paths
        context = MemorySourceContext(of_task)
        context.offset = self._offset  # type: ignore[method-assign]
        task.initialize(context)
        task.start(connector.task_config(of_task))
        rows: list[int] = []
        while pages and (polled := task.poll()) is not None:
            for piece in [polled] if isinstance(polled, Batch) else polled:
                rows += [row["id"] for row in there(piece.value).to_pylist()]
                self.offsets[str(dict(piece.source_partition or {}))] = piece.source_offset
                pages -= 1
        task.stop()
        return rows


@pytest.mark.parametrize("config", [NUMBERS, TIMES, BOTH], ids=["numbers", "times", "both"])
@pytest.mark.parametrize("is_query", [False, True], ids=["table", "query"])
def test_a_late_row_is_sent_once_and_no_other_twice(
    tmp_path: Path, config: dict[str, str], is_query: bool, caplog: pytest.LogCaptureFixture
) -> None:
    query = {"query": "SELECT * FROM orders"} if is_query else {}
    table = Table(tmp_path / "shop.db", config | query)
    table.insert(*range(1, 21), 25)
    assert table.run() == [*range(1, 21), 25]
    assert table.has_new_data() is False
    assert table.run() == []
    table.insert(22, 23, 14 + 100)  # the third is new
    table.do("DELETE FROM orders WHERE id = 20")
    assert table.has_new_data()
    with caplog.at_level(logging.WARNING):
        assert table.run() == [22, 23, 114]
    assert "late rows sent now" in caplog.text
    assert caplog.text.splitlines()[-1].endswith(": 2")
    assert table.has_new_data() is False
    assert table.run() == []
    table.insert(24)  # 114 less 10 is above it: too late
    assert table.run() == []


@pytest.mark.parametrize("config", [NUMBERS, TIMES, BOTH], ids=["numbers", "times", "both"])
def test_without_an_overlap_it_is_never_sent(tmp_path: Path, config: dict[str, str]) -> None:
    table = Table(tmp_path / "shop.db", {"mode": config["mode"]})
    table.insert(1, 2, 5)
    assert table.run() == [1, 2, 5]
    table.insert(4, 6)
    assert table.run() == [6]


@pytest.mark.parametrize("config", [NUMBERS, TIMES, BOTH], ids=["numbers", "times", "both"])
def test_a_run_that_ends_among_rows_that_are_read_again_is_continued(tmp_path: Path, config: dict[str, str]) -> None:
    table = Table(tmp_path / "shop.db", config)
    table.insert(*range(1, 41, 2))
    sent = table.run(2)
    assert 0 < len(sent) < 10
    sent += table.run()
    table.insert(32, 34, 36, 38, 40, 42)
    sent += table.run(1)
    sent += table.run()
    assert sorted(sent) == [*range(1, 31, 2), 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 42]


@pytest.mark.parametrize("config", [TIMES, BOTH], ids=["times", "both"])
def test_rows_of_one_time_are_distinguished(tmp_path: Path, config: dict[str, str]) -> None:
    table = Table(tmp_path / "shop.db", config)
    for number in (2, 4, 5, 7, 8):
        table.do(f"INSERT INTO orders VALUES ({number}, '2026-01-01 00:00:01')")
    assert table.run() == [2, 4, 5, 7, 8]
    table.do("INSERT INTO orders VALUES (3, '2026-01-01 00:00:01'), (9, '2026-01-01 00:00:01')")
    assert sorted(table.run()) == [3, 9]
    assert table.run() == []
    table.do("UPDATE orders SET at = '2026-01-01 00:00:03' WHERE id = 4")
    assert table.run() == [4]


def test_equal_rows_without_a_key_are_counted(tmp_path: Path) -> None:
    table = Table(tmp_path / "shop.db", TIMES, key="INTEGER")
    table.insert(1, 1, 9)
    assert table.run() == [1, 1, 9]
    table.insert(1)
    assert table.has_new_data()
    assert table.run() == [1]
    assert table.run() == []


def test_rows_that_were_deleted_start_one_run_and_no_more(tmp_path: Path) -> None:
    table = Table(tmp_path / "shop.db", NUMBERS)
    table.insert(*range(1, 6))
    table.run()
    table.do("DELETE FROM orders WHERE id IN (3, 5)")
    assert table.has_new_data()
    assert table.run() == []
    assert table.has_new_data() is False
    table.insert(3)
    assert table.run() == [3]


def test_the_overlap_ends_where_more_rows_are_in_it_than_an_offset_remembers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(late_rows, "MOST_ROWS", 4)
    table = Table(tmp_path / "shop.db", NUMBERS | {"incrementing.overlap": "1000"})
    table.insert(*range(2, 42, 2))
    assert table.run() == list(range(2, 42, 2))
    assert "more than 4 rows" in caplog.text
    table.insert(31, 37, 39)  # the first of them is below the last four
    assert table.run() == [37, 39]
    assert table.run() == []


def test_an_overlap_begins_with_the_offset_that_there_is(tmp_path: Path) -> None:
    """Which rows below it are in Kafka is not known, so none of them comes again."""
    table = Table(tmp_path / "shop.db", {"mode": "timestamp+incrementing"})
    table.insert(1, 2, 3, 5)
    table.run()
    table.config |= BOTH
    assert table.run() == []
    table.insert(6, 8)
    assert table.run() == [6, 8]
    table.insert(7)
    assert table.run() == [7]
    del table.config["timestamp.overlap.ms"]
    table.insert(9)
    assert table.run() == [9]
    assert set(next(iter(table.offsets.values()))) == {"incrementing", "timestamp", "timestamp_nanos"}


def test_offsets_of_another_mode_are_not_read_as_an_overlap(tmp_path: Path) -> None:
    table = Table(tmp_path / "shop.db", BOTH)
    table.insert(1, 2, 3)
    table.run()
    table.config |= NUMBERS
    del table.config["timestamp.overlap.ms"]
    table.insert(4)
    assert table.run() == [4]


def test_overlap_and_delay_work_together(tmp_path: Path) -> None:
    table = Table(tmp_path / "shop.db", TIMES | {"timestamp.delay.interval.ms": "3600000"})
    table.do("INSERT INTO orders VALUES (1, strftime('%Y-%m-%d %H:%M:%f', 'now', '-2 hours'))")
    table.do("INSERT INTO orders VALUES (2, strftime('%Y-%m-%d %H:%M:%f', 'now', '-10 minutes'))")
    assert table.run() == [1]
    table.do("INSERT INTO orders VALUES (3, strftime('%Y-%m-%d %H:%M:%f', 'now', '-7205 seconds'))")
    assert table.run() == [3]
    assert table.run() == []


def test_a_longer_delay_forgets_no_row_that_was_sent(tmp_path: Path) -> None:
    table = Table(tmp_path / "shop.db", TIMES)
    table.do("INSERT INTO orders VALUES (1, strftime('%Y-%m-%d %H:%M:%f', 'now', '-2 hours'))")
    assert table.run() == [1]
    table.config["timestamp.delay.interval.ms"] = str(3 * 3_600_000)
    assert table.run() == []
    del table.config["timestamp.delay.interval.ms"]
    assert table.run() == []


@pytest.mark.parametrize(
    ("mode", "setting", "for_what"),
    [
        ("bulk", "incrementing.overlap", "incrementing"),
        ("timestamp", "incrementing.overlap", "incrementing"),
        ("incrementing", "timestamp.overlap.ms", "timestamp and timestamp"),
    ],
)
def test_an_overlap_that_the_mode_does_not_use_is_refused(tmp_path: Path, mode: str, setting: str, for_what: str) -> None:
    table = Table(tmp_path / "shop.db", {"mode": mode, setting: "5"})
    with pytest.raises(ConfigException, match=f"{setting}.*It is for {for_what}"):
        table.connector().task_configs(1)


def test_offsets_of_an_overlap_can_be_altered_but_not_invented() -> None:
    partition = {"protocol": "1", "table": "orders"}
    connector = JdbcSourceConnector()
    good = {"incrementing": 5, "overlap_from": "1", "overlap_rows": "AAAAAAAAAAA="}
    assert connector.alter_offsets({}, {}) is True
    assert connector.alter_offsets({}, [(partition, good)]) is True
    for wrong in ({"overlap_rows": "AAA="}, {"overlap_from": "x"}, {"overlap_rows": None}):
        with pytest.raises(ConnectException, match="overlap_rows"):
            connector.alter_offsets({}, [(partition, good | wrong)])
