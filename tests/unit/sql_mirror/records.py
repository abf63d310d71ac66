"""Records of every topic, as the stream would give them."""

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.model.batches import BatchRecord, BatchReset, ConnectorType
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.offsets import OffsetRecord
from airflow_provider_connect.runtime.model.records import CommitRecord, ConnectorRecord, RestartRecord, TargetStateRecord, TaskRecord
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import ConnectorStatus, TaskStatus, TopicReset, TopicStatus
from airflow_provider_connect.runtime.stores.decoders import StateValue
from airflow_provider_connect.runtime.stores.state_stream import StateRecord


def stream(topic: str, *values: StateValue) -> list[StateRecord]:
    """The values as the records 0, 1, … of a topic, a second apart."""
    return [StateRecord(TopicPartition(topic, 0), offset, 1000 * offset, value) for offset, value in enumerate(values)]


TASK = ConnectorTaskId("orders", 0)
OLD, NEW = Claim(5, "id"), Claim(9, "id")

CONFIGS = stream(
    "configs",
    ConnectorRecord("orders", {"connector.class": "FileStreamSource"}),
    TargetStateRecord("orders", TargetState.PAUSED),
    TaskRecord(TASK, {"file": "a"}),
    CommitRecord("orders", 1),
    TaskRecord(TASK, {"file": "b"}),
    CommitRecord("orders", 1),
    RestartRecord("orders", include_tasks=True),
    ConnectorRecord("orders", {"connector.class": "Other", "offsets.storage.topic": "own"}),
    ConnectorRecord("gone", {"connector.class": "Other"}),
    ConnectorRecord("gone", None),
    TargetStateRecord("gone", None),
    TaskRecord(ConnectorTaskId("orders", 1), {"file": "pending"}),
)
STATUSES = stream(
    "status",
    ConnectorStatus("orders", State.RUNNING, "host:1", claim=OLD, timestamp=0),
    TaskStatus("orders", 0, State.RUNNING, "host:1", claim=OLD, timestamp=1000),
    TaskStatus("orders", 0, State.FAILED, "host:2", trace="why", claim=NEW, timestamp=2000),
    TopicStatus("lines", "orders", 0, 1234, OLD, timestamp=3000),
    TopicStatus("other", "orders", 0, 1234, OLD, timestamp=3000),
    TopicReset("other", "orders", OLD, timestamp=4000),
)
OFFSETS = stream(
    "offsets",
    OffsetRecord("orders", {"file": "a"}, {"position": 1}, b"a"),
    OffsetRecord("orders", {"file": "b"}, {"position": 1}, b"b"),
    OffsetRecord("orders", {"file": "a"}, {"position": 2}, b"a"),
    OffsetRecord("orders", {"file": "b"}, None, b"b"),
)
BATCHES = stream(
    "batches",
    BatchRecord(TASK, "one", OLD, ConnectorType.SINK, 5, 50, 1.0, 0.5, {"lines": {0: (0, 5)}}, {"lines": {0: 5, 1: 7}}),
    BatchRecord(TASK, "one", OLD, ConnectorType.SINK, 9, 90, 2.0, 0.7, {"lines": {0: (0, 9)}}, {"lines": {0: 9, 1: 7}}),
    BatchRecord(ConnectorTaskId("orders", 1), "two", NEW, ConnectorType.SINK, next={"lines": {1: 8}}),
    BatchReset(ConnectorTaskId("orders", 1)),
)
