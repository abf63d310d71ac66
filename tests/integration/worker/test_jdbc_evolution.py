"""A table that is altered, by a topic into another one: PostgreSQL → JdbcSource → topic → JdbcSink → PostgreSQL, with nothing set anew."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.runtime.model.run import RunResult, RunState
from tests.integration.worker.environment import RunEnvironment
from tests.integration.worker.test_jdbc_sink import Target
from tests.integration.worker.test_jdbc_source import Shop, shop
from tests.waiting import wait_until

__all__ = ["shop"]
ORDERS = """CREATE TABLE orders (id bigserial PRIMARY KEY, small int, ratio real, name varchar(10) NOT NULL DEFAULT '', price numeric(8,2),
    whole int, day date, at timestamptz NOT NULL DEFAULT clock_timestamp())"""
STEPS = {
    "added, may be null": ("ALTER TABLE orders ADD note text", {"note": "'new'"}),
    "added with a default": ("ALTER TABLE orders ADD level int NOT NULL DEFAULT 7, ADD kind text NOT NULL DEFAULT 'it''s'", {"level": "8"}),
    "int4 to int8": ("ALTER TABLE orders ALTER small TYPE bigint", {"small": "1099511627776"}),
    "float4 to float8": ("ALTER TABLE orders ALTER ratio TYPE double precision", {"ratio": "1.1"}),
    "varchar to text": ("ALTER TABLE orders ALTER name TYPE text", {"name": "repeat('long ', 100)"}),
    "longer decimals": ("ALTER TABLE orders ALTER price TYPE numeric(20,4)", {"price": "1234567890123456.7891"}),
    "int4 to numeric": ("ALTER TABLE orders ALTER whole TYPE numeric(24,2)", {"whole": "1234567890123456789012.25"}),
    "date to timestamp": ("ALTER TABLE orders ALTER day TYPE timestamp", {"day": "timestamp '2024-02-29 12:30:00.125'"}),
    "renamed": ("ALTER TABLE orders RENAME note TO remark", {"remark": "'renamed'"}),
    "dropped": ("ALTER TABLE orders DROP ratio", {}),
}


@dataclass(slots=True)
class Pair:
    """A source and a sink on one topic."""

    environment: RunEnvironment
    shop: Shop
    target: Target

    def read(self) -> None:
        self._done(dataclasses.replace(self.environment, connector=f"{self.environment.connector}-source").run(self.source_config()))

    def source_config(self) -> dict[str, str]:
        config = self.shop.config(mode="timestamp+incrementing", table_include="orders", value_converter_schemas_enable="true")
        return {"name": f"{self.environment.connector}-source", **config}

    def write(self, **more: str) -> RunResult:
        environment = dataclasses.replace(self.environment, connector=f"{self.environment.connector}-sink")
        own = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id", "auto_evolve": "true", "table_name_format": "orders"}
        environment.put_config(
            {**self.target.config(self.environment, f"{self.shop.name}-orders", **{**own, **more}), "name": environment.connector}
        )
        return environment.run()

    def written(self) -> None:
        self._done(self.write())

    @staticmethod
    def _done(result: RunResult) -> None:
        assert (result.state, result.error) == (RunState.DONE, None)

    def columns(self) -> dict[str, str]:
        """Those of the target, by name, and their types."""
        catalog = "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped"
        return dict(self.target.do(f"{catalog} AND attrelid = '{self.target.name}.orders'::regclass"))

    def rows(self, location: Shop | Target, columns: str) -> list[Any]:
        return location.do(f"SELECT {columns} FROM {location.name}.orders ORDER BY id")

    def refused(self) -> str:
        """What the sink's run fails with; nothing was written."""
        before = self.rows(self.target, "*")
        result = self.write(errors_tolerance="all")
        assert result.state is RunState.FAILED
        assert self.rows(self.target, "*") == before
        return str(result.error)


@pytest.fixture
def pair(environment: RunEnvironment, shop: Shop, postgres: PostgresServer) -> Iterator[Pair]:
    with closing(Target(postgres, f"to_{shop.name}")) as target:
        yield Pair(environment, shop, target)


def test_columns_added_widened_renamed_dropped_arrive(pair: Pair) -> None:
    """Some changes come between two runs of the sink, some in the middle of one."""
    do = pair.shop.do
    do(ORDERS)
    do("INSERT INTO orders (small, ratio, name, price, whole, day) VALUES (1, 1.5, 'a', 1.25, 5, '2024-02-28')")
    pair.read()
    for number, (alter, values) in enumerate(STEPS.values()):
        do(alter)
        do(
            f"INSERT INTO orders ({', '.join(values)}) VALUES ({', '.join(values.values())})"
            if values
            else "INSERT INTO orders DEFAULT VALUES"
        )
        pair.read()
        if number % 4 == 0:
            pair.written()
    pair.written()
    assert pair.columns() == {
        **{"id": "bigint", "small": "bigint", "ratio": "double precision", "name": "text", "price": "numeric", "whole": "numeric"},
        **{"day": "timestamp without time zone", "at": "timestamp without time zone"},
        **{"note": "text", "level": "integer", "kind": "text", "remark": "text"},
    }
    same = "id, small, name, price, whole, day, level, kind"
    assert pair.rows(pair.target, same) == pair.rows(pair.shop, same)
    notes = pair.rows(pair.target, "note, remark, ratio")
    assert [note for note, _, _ in notes] == [None, "new"] + [None] * 9
    assert [remark for _, remark, _ in notes] == [None] * 9 + ["renamed", None]
    assert [ratio for _, _, ratio in notes] == [1.5, *[None] * 3, 1.1, *[None] * 6]
    do("UPDATE orders SET at = clock_timestamp()")  # rows that were read before bring what they were given since
    pair.read()
    pair.written()
    assert pair.rows(pair.target, f"{same}, remark") == pair.rows(pair.shop, f"{same}, remark")


