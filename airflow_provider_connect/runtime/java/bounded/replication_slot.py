"""A replication slot of PostgreSQL, accessed from outside the JVM. Queries its position and whether it contains changes, and advances it
past WAL without changes.

Host, login and names come from the config of a Debezium connector (``database_server``). Knows nothing of the JVM or of Connect.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl
from airflow_provider_connect.connectors.jdbc.dialects.postgresql import Postgresql
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.java.bounded.database_server import (
    CONNECT_SECONDS,
    PORT,
    DatabaseServer,
    Within,
    non_empty_settings,
    server_address,
)

SLOT: Final = "slot.name"
PUBLICATION: Final = "publication.name"
_SSL_MODE: Final = "database.sslmode"
_DEFAULTS: Final = {SLOT: "debezium", PUBLICATION: "dbz_publication", PORT: "5432", _SSL_MODE: "prefer"}
_SSL_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_SLOT: Final = re.compile(r"[a-z0-9_]{1,63}")
_PUBLICATION: Final = re.compile(r"[A-Za-z0-9_]{1,63}")
_STATEMENT_SECONDS: Final = 10
_MOST_ROWS: Final = 2_000_000
_MESSAGES_FROM: Final = 140000  # since this version, pgoutput sends messages of pg_logical_emit_message, and Debezium requests them
_FLUSH_SECONDS: Final = 3.0
_PAGE_HEADERS: Final = (24, 40)
"""The first record of a page begins after the page's header. The record before it ends at the page's start."""
_TABLE: Final = (
    "CASE WHEN chr(get_byte(data, 0)) IN ('I', 'U', 'D') THEN "
    "(get_byte(data, 1)::bigint << 24) + (get_byte(data, 2) << 16) + (get_byte(data, 3) << 8) + get_byte(data, 4) END"
)
"""The id of the table whose row a pgoutput message carries."""
_POSITION: Final = "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END"
_INSERTED: Final = "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END"
_FLUSHED: Final = "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END"


@dataclass(frozen=True, slots=True)
class SlotState:
    """``held_bytes`` is the WAL that the server retains for the slot. None: the server no longer retains WAL for it. The slot's reader has
    acknowledged everything up to ``confirmed``."""

    plugin: str
    is_active: bool
    held_bytes: int | None
    confirmed: int


@dataclass(frozen=True, slots=True)
class RetainedWal:
    """The WAL that ``server`` retains for ``slot``. ``held_bytes`` is as in ``SlotState``. ``limit`` is the server's
    ``max_slot_wal_keep_size``, -1 for no limit."""

    server: str
    slot: str
    held_bytes: int | None
    limit: str


class ReplicationSlot:
    """The slot of a Debezium connector with this ``config``, whose variables are resolved. Connects at the first query."""

    def __init__(self, config: Mapping[str, str], within: Within) -> None:
        """Raises ConfigException for a refused host, port or name."""
        given = non_empty_settings(config, _DEFAULTS)
        self._server = DatabaseServer(_url(given), within, [f"SET statement_timeout = {_STATEMENT_SECONDS * 1000}"])
        self._name = _matching(given, SLOT, _SLOT, "lower-case letters, digits and underscores")
        self._publication = given[PUBLICATION]

    def position(self) -> int:
        """The server's current position in its WAL."""
        return int(self._server.row(f"SELECT ({_POSITION} - '0/0'::pg_lsn)::bigint")[0])

    def state(self) -> SlotState | None:
        """None: the slot does not exist."""
        found = self._server.rows(
            f"SELECT plugin::text, active::int, ({_POSITION} - restart_lsn)::bigint, (confirmed_flush_lsn - '0/0'::pg_lsn)::bigint "
            f"FROM pg_replication_slots WHERE slot_name = '{self._name}'"
        )
        if not found:
            return None
        plugin, is_active, held, confirmed = found[0]
        return SlotState(str(plugin), bool(is_active), None if held is None else int(held), int(confirmed or 0))

    def retained_wal(self) -> RetainedWal | None:
        """None: the slot does not exist."""
        state = self.state()
        if state is None:
            return None
        (limit,) = self._server.row("SELECT coalesce(current_setting('max_slot_wal_keep_size', true), '-1')")
        return RetainedWal(self._server.url.address, self._name, state.held_bytes, str(limit))

    def passed(self, position: int) -> tuple[bool, bool]:
        """Whether the slot's reader has received everything up to ``position``, and whether the reader has acknowledged all of that."""
        found = self._server.rows(
            f"SELECT coalesce(write_lsn >= {_lsn(position)}, false)::int, coalesce(flush_lsn >= {_lsn(position)}, false)::int "
            f"FROM pg_replication_slots JOIN pg_stat_replication ON pid = active_pid WHERE slot_name = '{self._name}'"
        )
        return (bool(found[0][0]), bool(found[0][1])) if found else (False, False)

    def settled_position(self) -> int | None:
        """The end of the WAL's last record, after the record is on the server's disk. None: the record was not written to disk in time.

        The position on disk may be in the middle of a record. The rest of that record is written with the next commit, and a reader of the
        slot waits for that commit.
        """
        (inserted,) = self._server.row(f"SELECT ({_INSERTED} - '0/0'::pg_lsn)::bigint")
        until, is_hurried = time.monotonic() + _FLUSH_SECONDS, False
        while not self._server.row(f"SELECT ({_FLUSHED} >= {_lsn(inserted)})::int")[0]:
            if time.monotonic() > until:
                return None
            if not is_hurried:  # the end of a transaction makes the server write everything before it, within a second
                self._server.rows("SELECT txid_current()::text")
                is_hurried = True
            time.sleep(0.1)
        within_page = inserted % int(self._server.row("SELECT current_setting('wal_block_size')::int")[0])
        return int(inserted) - (within_page if within_page in _PAGE_HEADERS else 0)

    def has_changes(
        self, after: int, kinds: Collection[str], until: int | None = None, is_excluded: Callable[[str], bool] = lambda _: False
    ) -> bool | None:
        """Whether pgoutput would send messages of these ``kinds`` (its letters) after the message at ``after``. None: unknown. Reads all
        records that begin before ``until``. Rows of a table for which ``is_excluded`` (``schema.table``) is true are ignored.

        Messages come in the order of commits, not of their positions, because a long transaction has early positions. So this method
        searches for the message at ``after``, and for the end of the last transaction before that message. It reads the slot from the
        start, in whole transactions.
        """
        if not _PUBLICATION.fullmatch(self._publication):
            return None
        sends_messages = int(self._server.row("SELECT current_setting('server_version_num')::int")[0]) >= _MESSAGES_FROM
        options = f"'proto_version', '1', 'publication_names', '{self._publication}'" + (", 'messages', 'true'" if sends_messages else "")
        wanted = ", ".join(str(ord(kind)) for kind in sorted(kinds))
        new = f"kind IN ({wanted}) AND changes.number > seen.number"
        end = "NULL" if until is None else _lsn(until)
        limit = 1
        while limit <= _MOST_ROWS:
            rows, known, others, tables = self._server.row(
                f"WITH changes AS (SELECT lsn, get_byte(data, 0) AS kind, {_TABLE} AS of_table, number "
                "FROM pg_logical_slot_peek_binary_changes("
                f"'{self._name}', {end}, {limit}, {options}) WITH ORDINALITY AS peeked(lsn, xid, data, number)), "
                "seen AS (SELECT coalesce(max(number), 0) AS number FROM changes "
                f"WHERE (kind = {ord('C')} AND lsn <= {_lsn(after + 1)}) OR (kind IN ({wanted}) AND lsn = {_lsn(after)})) "
                f"SELECT count(*), count(*) FILTER (WHERE kind IN ({wanted}) AND lsn = {_lsn(after)}), "
                f"count(*) FILTER (WHERE {new} AND of_table IS NULL), string_agg(DISTINCT of_table::text, ',') FILTER (WHERE {new}) "
                "FROM changes, seen"
            )
            is_whole = rows < limit
            has_new = bool(others) or self._is_any_wanted(tables, is_excluded)
            if is_whole or (known and has_new):  # the message at ``after`` may still come, after messages with later positions
                return has_new
            limit = max(100, 10 * int(rows))
        return None

    def _is_any_wanted(self, tables: str | None, is_excluded: Callable[[str], bool]) -> bool:
        """Whether one of these ids is a table that is not excluded. A dropped table is treated as not excluded."""
        ids = tables.split(",") if tables else []
        found = self._server.rows(
            "SELECT nspname::text || '.' || relname::text FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
            f"WHERE pg_class.oid IN ({', '.join(ids) or 'NULL'})"
        )
        return sum(is_excluded(str(name)) for (name,) in found) < len(ids)

    def advance(self, position: int) -> None:
        """Move the slot to ``position``, unless the slot is past that position or a process is reading it. Transactions that end later stay
        complete."""
        self._server.rows(
            f"SELECT pg_replication_slot_advance(slot_name, {_lsn(position)})::text FROM pg_replication_slots "
            f"WHERE slot_name = '{self._name}' AND NOT active AND confirmed_flush_lsn < {_lsn(position)}"
        )

    def close(self) -> None:
        self._server.close()


def _url(given: Mapping[str, str]) -> DatabaseUrl:
    """The URL. Its options do not name any file to read. libpq takes certificates from its environment."""
    host, port = server_address(given)
    mode = given[_SSL_MODE].lower()
    if mode not in _SSL_MODES:
        raise ConfigException.of(_SSL_MODE, mode, f"It must be one of {', '.join(_SSL_MODES)}.")
    options = {"sslmode": mode, "connect_timeout": str(CONNECT_SECONDS), "application_name": "airflow-provider-connect"}
    database, user, password = (given.get(f"database.{key}") for key in ("dbname", "user", "password"))
    return DatabaseUrl(Postgresql(), host, port, database, user, password, options)


def _matching(given: Mapping[str, str], key: str, pattern: re.Pattern[str], form: str) -> str:
    if not pattern.fullmatch(given[key]):
        raise ConfigException.of(key, given[key], f"It must have 1 to 63 {form}.")
    return given[key]


def _lsn(position: int) -> str:
    return f"'{position >> 32:X}/{position & 0xFFFFFFFF:X}'::pg_lsn"
