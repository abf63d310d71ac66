"""The address of a database: JDBC, SQLAlchemy and Airflow URLs as one value. Opens nothing; refuses options that could run code or read
files.

A user who may write a connector's config must not be able to load a class, read a file or run code on the worker's machine.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from airflow_provider_connect.connectors.jdbc.database.database_options import (
    SECRET_OPTIONS,
    danger,
    driver_options,
    known_options,
)
from airflow_provider_connect.connectors.jdbc.database.other_databases import JAVA_ONLY, unsupported_reason
from airflow_provider_connect.connectors.jdbc.dialects.dialect import Dialect, UnknownFormError
from airflow_provider_connect.connectors.jdbc.dialects.registry import DIALECTS, dialect_of
from airflow_provider_connect.connectors.jdbc.dialects.url_options import READ_ONLY, ZERO_DATES, UnknownOptionError
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import NOTHING_ALLOWED, AllowedPaths

URL: Final = "connection.url"
USER: Final = "connection.user"
PASSWORD: Final = "connection.password"

_SCHEME: Final = re.compile(r"(?:jdbc:)?([A-Za-z0-9][A-Za-z0-9_-]*)(?:\+([A-Za-z0-9_]+))?:(.*)", re.DOTALL)
_AUTHORITY: Final = re.compile(r"//(?:([^@/]*)@)?([^/?]*)(?:/([^?]*))?(?:\?(.*))?", re.DOTALL)

_OTHER_FORM: Final = re.compile(r"[;=()\s\"'<>]")
_IN_BRACKETS: Final = re.compile(r"\[[0-9A-Fa-f:.]++(?:%25[\w.-]++)?\](?::[0-9]++)?")
_OPTION_OF_PATH: Final = re.compile(r";[^;=]*+=")
_OPTION_NAME: Final = re.compile(r"[A-Za-z][\w.-]*+")

_SQL_SERVER: Final = "jdbc:sqlserver://host:1433;databaseName=name, with encrypt=true;trustServerCertificate=true instead of ssl=require"
_INSTEAD: Final = {"jtds": _SQL_SERVER, "microsoft": _SQL_SERVER, "aws-wrapper": "the URL without aws-wrapper:"}
_VARIABLE: Final = re.compile(r"\s*\$(?:\w+|\{[^}]*\})\s*")
_SQLALCHEMY_DRIVERS: Final = {
    *("psycopg", "pg8000", "mysqldb", "mysqlconnector", "mariadbconnector", "cymysql", "pysqlite"),
    *(dialect.driver for dialect in DIALECTS if dialect.driver is not None),
}


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """One database. ``options`` are options of our own drivers. ``schema`` is the initial schema of a connection, if the URL names one.

    For SQLite, ``database`` is an absolute or relative path.
    """

    dialect: Dialect
    host: str | None = None
    port: int | None = None
    database: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    driver: str | None = None
    schema: str | None = None
    allowed: AllowedPaths = field(default=NOTHING_ALLOWED, repr=False, compare=False)
    """The host's files that a connection may reach: SQLite's file, a socket's folder."""
    user_key: str = field(default=USER, repr=False, compare=False)
    """The setting that has the user, for messages. In the same way, ``password_key`` is the password's."""
    password_key: str = field(default=PASSWORD, repr=False, compare=False)

    @property
    def zero_dates(self) -> str | None:
        """The value that replaces MySQL's 0000-00-00. None means null, if the column may be null."""
        return self.options.get(ZERO_DATES, self.dialect.zero_dates)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must not be in a message: the password and secret options, plain and percent-encoded."""
        found = [self.password, *(value for name, value in self.options.items() if name in SECRET_OPTIONS)]
        return tuple(dict.fromkeys(text for secret in found if secret for text in (secret, quote(secret, safe=""))))

    @property
    def address(self) -> str:
        """The database in messages, without user, password and options."""
        if self.dialect.is_file:
            return f"{self.dialect.name}:{self.database}"
        return f"{self.dialect.name}://{self._authority()}/{self.database or self.options.get('service_name', '')}"

    @property
    def existing(self) -> DatabaseUrl:
        """The same database, but a missing file is not created."""
        return dataclasses.replace(self, options={"mode": "rw", **self.options}) if self.dialect.is_file else self

    @property
    def adbc_uri(self) -> str:
        """The URI for the dialect's ADBC driver: a libpq URI, or SQLite's file URI."""
        if self.dialect.is_file:
            mode = self.options.get("mode")
            return f"file:{quote(self.database or '')}{f'?mode={mode}' if mode else ''}"
        options = driver_options(self.dialect, self.options)
        session = [] if self.schema is None else [f"-csearch_path={_escaped(self.schema)}"]
        if READ_ONLY in self.options:
            session.append("-cdefault_transaction_read_only=on")
        if session:
            options["options"] = " ".join(session)
        text = f"postgresql://{self._credentials()}{self._authority()}/{quote(self.database or '', safe='')}"
        return f"{text}?{urlencode(options, quote_via=quote)}" if options else text

    @property
    def sqlalchemy_url(self) -> str:
        """The URL for SQLAlchemy's ``create_engine``, including the password."""
        if self.dialect.is_file:
            return f"{self.dialect.name}:///{self.database}"
        driver = self.driver or self.dialect.driver
        scheme = self.dialect.name if driver is None else f"{self.dialect.name}+{driver}"
        text = f"{scheme}://{self._credentials()}{self._authority()}/{quote(self.database or '', safe='')}"
        options = driver_options(self.dialect, self.options, self.driver)
        return f"{text}?{urlencode(options, quote_via=quote)}" if options else text

    def within(self, allowed: AllowedPaths) -> DatabaseUrl:
        """The same database, with the files that the connector may open."""
        return dataclasses.replace(self, allowed=allowed)

    def with_credentials(self, user: str | None, password: str | None) -> DatabaseUrl:
        """The same database for another user. None keeps the URL's user or password."""
        found = self if user is None else dataclasses.replace(self, user=user, user_key=USER)
        return found if password is None else dataclasses.replace(found, password=password, password_key=PASSWORD)

    def _credentials(self) -> str:
        if self.user is None and self.password is None:
            return ""
        return f"{quote(self.user or '', safe='')}{'' if self.password is None else ':' + quote(self.password, safe='')}@"

    def _authority(self) -> str:
        host = self.host or ""
        return f"{host}:{self.port}" if self.port is not None and "," not in host else host


