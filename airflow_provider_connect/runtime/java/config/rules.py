"""Settings that the config of a Java connector must not contain.

The author of a config is not trusted. Settings can make Kafka's Java clients read files, run commands, load classes and log in to other
systems. These rules are checked when a config is validated, and again by each run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.dag_settings import APPLICATION, CONTINUOUS, IDLE_TIMEOUT, SCHEDULE


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TUNING: Final = _words("""
    acks auto.offset.reset batch.size buffer.memory check.crcs client.dns.lookup client.id client.rack compression.gzip.level
    compression.lz4.level compression.type compression.zstd.level connections.max.idle.ms default.api.timeout.ms
    delivery.timeout.ms enable.idempotence fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id group.instance.id
    group.protocol group.remote.assignor heartbeat.interval.ms isolation.level linger.ms max.block.ms
    max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms max.poll.records max.request.size
    metadata.max.age.ms partitioner.ignore.keys receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms
    request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms send.buffer.bytes session.timeout.ms
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms transaction.timeout.ms
""")
"""The Kafka client settings that the config of a Java connector may override. None of them can reach a file, a class or another server."""
_DRIVER_CODE: Final = _words("""
    accesstokencallbackclass allowloadlocalinfile allowlocalinfile allowloadlocalinfileinpath allowurlinlocalinfile
    authenticationpluginclassname authenticationplugins autodeserialize clientcertificatekeystoreurl clientinfoprovider
    clientrerouteserverlistjndiname connectionlifecycleinterceptors
    exceptioninterceptors init loggerfile propertiestransform queryinterceptors serverrsapublickeyfile socketfactory socketfactoryarg
    socketfactoryclass socketfactoryconstructorarg sslfactory sslfactoryarg sslhostnameverifier sslpasswordcallback
    statementinterceptors tracefile trustcertificatekeystoreurl trustmanagerclass trustmanagerconstructorarg xmlfactoryfactory
""")
"""Options of JDBC drivers, in lower case, that run code or read files of the host."""
_OF_DRIVER: Final = r"(?:^|\.)(?:connection|database|datasource|driver|jdbc)\."
_DRIVER: Final = re.compile(_OF_DRIVER)
_URL_KEY: Final = re.compile(rf"{_OF_DRIVER}|(?<![a-z])ur[il]|Ur[il]|dbname|dsn|connection\.?string")
_URL: Final = re.compile(r"\bjdbc\s*:", re.IGNORECASE)
_URL_OPTION: Final = re.compile(r"\b(\w+)\s*=\s*([^&;,()\s]*)")
_DECODINGS: Final = 3  # a driver decodes only once, but further decodings are also checked
_STATEMENTS: Final = ("database.", "driver.", "heartbeat.", "snapshot.")  # some of these settings have statements
_INFILE: Final = re.compile(r"\bINFILE\b", re.IGNORECASE)
DEBEZIUM: Final = "io.debezium.connector."
ENDING_DEBEZIUM: Final = frozenset(
    f"{DEBEZIUM}{name}" for name in ("postgresql.PostgresConnector", "mariadb.MariaDbConnector", "mysql.MySqlConnector")
)
"""Debezium's sources for which the end of a run is known."""
_LISTENERS: Final = (
    "io.confluent.connect.SplunkHttpSource",
    "io.confluent.connect.diode.source.",
    "io.confluent.connect.snmp.",
    "io.confluent.connect.splunk.s2s.",
    "io.confluent.connect.syslog.",
)
"""Prefixes of the class names of sources that listen on a port."""
STAY: Final = f"{SCHEDULE}={CONTINUOUS}"
"""The setting with which the runs of a connector stay."""
_OFF: Final = frozenset({"false", "0", "no", "off", ""})
_OVERRIDE: Final = re.compile(r"(?:producer|consumer|admin)\.override\.(.*)", re.DOTALL)
HOST_NAME: Final = re.compile(r"(?![.-])[A-Za-z0-9_.-]{1,253}(?<![.-])")
ADDRESS: Final = re.compile(r"\[?([0-9A-Fa-f.]*+:[0-9A-Fa-f:.]*+)\]?")
_PARTS: Final = {
    "database.hostname": (re.compile(f"{HOST_NAME.pattern}|{ADDRESS.pattern}"), "the name or the address of a server"),
    "database.port": (re.compile(r"[0-9]{1,5}"), "a number between 1 and 65535"),
    "database.dbname": (re.compile(r"[^?&;#/\\%\s]{1,255}"), "the name of a database, without options"),
    "database.protocol": (re.compile("jdbc:(?:mysql|mariadb)"), "jdbc:mysql or jdbc:mariadb"),
    "database.jdbc.driver": (re.compile(r"com\.mysql\.cj\.jdbc\.Driver|org\.mariadb\.jdbc\.Driver"), "MySQL's or MariaDB's own driver"),
}
_LEADS_ELSEWHERE: Final = re.compile(r"(?:database|driver)\.(?:pg[a-z]+|service|localsocket(?:address)?|pipe)", re.IGNORECASE)
_FILE_DATABASE: Final = re.compile(r"\bjdbc\s*:\s*(?:sqlite|h2|hsqldb|derby|duckdb)\s*:", re.IGNORECASE)
_DIRECTORY: Final = re.compile(r"\bjdbc\s*:\s*\w+\s*:\s*jndi\s*:", re.IGNORECASE)
_HIBERNATE: Final = re.compile(
    r"hibernate\.(?:connection\.(?:url|username|password|isolation|autocommit|pool_size)|order_inserts|order_updates"
    r"|c3p0\.(?:min_size|max_size|timeout|acquire_increment|max_statements|idle_test_period|validate)"
    r"|jdbc\.(?:batch_size|fetch_size|time_zone)|default_schema|default_catalog|show_sql|format_sql|use_sql_comments)"
)
HISTORY: Final = "schema.history.internal"
KAFKA_HISTORY: Final = "io.debezium.storage.kafka.history.KafkaSchemaHistory"
_HISTORY_CLIENT: Final = re.compile(rf"{re.escape(HISTORY)}\.(?:producer|consumer)\.(.*)", re.DOTALL)
SIGNAL_CHANNELS: Final = "signal.enabled.channels"
KAFKA_SIGNALS: Final = "kafka"
"""The channel of signals that Debezium reads from a topic."""
SIGNAL_TOPIC: Final = "signal.kafka.topic"
SIGNAL_SERVERS: Final = "signal.kafka.bootstrap.servers"
SIGNAL_CONSUMER: Final = "signal.consumer."
_SAFE_CHANNELS: Final = frozenset({"source", KAFKA_SIGNALS, "in-process", "jmx", ""})
_SIGNAL_KEYS: Final = {SIGNAL_TOPIC, SIGNAL_SERVERS, "signal.kafka.groupId", "signal.kafka.poll.timeout.ms"}
_FILES: Final = frozenset({"signal.file", "openlineage.integration.config.file.path"})
ICEBERG_CLIENTS: Final = "iceberg.kafka."
_ICEBERG_FILES: Final = frozenset({"iceberg.hadoop-conf-dir"})
_BOUNDARY: Final = "transaction.boundary"
_POLL_TIMEOUT: Final = "airflow.java.poll.timeout"  # a setting of the DAG; the only one that this module uses
_PROVIDERS: Final = re.compile(r"(?:^|\.)config\.providers(?:\.|$)")
_TRIMMED: Final = "".join(map(chr, range(33)))  # characters that Java's String.trim removes
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def refused_keys(config: Mapping[str, str | None]) -> dict[str, str]:
    """The refused keys of ``config``, each with the reason. No reason contains a value."""
    refused = {key: reason for key, value in config.items() if (reason := _refusal(key, value or "")) is not None}
    if _POLL_TIMEOUT in config and (config.get(_BOUNDARY) or "poll").strip(_TRIMMED).lower() != "poll":
        refused.setdefault(_BOUNDARY, f"each poll is committed by itself with {_POLL_TIMEOUT}: set it to poll, or remove {_POLL_TIMEOUT}")
    return refused


