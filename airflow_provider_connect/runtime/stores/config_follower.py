"""Follows the changes of a connector after a claim, for the task that the claim started."""

import logging
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeGuard

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.config.client_settings import ClientKind, internal_client_config
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.log_levels import apply_levels
from airflow_provider_connect.runtime.model.records import (
    ConfigRecord,
    ConnectorRecord,
    FencingRecord,
    LoggerRecord,
    TargetStateRecord,
    Unreadable,
    UpgradeRecord,
)
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.stores.decoders import decode_config
from airflow_provider_connect.runtime.stores.log_consumer import Closing, LogTruncatedException
from airflow_provider_connect.runtime.stores.topic_reader import TopicTail

_log = logging.getLogger(__name__)


class ChangeKind(StrEnum):
    """The least severe first."""

    PAUSED = "paused"
    STOPPED = "stopped"
    DELETED = "deleted"
    INTERRUPTED = "interrupted"  # a verb has claimed the connector, to end the tasks of its run
    CLAIMED = "claimed"  # a newer run has taken over


@dataclass(frozen=True, slots=True)
class Change:
    """Why a task must end. ``claim`` is the newer claim, for CLAIMED and INTERRUPTED."""

    kind: ChangeKind
    claim: Claim | None = None


class ConfigFollower(Closing):
    """Reports changes of a connector to its task body. Not thread-safe."""

    @abstractmethod
    def poll(self, timeout_seconds: float = 0.0) -> Change | None:
        """The most severe change since the last call. None: no change concerns this task. A resume does not concern it."""

    @abstractmethod
    def has_changed(self, owner: str, timeout_seconds: float = 0.0) -> bool:
        """Whether ``owner``, a run that stays, must check its connector. True if, since the last call, the config, target state or upgrade
        was written, another run or a verb has claimed the connector, or another run has asked for it. Use either this method or ``poll``,
        not both."""


class TopicConfigFollower(ConfigFollower):
    """Follows the config topic, beginning after the record of ``claim``. A poll without new records takes microseconds.

    A recreated config topic counts as DELETED, because it has no record of this claim. Applies in this process the log levels that were
    requested for the whole cluster.
    """

    def __init__(self, settings: WorkerSettings, connector: str, claim: Claim) -> None:
        self._connector = connector
        self._claim = claim
        config = internal_client_config(settings, ClientKind.CONSUMER, "configs")
        start = {TopicPartition(settings.config_topic, 0): claim.offset + 1}
        self._tail = TopicTail[ConfigRecord | Unreadable](config, start, decode_config)

    def poll(self, timeout_seconds: float = 0.0) -> Change | None:
        records = self._new(timeout_seconds)
        return Change(ChangeKind.DELETED) if records is None else gravest_change(records, self._connector, self._claim)

    def has_changed(self, owner: str, timeout_seconds: float = 0.0) -> bool:
        records = self._new(timeout_seconds)
        return records is None or has_changed(records, self._connector, owner)

    def _new(self, timeout_seconds: float) -> list[ConfigRecord | Unreadable] | None:
        """The records since the last call. None: the topic no longer has them."""
        try:
            records = self._tail.poll(timeout_seconds)
        except LogTruncatedException as error:
            _log.warning("Connector %s: %s", self._connector, error)
            return None
        apply_levels(record for record in records if isinstance(record, LoggerRecord))
        return records

    def close(self) -> None:
        self._tail.close()


def gravest_change(records: Iterable[ConfigRecord | Unreadable], connector: str, claim: Claim) -> Change | None:
    """The most severe change in ``records`` for the task that ``claim`` started. All ``records`` are later than the claim. None: no
    change."""
    changes = (_change(record, connector, claim) for record in records)
    return max((change for change in changes if change is not None), key=lambda change: _GRAVITY[change.kind], default=None)


def has_changed(records: Iterable[ConfigRecord | Unreadable], connector: str, owner: str) -> bool:
    """Whether one of the records changes what ``owner``, a run that stays, must do for the connector."""
    return any(_steers(record, owner) and record.connector == connector for record in records)


def connectors_of_verbs(records: Iterable[ConfigRecord | Unreadable]) -> set[str]:
    """The connectors whose config, target state or upgrade a record changes, or that a verb has claimed. Claims of runs do not count."""
    return {
        record.connector
        for record in records
        if isinstance(record, ConnectorRecord | TargetStateRecord | UpgradeRecord)
        or (isinstance(record, FencingRecord) and record.claim is None and record.owner is None)
    }


def _steers(
    record: ConfigRecord | Unreadable, owner: str
) -> TypeGuard[ConnectorRecord | TargetStateRecord | UpgradeRecord | FencingRecord]:
    if isinstance(record, FencingRecord):
        return record.owner != owner if record.claim is None else bool(record.successor)
    return isinstance(record, ConnectorRecord | TargetStateRecord | UpgradeRecord)


_GRAVITY = {kind: number for number, kind in enumerate(ChangeKind)}


def _change(record: ConfigRecord | Unreadable, connector: str, claim: Claim) -> Change | None:
    match record:
        case FencingRecord(claim=None) if record.connector == connector:
            kind = ChangeKind.INTERRUPTED if record.owner is None else ChangeKind.CLAIMED
            return Change(kind, Claim(record.offset, claim.topic_id))
        case TargetStateRecord(state=TargetState.PAUSED) if record.connector == connector:
            return Change(ChangeKind.PAUSED)
        case TargetStateRecord(state=TargetState.STOPPED) if record.connector == connector:
            return Change(ChangeKind.STOPPED)
        case ConnectorRecord(config=None) if record.connector == connector:
            return Change(ChangeKind.DELETED)
    return None
