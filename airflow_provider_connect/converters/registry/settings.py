"""Settings of the converters with a schema registry, and their translation to the client's settings. Knows nothing about the network.

Keys are the same as in Confluent's Java converters. All addresses and credentials come from the config, not from the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.config_def import REQUIRED, Config, ConfigDef, ConfigKey, Importance, OneOf, Range, Type, Validator
from airflow_provider_connect.sdk.required_packages import RequiredPackages

PACKAGES: Final = RequiredPackages("A schema registry", ("attrs", "authlib", "cachetools", "certifi"), "registry")
PROTOBUF_PACKAGES: Final = RequiredPackages("Protobuf", (*PACKAGES.modules, "google.protobuf", "grpc_tools"), "registry")
URL: Final = "schema.registry.url"
AUTO_REGISTER, USE_LATEST, NORMALIZE = "auto.register.schemas", "use.latest.version", "normalize.schemas"
KEY_SUBJECT, VALUE_SUBJECT = "key.subject.name.strategy", "value.subject.name.strategy"
CACHE_SIZE: Final = "schemas.cache.config"
BASIC_SOURCE, USER_INFO = "basic.auth.credentials.source", "basic.auth.user.info"
BEARER_SOURCE, TOKEN = "bearer.auth.credentials.source", "bearer.auth.token"
ISSUER, CLIENT_ID, CLIENT_SECRET = "bearer.auth.issuer.endpoint.url", "bearer.auth.client.id", "bearer.auth.client.secret"
SCOPE, CLUSTER, POOL = "bearer.auth.scope", "bearer.auth.logical.cluster", "bearer.auth.identity.pool.id"
TRUST_STORE, TRUST_TYPE = "schema.registry.ssl.truststore.location", "schema.registry.ssl.truststore.type"
KEY_STORE, KEY_STORE_TYPE = "schema.registry.ssl.keystore.location", "schema.registry.ssl.keystore.type"
KEY_PASSWORD: Final = "schema.registry.ssl.key.password"
PROXY_HOST, PROXY_PORT = "proxy.host", "proxy.port"
CONNECT_TIMEOUT, READ_TIMEOUT = "http.connect.timeout.ms", "http.read.timeout.ms"
RETRIES, WAIT, MOST_WAIT = "max.retries", "retries.wait.ms", "retries.max.wait.ms"
NO_FALLBACK, KEEPS_NULLS = "latest.compatibility.strict", "ignore.default.for.nullables"

_STRATEGIES: Final = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
_JAVA_STRATEGIES: Final = "io.confluent.kafka.serializers.subject."


def check_address(name: str, value: Any) -> None:
    """Raise ConfigException unless ``value`` is a list of HTTP(S) addresses without user and password, separated by commas."""
    for address in () if value is None else str(value).split(","):  # a missing value has its own error
        try:
            parts = urlsplit(address.strip())
            is_address, has_user = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0, "@" in parts.netloc
        except ValueError:
            is_address = has_user = False
        if has_user:
            raise ConfigException.of(name, "[hidden]", f"An address cannot have a user and password. Set {USER_INFO}, which is a secret.")
        if not is_address:
            raise ConfigException.of(name, value, "Must be addresses such as http://registry:8081 or https://…, separated by commas")


def address_validator(packages: RequiredPackages) -> Validator:
    """A validator of addresses that also checks that ``packages`` are installed."""

    def check(name: str, value: Any) -> None:
        check_address(name, value)
        packages.require(name, value)

    return check


def _check_optional_address(name: str, value: Any) -> None:
    if value is not None:
        check_address(name, value)


def _check_strategy(name: str, value: Any) -> None:
    if str(value).removeprefix(_JAVA_STRATEGIES) not in _STRATEGIES:
        choices = ", ".join(_JAVA_STRATEGIES + strategy for strategy in _STRATEGIES)
        raise ConfigException.of(name, value, f"Must be one of {choices}. Other strategy classes cannot be used.")


def strategy_of(config: Config, *, is_key: bool) -> str:
    """The simple name of the subject name strategy."""
    name: str = config[KEY_SUBJECT if is_key else VALUE_SUBJECT]
    return name.removeprefix(_JAVA_STRATEGIES)


def _key(name: str, type: Type, default: object, doc: str, **more: Any) -> ConfigKey:
    return ConfigKey(name, type, default, doc=doc, **more)


def _secret(name: str, doc: str) -> ConfigKey:
    return ConfigKey(name, Type.PASSWORD, None, doc=doc)


_STORE: Final = "PEM only."
REGISTRY_KEYS: Final = ConfigDef(
    _key(
        URL,
        Type.STRING,
        REQUIRED,
        "Addresses of the schema registry, separated by commas and tried in order. Without user and password.",
        validator=address_validator(PACKAGES),
        importance=Importance.HIGH,
    ),
    _key(AUTO_REGISTER, Type.BOOLEAN, True, "Whether to register schemas of written records. If not, they must be registered already."),
    _key(USE_LATEST, Type.BOOLEAN, False, f"Whether to write with the subject's latest schema; {AUTO_REGISTER} must be false."),
    _key(
        NO_FALLBACK,
        Type.BOOLEAN,
        True,
        f"With {USE_LATEST}: whether the latest schema must be compatible with the records' schema.",
        importance=Importance.LOW,
    ),
    _key(NORMALIZE, Type.BOOLEAN, False, "Whether the registry normalizes schemas before it compares them."),
    _key(
        KEY_SUBJECT,
        Type.STRING,
        f"{_JAVA_STRATEGIES}{_STRATEGIES[0]}",
        "Subject of a key's schema: topic, record name, or both.",
        validator=_check_strategy,
    ),
    _key(
        VALUE_SUBJECT,
        Type.STRING,
        f"{_JAVA_STRATEGIES}{_STRATEGIES[0]}",
        "Subject of a value's schema: topic, record name, or both.",
        validator=_check_strategy,
    ),
    _key(CACHE_SIZE, Type.INT, 1000, "Number of cached schemas.", validator=Range(at_least=1), importance=Importance.LOW),
    _key(
        BASIC_SOURCE,
        Type.STRING,
        "USER_INFO",
        f"Source of the user: {USER_INFO}. URL has the same meaning, since addresses have no user here.",
        validator=OneOf("USER_INFO", "URL"),
    ),
    _secret(USER_INFO, "User and password for HTTP Basic, as user:password."),
    _key(
        BEARER_SOURCE,
        Type.STRING,
        None,
        "Source of the bearer token: STATIC_TOKEN, or OAUTHBEARER for a token that the client requests. Tokens of the host are not used.",
        validator=lambda name, value: None if value is None else OneOf("STATIC_TOKEN", "OAUTHBEARER")(name, value),
    ),
    _secret(TOKEN, "The token of STATIC_TOKEN."),
    _key(ISSUER, Type.STRING, None, "Token endpoint of OAUTHBEARER.", validator=_check_optional_address),
    _key(CLIENT_ID, Type.STRING, None, "Client of OAUTHBEARER."),
    _secret(CLIENT_SECRET, "The client's secret."),
    _key(SCOPE, Type.STRING, "", "Scope for OAUTHBEARER."),
    _key(CLUSTER, Type.STRING, "", "Sent with a token as target-sr-cluster.", importance=Importance.LOW),
    _key(POOL, Type.STRING, None, "Sent with a token as Confluent-Identity-Pool-Id.", importance=Importance.LOW),
    _key(TRUST_STORE, Type.STRING, None, f"File with the certificate authorities for the registry. {_STORE}"),
    _key(TRUST_TYPE, Type.STRING, "PEM", "The file's type.", validator=OneOf("PEM"), importance=Importance.LOW),
    _key(KEY_STORE, Type.STRING, None, f"File with the client's certificate and private key, for mutual TLS. {_STORE}"),
    _key(KEY_STORE_TYPE, Type.STRING, "PEM", "The file's type.", validator=OneOf("PEM"), importance=Importance.LOW),
    _secret(KEY_PASSWORD, "The password of the private key."),
    _key(PROXY_HOST, Type.STRING, None, "The host of an HTTP proxy.", importance=Importance.LOW),
    _key(PROXY_PORT, Type.INT, None, "The proxy's port.", importance=Importance.LOW),
    _key(CONNECT_TIMEOUT, Type.INT, 60000, "How long to wait for a connection.", validator=Range(1), importance=Importance.LOW),
    _key(READ_TIMEOUT, Type.INT, 60000, "How long to wait for a response.", validator=Range(1), importance=Importance.LOW),
    _key(RETRIES, Type.INT, 3, "Retries of a request if the registry is unavailable.", validator=Range(0, 20)),
    _key(WAIT, Type.INT, 1000, "Maximum wait before the first retry; it doubles each time.", validator=Range(0)),
    _key(MOST_WAIT, Type.INT, 20000, "Maximum wait before a retry.", validator=Range(0)),
)
KEEPS_NULLS_KEY: Final = _key(
    KEEPS_NULLS,
    Type.BOOLEAN,
    False,
    "Whether null stays null in an optional field with a default. Otherwise the default is written.",
    importance=Importance.LOW,
)
"""For converters whose formats can write both null and the default."""


def client_settings(config: Config, allowed: AllowedPaths) -> dict[str, Any]:
    """The settings of confluent-kafka's registry client.

    Raises ConfigException for incomplete settings, and for files that the worker does not allow.
    """
    if config[USE_LATEST] and config[AUTO_REGISTER]:
        raise ConfigException.of(USE_LATEST, "true", f"The latest schema is used only with {AUTO_REGISTER}=false. Set it.")
    connect, read = config[CONNECT_TIMEOUT] / 1000, config[READ_TIMEOUT] / 1000
    given: dict[str, Any] = {
        "url": config[URL],
        "timeout": (connect, read, read, connect),
        "max.retries": config[RETRIES],
        "retries.wait.ms": config[WAIT],
        "retries.max.wait.ms": config[MOST_WAIT],
        "cache.capacity": config[CACHE_SIZE],
        "cache.latest.ttl.sec": 300,
    }
    if config[USER_INFO] is not None:
        if ":" not in config[USER_INFO].value:
            raise ConfigException.of(USER_INFO, "[hidden]", "Must be user:password")
        given[USER_INFO] = config[USER_INFO].value
    if config[PROXY_HOST] is not None:
        given["proxy"] = f"http://{config[PROXY_HOST]}:{config[PROXY_PORT] or 80}"
        check_address(PROXY_HOST, given["proxy"])
    return given | _bearer(config) | _certificates(config, allowed)


def _bearer(config: Config) -> dict[str, Any]:
    source = config[BEARER_SOURCE]
    if source is None:
        return {}
    needed = (TOKEN,) if source == "STATIC_TOKEN" else (ISSUER, CLIENT_ID, CLIENT_SECRET)
    for name in needed:
        if config[name] is None:
            raise ConfigException.of(name, "null", f"{BEARER_SOURCE}={source} needs it. Set it.")
    found = {name: getattr(config[name], "value", config[name]) for name in (*needed, CLUSTER, POOL) if config[name] is not None}
    return found | {BEARER_SOURCE: source} | ({SCOPE: config[SCOPE]} if source == "OAUTHBEARER" else {})


def _certificates(config: Config, allowed: AllowedPaths) -> dict[str, Any]:
    files: Mapping[str, str] = {"ssl.ca.location": TRUST_STORE, "ssl.certificate.location": KEY_STORE}
    found = {name: allowed.file_path(key, config[key]) for name, key in files.items() if config[key] is not None}
    if config[KEY_PASSWORD] is not None and KEY_STORE in config and config[KEY_STORE] is not None:
        found["ssl.key.password"] = config[KEY_PASSWORD].value
    return found
