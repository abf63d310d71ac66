r"""SQL Server, accessed with SQLAlchemy and ``pymssql``. Not tested against a server. URLs: ``//host\instance:port;name=value``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final
from urllib.parse import quote, urlencode

from airflow_provider_connect.connectors.jdbc.catalog.column import Column, ColumnKind
from airflow_provider_connect.connectors.jdbc.dialects.dialect import (
    STANDARD_TYPES,
    Dialect,
    ErrorWords,
    RowSql,
    Savepoint,
    Selected,
    UnknownFormError,
    local_text,
)
from airflow_provider_connect.connectors.jdbc.dialects.url_options import UnknownOptionError, UrlOptions, by_word, renamed, words
from airflow_provider_connect.data.schema import TIMESTAMP, Schema, SchemaType

_TRUST: Final = "trustservercertificate"
_NO_CHECK: Final = "pymssql does not verify the server's certificate. Set it to true if the network is trusted."


@dataclass(frozen=True)
class SqlServer(Dialect):
    """SQL Server's driver drops time zones and digits of times, so SQL expressions return both."""

    name: str = "mssql"

    title = "SQL Server"
    is_tested = False
    aliases = ("sqlserver",)
    extra = "mssql"
    driver = "pymssql"
    port = 1433
    options = UrlOptions(
        accepted=words("charset login_timeout timeout appname tds_version"),
        ignored=words("sendstringparametersasunicode sockettimeout locktimeout responsebuffering selectmethod packetsize"),
        fixed={
            _TRUST: (("true", "false"), _NO_CHECK),
            "integratedsecurity": (("false",), "Only SQL Server's own logins are known here. Set connection.user and connection.password."),
        },
        translations={
            "encrypt": by_word(
                {
                    **{word: {"encryption": "require"} for word in ("true", "mandatory", "yes")},
                    **{word: {"encryption": "request"} for word in ("false", "optional", "no")},
                    "strict": {"encryption": "strict"},
                }
            ),
            "applicationname": renamed("appname"),
            "logintimeout": renamed("login_timeout"),
            "querytimeout": renamed("timeout"),
        },
        without_stores="; pymssql verifies no certificate: set trustServerCertificate=true if the network is trusted",
    )
    lost_numbers = frozenset({64, 121, 233, 6005, 10053, 10054, 10060, 10928, 10929, 20003, 20004, 20006, 20047, 40197, 40501, 40613})
    rollback_numbers = frozenset({601, 1204, 1205, 1222})
    error_words = ErrorWords(
        "Login failed",
        "Cannot open database",
        "Adaptive Server is unavailable",
        "DBPROCESS is dead|Not connected to any",
        "deadlock victim|lock request time out",
    )
    quotes = ("[", "]")
    longest_name = 128
    ignores_case = True
    types: ClassVar[Mapping[str, str]] = {
        **STANDARD_TYPES,
        SchemaType.FLOAT64: "FLOAT",
        SchemaType.BOOLEAN: "BIT",
        SchemaType.STRING: "NVARCHAR(MAX)",
        SchemaType.BYTES: "VARBINARY(MAX)",
        TIMESTAMP: "DATETIME2",
    }
    key_types: ClassVar[Mapping[str, str]] = {SchemaType.STRING: "NVARCHAR(400)", SchemaType.BYTES: "VARBINARY(800)"}
    binary_collation = " COLLATE Latin1_General_100_BIN2"
    text_prefix = "N"
    bytes_literal = "0x{}"
    clock_query = "SELECT DATEDIFF_BIG(microsecond, '1970-01-01', SYSUTCDATETIME()) AS now"
    casts_timestamps = True
    savepoint = Savepoint("SAVE TRANSACTION", "ROLLBACK TRANSACTION", None)

    def common_form(self, rest: str) -> str:
        return _common_form(rest) if rest.startswith("//") and (";" in rest or "\\" in rest) else rest

    def check_options(self, options: Mapping[str, str], given: Mapping[str, str]) -> None:
        if options.get("encryption") in ("require", "strict") and given.get(_TRUST, "").lower() != "true":
            raise UnknownOptionError(_TRUST, _NO_CHECK)

    def change_type(self, column: str, type: str, nullability: str, rest: str) -> str:
        return f"ALTER COLUMN {column} {type} {nullability}"

    def selected(self, column: Column, schema: Schema, zero_dates: str | None) -> Selected:
        operand = self.quoted(column.name)
        if column.kind is ColumnKind.TIMESTAMP_TZ:
            operand = f"CAST(SWITCHOFFSET({operand}, '+00:00') AS datetime2)"
        elif column.kind is ColumnKind.OTHER:
            operand = f"CONVERT(nvarchar(max), {operand}{_ALL_DIGITS.get(column.type_name, '')})"
        return Selected(operand, schema)

    def timestamp_operand(self, column: str, *, has_zone: bool) -> str:
        operand = f"SWITCHOFFSET({column}, '+00:00')" if has_zone else column
        return f"CAST({operand} AS datetime2(6))"

    def timestamp_literal(self, nanoseconds: int, zone: str, *, has_zone: bool) -> str:
        return f"CAST('{local_text(nanoseconds, zone)}' AS datetime2(6))"

    def locking(self, select: str) -> str:
        """A table hint, which also locks the gaps until the transaction ends."""
        before, where, after = select.partition(" WHERE ")
        return f"{before} WITH (UPDLOCK, HOLDLOCK){where}{after}"

    def upsert(self, row: RowSql, keys: Sequence[str]) -> str:
        """A MERGE with the required semicolon, and with a lock hint, so that another connection cannot insert the key meanwhile."""
        return row.merge(keys, hint=" WITH (HOLDLOCK) AS", end=";")


