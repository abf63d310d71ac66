"""Kafka clients that a Java connector opens itself, in addition to Connect's clients, and the topics of these clients: Debezium's schema
history and signals, and Iceberg's control topic.

A connector passes any setting of its config to these clients, and the config's author is not trusted. So a config may only tune these
clients (``rules``), and the clients get the worker's login only for the worker's cluster. Such a client writes outside the task's
transactions, so the next run repeats the writes of a killed run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.java.config.rules import (
    DEBEZIUM,
    HISTORY,
    KAFKA_SIGNALS,
    SIGNAL_CONSUMER,
    SIGNAL_SERVERS,
    SIGNAL_TOPIC,
    signal_channels,
)

HISTORY_TOPIC: Final = f"{HISTORY}.kafka.topic"
HISTORY_SERVERS: Final = f"{HISTORY}.kafka.bootstrap.servers"
_LOGIN: Final = ("security.", "sasl.", "ssl.")


def own_client_settings(class_name: str, config: Mapping[str, str], worker: Mapping[str, str], internal: Collection[str]) -> dict[str, str]:
    """The settings that the own clients of a source of this class need in addition to ``config``. Empty unless it is one of Debezium's.
    Raises ConfigException for ``internal`` topics."""
    if not class_name.startswith(DEBEZIUM):
        return {}
    return {**history_settings(config, worker, internal), **signal_settings(config, worker, internal)}


def history_settings(config: Mapping[str, str], worker: Mapping[str, str], internal: Collection[str]) -> dict[str, str]:
    """The settings that the history's clients need in addition to ``config``. If the history is on the worker's cluster, these are the
    login of the ``worker``, from its settings ``producer.*`` and ``consumer.*``. Raises ConfigException for a history on an ``internal``
    topic. The module ``rules`` refuses a history that is not on a topic, and settings of its clients that do more than tune the clients."""
    refuse_internal(HISTORY_TOPIC, config.get(HISTORY_TOPIC, ""), internal)
    servers = config.get(HISTORY_SERVERS, "")
    logins = {client: login(worker, client, servers) for client in ("producer", "consumer")}
    return {f"{HISTORY}.{client}.{key}": text for client, own in logins.items() for key, text in own.items()}


def signal_settings(config: Mapping[str, str], worker: Mapping[str, str], internal: Collection[str]) -> dict[str, str]:
    """The settings that the consumer of Debezium's signals needs in addition to ``config``, if signals come from a topic: the ``worker``'s
    brokers, unless ``config`` names others, and on these brokers its login of consumers. Raises ConfigException for an ``internal``
    topic."""
    if KAFKA_SIGNALS not in signal_channels(config):
        return {}
    refuse_internal(SIGNAL_TOPIC, config.get(SIGNAL_TOPIC) or f"{config.get('topic.prefix', '')}-signal", internal)
    servers = config.get(SIGNAL_SERVERS) or worker.get("bootstrap.servers", "")
    return {SIGNAL_SERVERS: servers, **{f"{SIGNAL_CONSUMER}{key}": text for key, text in login(worker, "consumer", servers).items()}}


def refuse_internal(key: str, topic: str, internal: Collection[str]) -> None:
    """Raises ConfigException if the setting ``key`` names an ``internal`` topic."""
    if (name := topic.strip()) in internal:
        raise ConfigException.of(key, name, "It is an internal topic. Name one that no other program uses.")


def login(worker: Mapping[str, str], client: str, servers: str) -> dict[str, str]:
    """The ``worker``'s login settings of ``client`` (``producer`` or ``consumer``), without their prefix. Empty if one of the ``servers``
    is not a server of the worker's cluster, or if there are no servers."""
    asked, own = _listed(servers), _listed(worker.get("bootstrap.servers", ""))
    if not asked or not asked <= own:
        return {}
    settings = {key.removeprefix(f"{client}."): text for key, text in worker.items() if key.startswith(f"{client}.")}
    return {key: text for key, text in settings.items() if key.startswith(_LOGIN)}


def _listed(servers: str) -> set[str]:
    return {each.strip() for each in servers.split(",") if each.strip()}
