"""The worker settings as one checked value, read from a mapping of Kafka Connect's names.

Knows nothing of the source of the mapping (airflow.cfg, an Airflow Connection or Variable, ``worker.properties``). Names, defaults and
texts are Kafka Connect's (contract §4.1), except for our own settings: ``airflow.schedule``, ``batch.*``, ``cost.*``,
``status.storage.retry.*`` and ``transaction.boundary.poll.linger.ms``. Every setting that Connect requires has a default, and exactly once
is on by default.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config import config_providers
from airflow_provider_connect.runtime.config.dag_settings import (
    ALLOWED_APPLICATIONS,
    ALLOWED_CONTINUOUS,
    ALLOWED_ENGINES,
    ALLOWED_POOLS,
    ALLOWED_QUEUES,
    CONTINUOUS,
    MAX_PRIORITY,
    MAX_SLOTS,
    MIN_INTERVAL,
    SCHEDULE,
    DagLimits,
    application_errors,
)
from airflow_provider_connect.runtime.config.internal_topics import AUTOMATIC_CREATION, KAFKAS_OWN, InternalTopic, topic_configs
from airflow_provider_connect.runtime.config.key_values import schedule_of
from airflow_provider_connect.runtime.config.notifiers import notifier_names
from airflow_provider_connect.runtime.config.settings_reader import SettingsReader
from airflow_provider_connect.runtime.model.config_limits import MOST_TASKS, TASK_MEMORY
from airflow_provider_connect.runtime.model.cost import Prices
from airflow_provider_connect.runtime.model.ids import refusal_of_topic
from airflow_provider_connect.sdk.allowed_paths import SETTING as ALLOWED_PATHS
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.allowed_spark import SPARK_FORMATS, SPARK_OPTIONS, AllowedSpark

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
SIMPLE_HEADER_CONVERTER = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
MAX_TASKS_SETTING = "connectors.max.tasks"
DEFAULT_TASK_MEMORY = "2g"
DEFAULT_MAX_TASKS = 1024  # Airflow's limit for a mapped task ([core] max_map_length)

_log = logging.getLogger(__name__)
_REPLICATION_TEXT = (
    "Replication factor must be positive and not larger than the number of brokers in the Kafka cluster, or -1 to use the broker's default"
)
_PARTITIONS_TEXT = "Number of partitions must be positive, or -1 to use the broker's default"
_PURPOSES = {
    "config": "connector configurations",
    "offset": "source connector offsets",
    "status": "connector and task statuses",
    "batch": "delivered batches",
}
_LONGEST_CURRENCY = 8
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MOST_MONEY = 1e9
_NOT_PASSED_ON = ("topic", "partitions", "replication.factor", "cleanup.policy")


@dataclass(frozen=True, slots=True)
class StatusRetry:
    """The retries of failed status writes (KIP-1278)."""

    max_retries: int
    initial_backoff_ms: int
    max_backoff_ms: int
    backoff_multiplier: float
    jitter_factor: float


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The checked worker settings. ``originals`` is the mapping as given. ``values`` is the mapping with its variables resolved."""

    group_id: str
    client_id: str
    bootstrap_servers: str
    config_topic: str
    offset_topic: str
    status_topic: str
    batch_topic: str
    internal_topics: tuple[InternalTopic, ...]
    key_converter: str
    value_converter: str
    header_converter: str
    key_converter_settings: Mapping[str, str] = field(repr=False)
    value_converter_settings: Mapping[str, str] = field(repr=False)
    header_converter_settings: Mapping[str, str] = field(repr=False)
    offset_flush_interval_ms: int
    offset_flush_timeout_ms: int
    task_shutdown_graceful_timeout_ms: int
    exactly_once_source: str
    status_retry: StatusRetry
    topic_tracking_enable: bool
    topic_tracking_allow_reset: bool
    topic_creation_enable: bool
    internal_topics_creation_enable: bool
    client_config_override_policy: str
    client_config_override_allowlist: tuple[str, ...]
    plugin_path: tuple[str, ...]
    allowed_paths: AllowedPaths
    allowed_spark: AllowedSpark = field(repr=False)
    version_ranges: Mapping[str, str]
    max_tasks: int
    java_threads_max: int
    plugin_plan_timeout_ms: int
    plugin_probe_timeout_ms: int
    plugin_probe_memory_bytes: int
    batch_max_records: int | None
    batch_max_duration_ms: int
    task_memory_max: int
    librdkafka_direct_access_enable: bool
    transaction_boundary_poll_linger_ms: int
    schedule: str | None
    dag_limits: DagLimits
    missing_dag_grace_seconds: float
    missing_dag_limit: int
    prices: Prices
    originals: Mapping[str, str] = field(repr=False)
    values: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, mapping: Mapping[str, str], secrets: Mapping[str, str] | None = None) -> "WorkerSettings":
        """The settings in ``mapping``. Raises ConfigException with name, value and reason of each wrong setting.

        ``secrets`` has the values of Airflow's variables in ``mapping``. Variables in ``plugin.path`` are not resolved, as in Connect.
        """
        originals = {name: str(value) for name, value in mapping.items() if value is not None}
        raw = {name: value for name, value in originals.items() if name == "plugin.path"}
        variable = {name: value for name, value in originals.items() if name not in raw}
        values = config_providers.resolve(variable, config_providers.create_providers(originals), secrets) | raw
        read = SettingsReader(values)
        settings = _settings(read, originals, values)
        read.raise_errors()
        read.warn_misspelled_settings()
        return settings

    @property
    def exactly_once_source_enabled(self) -> bool:
        return self.exactly_once_source == "enabled"

    def config_providers(self, connector: str | None = None) -> Mapping[str, config_providers.ConfigProvider]:
        """The config providers for ``connector``, with its access rights. None: for the worker's own settings.

        Returns new objects at each call, because they cache resolved values.
        """
        return config_providers.create_providers(self.originals, connector)

    def refusal_of_data_topic(self, topic: str) -> str:
        """The reason why no connector may read or write this topic. Empty: connectors may. Access to the config topic would give a
        connector the rights of an admin."""
        if topic in KAFKAS_OWN:
            return "It is one of Kafka's own topics. Name another."
        purposes = {internal.name: internal.purpose for internal in self.internal_topics}
        return f"It is the worker's own topic for {purposes[topic]}. Name another." if topic in purposes else ""

    def internal_topic(self, name: str) -> InternalTopic:
        """The internal topic of this name. Raises KeyError."""
        return {topic.name: topic for topic in self.internal_topics}[name]


