"""Temporary tables of one PostgreSQL connection, which rows pass on their way, and temporary functions that look at these."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from airflow_provider_connect.connectors.jdbc.database.database import Database
from airflow_provider_connect.connectors.jdbc.database.dialect import Dialect
from airflow_provider_connect.connectors.jdbc.sink.statements import PLACE
from airflow_provider_connect.connectors.jdbc.sink.wire import stage_type
from airflow_provider_connect.sdk.arrow import pa
from airflow_provider_connect.sdk.columns import row_numbers

_MOST_REMAINS: Final = 20_000  # deleted rows of a temporary table, which each statement passes; TRUNCATE makes new files each time


class StagingDatabase(Database, Protocol):
    """A PostgreSQL that takes columns."""

    dialect: Dialect

    def copy_to_stage(self, stage: str, rows: pa.Table) -> None:
        """Add rows to a temporary table of this connection."""

    def taken_back_if_refused(self, savepoint: str) -> contextlib.AbstractContextManager[None]:
        """What is done in it is taken back where an exception ends it, and the transaction goes on. A name for each depth."""


def with_places(rows: pa.Table) -> pa.Table:
    """The rows with the column ``PLACE``."""
    return rows.append_column(PLACE, row_numbers(rows.num_rows).cast(pa.int32()))


class Stages:
    """Made when they are first needed, for the columns and the texts that somebody asks for; used again after that."""

    def __init__(self, database: StagingDatabase) -> None:
        self._database = database
        self._made: dict[tuple[object, ...], str] = {}
        self._remains: dict[str, int] = {}

    def noted(self) -> Mapping[tuple[object, ...], str]:
        """What there is now, for ``restore`` when the transaction goes back to here."""
        return dict(self._made)

    def restore(self, noted: Mapping[tuple[object, ...], str]) -> None:
        self._made = dict(noted)

    @contextlib.contextmanager
    def filled(self, rows: pa.Table, *, is_ordered: bool = False) -> Iterator[str]:
        """The rows in a table, by themselves. ``is_ordered``: in their order, since PostgreSQL looks for no room in between where a table
        was truncated in the same transaction."""
        signature = is_ordered, *((field.name, stage_type(field)) for field in rows.schema)
        name = self._made.get(signature)
        if name is None:
            name = f"connect_stage_{len(self._made)}"
            columns = ", ".join(f"{self._database.dialect.quoted(field.name)} {stage_type(field)}" for field in rows.schema)
            self._database.execute(f"DROP TABLE IF EXISTS pg_temp.{name}")
            self._database.execute(f"CREATE TEMPORARY TABLE {name} ({columns}) ON COMMIT DELETE ROWS")
            self._made[signature] = name
        if is_ordered:
            self._database.execute(f"TRUNCATE pg_temp.{name}")
        self._database.copy_to_stage(name, rows)
        yield f"pg_temp.{name}"
        if not is_ordered:
            self._empty(name, rows.num_rows)

    def function(self, stage: str, statement: str, text_of: Callable[[str], str]) -> str:
        """The name of a function for one stage and what it is to do there. ``text_of`` gives the statement that makes it."""
        signature = stage, statement
        if signature not in self._made:
            name = self._made[signature] = f"pg_temp.connect_function_{len(self._made)}"
            self._database.execute(text_of(name))
        return self._made[signature]

    def _empty(self, stage: str, rows: int) -> None:
        self._remains[stage] = self._remains.get(stage, 0) + rows
        if self._remains[stage] < _MOST_REMAINS:
            self._database.execute(f"DELETE FROM pg_temp.{stage}")
        else:
            self._database.execute(f"TRUNCATE pg_temp.{stage}")
            self._remains[stage] = 0
