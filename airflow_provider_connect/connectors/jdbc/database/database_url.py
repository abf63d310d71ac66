"""Where a database is: JDBC, SQLAlchemy and Airflow URLs read into one value. Opens nothing, and refuses what could run code or read files.

A user who may write a connector's config must not be able to name a class to load, a file to read or a statement to run on the machine of
the worker.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import NOTHING_ALLOWED, AllowedPaths

URL: Final = "connection.url"
POSTGRESQL, SQLITE, MYSQL, MARIADB = "postgresql", "sqlite", "mysql", "mariadb"

_NAMES: Final = {"postgres": POSTGRESQL, "pgsql": POSTGRESQL, "sqlite3": SQLITE, "oracle": "oracle", "sqlserver": "mssql"}
PORTS: Final = {POSTGRESQL: 5432, MYSQL: 3306, MARIADB: 3306}
_WITH_ADBC: Final = (POSTGRESQL, SQLITE)
_DRIVERS: Final = {MYSQL: "pymysql", MARIADB: "pymysql", POSTGRESQL: "psycopg2", "mssql": "pymssql", "oracle": "oracledb"}
_SCHEME: Final = re.compile(r"(?:jdbc:)?([A-Za-z0-9]+)(?:\+([A-Za-z0-9_]+))?:(.*)", re.DOTALL)
_AUTHORITY: Final = re.compile(r"//(?:([^@/]*)@)?([^/?]*)(?:/([^?]*))?(?:\?(.*))?", re.DOTALL)

_OTHER_FORM: Final = re.compile(r"[;=()\s\"'<>]")
_IN_BRACKETS: Final = re.compile(r"\[[0-9A-Fa-f:.]++(?:%25[\w.-]++)?\](?::[0-9]++)?")
_OPTION_OF_PATH: Final = re.compile(r";[^;=]*+=")
_OPTION_NAME: Final = re.compile(r"[A-Za-z][\w.-]*+")

_JAVA_ONLY: Final = ("h2", "hsqldb", "derby", "db2", "informix", "as400", "teradata", "sybase", "firebirdsql")
_SQLALCHEMY_DRIVERS: Final = (
    *("psycopg2", "psycopg", "pg8000", "pymysql", "mysqldb", "mysqlconnector", "mariadbconnector", "cymysql"),
    *("pymssql", "oracledb", "pysqlite"),
)


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """One database. ``options`` are those of our own drivers; ``schema`` is the one that a connection starts in, where the URL names one.

    ``database`` is the file of SQLite, an absolute or relative path.
    """

    dialect: str
    host: str | None = None
    port: int | None = None
    database: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    options: Mapping[str, str] = field(default_factory=dict)
    driver: str | None = None
    schema: str | None = None
    allowed: AllowedPaths = field(default=NOTHING_ALLOWED, repr=False, compare=False)
    """The files of the host that a connection may reach: SQLite's file, a socket's folder."""

    @property
    def has_adbc(self) -> bool:
        """Whether rows come as columns from the driver itself."""
        return self.dialect in _WITH_ADBC

    @property
    def address(self) -> str:
        """The database for messages: no user, no password, no options."""
        if self.dialect == SQLITE:
            return f"sqlite:{self.database}"
        return f"{self.dialect}://{self._authority()}/{self.database or ''}"

    @property
    def existing(self) -> DatabaseUrl:
        """The same; but a file of SQLite that is not there is not made."""
        return dataclasses.replace(self, options={"mode": "rw", **self.options}) if self.dialect == SQLITE else self

    @property
    def adbc_uri(self) -> str:
        """For the ADBC driver of the dialect: a libpq URI, or SQLite's file URI."""
        if self.dialect == SQLITE:
            mode = self.options.get("mode")
            return f"file:{quote(self.database or '')}{f'?mode={mode}' if mode else ''}"
        options = dict(self.options)
        if self.schema is not None:
            options["options"] = f"-csearch_path={_escaped(self.schema)}"
        text = f"postgresql://{self._credentials()}{self._authority()}/{quote(self.database or '', safe='')}"
        return f"{text}?{urlencode(options, quote_via=quote)}" if options else text

    @property
    def sqlalchemy_url(self) -> str:
        """For SQLAlchemy's ``create_engine``, with the password."""
        if self.dialect == SQLITE:
            return f"sqlite:///{self.database}"
        driver = self.driver or _DRIVERS.get(self.dialect)
        name = "mysql" if self.dialect == MARIADB and driver is None else self.dialect
        text = f"{name}{f'+{driver}' if driver else ''}://{self._credentials()}{self._authority()}/{quote(self.database or '', safe='')}"
        return f"{text}?{urlencode(self.options, quote_via=quote)}" if self.options else text

    def within(self, allowed: AllowedPaths) -> DatabaseUrl:
        """The same database, for a connector that may open these files."""
        return dataclasses.replace(self, allowed=allowed)

    def with_credentials(self, user: str | None, password: str | None) -> DatabaseUrl:
        """The same database, logged in as ``user``; what is None stays as it is."""
        return dataclasses.replace(self, user=self.user if user is None else user, password=self.password if password is None else password)

    def _credentials(self) -> str:
        if self.user is None and self.password is None:
            return ""
        return f"{quote(self.user or '', safe='')}{'' if self.password is None else ':' + quote(self.password, safe='')}@"

    def _authority(self) -> str:
        host = self.host or ""
        return f"{host}:{self.port}" if self.port is not None and "," not in host else host