_ALL_DIGITS: Final = {"float": ", 3", "real": ", 3", "money": ", 2", "smallmoney": ", 2"}  # styles of CONVERT


# --- URL ------------------------------------------------------------------------------------------------------------------------------

_FORM: Final = "jdbc:sqlserver://host:1433;databaseName=name;encrypt=true;trustServerCertificate=true"
_PROPERTY: Final = re.compile(r"\s*([A-Za-z][\w.]*)\s*=(\{(?:[^}]|\}\})*+\}|[^;]*+)(?:;|$)")
_NAMES: Final = {
    **dict.fromkeys(("databasename", "database"), "database"),
    **dict.fromkeys(("username", "user"), "user"),
    **dict.fromkeys(("servername", "server"), "host"),
    **dict.fromkeys(("portnumber", "port"), "port"),
}


def _common_form(rest: str) -> str:
    address, _, text = rest.removeprefix("//").partition(";")
    found: dict[str, str] = {}
    for name, value in _properties(text):
        found[_NAMES.get(name.lower(), name)] = value
    host, _, port = address.partition(":")
    if "\\" in host or "instanceName" in found:
        raise UnknownFormError(f"A named instance is not searched for. Write the port that it listens on: {_FORM}")
    host, port = host or found.pop("host", ""), port or found.pop("port", "")
    database = quote(found.pop("database", ""), safe="")
    query = urlencode(found, quote_via=quote)
    return f"//{host}{f':{port}' if port else ''}/{database}{f'?{query}' if query else ''}"


def _properties(text: str) -> Iterator[tuple[str, str]]:
    """The properties of a URL. Values with a semicolon are in braces, within which a closing brace is doubled."""
    at = 0
    while at < len(text):
        match = _PROPERTY.match(text, at)
        if match is None or match.end() == at:
            raise UnknownFormError(f"Options are written name=value, with a semicolon between them: {_FORM}")
        value = match[2]
        yield match[1], value[1:-1].replace("}}", "}") if value.startswith("{") else value
        at = match.end()
