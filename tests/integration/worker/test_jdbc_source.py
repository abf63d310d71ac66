"""JdbcSource on a real PostgreSQL and a real broker: each mode over several runs, late commits, ties, lost connections, changed tables."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from airflow_provider_connect.connectors.jdbc.source import row_reader, shares
from airflow_provider_connect.connectors.jdbc.source.connector import JdbcSourceConnector
from airflow_provider_connect.connectors.jdbc.source.offset import SourceOffset
from airflow_provider_connect.connectors.jdbc.source.task import ConnectionLostException
from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.errors import ConfigException, ConnectException, RetriableException
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.task import SourceTask
from airflow_provider_connect.sdk.testing.contexts import MemoryConnectorContext, MemorySourceContext
from tests.e2e.killed_run import run_and_kill
from tests.integration.worker.environment import RunEnvironment, values_of
from tests.mariadb_server import MariadbServer
from tests.reaching import reaching
from tests.samples import sample
from tests.waiting import HANG_SECONDS

JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
KEYS = {"incrementing.column.name": "id", "timestamp.column.name": "at"}
BASE = 1_700_000_000
TICKS_MS = {"timestamp(0)": 1000, "timestamptz(0)": 1000, "timestamp": 1}
ALL_MODES = ("incrementing", "timestamp", "timestamp+incrementing")


class Shop:
    """A schema of its own with tables that tests make; ``do`` commits at once."""

    def __init__(self, postgres: PostgresServer, name: str) -> None:
        self.url = postgres.url()
        self._uri = postgres.uri()
        self.name = name.replace("-", "_").lower()
        self._connection = self.connect()
        self._connection.autocommit = True
        self.do(f"CREATE SCHEMA {self.name}")

    def connect(self) -> Any:  # a psycopg2 connection
        connection = psycopg2.connect(self._uri)
        with connection.cursor() as cursor:
            cursor.execute(f"SET search_path TO {self.name}")
        connection.commit()
        return connection

    def do(self, sql: str) -> list[Any]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        self.do(f"DROP SCHEMA {self.name} CASCADE")
        self._connection.close()

    def make_orders(self) -> None:
        self.do("CREATE TABLE orders (id bigserial PRIMARY KEY, word text, at timestamptz NOT NULL DEFAULT clock_timestamp())")

    def config(self, **more: str) -> dict[str, str]:
        own = {"connector.class": "JdbcSource", "connection.url": self.url, "schema.pattern": self.name, "topic.prefix": f"{self.name}-"}
        return own | JSON | KEYS | {key.replace("_", "."): value for key, value in more.items()}

    def partition(self, table: str = "orders") -> dict[str, str]:
        return {"protocol": "1", "table": f"postgres.{self.name}.{table}"}


@pytest.fixture
def shop(postgres: PostgresServer, unique: str) -> Iterator[Shop]:
    with closing(Shop(postgres, f"s_{unique[-16:]}")) as shop:
        yield shop


def rows_of(environment: RunEnvironment, topic: str) -> list[dict[str, Any]]:
    return [json.loads(value) for value in values_of(environment.bootstrap, topic)]


def run(environment: RunEnvironment, config: dict[str, str]) -> int:
    """One run; how many records it delivered."""
    result = environment.run({"name": environment.connector, **config})
    assert (result.state, result.error) == (RunState.DONE, None)
    return sum(task.records for task in result.tasks)


def started(config: dict[str, str], offset: dict[str, Any] | None = None, *, tasks: int = 1) -> SourceTask:
    """The first of ``tasks`` of the only table, as a run starts it; with the committed offset of that table."""
    connector = reaching(JdbcSourceConnector())
    connector.initialize(MemoryConnectorContext())
    connector.start(JdbcSourceConnector.config_def.parse(config))
    own = connector.task_configs(tasks)[0]
    task = reaching(JdbcSourceConnector.task_class())
    context = MemorySourceContext(own)
    context.offset = lambda partition, default=None: offset or {}  # type: ignore[method-assign]
    task.initialize(context)
    task.start(JdbcSourceConnector.task_config(own))
    return task


def polled(task: SourceTask, between: Callable[[int], object] = lambda page: None) -> list[Batch]:
    """All pages of a task; ``between`` is called after each with how many there were."""
    pages: list[Batch] = []
    deadline = time.monotonic() + HANG_SECONDS
    while (found := task.poll()) is not None:
        assert time.monotonic() < deadline
        if isinstance(found, Batch):
            pages.append(found)
            between(len(pages))
        else:
            time.sleep(0.02)
    task.stop()
    return pages


def ids_of(pages: list[Batch]) -> list[int]:
    return [row["id"] for page in pages for row in (page.value.to_pylist() if page.value is not None else [])]


@pytest.mark.parametrize("mode", ALL_MODES)
def test_each_run_brings_what_is_new(environment: RunEnvironment, shop: Shop, mode: str) -> None:
    shop.make_orders()
    shop.do("INSERT INTO orders (word) SELECT 'first ' || n FROM generate_series(1, 1000) n")
    config = shop.config(mode=mode)
    assert run(environment, config) == 1000
    topic = f"{shop.name}-orders"
    assert [row["id"] for row in rows_of(environment, topic)] == list(range(1, 1001))
    assert environment.readiness().state == "no-work"
    offset = environment.offsets().get(shop.partition())
    assert offset is not None
    assert ("incrementing" in offset, "timestamp" in offset) == ("incrementing" in mode, "timestamp" in mode)
    shop.do("INSERT INTO orders (word) VALUES ('later')")
    shop.do("UPDATE orders SET word = 'changed', at = clock_timestamp() WHERE id = 5")
    assert environment.readiness().state == "work"
    run(environment, config)
    later = [(row["id"], row["word"]) for row in rows_of(environment, topic)[1000:]]
    assert later == ([(1001, "later")] if mode == "incrementing" else [(1001, "later"), (5, "changed")])
    assert environment.readiness().state == "no-work"


def test_bulk_brings_everything_each_time_and_is_not_exactly_once(environment: RunEnvironment, shop: Shop) -> None:
    shop.make_orders()
    shop.do("INSERT INTO orders (word) VALUES ('a'), ('b')")
    shop.do("CREATE VIEW words AS SELECT word FROM orders")
    config = shop.config(mode="bulk", table_types="TABLE,VIEW", tasks_max="2")
    assert [run(environment, config), run(environment, config)] == [4, 4]
    assert [row["word"] for row in rows_of(environment, f"{shop.name}-words")] == ["a", "b", "a", "b"]
    assert environment.readiness().state == "work"
    environment.put_config({"name": environment.connector, **shop.config(mode="bulk", delivery_guarantee="exactly_once")})
    with pytest.raises(ConfigException, match="exactly-once"):
        environment.readiness()


def test_query_reads_a_join_with_its_own_types(environment: RunEnvironment, shop: Shop) -> None:
    shop.make_orders()
    shop.do("CREATE TABLE prices (word text, price numeric(8,2)); INSERT INTO prices VALUES ('a', 1.50), ('b', 200)")
    shop.do("INSERT INTO orders (word) VALUES ('a'), ('b'), ('c')")
    query = f"SELECT o.id, p.price, upper(o.word) AS shout FROM {shop.name}.orders o JOIN {shop.name}.prices p USING (word) -- joined"
    config = shop.config(mode="incrementing", query=query, value_converter_decimal_format="NUMERIC")
    assert run(environment, config) == 2
    assert rows_of(environment, f"{shop.name}-") == [{"id": 1, "price": 1.5, "shout": "A"}, {"id": 2, "price": 200, "shout": "B"}]
    assert environment.offsets().get({"query": "query"}) == {"incrementing": 2}
    shop.do("INSERT INTO orders (word) VALUES ('b')")
    assert run(environment, config) == 1


def test_tables_and_columns_that_come_are_seen_by_the_next_run(environment: RunEnvironment, shop: Shop) -> None:
    shop.make_orders()
    shop.do("CREATE TABLE secret (id int PRIMARY KEY); INSERT INTO secret VALUES (1); INSERT INTO orders (word) VALUES ('a')")
    config = shop.config(mode="incrementing", table_exclude="sec.*", tasks_max="2")
    assert run(environment, config) == 1
    shop.do("CREATE TABLE more (id int PRIMARY KEY, note varchar(5) NOT NULL DEFAULT 'x'); INSERT INTO more VALUES (7)")
    shop.do("ALTER TABLE orders ADD COLUMN extra int; ALTER TABLE orders DROP COLUMN word; INSERT INTO orders (extra) VALUES (5)")
    assert environment.readiness().state == "work"
    assert run(environment, config) == 2
    assert rows_of(environment, f"{shop.name}-more") == [{"id": 7, "note": "x"}]
    assert [sorted(row) for row in rows_of(environment, f"{shop.name}-orders")] == [["at", "id", "word"], ["at", "extra", "id"]]


def test_run_that_ends_early_goes_on_without_splitting_equal_timestamps(environment: RunEnvironment, shop: Shop) -> None:
    shop.make_orders()
    shop.do(
        "INSERT INTO orders (word, at) SELECT 'x', timestamptz '2024-01-01' + (n / 10) * interval '1 second' FROM generate_series(0, 99) n"
    )
    config = shop.config(mode="timestamp", batch_max_rows="3", batch_max_records="25")
    counts = []
    while environment.readiness({"name": environment.connector, **config}).state == "work":
        counts.append(run(environment, config))
    assert counts == [30, 30, 30, 10]
    assert [row["id"] for row in rows_of(environment, f"{shop.name}-orders")] == list(range(1, 101))


@pytest.mark.parametrize("mode", ALL_MODES)
def test_rows_that_commit_late_are_waited_for(shop: Shop, mode: str) -> None:
    shop.make_orders()
    late, config = shop.connect(), shop.config(mode=mode)
    late.cursor().execute("INSERT INTO orders (word) VALUES ('late')")
    shop.do("INSERT INTO orders (word) VALUES ('in time')")
    task = started(config)
    assert task.poll() == ()
    late.commit()
    late.close()
    assert ids_of(polled(task)) == [1, 2]


def test_table_whose_writers_do_not_end_is_left_to_the_next_run(shop: Shop) -> None:
    shop.make_orders()
    late = shop.connect()
    late.cursor().execute("INSERT INTO orders (word) VALUES ('late')")
    shop.do("INSERT INTO orders (word) VALUES ('in time')")
    assert polled(started(shop.config(mode="incrementing", open_transactions_wait_ms="50"))) == []
    assert ids_of(polled(started(shop.config(mode="incrementing", open_transactions_wait_ms="0")))) == [2]
    late.commit()
    late.close()
    assert ids_of(polled(started(shop.config(mode="incrementing", open_transactions_wait_ms="50")))) == [1, 2]


def test_ranges_of_one_table_wait_for_its_writers_together(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shares, "SIZE", 1000)
    shop.make_orders()
    shop.do("INSERT INTO orders (id, word) SELECT n, 'x' FROM generate_series(1, 4500) n WHERE n != 500")
    late, config = shop.connect(), shop.config(mode="incrementing")
    late.cursor().execute("INSERT INTO orders (id, word) VALUES (500, 'late')")
    assert polled(started(config | {"open.transactions.wait.ms": "300"}, tasks=2)) == []
    assert sum("is left to the next run" in record.message for record in caplog.records) == 1, "once for all three ranges"
    task = started(config, tasks=2)
    assert task.poll() == ()
    late.commit()
    late.close()
    assert ids_of(polled(task)) == [*range(1, 1001), *range(2001, 3001), *range(4001, 4501)]


def test_plan_does_not_wait_for_the_transaction_of_a_run_that_was_killed(environment: RunEnvironment, shop: Shop) -> None:
    """What the next run reads in order to plan is hidden behind it, for a minute if no process ends it."""
    shop.make_orders()
    shop.do("INSERT INTO orders (word) SELECT 'x' FROM generate_series(1, 10)")
    config = shop.config(mode="incrementing")
    run(environment, config)
    shop.do("INSERT INTO orders (word) SELECT 'y' FROM generate_series(1, 10)")
    run_and_kill(environment)
    run(environment, config)
    assert sorted(row["id"] for row in rows_of(environment, f"{shop.name}-orders")) == list(range(1, 21))


def test_rows_within_the_delay_wait(shop: Shop) -> None:
    """So do those of a transaction that took its time before it reached the table."""
    shop.make_orders()
    shop.do("INSERT INTO orders (word, at) VALUES ('old', now() - interval '1 hour'), ('new', now() - interval '1 minute')")
    assert ids_of(polled(started(shop.config(mode="timestamp", timestamp_delay_interval_ms="600000")))) == [1]
    assert ids_of(polled(started(shop.config(mode="timestamp")))) == [1, 2]


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
@pytest.mark.parametrize("column", ["timestamp", "timestamptz"])
@pytest.mark.parametrize("zone", [pytest.param("UTC", marks=pytest.mark.soak), "Europe/Paris"])
def test_reading_goes_on_behind_the_oldest_times_that_postgresql_has(shop: Shop, mode: str, column: str, zone: str) -> None:
    """Minus infinity, and years before 1, which Python's dates do not have."""
    shop.do(f"CREATE TABLE orders (id bigserial PRIMARY KEY, at {column} NOT NULL)")
    times = [
        "-infinity",
        "4714-11-25 00:00:00 BC",
        "0044-03-15 12:00:00.123456 BC",
        "0044-03-15 12:00:00.124 BC",
        "0001-06-01",
        "2001-01-01",
    ]
    for time_text in [*times[:1], *times, "infinity"]:
        shop.do(f"INSERT INTO orders (at) VALUES ('{time_text}')")
    config = shop.config(mode=mode, incrementing_column_name="id", timestamp_column_name="at", db_timezone=zone, batch_max_rows="1")
    pages = [page for page in polled(started(config)) if page.num_records]
    ids = [page.value.field("id").to_pylist() for page in pages if page.value is not None]
    assert [id for page in ids for id in page] == list(range(1, 8)), "infinity is not yet"
    for read, page in enumerate(pages, 1):
        offset = SourceOffset.of(json.loads(json.dumps(page.source_offset))).to_json()
        rest = [
            page.value.field("id").to_pylist() for page in polled(started(config, offset)) if page.num_records and page.value is not None
        ]
        assert rest == ids[read:], offset


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
@pytest.mark.parametrize("column", TICKS_MS)
@pytest.mark.parametrize("share", sample([0.0, 0.2, 0.4, 0.6], 1, 3))
def test_only_ticks_that_are_over_are_read(shop: Shop, monkeypatch: pytest.MonkeyPatch, mode: str, column: str, share: float) -> None:
    """PostgreSQL rounds what it stores. Rows at each tenth of a tick and one read among them: the row after it comes with the next read."""
    shop.do(f"CREATE TABLE orders (id bigserial PRIMARY KEY, at {column} NOT NULL)")
    tick = TICKS_MS[column] / 1000
    bound = BASE + (1 + share) * tick
    times = [BASE + step * tick / 10 for step in range(30)]
    write = "INSERT INTO orders (at) SELECT to_timestamp(t) AT TIME ZONE 'UTC' FROM unnest(ARRAY[{}]::float8[]) t ORDER BY t"
    if "tz" in column:
        write = write.replace(" AT TIME ZONE 'UTC'", "")
    config = shop.config(mode=mode, db_timezone="UTC")
    shop.do(write.format(",".join(map(str, (t for t in times if t < bound)))))
    monkeypatch.setattr(row_reader, "clock", lambda *_: round(bound * 1000) * 1_000_000)
    first = polled(started(config))
    shop.do(write.format(",".join(map(str, (t for t in times if t >= bound)))))
    monkeypatch.setattr(row_reader, "clock", lambda *_: (BASE + 3600) * 1_000_000_000)
    offset = next((dict(page.source_offset) for page in reversed(first) if page.source_offset), None)
    assert sorted(ids_of(first) + ids_of(polled(started(config, offset)))) == list(range(1, 31))
    assert ids_of(first), "what is over is read"


