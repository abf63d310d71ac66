"""A table that another connection alters while a source is about to read it."""

from collections.abc import Callable

import pytest

from airflow_provider_connect.connectors.jdbc.database.database import Database
from airflow_provider_connect.connectors.jdbc.source.row_reader import RowReader

BEFORE, BETWEEN = "before the columns are read again", "between that and the statement"


def change_once(monkeypatch: pytest.MonkeyPatch, instant: str, change: Callable[[], object]) -> None:
    """Make the ``change`` at that instant of the next reader's work."""
    reread = RowReader._reread_columns

    def reread_changed(reader: RowReader, database: Database) -> bool:
        monkeypatch.undo()
        if instant == BEFORE:
            change()
        is_other = reread(reader, database)
        if instant == BETWEEN:
            change()
        return is_other

    monkeypatch.setattr(RowReader, "_reread_columns", reread_changed)
