"""The topic in which a Debezium connector keeps the definitions of tables for itself, by Kafka clients of its own.

Debezium gives these clients any setting that a config has for them, and a config's author is a stranger: so they get settings that tune,
and the worker's login for the worker's cluster alone. Such a client writes outside of the task's transactions: a definition that a killed
run has written is written again by the next one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.java.config_rules import HISTORY

TOPIC: Final = f"{HISTORY}.kafka.topic"
SERVERS: Final = f"{HISTORY}.kafka.bootstrap.servers"
_CLIENTS: Final = ("producer", "consumer")
_LOGIN: Final = ("security.", "sasl.", "ssl.")


def history_settings(config: Mapping[str, str], worker: Mapping[str, str], internal: Collection[str]) -> dict[str, str]:
    """What the history's clients need besides ``config``: the login of the ``worker``, by its settings ``producer.*`` and ``consumer.*``,
    where the history lies on its cluster. Raises ConfigException for a history on an ``internal`` topic. A history elsewhere than on a
    topic, or with clients that are given more than tuning, is refused before (``config_rules``)."""
    if (topic := config.get(TOPIC, "").strip()) in internal:
        raise ConfigException.of(TOPIC, topic, "It is an internal topic. Name one that no other program uses.")
    servers = _servers(config.get(SERVERS, ""))
    if not servers or not servers <= _servers(worker.get("bootstrap.servers", "")):
        return {}
    return {
        f"{HISTORY}.{key}": text
        for key, text in worker.items()
        for client in _CLIENTS
        if key.startswith(f"{client}.") and key.removeprefix(f"{client}.").startswith(_LOGIN)
    }


def _servers(text: str) -> set[str]:
    return {each.strip() for each in text.split(",") if each.strip()}
