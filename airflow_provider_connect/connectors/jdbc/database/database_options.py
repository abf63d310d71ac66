"""Which options of a database's URL reach our own drivers. Pure text; opens nothing.

An option is applied, or it only tunes a Java driver and changes no value, or it is refused by its name. The last holds for each option that
is not known, and for those that could run code or read files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

POSTGRESQL, SQLITE, MYSQL, MARIADB, MSSQL, ORACLE = "postgresql", "sqlite", "mysql", "mariadb", "mssql", "oracle"

ZERO_DATES: Final = "zerodatetimebehavior"
"""What MySQL's 0000-00-00 is read as: one of the three below."""
TO_NULL, TO_FIRST_DAY, TO_ERROR = "convert_to_null", "round", "exception"
TINY_AS_BOOLEAN: Final = "tinyint1isbit"
READ_ONLY: Final = "readonly"
SECRET_OPTIONS: Final = frozenset({"sslpassword", "ssl_key_password"})
"""Options that are applied and hold a secret."""
FILES: Final[Mapping[str, frozenset[str]]] = {
    POSTGRESQL: frozenset({"sslrootcert", "sslcert", "sslkey", "sslcrl"}),
    MYSQL: frozenset({"ssl_ca", "ssl_cert", "ssl_key"}),
}
"""Options that hold a path of the host, by dialect. ``database_files`` checks each."""
_FILE_OPTIONS: Final = frozenset[str]().union(*FILES.values())
_NO_FILES: Final = ("system", "")  # values of ``sslrootcert`` that are no path


def family_of(dialect: str) -> str:
    """The dialect whose options these are."""
    return MYSQL if dialect == MARIADB else dialect


