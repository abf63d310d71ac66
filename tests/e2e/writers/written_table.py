"""The table that is written to: how rows are made and changed in it. Knows nothing of threads, runs or topics."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg2

LOCK_MS = 300  # then a connection that waits for another's row gives up


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """``uri`` is libpq's. ``clock`` is what times are taken from: ``clock_timestamp()``, or ``now()``, the time at which the transaction
    began. ``step`` lies between two numbers. ``has_null_changes``: a row that was never changed has no time of its change.

    ``writer`` and ``word`` of a row never change, ``changes`` counts its changes.
    """

    uri: str
    name: str
    clock: str = "clock_timestamp()"
    step: int = 1
    has_null_changes: bool = False

    def make(self) -> None:
        """The table, and ``«name»_writers`` with a name for each writer."""
        self.do(
            f"CREATE TABLE {self.name} (id bigserial PRIMARY KEY, writer int NOT NULL, word text NOT NULL, changes int NOT NULL DEFAULT 0, "
            f"made timestamptz NOT NULL, changed timestamptz {'' if self.has_null_changes else 'NOT NULL'})"
        )
        self.do(f"ALTER SEQUENCE {self.name}_id_seq INCREMENT BY {self.step}")
        self.do(f"CREATE INDEX ON {self.name} (changed, id)")
        self.do(f"CREATE TABLE {self.name}_writers AS SELECT n AS writer, 'writer ' || n AS name FROM generate_series(0, 99) n")

    def do(self, sql: str) -> list[tuple[Any, ...]]:
        """One statement, committed at once; its rows."""
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            rows = cursor.fetchall() if cursor.description else []
            connection.commit()
            return rows

    def connect(self) -> Any:  # a psycopg2 connection
        return psycopg2.connect(self.uri, options=f"-c lock_timeout={LOCK_MS}")

    def insert(self, cursor: Any, writer: int, words: Sequence[str]) -> int:
        """New rows in one statement; the greatest of their numbers."""
        changed = "NULL" if self.has_null_changes else self.clock
        values = ", ".join(cursor.mogrify(f"(%s, %s, {self.clock}, {changed})", (writer, word)).decode() for word in words)
        cursor.execute(f"INSERT INTO {self.name} (writer, word, made, changed) VALUES {values} RETURNING id")
        return max(int(number) for (number,) in cursor.fetchall())

    def change(self, cursor: Any, first: int, count: int) -> int:
        """Change ``count`` rows from the number ``first`` on, by any writer; how many there were."""
        chosen = f"SELECT id FROM {self.name} WHERE id >= %s ORDER BY id LIMIT %s"
        cursor.execute(
            f"UPDATE {self.name} SET changes = changes + 1, changed = {self.clock} WHERE id = ANY (ARRAY({chosen}))", (first, count)
        )
        return int(cursor.rowcount)
