"""Checks of a Java connector without a JVM: whether the connector may run, and with which settings. Kafka Connect checks all other settings
when a run's tasks are planned."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Final

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.kafka_client.settings import TRANSLATABLE
from airflow_provider_connect.runtime.config.dag_settings import POLL_TIMEOUT, java_heap, java_seconds
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.java.config.rules import refuse, refused_end
from airflow_provider_connect.runtime.model.connector_keys import strip_framework_keys
from airflow_provider_connect.sdk.config_def import ConfigDef
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport, SinkConnector, SourceConnector
from airflow_provider_connect.sdk.task import SinkTask, SourceTask

_PASSED_ON: Final = ("producer.", "consumer.", "admin.", "key.converter", "value.converter", "header.converter")
_OF_WORKER: Final = ("topic.creation.enable", "task.shutdown.graceful.timeout.ms", "offset.flush.interval.ms", "offset.flush.timeout.ms")
_NOT_PASSED_ON: Final = {"group.id", "client.id", "transactional.id"}


class JavaSource(SourceConnector):
    """Represents a Java source. Kafka Connect checks its config when a run's tasks are planned."""

    task_class: ClassVar[type[SourceTask]] = SourceTask
    config_def: ClassVar[ConfigDef] = ConfigDef()

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Every Java source runs in transactions, as in a worker of Connect, because only transactions fence an earlier run."""
        return ExactlyOnceSupport.SUPPORTED

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> bool:
        """True, because Connect asks the connector itself."""
        return True


class JavaSink(SinkConnector):
    """Represents a Java sink."""

    task_class: ClassVar[type[SinkTask]] = SinkTask
    config_def: ClassVar[ConfigDef] = ConfigDef()


def java_config(name: str, resolved: Mapping[str, str]) -> dict[str, str]:
    """The config as Kafka Connect gets it, with variables resolved. The result contains no plugin versions, because only the chosen version
    is loaded.

    Raises ConfigException for a key that a Java connector must not have.
    """
    refuse(resolved)
    return {**strip_framework_keys(resolved), "name": name}


def java_errors(name: str, class_name: str, resolved: Mapping[str, str], settings: WorkerSettings) -> list[str]:
    """The errors in this package's own keys of a Java connector of the class ``class_name``, and the keys that it must not have."""
    reason = refused_end(class_name, resolved)
    errors = [] if reason is None else [ConfigException.of("connector.class", class_name, reason).message]
    checks: list[Callable[[], object]] = [
        lambda: java_config(name, resolved),
        lambda: java_seconds(resolved, POLL_TIMEOUT),
        lambda: java_heap(settings.values, resolved),
    ]
    for check in checks:
        try:
            check()
        except ConfigException as error:
            errors += error.errors
    return errors


def java_settings(settings: WorkerSettings) -> dict[str, str]:
    """The settings of Connect's worker: addresses, clients, converters and topics. Config providers are left out, because variables are
    already resolved."""
    names = TRANSLATABLE - _NOT_PASSED_ON
    given = {key: text for key, text in settings.values.items() if key in names or key in _OF_WORKER or key.startswith(_PASSED_ON)}
    return {
        **{key: text for key, text in given.items() if not key.endswith(".plugin.version")},
        "bootstrap.servers": settings.bootstrap_servers,
        "group.id": settings.group_id,
        "client.id": settings.client_id,
        "key.converter": settings.key_converter,
        "value.converter": settings.value_converter,
        "header.converter": settings.header_converter,
        "config.storage.topic": settings.config_topic,
        "offset.storage.topic": settings.offset_topic,
        "status.storage.topic": settings.status_topic,
    }


def guarded_source(config: Mapping[str, str], internal: Iterable[str]) -> dict[str, str]:
    """``config`` of a source, extended so that a record for an ``internal`` topic fails the task. An additional last transformation gives
    such topics names that brokers refuse. Otherwise, a record on an internal topic could act as a config, or as another connector's
    offset."""
    aliases = [alias.strip() for alias in config.get("transforms", "").split(",") if alias.strip()]
    alias = "internal"
    while alias in aliases or any(key.startswith(f"transforms.{alias}.") for key in config):
        alias += "_"  # existing keys of this alias, such as a predicate, would apply to the added transformation
    return {
        **config,
        "transforms": ",".join([*aliases, alias]),
        f"transforms.{alias}.type": "org.apache.kafka.connect.transforms.RegexRouter",
        f"transforms.{alias}.regex": f"({_any_of(internal)})",
        f"transforms.{alias}.replacement": "$1 is an internal topic",
    }


def guarded_sink(config: Mapping[str, str], internal: Iterable[str]) -> dict[str, str]:
    """``config`` of a sink's task, changed so that ``topics.regex`` matches no ``internal`` topic. Topics that the config names were
    checked before."""
    if not config.get("topics.regex"):
        return dict(config)
    return {**config, "topics.regex": f"(?!(?:{_any_of(internal)})$)(?:{config['topics.regex']})"}


def _any_of(topics: Iterable[str]) -> str:
    """A Java pattern that matches exactly these names."""
    return "|".join(re.escape(topic) for topic in sorted(topics))
