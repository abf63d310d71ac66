"""An open database: small answers as Python rows, large ones as Arrow batches. Knows SQL as text only: no dialect, no offsets.

PostgreSQL and SQLite by their ADBC drivers, whose rows are columns from the wire on; everything else by SQLAlchemy. ``rows`` and
``has_row`` need no pyarrow, so that a check inside an Airflow task stays cheap.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_connect.connectors.jdbc.adbc_database import AdbcDatabase
from airflow_provider_connect.connectors.jdbc.database_url import DatabaseUrl
from airflow_provider_connect.connectors.jdbc.sqlalchemy_database import SqlAlchemyDatabase

if TYPE_CHECKING:
    from airflow_provider_connect.sdk.arrow import pa


class Database(Protocol):
    """One connection, for one thread; only ``cancel`` may come from another.

    Raises RetriableException when the connection cannot be had or was lost, StatementException for a statement that is refused.
    """

    def rows(self, sql: str) -> list[tuple[Any, ...]]:  # Any: whatever the columns hold
        """All rows of a small answer."""

    def has_row(self, sql: str) -> bool:
        """Whether the answer of a query has a row."""

    def execute(self, sql: str) -> None:
        """Run a statement that has no answer."""

    def batches(self, sql: str, rows: int) -> Iterator[pa.RecordBatch]:
        """The answer piece by piece, as the driver has it or about ``rows`` at a time. Nothing else may be asked until it is used up or
        the connection closed."""

    def cancel(self) -> None:
        """Make what another thread waits for end soon, with an error."""

    def close(self) -> None:
        """Let go of the connection, whatever state it is in. May come twice."""


def open_database(url: DatabaseUrl) -> Database:
    """Connect. Raises ConfigException where the database refuses user, password or name, RetriableException where nobody answers."""
    return AdbcDatabase(url) if url.has_adbc else SqlAlchemyDatabase(url)