def setting_names() -> frozenset[str]:
    """The names of all worker settings, except those that a prefix such as ``producer.`` begins."""
    read = SettingsReader({})
    _settings(read, {}, {})
    return frozenset(read.asked)


def _settings(read: SettingsReader, originals: Mapping[str, str], values: Mapping[str, str]) -> WorkerSettings:
    group = read.filled("group.id", "connect")
    topics = _internal_topics(read, group)
    _check_protocol(read)
    config, offset, status, batch = (topic.name for topic in topics)
    return WorkerSettings(
        group_id=group,
        client_id=read.text("client.id"),
        bootstrap_servers=_bootstrap_servers(read),
        config_topic=config,
        offset_topic=offset,
        status_topic=status,
        batch_topic=batch,
        internal_topics=topics,
        key_converter=read.filled("key.converter", JSON_CONVERTER),
        value_converter=read.filled("value.converter", JSON_CONVERTER),
        header_converter=read.filled("header.converter", SIMPLE_HEADER_CONVERTER),
        key_converter_settings=read.under("key.converter."),
        value_converter_settings=read.under("value.converter."),
        header_converter_settings=read.under("header.converter."),
        offset_flush_interval_ms=read.number("offset.flush.interval.ms", 60_000),
        offset_flush_timeout_ms=read.number("offset.flush.timeout.ms", 5000),
        task_shutdown_graceful_timeout_ms=read.number("task.shutdown.graceful.timeout.ms", 5000),
        exactly_once_source=read.choice("exactly.once.source.support", "enabled", "disabled", "preparing", "enabled"),
        status_retry=_status_retry(read),
        topic_tracking_enable=read.flag("topic.tracking.enable", True),
        topic_tracking_allow_reset=read.flag("topic.tracking.allow.reset", True),
        topic_creation_enable=read.flag("topic.creation.enable", True),
        internal_topics_creation_enable=read.flag(AUTOMATIC_CREATION, True),
        client_config_override_policy=read.text("connector.client.config.override.policy", "SameCluster"),
        client_config_override_allowlist=read.names("connector.client.config.override.allowlist"),
        plugin_path=read.names("plugin.path"),
        allowed_paths=_allowed_paths(read),
        allowed_spark=AllowedSpark(read.names(SPARK_FORMATS), read.names(SPARK_OPTIONS)),
        version_ranges=read.under("version_ranges."),
        max_tasks=read.number(MAX_TASKS_SETTING, DEFAULT_MAX_TASKS, 1, at_most=MOST_TASKS, bits=32),
        java_threads_max=read.number("java.threads.max", 2000, 100, bits=32),
        plugin_plan_timeout_ms=read.number("plugin.plan.timeout.ms", 300_000, 1),
        plugin_probe_timeout_ms=read.number("plugin.probe.timeout.ms", 30_000, 1),
        plugin_probe_memory_bytes=read.number("plugin.probe.memory.bytes", 4 << 30, 256 << 20),
        batch_max_records=read.number("batch.max.records", 1, 1) if read.given("batch.max.records") is not None else None,
        batch_max_duration_ms=read.number("batch.max.duration.ms", 3_600_000, 1),
        task_memory_max=read.memory(TASK_MEMORY, DEFAULT_TASK_MEMORY),
        librdkafka_direct_access_enable=read.flag("librdkafka.direct.access.enable", True),
        transaction_boundary_poll_linger_ms=read.number("transaction.boundary.poll.linger.ms", 200),
        schedule=_schedule(read),
        dag_limits=_dag_limits(read),
        missing_dag_grace_seconds=read.duration("airflow.missing.dag.grace", 600.0),
        missing_dag_limit=read.number("airflow.missing.dag.limit", 10),
        prices=_prices(read),
        originals=dict(originals),
        values=dict(values),
    )


