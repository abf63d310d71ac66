"""The binary log of a MariaDB or MySQL server, queried from outside the JVM. Finds the end of the log, and whether the log still contains
an offset.

Host and login come from the config of a Debezium connector (``database_server``). File names and GTIDs come from the connector's offsets.
Offsets are not trusted, because users can alter them. Knows nothing of the JVM or of Connect. Needs the same privilege as Debezium
(REPLICATION CLIENT, BINLOG MONITOR).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl
from airflow_provider_connect.connectors.jdbc.dialects.mysql import Mariadb, Mysql
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.runtime.java.bounded.database_server import (
    CONNECT_SECONDS,
    PORT,
    DatabaseServer,
    Within,
    non_empty_settings,
    server_address,
)

_SSL_MODE: Final = "database.ssl.mode"
_DEFAULTS: Final = {PORT: str(Mysql.port)}
_SSL_DEFAULTS: Final = {Mariadb(): "disable", Mysql(): "preferred"}
_ENCRYPTED: Final = {"ssl_check_hostname": "true"}
_VERIFIED: Final = {"ssl_verify_cert": "true"}
_SSL: Final[Mapping[str, Mapping[str, str]]] = {
    **{mode: {} for mode in ("disable", "disabled")},
    **dict.fromkeys(("preferred", "trust", "required"), _ENCRYPTED),
    **dict.fromkeys(("verify-ca", "verify_ca"), _VERIFIED),
    **{mode: {**_VERIFIED, "ssl_verify_identity": "true"} for mode in ("verify-full", "verify_identity")},
}
_ANSWER_SECONDS: Final = 10
_FILE: Final = re.compile(r"([\w.-]{1,255})\.([0-9]{1,18})", re.ASCII)
_DOMAIN_GTID: Final = re.compile(r"([0-9]{1,10})-[0-9]{1,10}-([0-9]{1,20})")
_GTID: Final = re.compile(r"[0-9]{1,10}-[0-9]{1,10}-[0-9]{1,20}")
_SET_OF_GTIDS: Final = re.compile(r"[\w:,\s-]*", re.ASCII)
_VERSION: Final = re.compile(r"([0-9]+)\.([0-9]+)")
_RENAMED_STATEMENT: Final = (8, 2)  # the statement of MySQL; version 8.4 has removed the old statement
_GTIDS: Final = 4  # the column in MySQL's answer
_FIRST_POSITION: Final = 4
_ATTEMPTS: Final = 20


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A position in the log: the name of a ``file`` and a byte offset in it. ``gtids`` are the GTIDs of all earlier transactions. Empty if
    the server assigns no GTIDs."""

    file: str
    position: int
    gtids: str = ""

    def has_passed(self, other: LogPosition) -> bool:
        """Whether this position is at or after ``other``, by file and byte offset. False if one of the positions does not name a log
        file."""
        mine, its = _order(self), _order(other)
        return mine is not None and its is not None and mine[0] == its[0] and mine[1:] >= its[1:]


