"""The transactions that are writing to a table of PostgreSQL. Waits for nothing, and sees nothing of other databases."""

from __future__ import annotations

from airflow_provider_connect.connectors.jdbc.column import sql_text
from airflow_provider_connect.connectors.jdbc.database import Database
from airflow_provider_connect.connectors.jdbc.database_url import POSTGRESQL
from airflow_provider_connect.connectors.jdbc.row_source import RowSource

_WRITERS = """
SELECT DISTINCT l.virtualtransaction::text FROM pg_catalog.pg_locks l
WHERE l.locktype = 'relation' AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
  AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
  AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
  AND l.relation IN (SELECT {table}::regclass UNION SELECT relid FROM pg_catalog.pg_partition_tree({table}::regclass))
"""


def open_writers(database: Database, source: RowSource) -> frozenset[str]:
    """The transactions that hold a lock of writers on the table now; none for a view, a query, or another product.

    A row's number or time is taken while its transaction holds that lock. So when those that held it at some moment have ended, no row
    can come any more whose number was taken before that moment.
    """
    if source.dialect.name != POSTGRESQL or not source.is_stored:
        return frozenset()
    return frozenset(name for (name,) in database.rows(_WRITERS.format(table=sql_text(source.place))))
