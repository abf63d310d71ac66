"""The answers of Kafka Connect's API as plain values, for herder, REST, clients, hook and command line; ``view_json`` is their JSON.

The order of fields is that of Kafka Connect's JSON (contract §3.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.view_json import EXCLUDED, OMITTED, named


@dataclass(frozen=True, slots=True)
class ServerView:
    """A Kafka Connect's version and commit, and the Kafka cluster behind it. ``commit`` of ours is the installed distribution's version."""

    version: str
    commit: str
    kafka_cluster_id: str


@dataclass(frozen=True, slots=True)
class HealthView:
    """``status`` is healthy, starting or unhealthy."""

    status: str
    message: str


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """A connector with its config, ``name`` in it and our own keys left out; ``type`` is source, sink or unknown."""

    name: str
    config: Mapping[str, str]
    tasks: Sequence[ConnectorTaskId]
    type: str = "unknown"


@dataclass(frozen=True, slots=True)
class StateView:
    """The state of a connector; ``version`` and ``trace`` are None where there is none."""

    state: str
    worker_id: str
    version: str | None = field(default=None, metadata=OMITTED)
    trace: str | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class TaskView:
    """The state of one task."""

    id: int
    state: str
    worker_id: str
    version: str | None = field(default=None, metadata=OMITTED)
    trace: str | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class ConnectorStatusView:
    """The answer of ``GET /connectors/«c»/status``. ``note``, which Kafka Connect's JSON has no room for, is what the source lacks,
    or what its database holds back for it."""

    name: str
    connector: StateView
    tasks: Sequence[TaskView]
    type: str
    note: str | None = field(default=None, metadata=EXCLUDED)


@dataclass(frozen=True, slots=True)
class RetainedWalView:
    """The WAL that a connector's replication slot holds back on its server, in bytes; None: the slot has lost it. ``note``: what its users
    are shown; None: the slot is as it should be."""

    held_bytes: int | None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class ExpandedConnector:
    """What a list of connectors with ``expand`` has of one; null: it is being deleted, or has no status yet."""

    status: ConnectorStatusView | None = field(default=None, metadata=OMITTED)
    info: ConnectorInfo | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """The committed config of one task."""

    id: ConnectorTaskId
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TaskDetail:
    """One task with its state; None: it has none yet."""

    id: ConnectorTaskId
    config: Mapping[str, str]
    status: TaskView | None


@dataclass(frozen=True, slots=True)
class ActiveTopics:
    """The topics that a connector has used."""

    topics: Sequence[str]


@dataclass(frozen=True, slots=True)
class OffsetView:
    """One partition with its offset. Offset None: it was removed, or is to be removed. Partition None: a request that names none."""

    partition: Mapping[str, object] | None
    offset: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class ConnectorOffsets:
    """The offsets of one connector."""

    offsets: Sequence[OffsetView]


@dataclass(frozen=True, slots=True)
class Message:
    """A text for the user."""

    message: str


@dataclass(frozen=True, slots=True)
class PluginView:
    """An entry of ``GET /connector-plugins``. ``location``, which Kafka Connect does not have, is that of a Java plugin."""

    class_name: str = field(metadata=named("class"))
    type: str
    version: str | None = field(default=None, metadata=OMITTED)
    location: str | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class ConfigKeyView:
    """The definition of one config key, in ``/connector-plugins/«p»/config`` and in a validation."""

    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str
    group: str | None
    order: int = field(metadata=named("order_in_group", formerly="order"))
    width: str
    display_name: str
    dependents: Sequence[str]


@dataclass(frozen=True, slots=True)
class ConfigValueView:
    """What a validation reports of one key's value. Secrets are never in it."""

    name: str
    value: str | None
    recommended_values: Sequence[str]
    errors: Sequence[str]
    visible: bool


class ValidatedKey(NamedTuple):
    """A key's definition and its value; without a definition the key is unknown."""

    definition: ConfigKeyView | None
    value: ConfigValueView


@dataclass(frozen=True, slots=True)
class Validation:
    """A whole validation. The last ``counted_by_key`` of ``configs`` are keys of clients and converters: Connect counts those of them that
    have errors, not their errors. ``warnings`` name settings that nothing reads; they go into a header of the answer."""

    name: str
    error_count: int
    groups: Sequence[str]
    configs: Sequence[ValidatedKey]
    counted_by_key: int = field(default=0, metadata=EXCLUDED)
    warnings: Sequence[str] = field(default=(), metadata=EXCLUDED)

    @classmethod
    def counted(
        cls,
        name: str,
        groups: Sequence[str],
        configs: Sequence[ValidatedKey] = (),
        counted_by_key: int = 0,
        warnings: Sequence[str] = (),
    ) -> Validation:
        """With Connect's count of errors."""
        counts = [len(value.errors) for _, value in configs]
        split = len(counts) - counted_by_key
        return cls(name, sum(counts[:split]) + sum(map(bool, counts[split:])), groups, configs, counted_by_key, warnings)


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One Spark application that runs now: its host and process, its claim, and the tasks that it hosts.

    ``records`` and ``bytes`` are what those tasks have delivered since it began, ``seconds`` the time of the task that took longest.
    ``left`` is how many of ``left_unit`` lie before the ends that the tasks have in sight. None: not known. A worker without Airflow
    counts records alone, since its process began.
    """

    worker_id: str
    connector: str
    claim: str | None
    tasks: Sequence[int]
    started: str | None = None
    records: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    left: int | None = None
    left_unit: str | None = None


@dataclass(frozen=True, slots=True)
class LoggerView:
    """The level of a logger; ``last_modified`` in epoch ms, None: it was never set over REST."""

    level: str | None
    last_modified: int | None = None
