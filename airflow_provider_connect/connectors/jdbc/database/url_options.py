"""Which options of a database URL are taken, which are dropped, and which are refused because they could run code or read files.

Taken is only what is known to be harmless: drivers have many options that name a class to load, a file to read or a statement to run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

POSTGRESQL, SQLITE, MYSQL, MARIADB = "postgresql", "sqlite", "mysql", "mariadb"


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
    POSTGRESQL: {"applicationname": "application_name", "connecttimeout": "connect_timeout", "logintimeout": "connect_timeout"},
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
        way = ", or let whoever runs the workers set libpq's environment (PGSSLROOTCERT, PGPASSFILE, …)" if dialect == POSTGRESQL else ""
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
    """What the JDBC drivers' words for TLS are to ours; None for any other option, and for a word that is none of theirs."""
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
