"""On MySQL every name of a connector compares by its bytes, in the tables as Airflow makes them anew and as the migrations do."""

import contextlib
import io
import re

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Table
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import CreateTable

from airflow_provider_connect.runtime.sql_mirror.migrations.versions import __file__ as versions
from airflow_provider_connect.runtime.sql_mirror.tables import metadata


def test_the_migrations_give_each_connector_column_a_binary_collation() -> None:
    script = io.StringIO()
    config = Config(output_buffer=script)
    config.set_main_option("script_location", str(versions).removesuffix("/versions/__init__.py"))
    config.set_main_option("sqlalchemy.url", "mysql://")
    with contextlib.redirect_stdout(script):
        command.upgrade(config, "head", sql=True)
    sql = script.getvalue()
    assert re.search(r"ALTER TABLE connect_agreement MODIFY connector VARCHAR\(250\) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", sql)


@pytest.mark.parametrize("table", [table for table in metadata.sorted_tables if "connector" in table.columns], ids=str)
def test_a_new_database_has_them_as_well(table: Table) -> None:
    sql = str(CreateTable(table).compile(dialect=mysql.dialect()))
    assert re.search(r"\bconnector VARCHAR\(250\) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL", sql)