def parse_url(text: str) -> DatabaseUrl:
    """Raises ConfigException, which names the setting and the way out but never a password."""
    match = _SCHEME.fullmatch(text.strip())
    if match is None:
        raise _refusal("that", "This is no database URL. Write jdbc:postgresql://host:5432/database, for instance.")
    scheme, driver, rest = match[1].lower(), match[2], match[3]
    dialect = _NAMES.get(scheme, scheme)
    if dialect == "jdbc":
        raise _refusal("jdbc:…", "The name of the database product is missing behind jdbc:.")
    _refuse_dangerous(dialect, _all_options(rest))
    if dialect in _JAVA_ONLY:
        raise _refusal(f"jdbc:{dialect}:…", f"No driver for {dialect} comes without Java. {_SUPPORTED}")
    return _sqlite(rest) if dialect == SQLITE else _server(dialect, driver, rest)


_ENCODED: Final = (
    "In user and password write %40 for @, %2F for /, %3A for : and %3F for ?, or use connection.user and connection.password."
)
_SUPPORTED: Final = "Use a URL of PostgreSQL, SQLite, MySQL or MariaDB, or of a database that SQLAlchemy has a driver for."


def _server(dialect: str, driver: str | None, rest: str) -> DatabaseUrl:
    if not rest.startswith("//"):
        if dialect != POSTGRESQL or not rest:
            raise _refusal(f"{dialect}:…", f"The host is missing: {dialect}://host:port/database")
        rest = f"//localhost/{rest.lstrip('/')}"
    match = _AUTHORITY.fullmatch(rest)
    if match is None:
        raise _refusal(f"{dialect}:…", f"This is not of the form {dialect}://host:port/database?option=value")
    if match[1] is None and "@" in (match[3] or ""):
        raise _refusal(f"{dialect}://…", f"There is an @ in the name of the database. {_ENCODED}")
    if _OTHER_FORM.search(match[2] or "") or _OPTION_OF_PATH.search(match[3] or ""):
        raise _refusal(f"{dialect}://…", f"Options are written {dialect}://host:port/database?name=value&name=value. {_ENCODED}")
    user, colon, password = (match[1] or "").partition(":")
    host, port = _host_and_port(dialect, match[2] or "")
    given = dict(parse_qsl(match[4] or "", keep_blank_values=True))
    lowered = {name.lower(): value for name, value in given.items()}
    url_user, url_password = lowered.pop("user", None), lowered.pop("password", None)
    if url_password is not None and "" in lowered.values():
        raise _refusal(f"{dialect}://…", f"An option has no value. In a password write %26 for &. {_ENCODED}")
    schema = lowered.pop("currentschema", None) if dialect == POSTGRESQL else None
    options = _known_options(dialect, lowered, is_named=url_password is None and all(map(_OPTION_NAME.fullmatch, lowered)))
    if driver is not None and driver not in _SQLALCHEMY_DRIVERS:
        raise _refusal(f"{dialect}+{driver}:…", f"The driver {driver} is not known. Known are: {', '.join(sorted(_SQLALCHEMY_DRIVERS))}.")
    return DatabaseUrl(
        dialect,
        host,
        port,
        unquote(match[3] or "") or None,
        unquote(user) or url_user,
        unquote(password) if colon else url_password,
        options,
        None if dialect == POSTGRESQL else driver,
        schema,
    )