def parse_url(text: str) -> DatabaseUrl:
    """Parse a URL. Raises ConfigException, which names the setting and the fix, but never a password."""
    if _VARIABLE.fullmatch(text):
        raise _refusal("…", f"This variable was not resolved. Write the URL, {_FORM}, or {_RESOLVED}.")
    match = _SCHEME.fullmatch(text.strip())
    if match is None:
        raise _refusal("…", f"Not the URL of a database. Write {_FORM}.")
    scheme, driver, rest = match[1].lower(), match[2], match[3]
    dialect = dialect_of(scheme)
    if scheme == "jdbc":
        raise _refusal("jdbc:…", "The name of the database product is missing after jdbc:.")
    _refuse_dangerous(dialect, _all_options(rest))
    if scheme == "jtds" and rest.lower().startswith("sybase:"):
        raise _refusal("jdbc:jtds:sybase:…", unsupported_reason("sybase"))
    if scheme in _INSTEAD:
        raise _refusal(f"jdbc:{scheme}:…", f"The driver {scheme} is Java's. Write {_INSTEAD[scheme]}")
    if scheme in JAVA_ONLY:
        raise _refusal(f"jdbc:{scheme}:…", unsupported_reason(scheme))
    if dialect.is_known:
        return _file(dialect, rest) if dialect.is_file else _server(dialect, driver, rest)
    try:
        return _server(dialect, driver, rest)
    except ConfigException:  # URLs of unknown dialects only have this form
        raise _refusal(f"{scheme}:…", unsupported_reason(scheme)) from None


_FORM: Final = "jdbc:postgresql://host:5432/database for instance"
_RESOLVED: Final = "a variable of a config provider of the worker, such as ${file:/secrets/db.properties:url}"
_ENCODED: Final = (
    "Give the login by connection.user and connection.password, or percent-encoded: %40 is an at sign, %2F a slash, %3A a colon."
)


def _server(dialect: Dialect, driver: str | None, rest: str) -> DatabaseUrl:
    product = dialect.name
    try:
        rest = dialect.common_form(rest)
    except UnknownFormError as error:
        raise _refusal(f"{product}:…", str(error)) from None
    if not rest.startswith("//"):
        if not dialect.uses_libpq or not rest:
            raise _refusal(f"{product}:…", f"The host is missing: {product}://host:port/database")
        rest = f"//localhost/{rest.lstrip('/')}"
    match = _AUTHORITY.fullmatch(rest)
    if match is None:
        raise _refusal(f"{product}:…", f"Not of the form {product}://host:port/database?option=value")
    if match[1] is None and "@" in (match[3] or ""):
        raise _refusal(f"{product}://…", f"The name of the database contains an @. {_ENCODED}")
    if _OTHER_FORM.search(match[2] or "") or _OPTION_OF_PATH.search(match[3] or ""):
        raise _refusal(f"{product}://…", f"Options are written {product}://host:port/database?name=value&name=value. {_ENCODED}")
    user, colon, password = (match[1] or "").partition(":")
    host, port = _host_and_port(dialect, match[2] or "")
    given = dict(parse_qsl(match[4] or "", keep_blank_values=True))
    lowered = {name.lower(): value for name, value in given.items()}
    url_user, url_password = lowered.pop("user", None), lowered.pop("password", None)
    if url_password is not None and "" in lowered.values():
        raise _refusal(f"{product}://…", f"An option has no value. In a password write %26 for &. {_ENCODED}")
    schema = lowered.pop("currentschema", None) if dialect.uses_libpq else None
    options = _known_options(dialect, lowered, is_named=url_password is None and all(map(_OPTION_NAME.fullmatch, lowered)))
    if driver is not None and driver not in _SQLALCHEMY_DRIVERS:
        raise _refusal(f"{product}+{driver}:…", f"The driver {driver} is not known. Known are: {', '.join(sorted(_SQLALCHEMY_DRIVERS))}.")
    found_user, found_password = unquote(user) or url_user, unquote(password) if colon else url_password
    return DatabaseUrl(
        dialect,
        host,
        port,
        unquote(match[3] or "") or None,
        found_user,
        found_password,
        options,
        None if dialect.uses_libpq else driver,
        schema,
        user_key=USER if found_user is None else URL,
        password_key=PASSWORD if found_password is None else URL,
    )


