"""One table in ranges: no row is lost and none comes twice, wherever runs are cut off, and by whatever number of tasks they go on."""

import json
import random
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connectors.jdbc.catalog.column import TableName
from airflow_provider_connect.connectors.jdbc.source import shares
from airflow_provider_connect.connectors.jdbc.source.connector import JdbcSourceConnector
from airflow_provider_connect.connectors.jdbc.source.offset import SourceOffset, refuse_wrong
from airflow_provider_connect.connectors.jdbc.source.shares import KeyRange, Progress, ranges_between, shares_of
from airflow_provider_connect.sdk.testing.contexts import MemoryConnectorContext, MemorySourceContext, Offsets, partition_key
from tests.reaching import reaching

TABLE = TableName("lines")


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "SIZE", 100)


@pytest.mark.parametrize(
    ("since", "least", "greatest", "expected"),
    [
        (None, 1, 250, [(0, 100), (100, 200), (200, 300)]),
        (None, 100, 250, [(0, 100), (100, 200), (200, 300)]),  # the first range has 100, the second begins after it
        (None, 0, 50, [(-100, 0), (0, 100)]),
        (None, 101, 200, [(100, 200)]),
        (None, -5, 5, [(-100, 0), (0, 100)]),
        (100, 1, 200, [(100, 200)]),
        (99, 1, 101, [(0, 100), (100, 200)]),
        (200, 1, 200, []),
    ],
)
def test_ranges_lie_on_a_grid(since: int | None, least: int, greatest: int, expected: list[tuple[int, int]]) -> None:
    assert [(each.low, each.high) for each in ranges_between(since, least, greatest)] == expected


@pytest.mark.parametrize(
    ("reached", "position", "has_gap"),
    [
        ([None, None, None], 50, False),
        ([70, None, None], 70, False),
        ([100, 150, None], 150, False),
        ([100, 200, 260], 260, False),
        ([70, 150, None], 70, True),
        ([None, None, 260], 50, True),
    ],
)
def test_position_is_where_the_first_gap_begins(reached: list[int | None], position: int, has_gap: bool) -> None:
    ranges = ranges_between(50, 1, 260)
    offsets = {
        partition_key(each.partition(TABLE)): each.offset(SourceOffset(number), 50)
        for each, number in zip(ranges, reached, strict=True)
        if number is not None
    }
    progress = Progress.of(TABLE, SourceOffset(50), ranges, lambda partition: offsets.get(partition_key(partition)))
    assert (progress.position, progress.has_gap) == (position, has_gap)


def test_offset_of_a_range_means_nothing_once_the_table_has_another() -> None:
    each = KeyRange(100, 200)
    assert each.reached(each.offset(SourceOffset(150), 50), 50) == 150
    assert each.reached(each.offset(SourceOffset(150), None), None) == 150
    for other in (each.offset(SourceOffset(150), 50), each.forgotten(), None, {}):
        assert each.reached(other, 60) is None
    refuse_wrong(each.partition(TABLE), each.offset(SourceOffset(150, table_id="7/8"), 50))