def files_of(dialect: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options that hold a path of the host, with their paths."""
    names = FILES.get(family_of(dialect), frozenset())
    return {name: value for name, value in options.items() if name in names and value not in _NO_FILES}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Options of our own driver for each dialect, and what only tunes a Java driver.
_TAKEN: Final[Mapping[str, frozenset[str]]] = {
    POSTGRESQL: FILES[POSTGRESQL]
    | _words(
        "sslmode connect_timeout application_name keepalives keepalives_idle keepalives_interval keepalives_count tcp_user_timeout "
        "channel_binding require_auth gssencmode sslnegotiation sslsni ssl_min_protocol_version ssl_max_protocol_version "
        "target_session_attrs load_balance_hosts host port krbsrvname sslpassword"
    ),
    MYSQL: FILES[MYSQL] | _words("charset connect_timeout read_timeout write_timeout ssl_key_password"),
    SQLITE: _words("mode"),
    MSSQL: _words("charset login_timeout timeout appname tds_version"),
    ORACLE: _words("service_name"),
}
_DROPPED: Final[Mapping[str, frozenset[str]]] = {
    POSTGRESQL: _words(
        "stringtype preparethreshold preparedstatementcachequeries preparedstatementcachesizemib databasemetadatacachefields "
        "databasemetadatacachefieldsmib defaultrowfetchsize rewritebatchedinserts binarytransfer tcpkeepalive tcpnodelay sockettimeout "
        "cancelsignaltimeout hostrecheckseconds protocolversion autosave cleanupsavepoints quotereturningidentifiers "
        "assumeminserverversion adaptivefetch logunclosedconnections disablecolumnsanitiser escapesyntaxcallmode logservererrordetail "
        "sslresponsetimeout"
    ),
    MYSQL: _words(
        "characterencoding useunicode servertimezone connectiontimezone usejdbccompliantimezoneshift usejdbccomplianttimezoneshift "
        "allowpublickeyretrieval rewritebatchedstatements useserverprepstmts cacheprepstmts prepstmtcachesize prepstmtcachesqllimit "
        "usecursorfetch defaultfetchsize autoreconnect maxreconnects useinformationschema tcpkeepalive usecompression permitmysqlscheme "
        "usebulkstmts"
    ),
    SQLITE: _words("timeout busy_timeout journal_mode cache"),
    MSSQL: _words("sendstringparametersasunicode sockettimeout locktimeout responsebuffering selectmethod packetsize"),
}
# What happens here whatever an option has: the values that ask for just this, and what to know about the others.
_FIXED: Final[Mapping[str, Mapping[str, tuple[tuple[str, ...], str]]]] = {
    MYSQL: {
        "yearisdatetype": (("false",), "A YEAR is read as a number, never as a date."),
        "uselegacydatetimecode": (("false",), "Times are read as stored; the time zone of columns without one is db.timezone."),
        "forceconnectiontimezonetosession": (
            ("false",),
            "The session's time zone is UTC here, so that a TIMESTAMP is read as it is stored. That of DATETIME columns is db.timezone.",
        ),
        "nullcatalogmeanscurrent": (
            ("true",),
            "The tables of the URL's database are read. Leave the database out of the URL for those of all, and choose by table.include.",
        ),
        "transformedbitisboolean": (("true",), "A BIT(1) is read as a BOOLEAN."),
    },
    SQLITE: {"foreign_keys": (("false", "off", "0"), "Foreign keys are not enforced here. Use a CHECK or a trigger of the database.")},
    MSSQL: {
        "trustservercertificate": (
            ("true", "false"),
            "pymssql does not verify the server's certificate. Set it to true if the network is trusted.",
        ),
        "integratedsecurity": (("false",), "Only SQL Server's own logins are known here. Set connection.user and connection.password."),
    },
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
    "allowloadlocalinfile allowurlinlocalinfile allowloadlocalinfileinpath local_infile localinfile "
    "sslcrldir sslkeylogfile passfile service servicefile loggerfile read_default_file read_default_group "
    "serverrsapublickeyfile ssl_capath unix_socket localsocket pipe vfs uri"
)
_STORES: Final = _words(
    "truststore truststorepassword truststoretype keystore keystorepassword keystoretype trustcertificatekeystoreurl "
    "clientcertificatekeystoreurl trustcertificatekeystorepassword clientcertificatekeystorepassword trustcertificatekeystoretype "
    "clientcertificatekeystoretype"
)
_PEM: Final = {MYSQL: "serverSslCert=…&ssl_cert=…&ssl_key=…", POSTGRESQL: "sslrootcert=…&sslcert=…&sslkey=…"}
_TRUST: Final = "trustservercertificate"
_OFF: Final = ("false", "0", "no", "off")


def danger_of(dialect: str, name: str, value: str) -> str | None:
    """Why an option is refused whatever the database, and the way out; None for any other."""
    word = name.lower()
    if value.lower() in _OFF:
        return None
    if word in _RUNS_CODE:
        return f"The option {name} can run code. Take it out of the URL."
    if word in _STORES:
        pem = _PEM.get(family_of(dialect))
        if pem is None:
            way = "; pymssql verifies no certificate: set trustServerCertificate=true if the network is trusted" if dialect == MSSQL else ""
            return f"The option {name} is a Java key store, which only Java reads. Take the options of stores out of the URL{way}."
        return (
            f"The option {name} is a Java key store, which only Java reads. Write PEM files: keytool -exportcert -rfc for a certificate, "
            f"openssl pkcs12 -nodes for a key, and in the URL {pem} in place of the options of stores."
        )
    if word in _READS_FILES or (word in _FILE_OPTIONS and word not in FILES.get(family_of(dialect), ())):
        way = ", or have the workers' admin set libpq's environment (PGSSLROOTCERT, PGPASSFILE, …)" if dialect == POSTGRESQL else ""
        return f"The option {name} can read files of the worker. Take it out of the URL{way}."
    return None


class UnknownOptionError(Exception):
    """An option that is not known, or not with this value. ``reason`` None: nothing more is known about it."""

    def __init__(self, name: str, reason: str | None = None) -> None:
        super().__init__(name)
        self.name = name
        self.reason = reason


def known_options(dialect: str, given: Mapping[str, str]) -> dict[str, str]:
    """The options for our own driver. ``given`` is by lower-case name, the dangerous ones taken out but for those that are switched off.
    Raises UnknownOptionError."""
    family = family_of(dialect)
    taken, dropped, translations = _TAKEN.get(family, frozenset()), _DROPPED.get(family, frozenset()), _TRANSLATIONS.get(family, {})
    options: dict[str, str] = {}
    for name, value in given.items():
        accepted, reason = _FIXED.get(family, {}).get(name, ((), None))
        if name in translations:
            options |= _translated(translations[name], name, value)
        elif name in taken:
            options[name] = value
        elif reason is not None and value.lower() not in accepted:
            raise UnknownOptionError(name, reason)
        elif reason is None and name not in dropped and not (value.lower() in _OFF and name in _RUNS_CODE | _READS_FILES | _STORES):
            raise UnknownOptionError(name)
    if options.get("encryption") in ("require", "strict") and given.get(_TRUST, "").lower() != "true":
        raise UnknownOptionError(_TRUST, _FIXED[MSSQL][_TRUST][1])
    return options


def driver_options(dialect: str, options: Mapping[str, str]) -> dict[str, str]:
    """Those that a driver takes from its URL: without those that this package applies itself."""
    ours = (ZERO_DATES, TINY_AS_BOOLEAN, READ_ONLY)
    is_own_tls = family_of(dialect) == MYSQL
    return {name: value for name, value in options.items() if name not in ours and not (is_own_tls and name.startswith("ssl_"))}


def names_of_known(dialect: str) -> list[str]:
    """The options of a dialect that do something, for error texts."""
    family = family_of(dialect)
    return sorted(_TAKEN.get(family, frozenset()) | _TRANSLATIONS.get(family, {}).keys())


# --- options of Java's drivers that have another name or other words here -------------------------------------------------------------

_Translation = Callable[[str], Mapping[str, str] | None]
"""An option's value, in lower case with underscores, as options of ours; None: this value is not known."""


def _translated(translation: _Translation, name: str, value: str) -> Mapping[str, str]:
    found = translation(value)
    if found is None:
        raise UnknownOptionError(name)
    return found


def _renamed(name: str) -> _Translation:
    return lambda value: {name: value}


def _by_word(words: Mapping[str, Mapping[str, str]]) -> _Translation:
    return lambda value: words.get(value.lower().replace("-", "_"))


def _switch(on: Mapping[str, str]) -> _Translation:
    return _by_word({"true": on, "": on, "false": {}})


def _seconds(*names: str) -> _Translation:
    """Of milliseconds, rounded up; 0 is no limit."""

    def options(value: str) -> Mapping[str, str] | None:
        if not (value.isascii() and value.isdigit()):
            return None
        return dict.fromkeys(names, str(-(-int(value) // 1000))) if int(value) else {}

    return options


_SESSIONS: Final = {"any": "any", "primary": "primary", "master": "primary", "secondary": "standby", "slave": "standby"}
_SESSION_OPTIONS: Final = {
    **{word: {"target_session_attrs": ours} for word, ours in _SESSIONS.items() if word != "any"},
    **{word: {"target_session_attrs": "prefer-standby"} for word in ("prefersecondary", "preferslave")},
    "any": {},
}
_ENCRYPTED: Final = {"ssl_check_hostname": "true"}  # without a check of the certificate
_VERIFIED: Final = {"ssl_verify_cert": "true"}
_MYSQL_TLS: Final = {
    **dict.fromkeys(("true", "required", "trust"), _ENCRYPTED),
    **{word: {} for word in ("false", "disabled", "disable", "preferred")},
    "verify_ca": _VERIFIED,
    **{word: {**_VERIFIED, "ssl_verify_identity": "true"} for word in ("verify_identity", "verify_full")},
}
_ZERO_DATES: Final = {
    **{word: {ZERO_DATES: TO_NULL} for word in ("converttonull", "convert_to_null")},
    "round": {ZERO_DATES: TO_FIRST_DAY},
    "exception": {ZERO_DATES: TO_ERROR},
}
_TRANSLATIONS: Final[Mapping[str, Mapping[str, _Translation]]] = {
    POSTGRESQL: {
        "ssl": _by_word({"true": {"sslmode": "verify-full"}, "": {"sslmode": "verify-full"}, "false": {}}),
        "applicationname": _renamed("application_name"),
        "connecttimeout": _renamed("connect_timeout"),
        "logintimeout": _renamed("connect_timeout"),
        "channelbinding": _renamed("channel_binding"),
        "kerberosservername": _renamed("krbsrvname"),
        "requireauth": _renamed("require_auth"),
        "targetservertype": _by_word(_SESSION_OPTIONS),
        "loadbalancehosts": _switch({"load_balance_hosts": "random"}),
        READ_ONLY: _switch({READ_ONLY: "true"}),
    },
    MYSQL: {
        **dict.fromkeys(("usessl", "requiressl", "sslmode"), _by_word(_MYSQL_TLS)),
        "verifyservercertificate": _switch(_VERIFIED),
        "serversslcert": _renamed("ssl_ca"),
        "keypassword": _renamed("ssl_key_password"),
        "connecttimeout": _seconds("connect_timeout"),
        "sockettimeout": _seconds("read_timeout", "write_timeout"),
        ZERO_DATES: _by_word(_ZERO_DATES),
        TINY_AS_BOOLEAN: _by_word({"true": {}, "false": {TINY_AS_BOOLEAN: "false"}}),
    },
    MSSQL: {
        "encrypt": _by_word(
            {
                **{word: {"encryption": "require"} for word in ("true", "mandatory", "yes")},
                **{word: {"encryption": "request"} for word in ("false", "optional", "no")},
                "strict": {"encryption": "strict"},
            }
        ),
        "applicationname": _renamed("appname"),
        "logintimeout": _renamed("login_timeout"),
        "querytimeout": _renamed("timeout"),
    },
}