def _host_and_port(dialect: Dialect, text: str) -> tuple[str | None, int | None]:
    if not text:
        return None, None
    if "@" in text:
        raise _refusal(f"{dialect.name}://…", f"There are two @. {_ENCODED}")
    for part in text.split(","):  # libpq decodes the text in brackets, so it could be the path of a socket's folder
        if ("[" in part or "]" in part) and not _IN_BRACKETS.fullmatch(part):
            raise _refusal(f"{dialect.name}://…", "Square brackets may only enclose an IPv6 address, such as [::1].")
    if "," in text:
        if not dialect.uses_libpq:
            raise _refusal(f"{dialect.name}://…", "Only PostgreSQL may have several hosts. Name one host.")
        return (text, None)
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text, dialect.port
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise _refusal(f"{dialect.name}://…", f"The port must be a number between 1 and 65535. {_ENCODED}")
    return host, int(port)


def _file(dialect: Dialect, rest: str) -> DatabaseUrl:
    path, _, query = rest.partition("?")
    if path.startswith("//"):
        path = unquote(path.removeprefix("//"))
        path = path.removeprefix("/") if not rest.startswith("//%2F") and not rest.startswith("//%2f") else path
    options = _known_options(dialect, {name.lower(): value for name, value in parse_qsl(query, keep_blank_values=True)})
    if path in ("", ":memory:"):
        raise _refusal("sqlite:", "A database in memory ends with its connection. Give the path of a file: jdbc:sqlite:/path/to/file.db")
    if path.startswith(("file:", ":resource:")):
        raise _refusal(f"sqlite:{path.partition(':')[0]}:…", "Give the plain path of a file: jdbc:sqlite:/path/to/file.db")
    if options.get("mode", "ro") not in ("ro", "rw", "rwc"):
        raise _refusal(f"sqlite:{path}?mode={options['mode']}", "mode is one of ro, rw, rwc.")
    return DatabaseUrl(dialect, database=path, options=options)


def _all_options(rest: str) -> Iterable[tuple[str, str]]:
    """Every ``name=value`` after ``?``, ``&`` or ``;`` in the URL, in the forms of all products."""
    _, _, query = rest.replace(";", "?", 1).partition("?")
    for part in re.split(r"[&;?]", query):
        name, _, value = part.partition("=")
        yield unquote(name).strip(), unquote(value).strip()


def _refuse_dangerous(dialect: Dialect, options: Iterable[tuple[str, str]]) -> None:
    for name, value in options:
        reason = danger(dialect, name, value)
        if reason is not None:
            raise _refusal(f"{dialect.name}:…{name}=…", reason)


def _known_options(dialect: Dialect, given: Mapping[str, str], *, is_named: bool = True) -> dict[str, str]:
    """The known options. If ``is_named`` is false, messages do not name unknown options, which may be part of an unencoded password."""
    try:
        return known_options(dialect, given)
    except UnknownOptionError as error:
        if not is_named:
            reason = f"An option is not known, or not with its value. In a password write %26 for &. {_ENCODED}"
            raise _refusal(f"{dialect.name}:…", reason) from None
        if error.reason is not None:
            raise _refusal(f"{dialect.name}:…{error.name}=…", f"The option {error.name} cannot have this value. {error.reason}") from None
        known = ", ".join(dialect.options.used) or "none"
        reason = f"The option {error.name} is not known, or not with this value. Known are: {known}."
        raise _refusal(f"{dialect.name}:…{error.name}=…", reason) from None


def _escaped(text: str) -> str:
    """A value inside libpq's ``options``, with white space and backslashes escaped."""
    return re.sub(r"([\\\s])", r"\\\1", text)


def _refusal(shown: str, reason: str) -> ConfigException:
    return ConfigException.of(URL, shown, reason)
