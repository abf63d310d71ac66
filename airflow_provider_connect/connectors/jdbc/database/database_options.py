"""The options of a database's URL that reach our own drivers. Only handles text and opens nothing.

An option is applied, ignored or refused. It is ignored if it only tunes a Java driver and changes no value. Unknown options, and options
that could run code or read files, are refused by their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_provider_connect.connectors.jdbc.dialects.dialect import Dialect
from airflow_provider_connect.connectors.jdbc.dialects.registry import DIALECTS
from airflow_provider_connect.connectors.jdbc.dialects.url_options import (
    READ_ONLY,
    TINY_AS_BOOLEAN,
    ZERO_DATES,
    UnknownOptionError,
    words,
)

SECRET_OPTIONS: Final = frozenset({"sslpassword", "ssl_key_password"})
"""Options that are applied and have a secret."""
_FILE_OPTIONS: Final = frozenset[str]().union(*(dialect.options.files for dialect in DIALECTS))
_NO_FILES: Final = ("system", "")  # values of ``sslrootcert`` that are not a path


def file_options(dialect: Dialect, options: Mapping[str, str]) -> dict[str, str]:
    """The options that have a path of the host, with their paths. The module ``database_files`` checks each path."""
    return {name: value for name, value in options.items() if name in dialect.options.files and value not in _NO_FILES}


_RUNS_CODE: Final = words(
    "init initsql init_command connectioninitsql autodeserialize queryinterceptors statementinterceptors exceptioninterceptors "
    "connectionlifecycleinterceptors propertiestransform socketfactory socketfactoryarg sslfactory sslfactoryarg sslhostnameverifier "
    "sslpasswordcallback authenticationpluginclassname authenticationplugins defaultauthenticationplugin clientinfoprovider "
    "xmlfactoryfactory jaasapplicationname jaaslogin allowmultiqueries sessionvariables enable_load_extension load_extension plugin "
    "driver options credentialtype gsslib javaobjectserializer profilereventhandler logger parseinfocachefactory auth_plugin_map conv "
    "cursorclass"
)
_READS_FILES: Final = words(
    "allowloadlocalinfile allowurlinlocalinfile allowloadlocalinfileinpath local_infile localinfile "
    "sslcrldir sslkeylogfile passfile service servicefile loggerfile read_default_file read_default_group "
    "serverrsapublickeyfile ssl_capath unix_socket localsocket pipe vfs uri"
)
_STORES: Final = words(
    "truststore truststorepassword truststoretype keystore keystorepassword keystoretype trustcertificatekeystoreurl "
    "clientcertificatekeystoreurl trustcertificatekeystorepassword clientcertificatekeystorepassword trustcertificatekeystoretype "
    "clientcertificatekeystoretype"
)
_OFF: Final = ("false", "0", "no", "off")


def danger(dialect: Dialect, name: str, value: str) -> str | None:
    """The reason why an option is refused for any database, and its replacement. None for other options."""
    word, known = name.lower(), dialect.options
    if value.lower() in _OFF:
        return None
    if word in _RUNS_CODE:
        return f"The option {name} can run code. Take it out of the URL."
    if word in _STORES:
        start = f"The option {name} is a Java key store, which only Java reads."
        if not known.pem:
            return f"{start} Take the options of stores out of the URL{known.without_stores}."
        return (
            f"{start} Write PEM files: keytool -exportcert -rfc for a certificate, "
            f"openssl pkcs12 -nodes for a key, and in the URL {known.pem} in place of the options of stores."
        )
    if word in _READS_FILES or (word in _FILE_OPTIONS and word not in known.files):
        return f"The option {name} can read files of the worker. Take it out of the URL{known.without_files}."
    return None


def known_options(dialect: Dialect, given: Mapping[str, str]) -> dict[str, str]:
    """The options for our own driver. ``given`` has lower-case names, and dangerous options only if they are switched off. Raises
    UnknownOptionError."""
    known = dialect.options
    options: dict[str, str] = {}
    for name, value in given.items():
        accepted, reason = known.fixed.get(name, ((), None))
        if name in known.translations:
            translated = known.translations[name](value)
            if translated is None:
                raise UnknownOptionError(name)
            options |= translated
        elif name in known.accepted or name in known.files:
            options[name] = value
        elif reason is not None and value.lower() not in accepted:
            raise UnknownOptionError(name, reason)
        elif reason is None and name not in known.ignored and not (value.lower() in _OFF and name in _RUNS_CODE | _READS_FILES | _STORES):
            raise UnknownOptionError(name)
    dialect.check_options(options, given)
    return options


def driver_options(dialect: Dialect, options: Mapping[str, str], driver: str | None = None) -> dict[str, str]:
    """The options that the driver reads from its URL, without options that this package applies itself. ``driver`` is not our own."""
    ours = (ZERO_DATES, TINY_AS_BOOLEAN, READ_ONLY)
    given = {**dialect.options.defaults, **options} if driver in (None, dialect.driver) else options
    return {
        name: value for name, value in given.items() if name not in ours and not (dialect.makes_tls_context and name.startswith("ssl_"))
    }