@pytest.mark.parametrize("mode", [pytest.param("timestamp", marks=pytest.mark.soak), "timestamp+incrementing"])
@pytest.mark.parametrize("column", ["datetime DEFAULT NOW()", "datetime(6) DEFAULT '2000-01-01'"])
def test_no_row_of_a_second_is_passed_over_in_mariadb(mariadb: MariadbServer, unique: str, mode: str, column: str) -> None:
    """``NOW()`` is a whole second, in a column of microseconds too."""
    table = unique.replace("-", "_")[-30:]
    with closing(mariadb.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {table} (id bigint AUTO_INCREMENT PRIMARY KEY, at {column} NOT NULL)")
        config = {"connector.class": "JdbcSource", "connection.url": mariadb.url, "connection.user": "root", "topic.prefix": "m-"} | KEYS
        config |= JSON | {"mode": mode, "table.include": table}
        _read_while_written(config, lambda: cursor.execute(f"INSERT INTO {table} (at) VALUES (NOW())"))


@pytest.mark.parametrize("mode", ["timestamp", pytest.param("timestamp+incrementing", marks=pytest.mark.soak)])
def test_no_row_of_a_second_is_passed_over_in_sqlite(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, word TEXT, at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)")
        config = (
            {"connector.class": "JdbcSource", "connection.url": f"jdbc:sqlite:{path}", "topic.prefix": "s-", "mode": mode} | JSON | KEYS
        )
        _read_while_written(config, lambda: connection.execute("INSERT INTO orders (word) VALUES ('x')"))


def _read_while_written(config: dict[str, str], write: Callable[[], object], *, seconds: float = 2.0) -> None:
    """Readers, each from the offset of the one before, while rows are written; the last after the last tick. Each row comes once."""
    offset: dict[str, Any] | None = None
    seen: list[int] = []
    written = 0
    deadline = time.monotonic() + seconds
    is_last = False
    while not is_last:
        is_last = time.monotonic() > deadline
        if is_last:
            time.sleep(1.6)  # a time that was rounded up lies up to half a second ahead; then the second must be over
        else:
            for _ in range(5):
                write()
                written += 1
                time.sleep(0.01)
        pages = polled(started(config, offset))
        seen += ids_of(pages)
        offset = next((dict(page.source_offset) for page in reversed(pages) if page.source_offset), offset)
    assert sorted(seen) == list(range(1, written + 1))


def test_first_run_from_now_misses_no_row_of_its_own_second(shop: Shop) -> None:
    """Written after the run, but stored with the second in which the run began."""
    shop.do("CREATE TABLE orders (id bigserial PRIMARY KEY, word text, at timestamp(0) NOT NULL)")
    config = shop.config(mode="timestamp", timestamp_initial="-1")
    [marker] = polled(started(config))
    assert marker.source_offset is not None
    shop.do(f"INSERT INTO orders (word, at) VALUES ('after', date_trunc('second', to_timestamp({_seconds(marker)} + 1e-6)))")
    time.sleep(1.1)  # rows of a second are read when it is over
    assert ids_of(polled(started(config, dict(marker.source_offset)))) == [1]


def _seconds(marker: Batch) -> str:
    offset = marker.source_offset
    assert offset is not None
    return f"{offset['timestamp'] // 1000}.{offset['timestamp_nanos']:09d}"  # type: ignore[operator]


def test_first_run_from_now_keeps_that_timestamp(environment: RunEnvironment, shop: Shop) -> None:
    shop.make_orders()
    shop.do("INSERT INTO orders (word) VALUES ('before')")
    config = shop.config(mode="timestamp", timestamp_initial="-1")
    assert run(environment, config) == 0
    shop.do("INSERT INTO orders (word) VALUES ('after')")
    assert run(environment, config) == 1
    assert [row["word"] for row in rows_of(environment, f"{shop.name}-orders")] == ["after"]


@pytest.mark.parametrize("mode", ["incrementing", "timestamp"])
def test_connection_lost_in_the_middle_is_had_again_and_no_row_comes_twice(shop: Shop, mode: str) -> None:
    shop.make_orders()
    shop.do(
        "INSERT INTO orders (word, at) SELECT repeat('x', 500), timestamptz '2024-01-01' + (n / 7) * interval '1 second' "
        "FROM generate_series(1, 60000) n"
    )
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'j1-lost'"
    config = shop.config(mode=mode, connection_backoff_ms="10")
    config["connection.url"] += "?application_name=j1-lost"
    pages = polled(started(config), between=lambda page: page in (1, 3) and shop.do(kill) and None)
    assert len(pages) > 3
    assert sorted(ids_of(pages)) == list(range(1, 60001))


def test_bulk_read_that_loses_its_connection_fails_and_may_be_tried_again(shop: Shop) -> None:
    shop.make_orders()
    shop.do("INSERT INTO orders (word) SELECT repeat('x', 500) FROM generate_series(1, 60000) n")
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'j1-bulk'"
    config = shop.config(mode="bulk")
    config["connection.url"] += "?application_name=j1-bulk"
    with pytest.raises(ConnectionLostException) as lost:
        polled(started(config), between=lambda page: page == 1 and shop.do(kill) and None)
    assert lost.value.retriable
    assert not isinstance(lost.value, RetriableException), "the loop would go on for ever"


def test_every_type_arrives(environment: RunEnvironment, shop: Shop) -> None:
    shop.do("CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN cents AS numeric(8,3)")
    shop.do(
        """CREATE TABLE types (id bigserial PRIMARY KEY, i2 smallint, i4 int NOT NULL DEFAULT 7, f4 real, f8 double precision,
        n numeric(10,2), nn numeric, whole numeric(5,0), c cents, b boolean, raw bytea, d date, t time, ts timestamp, tz timestamptz,
        j jsonb, u uuid, many int[], span interval, m mood, "odd ""name" text)"""
    )
    shop.do(
        """INSERT INTO types VALUES (1, -1, DEFAULT, 1.5, 2.25, -12.34, 0.5, 99, 1.125, true, '\\x00ff', '1969-12-31', '23:59:59.1239',
        '1969-12-31 23:59:59.9999', '2024-06-01 12:00:00.123456+02', '{"a": 1}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{1,2}',
        '1 day', 'ok', 'é')"""
    )
    shop.do("INSERT INTO types (id) VALUES (2)")
    config = shop.config(mode="incrementing", value_converter_decimal_format="NUMERIC", numeric_mapping="precision_only")
    assert run(environment, config | {"value.converter.schemas.enable": "true"}) == 2
    first, second = rows_of(environment, f"{shop.name}-types")
    values = {"id": 1, "i2": -1, "i4": 7, "f4": 1.5, "f8": 2.25, "n": -12.34, "nn": 0.5, "whole": 99, "c": 1.125, "b": True, "raw": "AP8="}
    values |= {"d": -1, "t": 86399123, "ts": -1, "tz": 1717236000123, "j": '{"a": 1}', "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}
    values |= {"many": "{1,2}", "span": "1 day", "m": "ok", 'odd "name': "é"}
    assert first["payload"] == values
    assert second["payload"] == dict.fromkeys(values) | {"id": 2, "i4": 7}
    fields = {field["field"]: field for field in first["schema"]["fields"]}
    assert first["schema"]["name"] == "types"
    assert (fields["i4"]["optional"], fields["i4"]["default"], fields["i2"]["optional"]) == (False, 7, True)
    assert fields["whole"]["type"] == "int32"
    assert fields["c"]["parameters"] == {"scale": "3"}


def test_bad_input_is_refused_before_anything_moves(environment: RunEnvironment, shop: Shop) -> None:
    shop.make_orders()
    shop.do("CREATE TABLE odd (id text PRIMARY KEY, price numeric(8,2) NOT NULL, at date NOT NULL, changed timestamp)")
    shop.do("DROP ROLE IF EXISTS locked; CREATE ROLE locked LOGIN PASSWORD 'right'")
    refused = {
        ("connection.password", "user 'locked'"): {"connection.user": "locked", "connection.password": "wrong-password"},
        ("connection.url", "no such database"): {"connection.url": f"{shop.url}_none"},
        ("table.include", "no such table"): {"table.include": "orders,none"},
        ("incrementing.column.name", "Its columns are: id, word, at"): {"table.include": "orders", "incrementing.column.name": "number"},
        ("incrementing.column.name", "no such column"): {"table.include": "orders", "incrementing.column.name": "id; DROP TABLE orders"},
        ("incrementing.column.name", "whole numbers"): {"table.include": "odd"},
        ("timestamp.column.name", "of type date"): {"table.include": "odd", "mode": "timestamp"},
        ("timestamp.column.name", "may be null"): {"table.include": "odd", "mode": "timestamp", "timestamp.column.name": "changed"},
        ("query", "syntax error"): {"query": "SELECT 1; DROP TABLE orders"},
    }
    for (key, words), more in refused.items():
        config = {"name": environment.connector, **shop.config(mode="incrementing"), **more}
        with pytest.raises(ConfigException, match=key.replace(".", r"\.")) as error:
            environment.readiness(config)
        assert words in error.value.message, (key, words)
        assert "wrong-password" not in error.value.message
    with pytest.raises(RetriableException, match=r"connection\.url"):
        environment.readiness(
            {"name": environment.connector, **shop.config(mode="bulk"), "connection.url": "jdbc:postgresql://127.0.0.1:1/x"}
        )
    assert shop.do("SELECT count(*) FROM orders") == [(0,)]


def test_numbers_that_do_not_grow_with_each_row_are_refused(shop: Shop) -> None:
    shop.do("CREATE TABLE orders (id int NOT NULL); INSERT INTO orders VALUES (1), (2), (2)")
    with pytest.raises(ConnectException, match=r"incrementing\.column\.name\) does not grow with each row: 2 is there twice"):
        polled(started(shop.config(mode="incrementing")))


def test_mariadb_uses_sqlalchemy(environment: RunEnvironment, mariadb: MariadbServer, unique: str) -> None:
    table, topic = unique.replace("-", "_")[-30:], f"m-{unique.replace('-', '_')[-30:]}"
    with closing(mariadb.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE {table} (id bigint AUTO_INCREMENT PRIMARY KEY, word varchar(50) NOT NULL DEFAULT 'none', price decimal(8,2), "
            "paid tinyint(1), small tinyint unsigned, raw varbinary(5), day date, hour time(3), at datetime(6) NOT NULL, "
            "seen timestamp NULL, "
            "kind enum('a','b'), huge bigint unsigned)"
        )
        row = "(%s, 12.34, 1, 255, x'00ff', '1969-12-31', '23:59:59.123', %s, from_unixtime(1717236000), 'b', 9223372036854775807)"
        columns = "(word, price, paid, small, raw, day, hour, at, seen, kind, huge)"
        insert = f"INSERT INTO {table} {columns} VALUES {row}"
        for number in range(7):
            cursor.execute(insert, (f"it's 100% {number}", f"2024-06-01 12:00:0{number // 3}.123456"))
        config = {"name": environment.connector, "connector.class": "JdbcSource", "connection.url": mariadb.url, "connection.user": "root"}
        config |= JSON | {"mode": "timestamp", "timestamp.column.name": "at", "topic.prefix": "m-", "table.include": table}
        config |= {"batch.max.rows": "2", "value.converter.decimal.format": "NUMERIC", "db.timezone": "Europe/Paris"}
        assert environment.readiness(config).state == "work"
        assert run(environment, config) == 7
        rows = rows_of(environment, topic)
        assert [row["id"] for row in rows] == list(range(1, 8))
        values = {"id": 1, "word": "it's 100% 0", "price": 12.34, "paid": True, "small": 255, "raw": "AP8=", "day": -1, "hour": 86399123}
        assert rows[0] == values | {"at": 1717236000123, "seen": 1717236000000, "kind": "b", "huge": 9223372036854775807}
        found = environment.offsets().get({"protocol": "1", "table": f"shop.{table}"})
        assert found == {"timestamp": 1717236002123, "timestamp_nanos": 123456000}
        assert environment.readiness().state == "no-work"
        cursor.execute(insert, ("later", "2024-06-01 12:00:02.123457"))
        assert environment.readiness().state == "work"
        assert run(environment, config) == 1
        query = config | {"query": f"SELECT id, price * 2 AS twice FROM {table}", "mode": "incrementing", "incrementing.column.name": "id"}
        task = started({key: value for key, value in query.items() if key != "table.include"})
        assert [row["twice"] for page in polled(task) for row in page.value.to_pylist()] == [Decimal("24.68")] * 8  # type: ignore[union-attr]
    with pytest.raises(ConfigException, match=r"connection\.url: There is no such database"):
        reaching(JdbcSourceConnector()).check(config | {"connection.url": f"{mariadb.url}_none"})


def test_sqlite_uses_adbc(environment: RunEnvironment, unique: str) -> None:
    path = environment.folder / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE lines (id INTEGER PRIMARY KEY, word TEXT, price NUMERIC(8,2), at TIMESTAMP NOT NULL, seen DATE)")
        words = [f"word {n}" if n > 1500 else None for n in range(1, 3001)]
        rows = [(word, n / 4 if n % 2 else None, f"2024-06-01 12:00:{n // 100:02}.5", None) for n, word in enumerate(words, 1)]
        connection.executemany("INSERT INTO lines (word, price, at, seen) VALUES (?, ?, ?, ?)", rows)
        connection.commit()
        config = {"name": environment.connector, "connector.class": "JdbcSource", "connection.url": f"jdbc:sqlite:{path}"}
        config |= JSON | {"mode": "timestamp", "timestamp.column.name": "at", "topic.prefix": f"{unique}-"}
        config |= {"batch.max.rows": "70", "value.converter.decimal.format": "NUMERIC"}
        assert run(environment, config) == 3000
        read = rows_of(environment, f"{unique}-lines")
        assert [(row["id"], row["word"], row["price"]) for row in read] == [(n, word, price) for n, (word, price, *_) in enumerate(rows, 1)]
        assert read[-1]["at"] == 1717243230500
        assert environment.readiness().state == "no-work"
        connection.execute("INSERT INTO lines (word, at, seen) VALUES ('late', '2024-06-02', '1969-12-31')")
        connection.commit()
        assert environment.readiness().state == "work"
        assert run(environment, config) == 1
        assert rows_of(environment, f"{unique}-lines")[-1] == {"id": 3001, "word": "late", "price": None, "at": 1717286400000, "seen": -1}


def test_large_table_is_read_by_several_tasks_and_gone_on_with_by_one(
    environment: RunEnvironment, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "SIZE", 1000)
    shop.make_orders()
    shop.do("INSERT INTO orders (word) SELECT 'x' FROM generate_series(1, 4500)")
    config = shop.config(mode="incrementing", tasks_max="2", batch_max_rows="100")
    run(environment, config | {"batch.max.records": "300"})  # which ends both tasks in the middle
    begun = len(rows_of(environment, f"{shop.name}-orders"))
    assert 600 <= begun < 4500
    assert environment.readiness().state == "work"
    environment.put_config({"name": environment.connector, **config})
    assert run(environment, config) == 4500 - begun
    assert environment.readiness().state == "no-work"
    shop.do("INSERT INTO orders (word) VALUES ('later')")
    assert run(environment, config) == 1
    assert (environment.offsets().get(shop.partition()) or {}).get("incrementing") == 4501
    assert sorted(row["id"] for row in rows_of(environment, f"{shop.name}-orders")) == list(range(1, 4502))