def _host_and_port(dialect: str, text: str) -> tuple[str | None, int | None]:
    if not text:
        return None, None
    if "@" in text:
        raise _refusal(f"{dialect}://…", f"There are two @. {_ENCODED}")
    for part in text.split(","):  # libpq decodes what is in brackets, and a decoded path is a socket's folder
        if ("[" in part or "]" in part) and not _IN_BRACKETS.fullmatch(part):
            raise _refusal(f"{dialect}://…", "Square brackets hold an IPv6 address and nothing else, such as [::1].")
    if "," in text:  # several hosts, which only libpq takes
        return (text, None)
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text, PORTS.get(dialect)
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise _refusal(f"{dialect}://…", f"The port must be a number between 1 and 65535. {_ENCODED}")
    return host, int(port)


def _sqlite(rest: str) -> DatabaseUrl:
    path, _, query = rest.partition("?")
    if path.startswith("//"):
        path = unquote(path.removeprefix("//"))
        path = path.removeprefix("/") if not rest.startswith("//%2F") and not rest.startswith("//%2f") else path
    options = _known_options(SQLITE, {name.lower(): value for name, value in parse_qsl(query, keep_blank_values=True)})
    if path in ("", ":memory:"):
        raise _refusal("sqlite:", "A database in memory is gone with the connection. Give the path of a file: jdbc:sqlite:/path/to/file.db")
    if path.startswith(("file:", ":resource:")):
        raise _refusal(f"sqlite:{path.partition(':')[0]}:…", "Give the plain path of a file: jdbc:sqlite:/path/to/file.db")
    if options.get("mode", "ro") not in ("ro", "rw", "rwc"):
        raise _refusal(f"sqlite:{path}?mode={options['mode']}", "mode is one of ro, rw, rwc.")
    return DatabaseUrl(SQLITE, database=path, options=options)


def _all_options(rest: str) -> Iterable[tuple[str, str]]:
    """Every ``name=value`` of the URL, behind ``?``, ``&`` or ``;``, however the product writes them."""
    _, _, behind = rest.replace(";", "?", 1).partition("?")
    for part in re.split(r"[&;?]", behind):
        name, _, value = part.partition("=")
        yield unquote(name).strip(), unquote(value).strip()


def _refuse_dangerous(dialect: str, options: Iterable[tuple[str, str]]) -> None:
    for name, value in options:
        danger = danger_of(dialect, name, value)
        if danger is not None:
            raise _refusal(f"{dialect}:…{name}=…", danger)


def _known_options(dialect: str, given: Mapping[str, str], *, is_named: bool = True) -> dict[str, str]:
    """``is_named`` False: an unknown option may be a part of a password that was not encoded, and no message names it."""
    options, unknown = known_options(dialect, given)
    if unknown is not None and not is_named:
        raise _refusal(f"{dialect}:…", f"An option is not known, or not with its value. In a password write %26 for &. {_ENCODED}")
    if unknown is not None:
        known = ", ".join(names_of_known(dialect)) or "none"
        raise _refusal(f"{dialect}:…{unknown}=…", f"The option {unknown} is not known, or not with this value. Known are: {known}.")
    return options


def _escaped(text: str) -> str:
    """A value inside libpq's ``options``, where white space and backslashes are escaped."""
    return re.sub(r"([\\\s])", r"\\\1", text)


def _refusal(shown: str, reason: str) -> ConfigException:
    return ConfigException.of(URL, shown, reason)