def _bootstrap_servers(read: SettingsReader) -> str:
    servers = [server.strip() for server in read.text("bootstrap.servers", "localhost:9092").split(",") if server.strip()]
    if not servers:
        read.refuse("bootstrap.servers", "", "No resolvable bootstrap urls given in bootstrap.servers")
    for server in servers:
        host, _, port = server.rpartition("://")[2].rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            read.refuse("bootstrap.servers", server, "Invalid url in bootstrap.servers, expected host:port")
    return ",".join(servers)


def _check_protocol(read: SettingsReader) -> None:
    """Checks a setting of Kafka's clients that Kafka Connect's worker also checks."""
    given = read.values.get("security.protocol", _PROTOCOLS[0])
    if given.strip().upper() not in _PROTOCOLS:
        read.refuse("security.protocol", given, f"String must be one of (case insensitive): {', '.join(_PROTOCOLS)}")


def _allowed_paths(read: SettingsReader) -> AllowedPaths:
    """The folders whose files connectors may access. If the worker's own folder is known, the mapping includes the default."""
    folders = read.names(ALLOWED_PATHS)
    for folder in (each for each in folders if not each.startswith("/")):
        read.refuse(ALLOWED_PATHS, folder, "Each folder must be an absolute path")
    return AllowedPaths(folders)


def _schedule(read: SettingsReader) -> str | None:
    """The schedule of connectors without a schedule of their own. None: every five minutes."""
    text = read.given(SCHEDULE)
    try:
        schedule_of(text or "none")
    except ValueError as error:
        read.refuse(SCHEDULE, text or "", str(error))
    if text == CONTINUOUS:
        read.refuse(SCHEDULE, text, "only a connector's own schedule can be @continuous: each such run takes a slot of Airflow's executor")
    return text


def _dag_limits(read: SettingsReader) -> DagLimits:
    """The limits for DAG settings in configs from REST or the config topic. Also checks the settings of shared applications."""
    for key, errors in application_errors(read.values).items():
        for error in errors:
            read.note(key, error)
    defaults = DagLimits()
    return DagLimits(
        min_interval_seconds=read.duration(MIN_INTERVAL, defaults.min_interval_seconds),
        continuous=read.flag(ALLOWED_CONTINUOUS, defaults.continuous),
        pools=frozenset(read.names(ALLOWED_POOLS)),
        queues=frozenset(read.names(ALLOWED_QUEUES)),
        engines=frozenset(read.names(ALLOWED_ENGINES)),
        applications=frozenset(read.names(ALLOWED_APPLICATIONS)),
        notifiers=notifier_names(read.values, read.note),
        max_pool_slots=read.number(MAX_SLOTS, defaults.max_pool_slots, 1),
        max_priority_weight=read.number(MAX_PRIORITY, defaults.max_priority_weight, 1),
    )


