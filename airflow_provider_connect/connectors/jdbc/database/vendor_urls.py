r"""JDBC URLs of Oracle and SQL Server, and further forms of MySQL's, as ``//user:password@host:port/database?name=value``.

SQL Server: ``//host\instance:port;name=value``. Oracle: ``thin:@//host:port/service``, ``thin:@host:port:SID``,
``thin:user/password@…`` and connect descriptors of one address. Pure text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, urlencode

from airflow_provider_connect.connectors.jdbc.database.database_options import MARIADB, MSSQL, MYSQL, ORACLE


class UnknownFormError(Exception):
    """A URL of another form; the text holds the form to write, and nothing of the URL but names."""


def common_form(dialect: str, rest: str) -> str:
    """``rest``: what follows the name of the product. Raises UnknownFormError."""
    if dialect == MSSQL and rest.startswith("//") and (";" in rest or "\\" in rest):
        return _of_sql_server(rest)
    if dialect == ORACLE and not rest.startswith("//"):
        return _of_oracle(rest)
    if dialect in (MYSQL, MARIADB) and not rest.startswith("//"):
        word = rest.partition(":")[0]
        if word in ("loadbalance", "replication", "failover", "sequential", "aurora", "load-balance-read"):
            raise UnknownFormError(f"The mode {word} tries several hosts. Name one host: jdbc:{dialect}://host:port/database")
    return rest


# --- SQL Server -----------------------------------------------------------------------------------------------------------------------

_SQL_SERVER_FORM: Final = "jdbc:sqlserver://host:1433;databaseName=name;encrypt=true;trustServerCertificate=true"
_PROPERTY: Final = re.compile(r"\s*([A-Za-z][\w.]*)\s*=(\{(?:[^}]|\}\})*+\}|[^;]*+)(?:;|$)")
_SQL_SERVER_NAMES: Final = {
    **dict.fromkeys(("databasename", "database"), "database"),
    **dict.fromkeys(("username", "user"), "user"),
    **dict.fromkeys(("servername", "server"), "host"),
    **dict.fromkeys(("portnumber", "port"), "port"),
}


def _of_sql_server(rest: str) -> str:
    address, _, text = rest.removeprefix("//").partition(";")
    found: dict[str, str] = {}
    for name, value in _properties(text):
        found[_SQL_SERVER_NAMES.get(name.lower(), name)] = value
    host, _, port = address.partition(":")
    if "\\" in host or "instanceName" in found:
        raise UnknownFormError(f"A named instance is not searched for. Write the port that it listens on: {_SQL_SERVER_FORM}")
    host, port = host or found.pop("host", ""), port or found.pop("port", "")
    database = quote(found.pop("database", ""), safe="")
    query = urlencode(found, quote_via=quote)
    return f"//{host}{f':{port}' if port else ''}/{database}{f'?{query}' if query else ''}"


def _properties(text: str) -> Iterator[tuple[str, str]]:
    """Values with a semicolon are in braces, where a closing brace is doubled."""
    at = 0
    while at < len(text):
        match = _PROPERTY.match(text, at)
        if match is None or match.end() == at:
            raise UnknownFormError(f"Options are written name=value, with a semicolon between them: {_SQL_SERVER_FORM}")
        value = match[2]
        yield match[1], value[1:-1].replace("}}", "}") if value.startswith("{") else value
        at = match.end()


# --- Oracle ---------------------------------------------------------------------------------------------------------------------------

_ORACLE_FORM: Final = "jdbc:oracle:thin:@//host:1521/service or jdbc:oracle:thin:@host:1521:SID"
_NO_TLS: Final = (
    "Only the protocol TCP is known to the dialect here, not TLS (TCPS). Name the listener's port for TCP, or use Java's JDBC connector "
    "(confluentinc/kafka-connect-jdbc of Confluent Hub, docs/java-connectors.md)."
)
_LOGIN: Final = re.compile(r"(?:([^/@]*)(?:/([^@]*))?)?@(.*)", re.DOTALL)
_SERVICE: Final = re.compile(
    r"(?://)?(\[[0-9A-Fa-f:]++\]|[\w.-]++)(?::(\d++))?/([\w.$#-]++)(?::(?:dedicated|shared|pooled))?", re.IGNORECASE
)
_SID: Final = re.compile(r"(?://)?(\[[0-9A-Fa-f:]++\]|[\w.-]++):(\d++):([\w.$#-]++)")
_PART: Final = re.compile(r"\(\s*(HOST|PORT|PROTOCOL|SERVICE_NAME|SID)\s*=\s*([^()\s]++)\s*\)", re.IGNORECASE)


def _of_oracle(rest: str) -> str:
    driver, colon, behind = rest.partition(":")
    if not colon or driver.lower() not in ("thin", "oci", "oci8"):
        raise UnknownFormError(f"Write {_ORACLE_FORM}")
    match = _LOGIN.fullmatch(behind)
    if match is None:
        raise UnknownFormError(f"An @ must stand before the host. Write {_ORACLE_FORM}")
    user, password, address = match[1], match[2], match[3]
    login = "" if not user else f"{quote(user, safe='')}{'' if password is None else ':' + quote(password, safe='')}@"
    return f"//{login}{_oracle_address(address.strip())}"


def _oracle_address(text: str) -> str:
    if text.startswith("("):
        return _of_descriptor(text)
    if text.lower().startswith("tcps:"):
        raise UnknownFormError(f"{_NO_TLS} Write {_ORACLE_FORM}")
    text, mark, options = text.removeprefix("tcp:").partition("?")
    if mark:
        names = ", ".join(part.partition("=")[0] for part in options.split("&") if re.fullmatch(r"[A-Za-z][\w.-]*+=.*", part, re.DOTALL))
        raise UnknownFormError(f"No option is known behind Oracle's address{f', so not {names}' if names else ''}. Write {_ORACLE_FORM}")
    sid = _SID.fullmatch(text)
    if sid is not None:
        return f"{sid[1]}:{sid[2]}/{sid[3]}"
    service = _SERVICE.fullmatch(text)
    if service is None:
        raise UnknownFormError(f"Names of tnsnames.ora and options are not read here. Write {_ORACLE_FORM}")
    return f"{service[1]}:{service[2] or 1521}/?service_name={service[3]}"


def _of_descriptor(text: str) -> str:
    parts = [(name.upper(), value) for name, value in _PART.findall(text)]
    found = dict(parts)
    if len(found) < len(parts) or "HOST" not in found or not found.keys() & {"SERVICE_NAME", "SID"}:
        raise UnknownFormError(f"A connect descriptor must have one address and a SERVICE_NAME or SID. Write {_ORACLE_FORM}")
    if found.get("PROTOCOL", "tcp").lower() != "tcp":
        raise UnknownFormError(f"{_NO_TLS} Write {_ORACLE_FORM}")
    name = f"?service_name={found['SERVICE_NAME']}" if "SERVICE_NAME" in found else found["SID"]
    return f"{found['HOST']}:{found.get('PORT', '1521')}/{name}"
