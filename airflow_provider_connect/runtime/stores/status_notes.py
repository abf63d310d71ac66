"""Writes the states of a connector as records of the status topic. A subclass decides where the records go."""

from abc import abstractmethod
from dataclasses import replace

from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import ConnectorStatus, StatusRecord, TaskStatus, TopicReset, TopicStatus
from airflow_provider_connect.runtime.stores.log_consumer import Closing
from airflow_provider_connect.runtime.wire import status_topic
from airflow_provider_connect.runtime.wire.record import WireRecord


class StatusNotes(Closing):
    """Accepts statuses without making the caller wait. ``claim`` is added to statuses without one."""

    def __init__(self, claim: Claim | None) -> None:
        self._claim = claim

    @abstractmethod
    def _put(self, record: StatusRecord, wire: WireRecord) -> None: ...

    @abstractmethod
    def flush(self, timeout_seconds: float) -> bool:
        """Waits until all statuses so far are written or have failed for good. False: timed out."""

    @abstractmethod
    def metrics(self) -> dict[str, float]:
        """The counters of group status-backing-store-metrics, by their names."""

    @abstractmethod
    def close(self, timeout_seconds: float = 5.0) -> None: ...

    def put_connector(self, status: ConnectorStatus) -> None:
        self._note(status)

    def put_task(self, status: TaskStatus) -> None:
        self._note(status)

    def put_topic(self, status: TopicStatus) -> None:
        """Records that a connector uses a topic."""
        self._note(status)

    def delete_connector(self, connector: str) -> None:
        """Removes the connector's status. Readers then drop the statuses of its tasks too."""
        self._note(ConnectorStatus(connector, State.DESTROYED))

    def delete_task(self, connector: str, task: int) -> None:
        self._note(TaskStatus(connector, task, State.DESTROYED))

    def delete_topic(self, connector: str, topic: str, author: str | None = None) -> None:
        """Removes the topic from the connector's active topics. ``author`` is the user who requested it. None: no user did."""
        self._note(TopicReset(topic, connector, author=author))

    def _note(self, record: StatusRecord) -> None:
        if record.claim is None and self._claim is not None:
            record = replace(record, claim=self._claim)
        self._put(record, status_topic.encode(record))