class BinaryLog:
    """The binary log of the server that a Debezium connector's ``config`` names. Variables in ``config`` are already resolved.
    ``has_domains``: the connector is for MariaDB, whose GTIDs have domains. Connects at the first query."""

    def __init__(self, config: Mapping[str, str], within: Within, *, has_domains: bool) -> None:
        """Raises ConfigException for a refused host, port or TLS mode."""
        self._server = DatabaseServer(_url(non_empty_settings(config, _DEFAULTS), has_domains=has_domains), within)
        self._has_domains = has_domains

    @property
    def address(self) -> str:
        """The server's address, for messages."""
        return self._server.url.address

    def end(self) -> LogPosition:
        """The current end of the log. Raises ConfigException if the server writes no log."""
        if not self._has_domains:
            file, position, gtids = self._position()
            return LogPosition(file, position, gtids)
        for _ in range(_ATTEMPTS):
            before = self._newest_gtids()
            file, position, _ = self._position()
            if before == self._newest_gtids():  # the server sets the newest GTID before it appends the transaction
                return LogPosition(file, position, before)
        return self.with_gtids(LogPosition(file, position))  # the server reads the whole file for this

    def with_gtids(self, at: LogPosition) -> LogPosition:
        """``at`` with its GTIDs, for MariaDB."""
        return replace(at, gtids=self._gtids_at(at.file, at.position))

    def has_read(self, read: LogPosition, end: LogPosition) -> bool:
        """Whether no transaction is between ``read``, an offset's position, and ``end``. With MariaDB's GTIDs, ``read`` must contain
        exactly the GTIDs of ``end``. Larger numbers are not enough: if several servers write to a domain, numbers may decrease."""
        if not (read.gtids and end.gtids):
            return read.has_passed(end)
        if self._has_domains:
            return set(_GTID.findall(end.gtids)) <= set(_GTID.findall(read.gtids))
        return self._holds(read.gtids, end.gtids)

    def is_kept(self, read: LogPosition) -> bool:
        """Whether the log continues from ``read`` without a gap: the server has neither purged nor reset it."""
        files = [str(row[0]) for row in self._server.rows("SHOW BINARY LOGS")]
        if read.file in files:
            return True
        if not read.gtids or not files:
            return False
        purged = self._gtids_at(files[0], _FIRST_POSITION) if self._has_domains else str(self._server.row("SELECT @@GLOBAL.gtid_purged")[0])
        return self._holds(read.gtids, "".join(purged.split()))

    def close(self) -> None:
        self._server.close()

    def _holds(self, read: str, wanted: str) -> bool:
        """Whether all ``wanted`` transactions are among the ``read`` transactions."""
        if self._has_domains:
            known = _domains(read)
            return all(known.get(domain, -1) >= number for domain, number in _domains(wanted).items())
        if not (_SET_OF_GTIDS.fullmatch(read) and _SET_OF_GTIDS.fullmatch(wanted)):
            return False
        return bool(self._server.row(f"SELECT GTID_SUBSET('{wanted}', '{read}')")[0])

    def _position(self) -> tuple[str, int, str]:
        """The file, the byte offset, and for MySQL the GTIDs."""
        version = str(self._server.row("SELECT VERSION()")[0])
        numbers = _VERSION.match(version)
        is_renamed = "mariadb" not in version.lower() and numbers is not None and tuple(map(int, numbers.groups())) >= _RENAMED_STATEMENT
        found = self._server.rows("SHOW BINARY LOG STATUS" if is_renamed else "SHOW MASTER STATUS")
        if not found:
            raise ConfigException(f"{self.address} writes no binary log. Set log_bin, binlog_format=ROW and server_id there")
        row = found[0]
        gtids = str(row[_GTIDS] or "") if len(row) > _GTIDS else ""
        return str(row[0]), int(row[1]), "".join(gtids.split())

    def _newest_gtids(self) -> str:
        return str(self._server.row("SELECT @@GLOBAL.gtid_binlog_pos")[0] or "")

    def _gtids_at(self, file: str, position: int) -> str:
        if not _FILE.fullmatch(file):
            raise ConnectException(f"{self.address} has a binary log with an unexpected file name: {file!r}")
        return str(self._server.row(f"SELECT BINLOG_GTID_POS('{file}', {position})")[0] or "")


def _url(given: Mapping[str, str], *, has_domains: bool) -> DatabaseUrl:
    """The URL. Its options do not name any file to read."""
    host, port = server_address(given)
    dialect = Mariadb() if has_domains else Mysql()
    mode = given.get(_SSL_MODE, _SSL_DEFAULTS[dialect]).lower()
    if mode not in _SSL:
        raise ConfigException.of(_SSL_MODE, mode, f"It must be one of {', '.join(_SSL)}.")
    options = {"connect_timeout": str(CONNECT_SECONDS), "read_timeout": str(_ANSWER_SECONDS), **_SSL[mode]}
    user, password = (given.get(f"database.{key}") for key in ("user", "password"))
    return DatabaseUrl(dialect, host, port, None, user, password, options)


def _order(position: LogPosition) -> tuple[str, int, int] | None:
    found = _FILE.fullmatch(position.file)
    return None if found is None else (found[1], int(found[2]), position.position)


def _domains(gtids: str) -> dict[int, int]:
    """The highest number of each domain in a list of MariaDB's GTIDs."""
    numbers: dict[int, int] = {}
    for found in _DOMAIN_GTID.finditer(gtids):
        domain, number = int(found[1]), int(found[2])
        numbers[domain] = max(number, numbers.get(domain, -1))
    return numbers