def test_a_table_that_is_altered_while_a_run_of_the_source_goes_on(pair: Pair) -> None:
    """Nothing of what the altering transaction has written is left out, though the run began before it ended."""
    pair.shop.do(ORDERS)
    pair.shop.do("INSERT INTO orders (small) VALUES (1)")
    late = pair.shop.connect()
    alter = "ALTER TABLE orders ADD note text, ALTER small TYPE bigint, DROP ratio"
    late.cursor().execute(f"INSERT INTO orders (small) VALUES (2); {alter}; INSERT INTO orders (small, note) VALUES (1099511627776, 'new')")
    source = dataclasses.replace(pair.environment, connector=f"{pair.environment.connector}-source")
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid <> pg_backend_pid()"
    under_way = source.start(pair.source_config())
    wait_until(lambda: source.states().get(0) == "RUNNING" or pair.shop.do(waiting) != [(0,)])
    late.commit()
    late.close()
    result = under_way.wait()
    assert (result.state, result.error) == (RunState.DONE, None)
    pair.read()
    pair.written()
    assert pair.rows(pair.target, "id, small, note") == [(1, 1, None), (2, 2, None), (3, 2**40, "new")]


def test_an_impossible_change_fails_by_its_column_and_goes_on_when_fixed(pair: Pair) -> None:
    do = pair.shop.do
    do(f"{ORDERS}; ALTER TABLE orders ALTER name DROP DEFAULT; INSERT INTO orders (name) VALUES ('1')")
    pair.read()
    pair.written()
    do("ALTER TABLE orders ALTER name TYPE int USING name::int; INSERT INTO orders (name) VALUES (2)")
    pair.read()
    error = pair.refused()
    table = f"{pair.target.name}.orders"
    assert f"Column name of table {table} is text, which accepts no values of type INT32. Change the column's type, or cast" in error
    pair.target.do("ALTER TABLE orders ALTER name TYPE int USING name::int")
    pair.written()
    do("ALTER TABLE orders DROP name; INSERT INTO orders (small) VALUES (3)")
    pair.read()
    error = pair.refused()
    assert f"Column name of table {table} is NOT NULL without a default, and the records have no field name. Give the column a" in error
    pair.target.do("ALTER TABLE orders ALTER name DROP NOT NULL")
    pair.written()
    do("ALTER TABLE orders ADD must uuid NOT NULL DEFAULT gen_random_uuid(); INSERT INTO orders (small) VALUES (4)")
    pair.read()
    assert f"Column must cannot be added to table {table}: the field is not optional and has no default" in pair.refused()
    pair.target.do("ALTER TABLE orders ADD must text")
    pair.written()
    assert pair.rows(pair.target, "id, name, must IS NULL") == [(1, 1, True), (2, 2, True), (3, None, True), (4, None, False)]


def test_without_auto_evolve_the_run_fails_by_the_setting(pair: Pair) -> None:
    pair.shop.do(ORDERS)
    pair.shop.do("INSERT INTO orders (whole) VALUES (1)")
    pair.read()
    pair.written()
    pair.shop.do("ALTER TABLE orders ADD note text; INSERT INTO orders (note) VALUES ('new')")
    pair.read()
    error = str(pair.write(auto_evolve="false").error)
    assert (
        f"auto.evolve: Table {pair.target.name}.orders has no column note. Add it, leave the field out, or set auto.evolve to true" in error
    )
    pair.written()
    assert pair.rows(pair.target, "id, note") == [(1, None), (2, "new")]


def test_numbers_that_a_column_rounds_are_counted_in_the_metrics(pair: Pair) -> None:
    pair.shop.do(ORDERS)
    pair.shop.do("INSERT INTO orders (ratio, price) VALUES (1.5, 1.25), (2.5, 1.50), (3.5, 2.75)")
    pair.read()
    pair.target.do(f"CREATE TABLE {pair.target.name}.orders (id bigint PRIMARY KEY, price numeric(8,1))")
    result = pair.write(auto_evolve="false", fields_whitelist="id,price")
    assert result.state is RunState.DONE
    assert [task.metrics["sink-values-lost-total"] for task in result.tasks] == [2]
