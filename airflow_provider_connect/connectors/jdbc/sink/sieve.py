"""Finding, among many rows, those that PostgreSQL refuses. Knows nothing of records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from airflow_provider_connect.connectors.jdbc.database.database_errors import RefusedException
from airflow_provider_connect.connectors.jdbc.database.table_name import TableName
from airflow_provider_connect.connectors.jdbc.sink.columns import rest_of
from airflow_provider_connect.connectors.jdbc.sink.hope import Hope
from airflow_provider_connect.connectors.jdbc.sink.settings import InsertMode
from airflow_provider_connect.connectors.jdbc.sink.stages import Stages, StagingDatabase, with_places
from airflow_provider_connect.connectors.jdbc.sink.statements import COUNTER, StageStatements, sieve_function, with_columns
from airflow_provider_connect.connectors.jdbc.sink.suspects import Suspects
from airflow_provider_connect.sdk.arrow import pa

Write = Callable[["pa.Table", StageStatements, Sequence[str], InsertMode], None]
"""Brings all of some rows, columns as COPY takes them, where they belong; takes nothing back."""


class Sieve:
    """First all rows but for the suspects are written as ever, then the suspects. If the former are all taken and the latter all refused,
    that is what writing each row by itself would have come to. Otherwise it is taken back, and a function in the database tries the rows
    in their order, some at a time.
    """

    def __init__(self, database: StagingDatabase, stages: Stages, write: Write) -> None:
        self._database = database
        self._stages = stages
        self._write = write
        self._suspects = Suspects(database, stages)
        self._hopes: dict[TableName, Hope] = {}

    def sift(self, rows: pa.Table, statements: StageStatements, keys: Sequence[str], mode: InsertMode) -> dict[int, str]:
        """Write the rows, which are made for COPY, but for those that are refused; why they are, by their places."""
        hope = self._hopes.setdefault(statements.table.name, Hope())
        if hope.takes_chance():
            try:
                with self._database.taken_back_if_refused("connect_rest"):
                    found = self._all_but_suspects(rows, statements, keys, mode)
            except RefusedException:
                hope.disappointed()
            else:
                hope.fulfilled()
                return found
        return self._in_order(rows, statements, keys, mode)

    def _all_but_suspects(self, rows: pa.Table, statements: StageStatements, keys: Sequence[str], mode: InsertMode) -> dict[int, str]:
        suspects = self._suspects.among(rows, statements, mode)
        rest = rows.take(rest_of(rows.num_rows, suspects)) if suspects else rows
        if rest.num_rows:
            self._write(rest, statements, keys, mode)
        found = self._in_order(rows.take(pa.array(suspects, pa.int64())), statements, keys, mode) if suspects else {}
        if len(found) < len(suspects):
            raise RefusedException("Some row is none that must be refused")
        return {suspects[place]: reason for place, reason in found.items()}

    def _in_order(self, rows: pa.Table, statements: StageStatements, keys: Sequence[str], mode: InsertMode) -> dict[int, str]:
        with self._stages.filled(with_places(rows), is_ordered=True) as stage:

            def text_of(name: str) -> str:
                self._database.execute(f"CREATE TEMPORARY SEQUENCE IF NOT EXISTS {COUNTER}")
                return sieve_function(name, stage, lambda some: statements.write(some, keys, mode), statements.dialect)

            sieve = self._stages.function(stage, statements.write(stage, keys, mode), text_of)
            found = self._database.rows(f"SELECT * FROM {sieve}({rows.num_rows})")
        if found and found[0][0] < 0:
            raise RefusedException("The rows of a stage do not lie in the order in which they came")
        return {place: with_columns(reason, statements.table, rows.column_names) for place, reason in found}
