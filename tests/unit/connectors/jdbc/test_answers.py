"""Answers of a database to a question of ours, which comes from the API server too: one without end is cut off by name."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connectors.jdbc.database import adbc_database
from airflow_provider_connect.connectors.jdbc.database.adbc_database import AdbcDatabase
from airflow_provider_connect.connectors.jdbc.database.database_url import parse_url
from airflow_provider_connect.connectors.jdbc.database.sqlalchemy_database import SqlAlchemyDatabase
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths

ENDLESS = "WITH RECURSIVE n(i, t) AS (SELECT 1, 'x' UNION ALL SELECT i + 1, t FROM n) SELECT {} FROM n"


@pytest.mark.parametrize("driver", [AdbcDatabase, SqlAlchemyDatabase])
@pytest.mark.parametrize("columns", ["i", "i, t || hex(zeroblob(5000))"], ids=["many rows", "wide rows"])
def test_an_answer_without_end_is_cut_off(driver: Any, columns: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adbc_database, "MAX_ANSWER_BYTES", 2 << 20)
    sqlite3.connect(tmp_path / "x.db").close()
    database = driver(parse_url(f"jdbc:sqlite:{tmp_path}/x.db").within(AllowedPaths((str(tmp_path),))))
    with pytest.raises(ConnectException, match=r"returned more than 2 MiB \(\d+ rows so far\)"):
        database.rows(ENDLESS.format(columns))
    database.close()


@pytest.mark.parametrize("driver", [AdbcDatabase, SqlAlchemyDatabase])
def test_an_answer_is_whole(driver: Any, tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "x.db").close()
    database = driver(parse_url(f"jdbc:sqlite:{tmp_path}/x.db").within(AllowedPaths((str(tmp_path),))))
    assert database.rows("SELECT 1, 'x' UNION ALL SELECT 2, NULL") == [(1, "x"), (2, None)]
    database.close()
