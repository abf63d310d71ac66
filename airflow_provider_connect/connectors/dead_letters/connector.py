"""DeadLetterReplay: writes records of a sink's dead letter queue back to the topics on which they failed, each once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow_provider_connect.codecs.dead_letters import ReplayPosition, queue_partition
from airflow_provider_connect.connectors.dead_letters.settings import REPLAY
from airflow_provider_connect.connectors.dead_letters.task import DeadLetterReplayTask, end_offsets
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.sdk.config_def import Config
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport, OffsetReader, SourceConnector
from airflow_provider_connect.sdk.task import SourceTask


class DeadLetterReplayConnector(SourceConnector):
    """Writes records of a dead letter queue back to their topics. Has one task, so that records keep their order.

    The queue is on the worker's cluster."""

    task_class: ClassVar[type[SourceTask]] = DeadLetterReplayTask
    config_def = REPLAY

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """One task, or no task if there is no partition to read."""
        topic = self.config["dead.letters.topic"]
        for name in filter(None, (topic, self.config["dead.letters.target.topic"])):
            if refusal := self.refusal_of_topic(name):
                raise ConfigException.of("dead.letters.topic", name, refusal)
        return [self.config.originals] if self.config["dead.letters.until"] else []

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Records and the position in the queue are committed in one transaction."""
        return ExactlyOnceSupport.SUPPORTED

    def has_new_data(self, config: Config, offsets: OffsetReader) -> bool:
        """Whether this replay has not yet reached its end."""
        topic, topic_id, replay = (config[f"dead.letters.{name}"] for name in ("topic", "topic.id", "replay"))
        for partition, end in end_offsets(config).items():
            position = ReplayPosition.of(offsets(queue_partition(topic, partition)), topic_id)
            if position.replay != replay or position.read < end:
                return True
        return False

    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:  # Any: JSON from a user, checked here
        for partition, offset in offsets.items() if isinstance(offsets, Mapping) else offsets:
            if not isinstance(partition, Mapping) or set(partition) != {"topic", "partition"}:
                raise ConnectException('a source partition is {"topic": "…", "partition": 0}')
            ReplayPosition.of(offset, str((offset or {}).get("topic.id", "")))
        return True
