"""Logins and certificates of clients: translates Java's SASL and TLS settings to librdkafka's.

Librdkafka inserts some settings into a command, so their characters are limited. Does not know where settings come from.
"""

import re
from collections.abc import Mapping
from pathlib import PurePath

from airflow_provider_connect.errors import ConfigException

_FLAG = re.compile(r"(?:required|requisite|sufficient|optional)\b")
_OPTION = re.compile(r"""(?<![\w.])([\w.]++)\s*+=\s*+(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")


def sasl_config(java: Mapping[str, str]) -> dict[str, str]:
    """Translate ``sasl.jaas.config`` to user name, password and other settings. Raises ConfigException for a module that needs Java
    code."""
    service = java.get("sasl.kerberos.service.name", "").strip()
    if service and not _plain(service, "_.-"):
        raise ConfigException.of("sasl.kerberos.service.name", service, "it must be letters, digits, '_', '.' and '-'")
    module, options = login_module(java)
    if not module:
        return {}
    names = _LOGIN_MODULES.get(module)
    if names is None:
        raise ConfigException.of("sasl.jaas.config", "[hidden]", f"login module {module} needs Java; use {', '.join(_LOGIN_MODULES)}")
    if not _plain(options.get("principal", "p"), "_.-/@"):
        raise ConfigException.of("sasl.jaas.config", "[hidden]", "a principal must be letters, digits and '_', '.', '-', '/', '@'")
    if not _is_plain_path(options.get("keyTab", "/k")):
        raise ConfigException.of("sasl.jaas.config", "[hidden]", f"keyTab must be {_PLAIN_PATH}")
    config: dict[str, str] = {ours: options[theirs] for theirs, ours in names.items() if theirs in options}
    if module == "OAuthBearerLoginModule" and "clientId" in options:
        config["sasl.oauthbearer.method"] = "oidc"
    return config


def login_module(java: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The login module of ``sasl.jaas.config``, without its package, and its options. Both are empty if it is not set."""
    text = java.get("sasl.jaas.config", "").strip()
    if not text:
        return "", {}
    name, rest = (*text.split(None, 1), "")[:2]
    flag = _FLAG.match(rest)
    module = name.rpartition(".")[2]
    if flag is None or not _plain(module, "_"):
        raise ConfigException.of("sasl.jaas.config", "[hidden]", "expected '«login module» required «option»=\"«value»\" …;'")
    found = _OPTION.findall(rest, flag.end())
    return module, {key: _unquoted(double, single, bare) for key, double, single, bare in found}


def _plain(text: str, marks: str) -> bool:
    """Whether ``text`` has only letters, digits and ``marks``, and starts with a letter or digit."""
    return bool(text) and text.isascii() and text[0].isalnum() and all(character.isalnum() or character in marks for character in text)


def _is_plain_path(path: str) -> bool:
    return path.startswith("/") and all(character.isalnum() or character in "/_.-+=,@~: " for character in path)


_PLAIN_PATH = "an absolute path of letters, digits, spaces and / _ . - + = , @ ~ :"
_LOGIN_MODULES: Mapping[str, Mapping[str, str]] = {
    "PlainLoginModule": {"username": "sasl.username", "password": "sasl.password"},
    "ScramLoginModule": {"username": "sasl.username", "password": "sasl.password"},
    "OAuthBearerLoginModule": {
        "clientId": "sasl.oauthbearer.client.id",
        "clientSecret": "sasl.oauthbearer.client.secret",
        "scope": "sasl.oauthbearer.scope",
    },
    "Krb5LoginModule": {"principal": "sasl.kerberos.principal", "keyTab": "sasl.kerberos.keytab"},
}


def _unquoted(double: str, single: str, bare: str) -> str:
    return re.sub(r"\\(.)", r"\1", double or single) or bare


def tls_config(java: Mapping[str, str]) -> dict[str, str]:
    """Translate key and trust stores: PEM as text or file, and PKCS12 for keys. Only Java can read JKS."""
    config: dict[str, str] = {}
    if "ssl.endpoint.identification.algorithm" in java:
        config["ssl.endpoint.identification.algorithm"] = java["ssl.endpoint.identification.algorithm"].strip() or "none"
    for theirs, ours in _PEM_TEXTS.items():
        if java.get(theirs):
            config[ours] = java[theirs]
    if java.get("ssl.key.password"):
        config["ssl.key.password"] = java["ssl.key.password"]
    trust = java.get("ssl.truststore.location", "").strip()
    for name in ("ssl.truststore.location", "ssl.keystore.location"):
        if (path := java.get(name, "").strip()) and not _is_plain_path(path):
            raise ConfigException.of(name, path, f"it must be {_PLAIN_PATH}")
    if trust:
        if _store_type(java, "ssl.truststore", trust) != "PEM":
            raise ConfigException.of(
                "ssl.truststore.location", trust, "a trust store must be PEM (ssl.truststore.type=PEM) to be read outside Java"
            )
        config["ssl.ca.location"] = trust
    keys = java.get("ssl.keystore.location", "").strip()
    if keys:
        config |= _key_store(java, keys)
    return config


_PEM_TEXTS = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}


def _key_store(java: Mapping[str, str], location: str) -> dict[str, str]:
    match _store_type(java, "ssl.keystore", location):
        case "PEM":
            return {"ssl.certificate.location": location, "ssl.key.location": location}
        case "PKCS12":
            return {"ssl.keystore.location": location, "ssl.keystore.password": java.get("ssl.keystore.password", "")}
    raise ConfigException.of(
        "ssl.keystore.location", location, "a key store must be PEM or PKCS12 (ssl.keystore.type) to be read outside Java"
    )


def _store_type(java: Mapping[str, str], prefix: str, location: str) -> str:
    by_ending = {".pem": "PEM", ".crt": "PEM", ".cer": "PEM", ".p12": "PKCS12", ".pfx": "PKCS12"}
    return java.get(f"{prefix}.type", "").strip().upper() or by_ending.get(PurePath(location).suffix.lower(), "JKS")
