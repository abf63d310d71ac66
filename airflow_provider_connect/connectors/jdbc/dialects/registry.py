"""The products that have a dialect. A new product is a module next to this one and a line here."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from airflow_provider_connect.connectors.jdbc.dialects.dialect import Dialect
from airflow_provider_connect.connectors.jdbc.dialects.mysql import Mariadb, Mysql
from airflow_provider_connect.connectors.jdbc.dialects.oracle import Oracle
from airflow_provider_connect.connectors.jdbc.dialects.postgresql import Postgresql
from airflow_provider_connect.connectors.jdbc.dialects.sqlite import Sqlite
from airflow_provider_connect.connectors.jdbc.dialects.sqlserver import SqlServer

DIALECTS: Final[tuple[Dialect, ...]] = (
    Postgresql(),
    Sqlite(),
    Mysql(),
    Mariadb(),
    Oracle(),
    SqlServer(),
)
_BY_NAME: Final = {name: dialect for dialect in DIALECTS for name in (dialect.name, *dialect.aliases)}


def dialect_of(name: str, *, is_quoting: bool = True) -> Dialect:
    """The dialect of a product, by its name in a URL. Standard SQL for an unknown product."""
    return replace(_BY_NAME.get(name) or Dialect(name), is_quoting=is_quoting)