def _refusal(key: str, value: str) -> str | None:
    if _CONTROL.search(key) or (_CONTROL.search(value) and not _is_refused_name(key, value)):
        return "control characters are not allowed: Java leaves out some of them where others check the whole text"
    if _PROVIDERS.search(key):
        return "config providers are those of the worker settings: remove this key"
    if (found := _OVERRIDE.fullmatch(key)) and found[1] not in TUNING:
        return f"a Java connector overrides only settings that tune its Kafka clients, not {found[1]}: remove this key"
    return _driver_refusal(key, value) or _address_refusal(key, value) or _debezium_refusal(key, value) or _iceberg_refusal(key, value)


def _driver_refusal(key: str, value: str) -> str | None:
    """Refusals for connectors, such as Debezium's, that pass options and statements of a config to the database driver."""
    before, _, option = key.rpartition(".")
    if _DRIVER.search(f"{before}.") and _runs_code(option, value):
        return f"the driver's option {option} can run code or read files of the host: remove this key"
    texts = _decoded(value)
    is_url = _URL_KEY.search(key) is not None or any(_URL.search(text) for text in texts)
    for name in (name for text in texts for name, given in _URL_OPTION.findall(text) if is_url and _runs_code(name, given)):
        return f"the driver's option {name} within the value can run code or read files of the host: remove it"
    if (is_url or key.startswith(_STATEMENTS)) and any(_INFILE.search(text) for text in texts):
        return "a statement with INFILE can read files of the host: remove it"
    return None


