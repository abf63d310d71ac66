"""The records of the config topic as values, and ``Unreadable``, for a record on any of our topics that cannot be decoded.

``offset`` is the record's own offset on its topic, -1 for a record that is not written yet. Two records with different offsets may be
equal. ``author`` is the user who requested the change, for the history. ``author`` is read only for configs, and has no effect.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.model.upgrades import Upgrade


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that cannot be decoded, and the reason. A reader counts it, logs the reason once, and continues."""

    reason: str
    key: bytes | None = None
    offset: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class ConnectorRecord:
    """``connector-«c»``: a connector's config as the user wrote it, with ``${…}`` unresolved. None: the connector was deleted."""

    connector: str
    config: Mapping[str, str] | None
    offset: int = field(default=-1, compare=False)
    author: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TargetStateRecord:
    """``target-state-«c»``. None: the connector is deleted."""

    connector: str
    state: TargetState | None
    offset: int = field(default=-1, compare=False)
    author: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """``task-«c»-«t»``: one task's config. It has no effect until a commit record follows. None: another writer removed the task's
    config."""

    task: ConnectorTaskId
    config: Mapping[str, str] | None
    offset: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """``commit-«c»``: the preceding task records 0 … ``tasks`` - 1 are now the connector's tasks."""

    connector: str
    tasks: int
    offset: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class RestartRecord:
    """``restart-connector-«c»``: a request for running workers, which changes no state."""

    connector: str
    include_tasks: bool = False
    only_failed: bool = False
    offset: int = field(default=-1, compare=False)
    author: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class FencingRecord:
    """``tasks-fencing-«c»``: the number of task ids that may be alive. Without ``claim``, the record is a new claim, with the record's own
    offset. With ``claim``, it is a later record about that claim. ``owner`` identifies the run that made the claim. None: a verb made the
    claim, to end the tasks of a run. ``successor``: the run that made ``claim`` hands the connector over. Empty: to the first run that asks
    for it. Otherwise, to the run with this owner, which has asked."""

    connector: str
    count: int
    claim: Claim | None = None
    offset: int = field(default=-1, compare=False)
    owner: str | None = None
    successor: str | None = None


@dataclass(frozen=True, slots=True)
class SessionKeyRecord:
    """``session-key``: the key with which real workers sign requests to one another. ``key`` is base64 text. Never logged."""

    key: str = field(repr=False)
    algorithm: str
    creation_timestamp: int
    offset: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class LoggerRecord:
    """``logger-cluster-«namespace»``: a request to set a level, as the user spelled it."""

    logger: str
    level: str
    offset: int = field(default=-1, compare=False)
    author: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class UpgradeRecord:
    """``upgrade-«c»``, a key of ours, which Kafka Connect skips: an upgrade of the connector's plugin. None: the upgrade has ended."""

    connector: str
    upgrade: Upgrade | None
    offset: int = field(default=-1, compare=False)
    author: str | None = field(default=None, compare=False)


class NoteKind(StrEnum):
    """What a note is about, and the beginning of its key."""

    MISSING = "note"  # a thing that the connector waits for, such as a file
    LONG_CALL = "long-call"  # a call of a plugin that has not returned for a minute


@dataclass(frozen=True, slots=True)
class NoteRecord:
    """``note-«c»`` or ``long-call-«c»``, keys of ours, which Kafka Connect skips: why the connector delivers nothing. None: for no such
    reason. A later config removes the notes."""

    connector: str
    note: str | None
    kind: NoteKind = NoteKind.MISSING
    offset: int = field(default=-1, compare=False)


ConfigRecord = (
    ConnectorRecord
    | TargetStateRecord
    | TaskRecord
    | CommitRecord
    | RestartRecord
    | FencingRecord
    | SessionKeyRecord
    | LoggerRecord
    | UpgradeRecord
    | NoteRecord
)
