"""Keys that PostgreSQL holds equal though they are written in different ways: random changes by JdbcSink, and the same by SQL."""

from __future__ import annotations

import random
from contextlib import closing

import psycopg2

from airflow_provider_connect.data.schema import STRING_SCHEMA
from airflow_provider_connect.dev.postgres_server import PostgresServer
from tests.e2e.chaos.tally import Tally
from tests.e2e.faults.oracle import Verdict
from tests.integration.jdbc.sinks import Reported, Sink, TargetDatabase
from tests.integration.jdbc.test_sink_equal_keys import CASE_INSENSITIVE, IN_TEXT, UPSERT, Change, put, random_changes

CHANGES = 1000
STATEMENTS = {
    "upsert": "INSERT INTO expected VALUES (%(key)s::{type}, %(text)s) ON CONFLICT (k) DO UPDATE SET text = EXCLUDED.text",
    "update": "UPDATE expected SET text = %(text)s WHERE k = %(key)s::{type}",
    "delete": "DELETE FROM expected WHERE k = %(key)s::{type}",
}


class KeyStorm:
    """Each table has a schema, a type of key and sizes of batches of its own, by its seed."""

    def __init__(self, postgres: PostgresServer, tally: Tally, seed: int) -> None:
        self._postgres, self._tally, self._seed = postgres, tally, seed

    def run(self, tables: int) -> None:
        for number in range(tables):
            if self._tally.is_over:
                return
            try:
                self._table(self._seed + number, sorted(IN_TEXT)[number % len(IN_TEXT)])
            except Exception as error:  # (a table whose changes cannot be made to the end is a violation too, and the others go on)
                self._tally.broken(f"keys, seed {self._seed + number}: {error!r}")

    def _table(self, seed: int, type: str) -> None:
        chance = random.Random(seed)
        mode = chance.choice(("upsert", "update"))
        address = f"postgresql://connect@127.0.0.1:{self._postgres.port}/postgres"
        TargetDatabase(address, "postgresql").run(f"CREATE SCHEMA keys_{seed}")
        target = TargetDatabase(f"{address}?currentSchema=keys_{seed}", "postgresql")
        target.run(*(CASE_INSENSITIVE if type == "ci" else ()))
        changes = random_changes(IN_TEXT[type], seed, count=CHANGES)
        if mode == "update":  # which brings no row back
            changes = [(key, text or "set") for key, text in changes]
        for table in ("notes", "expected"):
            target.run(f"CREATE TABLE {table} (k {type} PRIMARY KEY, text text)")
            target.run(*(f"INSERT INTO {table} VALUES ('{key}', 'first') ON CONFLICT DO NOTHING" for key in IN_TEXT[type]))
        self._by_sink(target, {**UPSERT, "insert.mode": mode}, changes, chance)
        self._by_sql(f"keys_{seed}", mode, type, changes)
        here, there = (set(target.rows(f"SELECT k::text, text FROM {table}")) for table in ("expected", "notes"))
        verdict = Verdict(sent=len(here), lost=len(here - there), doubled=len(there - here))
        self._tally.judged(f"keys of {type}, {mode}, seed {seed}", "exactly_once", verdict)

    def _by_sink(self, target: TargetDatabase, settings: dict[str, str], changes: list[Change], chance: random.Random) -> None:
        sink = Sink(target, {**settings, "batch.size": str(chance.choice((1, 10, 100, 1000)))}, reported=Reported())
        start = 0
        while start < len(changes):
            size = chance.randint(1, 200)
            put(sink, STRING_SCHEMA, changes[start : start + size])
            start += size
            if chance.random() < 0.2:
                sink.commit()
        sink.commit()
        sink.end()

    def _by_sql(self, schema: str, mode: str, type: str, changes: list[Change]) -> None:
        with closing(psycopg2.connect(self._postgres.uri())) as connection, connection, connection.cursor() as cursor:
            cursor.execute(f"SET search_path TO {schema}")
            for key, text in changes:
                cursor.execute(STATEMENTS["delete" if text is None else mode].format(type=type), {"key": key, "text": text})
