"""The transactions that are writing to a table of PostgreSQL, and whether those of one moment have ended. Other databases tell nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable

from airflow_provider_connect.connectors.jdbc.catalog.column import sql_text
from airflow_provider_connect.connectors.jdbc.database.database import Database
from airflow_provider_connect.connectors.jdbc.database.database_url import POSTGRESQL
from airflow_provider_connect.connectors.jdbc.source.row_source import RowSource

log = logging.getLogger(__name__)

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


class OpenTransactions:
    """Those that were writing to one table when it was first asked for them. Whoever notes how far it reads before it asks, and reads when
    they have ended, misses no row. The ranges of a table share them, since their bounds were noted together.

    ``most_ms``: longer than that nobody should wait; 0: at all. ``now`` tells seconds.
    """

    def __init__(self, most_ms: int, now: Callable[[], float]) -> None:
        self._most_ms = most_ms
        self._now = now
        self._writers: frozenset[str] | None = None if most_ms else frozenset()
        self._deadline = 0.0
        self._is_told = False

    def have_ended(self, database: Database, source: RowSource) -> bool:
        """Whether none of them is left. Asks the database, until that is so."""
        if self._writers is not None and not self._writers:
            return True
        writing = open_writers(database, source)
        if self._writers is None:
            self._writers = writing
            self._deadline = self._now() + self._most_ms / 1000
        self._writers &= writing
        return not self._writers

    def take_too_long(self, source: RowSource) -> bool:
        """Whether some have not ended in time, so that the source is left to the next run. Logged once."""
        if self._now() < self._deadline:
            return False
        if not self._is_told:
            self._is_told = True
            name, seconds = source.name.capitalize(), self._most_ms / 1000
            log.warning("%s is left to the next run: transactions have been writing to it for %g s", name, seconds)
        return True
