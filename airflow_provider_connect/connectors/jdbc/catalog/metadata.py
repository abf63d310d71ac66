"""Which tables a database has, and which columns a table has. Asks the catalog only: reads no rows of tables and changes nothing."""

from __future__ import annotations

from collections.abc import Collection

from airflow_provider_connect.connectors.jdbc.catalog import inspected_catalog, mysql_catalog, postgresql_catalog, sqlite_catalog
from airflow_provider_connect.connectors.jdbc.catalog.column import TABLE, Column, Table
from airflow_provider_connect.connectors.jdbc.database.database import Database
from airflow_provider_connect.connectors.jdbc.database.database_url import MARIADB, MYSQL, POSTGRESQL, SQLITE, DatabaseUrl
from airflow_provider_connect.connectors.jdbc.database.sqlalchemy_database import SqlAlchemyDatabase
from airflow_provider_connect.connectors.jdbc.database.table_name import TableName

_CATALOGS = {POSTGRESQL: postgresql_catalog, SQLITE: sqlite_catalog, MYSQL: mysql_catalog, MARIADB: mysql_catalog}


def read_tables(database: Database, url: DatabaseUrl, types: Collection[str] = (TABLE,)) -> list[Table]:
    """The tables of these types (JDBC's words, in any case) that the user may read, in the order of their names; none of the system's.

    A partitioned table of PostgreSQL is one table; its partitions are not listed.
    """
    wanted = {word.upper() for word in types}
    catalog = _CATALOGS.get(url.dialect)
    if catalog is not None:
        found = catalog.tables(database)
    else:
        assert isinstance(database, SqlAlchemyDatabase)
        found = inspected_catalog.tables(database)
    return sorted((table for table in found if table.type in wanted), key=lambda table: table.name.parts)


def read_columns(database: Database, url: DatabaseUrl, table: TableName) -> list[Column]:
    """The columns of a table in their order; none at all where there is no such table."""
    catalog = _CATALOGS.get(url.dialect)
    if catalog is not None:
        found: list[Column] = catalog.columns(database, table)
        return found
    assert isinstance(database, SqlAlchemyDatabase)
    return inspected_catalog.columns(database, table)