def _prices(read: SettingsReader) -> Prices:
    currency = read.text("cost.currency")
    if len(currency) > _LONGEST_CURRENCY or not currency.isprintable():
        read.refuse("cost.currency", currency, f"Value must be a text of no more than {_LONGEST_CURRENCY} characters, such as EUR")
    return Prices(
        cpu_hour=read.real("cost.cpu.hour", 0.0, 0.0, _MOST_MONEY),
        task_hour=read.real("cost.task.hour", 0.0, 0.0, _MOST_MONEY),
        gigabyte=read.real("cost.gigabyte", 0.0, 0.0, _MOST_MONEY),
        currency=currency,
    )


def _internal_topics(read: SettingsReader, group: str) -> tuple[InternalTopic, ...]:
    """The default names begin with the group's name, so that two groups do not share topics by mistake."""
    topics = (
        _internal_topic(read, "config", f"{group}-configs", 1, "Must specify topic for connector configuration."),
        _internal_topic(read, "offset", f"{group}-offsets", 25, "Offset storage topic must be specified"),
        _internal_topic(read, "status", f"{group}-status", 5, "Must specify topic for connector status."),
        _internal_topic(read, "batch", f"{group}-batches", 1, "Must specify topic for delivered batches."),
    )
    unnamed = [topic.setting for topic in topics if topic.setting not in read.values]
    if unnamed and (refusal := refusal_of_topic(f"{group}-configs")):
        read.refuse("group.id", group, f"Default names of topics begin with it. {refusal}. Give {', '.join(unnamed)}")
    seen: dict[str, str] = {}
    for topic in topics:
        if topic.name and topic.setting not in unnamed and (refusal := refusal_of_topic(topic.name)):
            read.refuse(topic.setting, topic.name, refusal)
        if topic.name in seen:
            read.refuse(topic.setting, topic.name, f"{seen[topic.name]} names the same topic, and each needs one of its own")
        seen.setdefault(topic.name, topic.setting)
    return topics


def _internal_topic(read: SettingsReader, kind: str, default: str, partitions: int, blank: str) -> InternalTopic:
    prefix = f"{kind}.storage."
    given = read.under(prefix)
    if kind != "config":  # the config topic always has one partition
        partitions = read.positive_or_default(prefix + "partitions", partitions, _PARTITIONS_TEXT, bits=32)
    for name in ("cleanup.policy", *(("partitions",) if kind == "config" else ())):
        if name in given:
            _log.warning("Ignoring '%s%s=%s', since it is always set by the worker", prefix, name, given[name])
    configs = {name: value for name, value in given.items() if name not in _NOT_PASSED_ON and not name.startswith(("retry.", "file."))}
    return InternalTopic(
        name=read.filled(prefix + "topic", default, blank),
        setting=prefix + "topic",
        purpose=_PURPOSES[kind],
        partitions=partitions,
        replication_factor=read.positive_or_default(prefix + "replication.factor", -1, _REPLICATION_TEXT, bits=16),
        configs=topic_configs(configs),
    )


def _status_retry(read: SettingsReader) -> StatusRetry:
    prefix = "status.storage.retry."
    retry = StatusRetry(
        max_retries=read.number(prefix + "max.retries", 5, bits=32),
        initial_backoff_ms=read.number(prefix + "initial.backoff.ms", 300),
        max_backoff_ms=read.number(prefix + "max.backoff.ms", 10_000),
        backoff_multiplier=read.real(prefix + "backoff.multiplier", 2.0, 1.0),
        jitter_factor=read.real(prefix + "jitter.factor", 0.25, 0.0, 1.0),
    )
    if retry.initial_backoff_ms > retry.max_backoff_ms:
        reason = f"Value must be no more than {prefix}max.backoff.ms, which is {retry.max_backoff_ms}"
        error = ConfigException.of(prefix + "initial.backoff.ms", retry.initial_backoff_ms, reason)
        given = prefix + "initial.backoff.ms" in read.values  # otherwise the other setting is wrong
        read.note(prefix + ("initial.backoff.ms" if given else "max.backoff.ms"), error.message)
    return retry
