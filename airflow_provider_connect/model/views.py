"""What the herder answers with: connectors, tasks, statuses, offsets, plugins and validations as plain values. Field order is Connect's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_connect.model.ids import ConnectorTaskId


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """A connector with its config, ``name`` in it and our own keys left out; ``type`` is source, sink or unknown."""

    name: str
    config: Mapping[str, str]
    tasks: Sequence[ConnectorTaskId]
    type: str


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """The committed config of one task."""

    id: ConnectorTaskId
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StateView:
    """The state of a connector; ``trace`` and ``version`` are None where there is none."""

    state: str
    worker_id: str
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class TaskView:
    """The state of one task."""

    id: int
    state: str
    worker_id: str
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorStatusView:
    """What ``GET /connectors/«c»/status`` tells."""

    name: str
    connector: StateView
    tasks: Sequence[TaskView]
    type: str


@dataclass(frozen=True, slots=True)
class OffsetView:
    """One partition with its offset; None: it has none, as after a tombstone of a listed partition, or it is to be removed. The partition
    is None only in a request that names none."""

    partition: Mapping[str, object] | None
    offset: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class PluginView:
    """What ``GET /connector-plugins`` lists."""

    class_name: str
    type: str
    version: str | None


@dataclass(frozen=True, slots=True)
class ConfigKeyView:
    """The definition of one config key, as ``/connector-plugins/«p»/config`` and a validation list it."""

    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str
    group: str | None
    width: str
    display_name: str
    dependents: Sequence[str]
    order: int


@dataclass(frozen=True, slots=True)
class ConfigValueView:
    """What a validation says of one key's value. Values of secrets are never in it."""

    name: str
    value: str | None
    recommended_values: Sequence[str]
    errors: Sequence[str]
    visible: bool


@dataclass(frozen=True, slots=True)
class Validation:
    """A whole validation. ``configs`` pairs each value with its definition; None: the key is defined by nobody. The last
    ``counted_by_key`` of them are those of clients and converters, of which Connect counts the keys that have errors, not the errors."""

    name: str
    groups: Sequence[str]
    configs: Sequence[tuple[ConfigKeyView | None, ConfigValueView]] = field(default_factory=tuple)
    counted_by_key: int = 0

    @property
    def error_count(self) -> int:
        """How many errors Connect says there are."""
        split = len(self.configs) - self.counted_by_key
        counts = [len(value.errors) for _, value in self.configs]
        return sum(counts[:split]) + sum(map(bool, counts[split:]))


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One Spark application that runs now: its host and process, its claim, and the tasks that it hosts."""

    worker_id: str
    connector: str
    claim: str | None
    tasks: Sequence[int]
    started: str | None = None


@dataclass(frozen=True, slots=True)
class LoggerView:
    """The level of a logger; ``last_modified`` in epoch ms, None: it was never set over REST."""

    level: str | None
    last_modified: int | None = None


@dataclass(frozen=True, slots=True)
class ServerView:
    """Who answers: a Kafka Connect's version and commit, and the Kafka cluster behind it."""

    version: str
    commit: str
    kafka_cluster_id: str


@dataclass(frozen=True, slots=True)
class HealthView:
    """``status`` is healthy, starting or unhealthy."""

    status: str
    message: str
