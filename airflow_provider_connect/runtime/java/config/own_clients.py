"""Kafka clients that a Java connector opens by itself, beside those of Connect, and the topic that it keeps with them: the schema history
of Debezium, the control topic of Iceberg.

A connector gives these clients any setting that a config has for them, and a config's author is a stranger: so they get settings that tune
(``rules``), and the worker's login for the worker's cluster alone. Such a client writes outside of the task's transactions: a
definition that a killed run has written is written again by the next one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.java.config.rules import HISTORY

HISTORY_TOPIC: Final = f"{HISTORY}.kafka.topic"
HISTORY_SERVERS: Final = f"{HISTORY}.kafka.bootstrap.servers"
_LOGIN: Final = ("security.", "sasl.", "ssl.")


def history_settings(config: Mapping[str, str], worker: Mapping[str, str], internal: Collection[str]) -> dict[str, str]:
    """What the history's clients need besides ``config``: the login of the ``worker``, by its settings ``producer.*`` and ``consumer.*``,
    where the history lies on its cluster. Raises ConfigException for a history on an ``internal`` topic. A history elsewhere than on a
    topic, or with clients that are given more than tuning, is refused before (``rules``)."""
    refuse_internal(HISTORY_TOPIC, config.get(HISTORY_TOPIC, ""), internal)
    servers = config.get(HISTORY_SERVERS, "")
    logins = {client: login(worker, client, servers) for client in ("producer", "consumer")}
    return {f"{HISTORY}.{client}.{key}": text for client, own in logins.items() for key, text in own.items()}


def refuse_internal(key: str, topic: str, internal: Collection[str]) -> None:
    """Raises ConfigException where the topic that the setting ``key`` names is an ``internal`` one."""
    if (name := topic.strip()) in internal:
        raise ConfigException.of(key, name, "It is an internal topic. Name one that no other program uses.")


def login(worker: Mapping[str, str], client: str, servers: str) -> dict[str, str]:
    """How the ``worker`` logs in by its settings of ``client`` (``producer`` or ``consumer``), without their prefix; empty where one of the
    ``servers`` is none of its own, or there are none."""
    asked, own = _listed(servers), _listed(worker.get("bootstrap.servers", ""))
    if not asked or not asked <= own:
        return {}
    settings = {key.removeprefix(f"{client}."): text for key, text in worker.items() if key.startswith(f"{client}.")}
    return {key: text for key, text in settings.items() if key.startswith(_LOGIN)}


def _listed(servers: str) -> set[str]:
    return {each.strip() for each in servers.split(",") if each.strip()}
