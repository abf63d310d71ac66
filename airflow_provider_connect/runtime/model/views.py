"""The responses of Kafka Connect's API as plain values, for herder, REST, clients, hook and command line. ``view_json`` converts them.

Fields are in the order of Kafka Connect's JSON (contract §3.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.view_json import EXCLUDED, OMITTED, named


@dataclass(frozen=True, slots=True)
class ServerView:
    """Version and commit of a Connect server, and its Kafka cluster. Our ``commit`` is the version of the installed distribution."""

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
    """A connector with its config, including ``name`` but not our own keys. ``type`` is source, sink or unknown.

    ``warnings`` are those of the validation, if the config was just written, and are sent in a header."""

    name: str
    config: Mapping[str, str]
    tasks: Sequence[ConnectorTaskId]
    type: str = "unknown"
    warnings: Sequence[str] = field(default=(), metadata=EXCLUDED)


@dataclass(frozen=True, slots=True)
class StateView:
    """The state of a connector. ``version`` and ``trace`` None: unknown."""

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


class HealthWord(StrEnum):
    """What a connector's health is, from worst to best. A connector has the first that applies."""

    FAILING = "failing"  # it or one of its tasks has FAILED
    WAITING = "waiting"  # nothing runs it: Airflow has no slot for it, or cannot run it
    STUCK = "stuck"  # a call of its plugin does not return
    MISSING = "missing"  # what it reads is not there, or a part of it cannot be read
    REFUSING = "refusing"  # its last run left out records that failed
    BEHIND = "behind"  # more waits than it delivers in a minute
    IDLE = "idle"  # nothing waits that is known of, and it has delivered nothing for an hour
    HEALTHY = "healthy"


@dataclass(frozen=True, slots=True)
class Health:
    """A connector's health, with the reason for users. ``reason`` None: the word says everything."""

    word: HealthWord
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorStatusView:
    """The response of ``GET /connectors/«c»/status``. ``trouble`` is why the connector does not deliver everything: it has
    FAILED, waits for a slot, or for example its source is missing what it reads. Kafka Connect's JSON does not have it."""

    name: str
    connector: StateView
    tasks: Sequence[TaskView]
    type: str
    trouble: Health | None = field(default=None, metadata=EXCLUDED)

    @property
    def note(self) -> str | None:
        """The reason of ``trouble``."""
        return None if self.trouble is None else self.trouble.reason


@dataclass(frozen=True, slots=True)
class RetainedWalView:
    """The WAL that a connector's replication slot retains on its server, in bytes. None: the slot has lost its WAL. ``note`` is the text
    for users. ``note`` None: the slot is in order."""

    held_bytes: int | None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class ExpandedConnector:
    """One connector in a list with ``expand``. Null: the connector is being deleted, or has no status yet."""

    status: ConnectorStatusView | None = field(default=None, metadata=OMITTED)
    info: ConnectorInfo | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """The committed config of one task."""

    id: ConnectorTaskId
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TaskDetail:
    """One task with its state. None: no state yet."""

    id: ConnectorTaskId
    config: Mapping[str, str]
    status: TaskView | None


@dataclass(frozen=True, slots=True)
class ActiveTopics:
    """The topics that a connector has used."""

    topics: Sequence[str]


@dataclass(frozen=True, slots=True)
class OffsetView:
    """One partition with its offset. Offset None: the offset was removed, or is to be removed. Partition None: the request had no
    partition."""

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
    """An entry of ``GET /connector-plugins``. ``location``, which Kafka Connect does not have, is the location of a Java plugin."""

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
    """The result of the validation of one key's value, without secrets."""

    name: str
    value: str | None
    recommended_values: Sequence[str]
    errors: Sequence[str]
    visible: bool


class ValidatedKey(NamedTuple):
    """A key's definition and its value. Definition None: the key is unknown."""

    definition: ConfigKeyView | None
    value: ConfigValueView


@dataclass(frozen=True, slots=True)
class Validation:
    """A complete validation. The last ``counted_by_key`` of ``configs`` are keys of clients and converters. For these keys, Connect counts
    how many have errors, instead of the number of errors. ``warnings`` are about settings that nothing reads, and are sent in a header."""

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
        """A validation with Connect's count of errors."""
        counts = [len(value.errors) for _, value in configs]
        split = len(counts) - counted_by_key
        return cls(name, sum(counts[:split]) + sum(map(bool, counts[split:])), groups, configs, counted_by_key, warnings)


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One running Spark application: its host and process, its claim, and the tasks that it hosts.

    ``records`` and ``bytes`` are the deliveries of these tasks since the application's start. ``seconds`` is the time of the task that took
    longest. ``left`` is the number of ``left_unit`` that remain before the ends that the tasks know. ``failed`` is the number of records
    that failed and were left out. None: unknown. A worker without Airflow counts only records, from the start of its process.
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
    failed: int | None = None


@dataclass(frozen=True, slots=True)
class LoggerView:
    """The level of a logger. ``last_modified`` is in epoch ms. None: it was never set over REST."""

    level: str | None
    last_modified: int | None = None