# --- options: only those that are known to be harmless are taken ----------------------------------------------------------------------


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Options of our own driver for each dialect; those of Java's that have another name there; and what only tunes a Java driver.
_TAKEN: Final[Mapping[str, frozenset[str]]] = {
    POSTGRESQL: _words(
        "sslmode connect_timeout application_name keepalives keepalives_idle keepalives_interval keepalives_count tcp_user_timeout "
        "channel_binding require_auth gssencmode sslnegotiation sslsni ssl_min_protocol_version ssl_max_protocol_version "
        "target_session_attrs load_balance_hosts host port krbsrvname"
    ),
    MYSQL: _words("charset connect_timeout read_timeout write_timeout"),
    SQLITE: _words("mode"),
}
_RENAMED: Final[Mapping[str, Mapping[str, str]]] = {
    POSTGRESQL: {"applicationname": "application_name", "connecttimeout": "connect_timeout", "logintimeout": "connect_timeout"}
}
_DROPPED: Final[Mapping[str, frozenset[str]]] = {
    POSTGRESQL: _words(
        "targetservertype stringtype preparethreshold preparedstatementcachequeries preparedstatementcachesizemib "
        "databasemetadatacachefields databasemetadatacachefieldsmib defaultrowfetchsize rewritebatchedinserts binarytransfer tcpkeepalive "
        "tcpnodelay sockettimeout cancelsignaltimeout loadbalancehosts hostrecheckseconds protocolversion autosave cleanupsavepoints "
        "quotereturningidentifiers assumeminserverversion readonly adaptivefetch logunclosedconnections disablecolumnsanitiser "
        "escapesyntaxcallmode"
    ),
    MYSQL: _words(
        "verifyservercertificate characterencoding useunicode servertimezone connectiontimezone forceconnectiontimezonetosession "
        "usejdbccompliantimezoneshift uselegacydatetimecode zerodatetimebehavior tinyint1isbit yearisdatetype connecttimeout sockettimeout "
        "allowpublickeyretrieval rewritebatchedstatements useserverprepstmts cacheprepstmts prepstmtcachesize prepstmtcachesqllimit "
        "usecursorfetch defaultfetchsize autoreconnect maxreconnects nullcatalogmeanscurrent useinformationschema tcpkeepalive "
        "usecompression permitmysqlscheme"
    ),
    SQLITE: _words("timeout busy_timeout journal_mode foreign_keys cache"),
}
_RUNS_CODE: Final = _words(
    "init initsql init_command connectioninitsql autodeserialize queryinterceptors statementinterceptors exceptioninterceptors "
    "connectionlifecycleinterceptors propertiestransform socketfactory socketfactoryarg sslfactory sslfactoryarg sslhostnameverifier "
    "sslpasswordcallback authenticationpluginclassname authenticationplugins defaultauthenticationplugin clientinfoprovider "
    "xmlfactoryfactory jaasapplicationname jaaslogin allowmultiqueries sessionvariables enable_load_extension load_extension plugin "
    "driver options credentialtype gsslib javaobjectserializer profilereventhandler logger parseinfocachefactory auth_plugin_map conv "
    "cursorclass"
)
_READS_FILES: Final = _words(
    "allowloadlocalinfile allowurlinlocalinfile allowloadlocalinfileinpath local_infile localinfile sslcert sslkey sslrootcert sslcrl "
    "sslcrldir sslpassword sslkeylogfile passfile service servicefile loggerfile read_default_file read_default_group "
    "serverrsapublickeyfile truststore keystore trustcertificatekeystoreurl clientcertificatekeystoreurl trustcertificatekeystorepassword "
    "clientcertificatekeystorepassword ssl_ca ssl_cert ssl_key ssl_capath servercertificate unix_socket localsocket pipe vfs uri"
)
_OFF: Final = ("false", "0", "no", "off")


def danger_of(dialect: str, name: str, value: str) -> str | None:
    """Why an option is refused whatever the database, and the way out; None for any other."""
    word = name.lower()
    if value.lower() in _OFF:
        return None
    if word in _RUNS_CODE:
        return f"The option {name} can run code. Take it out of the URL."
    if word in _READS_FILES:
        way = ", or have the workers' admin set libpq's environment (PGSSLROOTCERT, PGPASSFILE, …)" if dialect == POSTGRESQL else ""
        return f"The option {name} can read files of the worker. Take it out of the URL{way}."
    return None


def known_options(dialect: str, given: Mapping[str, str]) -> tuple[dict[str, str], str | None]:
    """The options for our own driver, and the first that is not known. ``given`` is by lower-case name, the dangerous ones taken out but
    for those that are switched off."""
    family = MYSQL if dialect == MARIADB else dialect
    renamed, taken = _RENAMED.get(family, {}), _TAKEN.get(family, frozenset())
    options: dict[str, str] = {}
    for name, value in given.items():
        encryption = _encryption(family, name, value)
        if encryption is not None:
            options |= encryption
        elif renamed.get(name, name) in taken:
            options[renamed.get(name, name)] = value
        elif name not in _DROPPED.get(family, ()) and not (value.lower() in _OFF and name in _RUNS_CODE | _READS_FILES):
            return options, name
    return options, None


def names_of_known(dialect: str) -> list[str]:
    """The options of a dialect that do something, for error texts."""
    family = MYSQL if dialect == MARIADB else dialect
    return sorted(_TAKEN.get(family, ()))


def _encryption(family: str, name: str, value: str) -> Mapping[str, str] | None:
    """What the JDBC drivers' words for TLS are to ours; None for any other option, and for a word that they do not have."""
    word = value.lower().replace("-", "_")
    if family == POSTGRESQL and name == "ssl":
        return {"sslmode": "verify-full"} if word in ("true", "") else {}
    if family != MYSQL or name not in ("usessl", "requiressl", "sslmode"):
        return None
    if word in ("true", "required", "trust"):
        return {"ssl_check_hostname": "true"}
    if word == "verify_ca":
        return {"ssl_verify_cert": "true"}
    return {} if word in ("false", "disabled", "disable", "preferred") else None
