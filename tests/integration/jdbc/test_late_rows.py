"""Transactions that commit late, on real servers: an overlap brings their rows once, and no other twice."""

from contextlib import closing

import psycopg2
import pytest

from tests.integration.jdbc.sinks import TargetDatabase
from tests.integration.jdbc.sources import Source

MODES = {
    "incrementing": {"incrementing.overlap": "1000"},
    "timestamp": {"timestamp.overlap.ms": "3600000"},
    "timestamp+incrementing": {"timestamp.overlap.ms": "3600000"},
}


@pytest.mark.parametrize("mode", MODES)
def test_rows_of_a_transaction_that_the_source_does_not_wait_for(postgresql_target: TargetDatabase, mode: str) -> None:
    target = postgresql_target
    target.run(
        "CREATE TABLE orders (id numeric(20) PRIMARY KEY, word text, at timestamptz NOT NULL DEFAULT clock_timestamp())",
        "INSERT INTO orders SELECT n, 'x', clock_timestamp() - interval '1 minute' + n * interval '1.000001 second' "
        "FROM generate_series(1, 20) n",
    )
    settings = {"mode": mode, "incrementing.column.name": "id", "timestamp.column.name": "at", "open.transactions.wait.ms": "0"}
    source = Source(target, {**settings, **MODES[mode], "batch.max.rows": "7"})
    with closing(psycopg2.connect(target.url.partition("?")[0])) as late, late.cursor() as cursor:
        cursor.execute(f"SET search_path TO {target.schema}")
        cursor.execute("INSERT INTO orders VALUES (21, 'late', clock_timestamp() - interval '10.0000005 second')")
        target.run("INSERT INTO orders VALUES (22, 'early', clock_timestamp() - interval '5 second')")
        assert [row["id"] for row in source.run()] == [*range(1, 21), 22]
        late.commit()
    assert source.has_new_data()
    assert [(row["id"], row["word"]) for row in source.run()] == [(21, "late")]
    assert (source.has_new_data(), source.run()) == (False, [])


@pytest.mark.parametrize("mode", MODES)
def test_late_rows_of_mariadb(mariadb_target: TargetDatabase, mode: str) -> None:
    mariadb_target.run(
        "CREATE TABLE orders (id bigint unsigned PRIMARY KEY, word varchar(9), at datetime(6) NOT NULL)",
        "INSERT INTO orders VALUES (1, 'x', '2026-01-01 00:00:01.000001'), (2, 'x', '2026-01-01 00:00:01.000002')",
        "INSERT INTO orders VALUES (5, 'x', '2026-01-01 00:00:05')",
    )
    settings = {"mode": mode, "incrementing.column.name": "id", "timestamp.column.name": "at"}
    source = Source(mariadb_target, {**settings, **MODES[mode]})
    assert [row["id"] for row in source.run()] == [1, 2, 5]
    assert source.has_new_data() is False
    mariadb_target.run("INSERT INTO orders VALUES (3, 'late', '2026-01-01 00:00:01.000003'), (6, 'new', '2026-01-01 00:00:06')")
    assert source.has_new_data()
    assert [row["id"] for row in source.run()] == [3, 6]
    assert (source.has_new_data(), source.run()) == (False, [])
