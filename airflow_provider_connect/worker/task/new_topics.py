"""The topics that a source task makes before it writes to them (KIP-158). Knows nothing of records."""

from __future__ import annotations

import logging
from collections.abc import Callable

from airflow_provider_connect.errors import ConnectException, StoreException
from airflow_provider_connect.model.topic_creation import TopicCreation, TopicGroup
from airflow_provider_connect.stores.topic_admin import Creation, TopicAdmin, TopicSpec

log = logging.getLogger(__name__)


class NewTopics:
    """Looks once for each topic that is written to, and makes it by the settings of its group where it does not exist.

    ``task`` names the task in logs; ``made`` is told of each topic that was made.
    """

    def __init__(self, task: str, creation: TopicCreation, admin: TopicAdmin, made: Callable[[str], None]) -> None:
        self._task = task
        self._creation = creation
        self._admin = admin
        self._made = made
        self._known: set[str] = set()

    def ensure(self, topic: str) -> None:
        """``topic`` is about to be written to. Raises ConnectException where it can neither be found nor made, StoreTimeoutException."""
        if topic in self._known:
            return
        if not self._admin.partitions([topic]):
            self._make(topic, self._creation.group_of(topic))
        self._known.add(topic)

    def _make(self, topic: str, group: TopicGroup) -> None:
        try:
            outcome = self._admin.try_create(TopicSpec(topic, group.partitions, group.replication_factor, group.configs))
        except StoreException as error:
            raise ConnectException(f"Task failed to create new topic {_described(topic, group)}: {error}") from error
        if outcome is Creation.FORBIDDEN:
            raise ConnectException(
                f"Task failed to create new topic {_described(topic, group)}. Ensure that the task is authorized to create topics or that "
                "the topic exists and restart the task"
            )
        if outcome is Creation.MADE:
            log.info("Task %s: created topic %s using creation group %s", self._task, _described(topic, group), group.name)
            self._made(topic)


def _described(topic: str, group: TopicGroup) -> str:
    configs = ", ".join(f"{name}={text}" for name, text in group.configs.items())
    return f"(name={topic}, numPartitions={group.partitions}, replicationFactor={group.replication_factor}, configs={{{configs}}})"