def _address_refusal(key: str, value: str) -> str | None:
    """Refusals for the settings from which Debezium composes a URL without escaping. Each value must be what the setting's name suggests,
    and must not add an option."""
    given = value.strip(_TRIMMED)
    shape = _PARTS.get(key)
    if given and shape is not None and not shape[0].fullmatch(given):
        return f"it must be {shape[1]}"
    if given and _LEADS_ELSEWHERE.fullmatch(key):
        return "the server is that of database.hostname and database.port: remove this key"
    if _FILE_DATABASE.search(value):
        return "a database in a file of the host is not allowed"
    if _DIRECTORY.search(value):
        return "a directory (JNDI) must not name the address of a database"
    if key.startswith("hibernate.") and _HIBERNATE.fullmatch(key) is None:
        return "of Hibernate's settings only pools, batches, names and the connection's address and user may be set: remove this key"
    return None


def _runs_code(option: str, value: str) -> bool:
    return option.upper().lower() in _DRIVER_CODE and value.strip().lower() not in _OFF  # compared as Java compares letters: ſ is an s


def _decoded(value: str) -> list[str]:
    """``value`` itself, and ``value`` with a URL's escapes (``%61``) decoded, as drivers decode them."""
    texts = [value]
    while len(texts) < _DECODINGS and (decoded := unquote(texts[-1])) != texts[-1]:
        texts.append(decoded)
    return texts


def _debezium_refusal(key: str, value: str) -> str | None:
    """Refusals for files and topics that Debezium opens itself, outside Connect. It opens topics through its own Kafka clients."""
    given = value.strip(_TRIMMED)
    if key == SIGNAL_CHANNELS and not signal_channels({key: value}) <= _SAFE_CHANNELS:
        return f"signals come from a table or a topic, not from a file: set it to source or {KAFKA_SIGNALS}"
    if given and key not in _SIGNAL_KEYS and (key.startswith("signal.kafka.") or not _is_tuning(key, SIGNAL_CONSUMER)):
        return "the client of signals is tuned by a config and no more; on the worker's cluster it logs in as its own do: remove this key"
    if key in _FILES and given:
        return "it names a file of the host: remove this key"
    if key == HISTORY and given not in ("", KAFKA_HISTORY):
        return f"the history is kept on a topic: remove this key, or set {KAFKA_HISTORY}"
    if (client := _HISTORY_CLIENT.fullmatch(key)) and client[1] not in TUNING:
        return "a history's clients are tuned by a config and no more; on the worker's cluster they log in as its own do: remove this key"
    return None


def signal_channels(config: Mapping[str, str | None]) -> set[str]:
    """The channels on which Debezium receives signals with this ``config``."""
    return {each.strip(_TRIMMED) for each in (config.get(SIGNAL_CHANNELS) or "source").split(",")}


def _is_tuning(key: str, prefix: str) -> bool:
    """Whether ``key`` is not a client's setting with this prefix, or a setting that only tunes the client."""
    return not key.startswith(prefix) or key.removeprefix(prefix) in TUNING


def _iceberg_refusal(key: str, value: str) -> str | None:
    """Refusals for the Kafka clients that Iceberg's sink opens itself, and for files of the host."""
    if key.startswith(ICEBERG_CLIENTS) and key.removeprefix(ICEBERG_CLIENTS) not in {*TUNING, "bootstrap.servers"}:
        return "a config tunes the sink's own clients and no more; on the worker's cluster they log in as its own do: remove this key"
    if key in _ICEBERG_FILES and value.strip(_TRIMMED):
        return "it names files of the host: remove this key, and give Hadoop's settings as iceberg.hadoop.*"
    return None


def _is_refused_name(key: str, value: str) -> bool:
    """Whether Connect itself refuses a connector's name because of control characters. Connect trims the name first."""
    return key == "name" and _CONTROL.search(value.strip(_TRIMMED)) is not None


def needs_continuous(class_name: str) -> str | None:
    """The reason why runs of this source class must stay. None: its runs can end, as far as is known, or the class is a sink."""
    if class_name.startswith(_LISTENERS):
        return "it listens on a port"
    if not class_name.startswith(DEBEZIUM) or class_name in ENDING_DEBEZIUM or class_name.endswith("SinkConnector"):
        return None
    return (
        "Debezium's sources read in threads of their own, so an empty poll is not the end of the data. When a run can end is known for "
        "PostgreSQL, MariaDB and MySQL alone"
    )


def _signals_end(config: Mapping[str, str | None]) -> str | None:
    """The reason why runs must stay because of their signals. None: there is none."""
    if KAFKA_SIGNALS not in signal_channels(config):
        return None
    return "a run that ends may end between a signal on a topic and the snapshot that it requests, and would lose the signal"


def refused_end(class_name: str, config: Mapping[str, str | None]) -> str | None:
    """The reason why a source of this class cannot run with this ``config``: its runs would end. None: it can."""
    reason = needs_continuous(class_name) or _signals_end(config)
    if reason is None or (config.get(SCHEDULE) or "").strip() == CONTINUOUS or APPLICATION in config or IDLE_TIMEOUT in config:
        return None
    return f"{reason}, so its runs must stay: set {STAY}"


def refuse(config: Mapping[str, str | None]) -> None:
    """Raises ConfigException for the first refused key."""
    for key, reason in refused_keys(config).items():
        raise ConfigException(f"Invalid configuration {_CONTROL.sub('?', key)}: {reason}")
