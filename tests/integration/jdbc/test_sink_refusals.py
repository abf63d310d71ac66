"""Bad records among many: what is left out, and what becomes of the others, is the same as if each record were written alone."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence, Set
from contextlib import closing
from typing import Any

import pytest

from airflow_provider_connect.connectors.jdbc.catalog.column import TableName
from airflow_provider_connect.connectors.jdbc.sink.postgresql_stages import COUNTER, ROW_NUMBER, StageStatements, row_function
from airflow_provider_connect.connectors.jdbc.sink.settings import InsertMode
from airflow_provider_connect.data.schema import INT64_SCHEMA, STRING_SCHEMA, Schema
from tests.integration.jdbc.sinks import UPSERT, Reported, Sink, TargetDatabase, opened
from tests.samples import sample

ROW = Schema.struct({"id": INT64_SCHEMA, "size": INT64_SCHEMA.as_optional(), "text": STRING_SCHEMA.as_optional()})
Row = tuple[int, int | None, str | None]
COUNT = 100
MODES = {
    "insert": {},
    "insert and delete": {**UPSERT, "insert.mode": "insert", "delete.enabled": "true"},
    "upsert": {**UPSERT, "delete.enabled": "true"},
    "update": {"insert.mode": "update", "pk.mode": "record_key"},
}
TABLE = "CREATE TABLE {table} (id bigint PRIMARY KEY, size smallint NOT NULL, text varchar(20), CHECK (size <> 13))"
WRONG: Mapping[str, Row] = {
    "a key that is there": (1000, 1, "there"),
    "null": (5001, None, "null"),
    "check": (5002, 13, "check"),
    "range": (5003, 40_000, "range"),
    "text too long": (5004, 1, "x" * 21),
    "zero byte": (5005, 1, "\0"),
    "a key twice": (7, 1, "again"),
    "blanks at the end, which are cut off": (5006, 1, "x" + " " * 25),
}


def good(count: int = COUNT) -> list[Row]:
    return [(number, number % 10, f"note {number}") for number in range(count)]


def with_wrong(targets: Mapping[int, str]) -> list[Row]:
    """Good rows, and bad ones at these indexes."""
    rows = good()
    for target, name in targets.items():
        rows[target] = WRONG[name]
    return rows


def in_turn(targets: Sequence[int]) -> dict[int, str]:
    return dict(zip(targets, list(WRONG) * COUNT, strict=False))


WHERE: Mapping[str, Mapping[int, str]] = {
    "first": {0: "check"},
    "last": {COUNT - 1: "check"},
    "adjacent": in_turn(range(50, 64)),
    "here and there": in_turn(range(3, COUNT, 11)),
    "all of them": dict.fromkeys(range(COUNT), "null"),
    "every other": dict.fromkeys(range(1, COUNT, 2), "check"),
    "none": {},
}


def never(*_: object) -> None:
    raise AssertionError("the server did not name the rows that it refused")


class Both:
    """The same records for two tables: many at once into ``notes``, one by one into ``single``."""

    def __init__(self, target: TargetDatabase, mode: str, table: str = TABLE, *, names_all: bool = True) -> None:
        """``names_all``: PostgreSQL names every row that it refuses, so that nothing is bisect_failures."""
        self.target = target
        for name in ("notes", "single"):
            target.run(*(text.format(table=name) for text in table.split(";")))
            target.run(f"INSERT INTO {name} (id, size, text) VALUES (1000, 1, '[]')")
        self.reported = {"notes": Reported(), "single": Reported()}
        self.sinks = {
            name: Sink(target, {**MODES[mode], "table.name.format": name, "batch.size": size}, (name,), reported=self.reported[name])
            for name, size in (("notes", "1000"), ("single", "1"))
        }
        if target.dialect == "postgresql" and names_all:
            for sink in self.sinks.values():
                sink.task._bisected = never  # type: ignore[method-assign, assignment]

    def fill(self, text: str, first: int = 0) -> None:
        """Give both tables a row for each number from ``first`` on."""
        numbers = f"SELECT n, 1, '{text}' FROM generate_series({first}, {COUNT}) n"
        self.target.run(*(f"INSERT INTO {name} (id, size, text) {numbers}" for name in self.sinks))

    def write(self, rows: Sequence[Row | int], **more: Any) -> None:
        """Rows, and keys of rows to delete."""
        for name, sink in self.sinks.items():
            values = [None if isinstance(row, int) else dict(zip(("id", "size", "text"), row, strict=True)) for row in rows]
            keys = [{"id": row if isinstance(row, int) else row[0]} for row in rows]
            sink.put(values, ROW, keys=keys, topic=name, **more)
            sink.commit()

    def agree(self, unseen: Set[int] = frozenset()) -> set[int]:
        """Compare; the offsets of what was refused. ``unseen`` are those that only come to light where each is written."""
        columns = "id, CAST(size AS text) AS size, CAST(text AS text) AS text"
        rows = {name: sorted(self.target.rows(f"SELECT {columns} FROM {name}"), key=repr) for name in self.sinks}
        assert rows["notes"] == rows["single"]
        assert self.reported["notes"].errors.keys() == self.reported["single"].errors.keys() - unseen
        for sink in self.sinks.values():
            sink.end()
        return set(self.reported["notes"].errors)


@pytest.mark.parametrize("mode", sample(MODES, 0, 2))
@pytest.mark.parametrize("where", sample(WHERE, *range(0, len(WHERE), 2)))
def test_bad_records_are_those_that_would_be_refused_alone(postgresql_target: TargetDatabase, mode: str, where: str) -> None:
    both = Both(postgresql_target, mode, names_all="zero byte" not in WHERE[where].values())  # which COPY refuses
    if mode == "update":
        both.fill("old")
    both.write(with_wrong(WHERE[where]))
    both.write([(2000 + number, size, text) for number, size, text in good(20)])
    bad = both.agree()
    wanted = {target for target, name in WHERE[where].items() if name.startswith(("null", "check", "range", "text", "zero"))}
    if mode.startswith("insert"):
        wanted |= {target for target, name in WHERE[where].items() if name.startswith("a key") and (name, target) != ("a key twice", 7)}
    assert wanted <= bad if mode != "update" else True  # no row has the key of some


def test_the_same_in_a_database_that_names_no_rows(sqlite_target: TargetDatabase) -> None:
    both = Both(sqlite_target, "upsert", TABLE.replace("varchar(20)", "text CHECK (length(text) <= 20)"))
    both.write([row for row in with_wrong(WHERE["here and there"]) if row[2] != "\0"])
    assert both.agree()


def test_an_earlier_change_counts_where_the_last_is_refused(postgresql_target: TargetDatabase) -> None:
    both = Both(postgresql_target, "upsert")
    both.write([(1, 1, "a"), (2, 1, "a"), (1, 2, "b"), (1, 13, "c"), (2, 13, "b"), (2, 2, "c"), 1000, (1000, 13, "new"), (3, 1, "a")])
    both.write([(1, 3, "d"), 1, (1, 13, "e"), (4, 1, "a"), (4, 13, "b"), 3, (3, 13, "c"), (3, 3, "d")])
    assert both.agree(unseen={4, 15}) == {3, 7, 11, 13}  # a later change of the same key is good


PLAIN = "CREATE TABLE {table} (id bigint PRIMARY KEY, size smallint, text text)"
WHEN = {
    "foreign key": "CREATE TABLE {table}_sizes (size smallint PRIMARY KEY);INSERT INTO {table}_sizes SELECT generate_series(0, 9);"
    "CREATE TABLE {table} (id bigint PRIMARY KEY, size smallint REFERENCES {table}_sizes, text text)",
    "unique at the end of a statement": "CREATE TABLE {table} (id bigint, size smallint CHECK (size <> 13), text text, "
    "UNIQUE (id) DEFERRABLE INITIALLY IMMEDIATE)",
    "trigger after each row": f"{PLAIN};CREATE TRIGGER refuse AFTER INSERT OR UPDATE ON {{table}} FOR EACH ROW EXECUTE FUNCTION refuse()",
    "trigger before each row": f"{PLAIN};CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON {{table}} FOR EACH ROW EXECUTE FUNCTION refuse()",
    "column that is cast": "CREATE TABLE {table} (id bigint PRIMARY KEY, size smallint CHECK (size <> 13), text json)",
    "check that cannot be asked for": "CREATE TABLE {table} (id bigint PRIMARY KEY, size smallint CHECK (1 / (13 - size) < 9), text text)",
    "digits": "CREATE TABLE {table} (id bigint PRIMARY KEY, size numeric(3, 2) CHECK (size <> 13), text text)",
    "keys of several columns": "CREATE TABLE {table}_sizes (size int, two int, PRIMARY KEY (two, size));"
    "INSERT INTO {table}_sizes SELECT n, 2 FROM generate_series(0, 9) n; CREATE TABLE {table} (id bigint PRIMARY KEY, size int, text text, "
    "two int DEFAULT 2, UNIQUE (size, id, text), FOREIGN KEY (two, size) REFERENCES {table}_sizes (two, size))",
    "columns named as the server's own": "CREATE TABLE {table} (id bigint PRIMARY KEY, size smallint CHECK (size <> 13), text text, "
    '"first" int, connect_row int, total int, row_index int)',
}
REFUSE = """CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
IF NEW.size = 13 THEN RAISE check_violation USING MESSAGE = 'not thirteen'; END IF; RETURN NEW; END $$"""


@pytest.mark.parametrize("mode", sample(["insert", "upsert", "upsert, some are there", "update"], 0, 2))
@pytest.mark.parametrize("kind", sample(WHEN, *range(0, len(WHEN), 2)))
def test_whenever_the_database_checks_a_row(postgresql_target: TargetDatabase, mode: str, kind: str) -> None:
    mode, _, filled = mode.partition(", ")
    if mode == "upsert" and "unique" in kind:
        return  # such a constraint is none to upsert by
    postgresql_target.run(REFUSE)
    both = Both(postgresql_target, mode, WHEN[kind])
    if mode == "update" or filled:
        both.fill("[]", 30 if filled else 0)
    wrong = {11, 12, 50, COUNT - 1}
    both.write([(id, 13 if id in wrong else size, f'["{text}"]') for id, size, text in good()])
    assert both.agree() == wrong
    assert all(
        re.search("violates|not thirteen|division by zero|numeric field overflow", error)
        for error in both.reported["notes"].errors.values()
    )


def test_a_row_that_refers_to_what_is_not_there_is_found(postgresql_target: TargetDatabase) -> None:
    table = "CREATE TABLE {table}_sizes (size smallint PRIMARY KEY);INSERT INTO {table}_sizes SELECT generate_series(0, 9);"
    both = Both(postgresql_target, "insert", f"{table}{PLAIN.replace('size smallint', 'size smallint REFERENCES {table}_sizes')}")
    both.write([(id, None if id % 10 == 3 else size, text) for id, size, text in good()])
    both.write([(1000 + id, 77 if id % 10 == 3 else size, text) for id, size, text in good()])
    assert both.agree() == {100, *range(103, 200, 10)}


def test_rows_that_lie_in_another_order_are_left_alone(postgresql_target: TargetDatabase) -> None:
    postgresql_target.run(PLAIN.format(table="notes"))
    with closing(opened(postgresql_target)) as store:
        table = store.read_table(TableName("notes"))
        assert table is not None
        statements = StageStatements(store.dialect, table, ["id"], ())
        rows = "VALUES (1::bigint, 0), (2, 2), (3, 1)"
        store.execute(f"CREATE TEMPORARY TABLE stage AS SELECT * FROM ({rows}) v (id, {ROW_NUMBER})")
        store.execute(f"CREATE TEMPORARY SEQUENCE {COUNTER}")
        store.execute(row_function("pg_temp.row_by_row", "stage", statements, (), InsertMode.INSERT))
        assert store.rows("SELECT row_index FROM pg_temp.row_by_row(3)") == [(-1,)]
        assert store.rows("SELECT id FROM notes") == []


def test_rows_of_any_length_are_blamed_for_nothing_of_their_neighbours(postgresql_target: TargetDatabase) -> None:
    chance = random.Random(7)
    postgresql_target.run("CREATE TABLE notes (id bigint PRIMARY KEY, size bigint CHECK (size <> 13), text text)")
    reported = Reported()
    sink = Sink(postgresql_target, {**UPSERT, "batch.size": "30000"}, reported=reported)
    for start in range(0, 150_000, 30_000):
        bad = range(start + 998, start + 30_000, 1000)
        texts = ["x" * chance.choice((0, 3, 30, 200, 900)) for _ in range(30_000)]
        values = [{"id": id, "size": 13 if id in bad else 1, "text": text} for id, text in enumerate(texts, start)]
        sink.put(values, ROW, keys=[{"id": value["id"]} for value in values])
        sink.commit()
    sink.end()
    assert list(reported.errors) == list(range(998, 150_000, 1000))
