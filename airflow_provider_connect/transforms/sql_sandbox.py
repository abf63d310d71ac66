"""A sandboxed DuckDB for SqlTransform: in memory, with one thread, without the host's files, network, extensions, variables and settings.

Knows nothing of batches. Imported only when a statement is checked or run."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import duckdb

from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.errors import ConnectException, DataException

_SETTINGS: Final[dict[str, str | bool | int | float | list[str]]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
    "threads": "1",
    "memory_limit": "64MB",
    "max_expression_depth": "200",
}


class Sandbox:
    """One database. The module ``sql_query`` checks its statements first; the settings here are the second line of defence."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(":memory:", config=_SETTINGS)
        for statement in ("SET TimeZone = 'UTC'", "SET lock_configuration = true"):  # the second statement locks all settings
            self._connection.execute(statement).fetchall()

    def tree_of(self, text: str) -> dict[str, Any]:  # Any: DuckDB's JSON
        """The syntax tree of a statement. For an invalid statement, a tree with ``error`` and ``error_message``."""
        try:
            tree: dict[str, Any] = json.loads(self._value("SELECT json_serialize_sql(?)", text))
        except (duckdb.Error, RecursionError) as error:
            return {"error": True, "error_message": f"the statement cannot be read ({_first_line(error)})"}
        return tree

    def text_of(self, tree: dict[str, Any]) -> str:
        """The statement of a syntax tree."""
        return self._value("SELECT json_deserialize_sql(?)", json.dumps(tree))

    def rows(self, statement: str, table: str, content: pa.Table, timeout_ms: int) -> pa.Table:
        """The result of a statement over ``content``, in the order of the rows. The statement refers to ``content`` as ``table``.

        Raises DataException if the statement fails, takes too long or needs too much memory."""
        try:
            self._connection.register(table, content)
            with self._interrupted_after(timeout_ms / 1000):
                return self._connection.sql(statement).to_arrow_table()
        except duckdb.InterruptException as error:
            raise DataException(f"SqlTransform: the statement took more than timeout.ms = {timeout_ms} ms") from error
        except (duckdb.InternalException, duckdb.FatalException) as error:
            raise ConnectException(f"SqlTransform: DuckDB failed: {_first_line(error)}") from error
        except (duckdb.Error, UnicodeDecodeError) as error:
            raise DataException(f"SqlTransform: {_first_line(error)}") from error

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    @contextmanager
    def _interrupted_after(self, seconds: float) -> Iterator[None]:
        """Interrupt the block after ``seconds``, repeatedly, because DuckDB ignores an interruption before a statement starts."""
        is_over = threading.Event()

        def watch() -> None:
            while not is_over.wait(seconds):
                self._connection.interrupt()

        watching = threading.Thread(target=watch, name="sql-timeout", daemon=True)
        watching.start()
        try:
            yield
        finally:
            is_over.set()
            watching.join()  # so that the thread cannot interrupt the next statement

    def _value(self, query: str, argument: str) -> str:
        return str(self._connection.execute(query, [argument]).fetchall()[0][0])  # all: an unfinished result blocks the next statement


def _first_line(error: BaseException) -> str:
    """The first line of an error. DuckDB's excerpt of the statement is omitted, because it is not the author's text.

    In a message, DuckDB may cut off a value within a character, so that the message is not valid UTF-8.
    """
    text = error.object.decode(errors="replace") if isinstance(error, UnicodeDecodeError) else str(error)
    return next(iter(text.splitlines()), type(error).__name__)