class World:
    """A table, the committed offsets, and the rows that have arrived."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offsets: Offsets = {}
        self.arrived: list[int] = []
        with self.connection() as connection:
            connection.execute("CREATE TABLE lines (id INTEGER PRIMARY KEY)")

    def connection(self) -> "closing[sqlite3.Connection]":
        return closing(sqlite3.connect(self.path, isolation_level=None))

    def insert(self, ids: Iterator[int] | range) -> None:
        with self.connection() as connection:
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO lines VALUES (?)", [(number,) for number in ids])
            connection.execute("COMMIT")

    def config(self) -> dict[str, str]:
        own = {"connection.url": f"jdbc:sqlite:{self.path}", "topic.prefix": "", "mode": "incrementing", "incrementing.column.name": "id"}
        return own | {"batch.max.rows": "30"}

    def plan(self, max_tasks: int) -> list[Mapping[str, str]]:
        connector = reaching(JdbcSourceConnector())
        connector.initialize(MemoryConnectorContext(offsets=self.offsets))
        connector.start(JdbcSourceConnector.config_def.parse(self.config()))
        return list(connector.task_configs(max_tasks))

    def run(self, max_tasks: int, polls: Iterator[int]) -> None:
        """Each task ends after as many polls as ``polls`` gives; what it was given is committed."""
        for config in self.plan(max_tasks):
            task = reaching(JdbcSourceConnector.task_class())
            task.initialize(MemorySourceContext(config, dict(self.offsets)))
            task.start(JdbcSourceConnector.task_config(config))
            for _ in range(next(polls)):
                polled = task.poll()
                if polled is None:
                    break
                for batch in polled if isinstance(polled, list) else [polled]:
                    self.arrived += [row["id"] for row in batch.value.to_pylist()]  # type: ignore[union-attr]
                    offset = json.loads(json.dumps(batch.source_offset))  # type: ignore[union-attr]
                    self.offsets[partition_key(batch.source_partition)] = offset  # type: ignore[union-attr]
            task.stop()

    def has_new_data(self) -> bool | None:
        return reaching(JdbcSourceConnector()).check_for_new_data(
            self.config(), lambda partition: self.offsets.get(partition_key(partition))
        )

    def own_offset(self) -> Any:
        return self.offsets.get(partition_key({"protocol": "1", "table": "lines"}))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "world.db")


def whole_runs() -> Iterator[int]:
    while True:
        yield 1_000


def test_large_table_is_read_by_all_tasks_and_folded_by_the_next_run(world: World) -> None:
    world.insert(range(1, 951))
    shares = [shares_of(config["tables"]) for config in world.plan(4)]
    assert [len(share) for share in shares] == [3, 3, 2, 2]
    world.run(4, whole_runs())
    assert sorted(world.arrived) == list(range(1, 951))
    assert world.own_offset() is None
    assert world.has_new_data() is False
    world.insert(range(1000, 1003))
    assert world.has_new_data() is True
    world.run(4, whole_runs())
    assert world.arrived[950:] == [1000, 1001, 1002]
    assert world.own_offset() == {"incrementing": 1002}
    assert [offset for offset in world.offsets.values() if "since" in offset] == []
    assert world.has_new_data() is False


def test_table_stays_whole_without_tasks_to_spare_or_with_numbers_far_apart(world: World) -> None:
    world.insert(range(1, 951))
    assert [len(shares_of(config["tables"])) for config in world.plan(1)] == [1]
    world.insert(range(10**12, 10**12 + 1))
    assert [len(shares_of(config["tables"])) for config in world.plan(4)] == [1]


def test_offset_set_by_hand_counts_for_more_than_those_of_ranges(world: World) -> None:
    world.insert(range(1, 951))
    world.run(4, iter([1, 2, 0, 3]))
    world.arrived.clear()
    world.offsets[partition_key({"protocol": "1", "table": "lines"})] = SourceOffset(500).to_json()
    world.run(4, whole_runs())
    assert sorted(world.arrived) == list(range(501, 951))


@pytest.mark.parametrize("seed", range(6))
def test_runs_that_are_cut_off_anywhere_lose_and_double_nothing(world: World, seed: int) -> None:
    chance = random.Random(seed)
    numbers = sorted(chance.sample(range(1, 2500), 900))
    for part in (numbers[:500], numbers[500:650], numbers[650:]):
        world.insert(iter(part))
        for _ in range(chance.randint(1, 3)):
            world.run(chance.randint(1, 6), iter([chance.randint(0, 6) for _ in range(6)]))
            assert len(world.arrived) == len(set(world.arrived))
    while world.has_new_data():
        world.run(chance.randint(1, 6), whole_runs())
    assert sorted(world.arrived) == numbers
