"""What Debezium's sources for databases have in common: a snapshot, then changes; beans that show how far a task is; signals.

Knows nothing of a database.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.java.jvm.connect_worker import ConnectWorker

PREFIX: Final = "topic.prefix"
_MODE: Final = "snapshot.mode"
_ONLY_SNAPSHOT: Final = "initial_only"
_LEGAL_PREFIX: Final = re.compile(r"[\w.-]+", re.ASCII)
_SNAPSHOT: Final = ("SnapshotRunning", "SnapshotCompleted", "SnapshotSkipped")


class Phase(StrEnum):
    """Where a task is: before or in its SNAPSHOT; AFTER_SNAPSHOT of this run; in the CHANGES, with no snapshot of this run."""

    SNAPSHOT = "snapshot"
    AFTER_SNAPSHOT = "after snapshot"
    CHANGES = "changes"


class Beans:
    """The MBeans of a task of the connector ``kind`` with this ``config``. Raises ConfigException for a prefix that is a pattern."""

    def __init__(self, kind: str, config: Mapping[str, str]) -> None:
        self._kind = kind
        self._prefix = config.get(PREFIX, "")
        if not _LEGAL_PREFIX.fullmatch(self._prefix):
            raise ConfigException.of(PREFIX, self._prefix, "It must be of letters, digits, dots, hyphens and underscores.")

    def phase(self, worker: ConnectWorker) -> Phase:
        found = worker.attributes(self._name("snapshot"), _SNAPSHOT)
        is_taken = bool(found.get("SnapshotCompleted"))
        if found.get("SnapshotRunning") or not (is_taken or found.get("SnapshotSkipped")):
            return Phase.SNAPSHOT
        return Phase.AFTER_SNAPSHOT if is_taken else Phase.CHANGES

    def reader(self, worker: ConnectWorker, *names: str) -> dict[str, object] | None:
        """Attributes of the reader of changes; None: it is not connected."""
        found = worker.attributes(self._name("streaming"), ("Connected", *names))
        return found if found.get("Connected") else None

    def _name(self, context: str) -> str:
        return f"debezium.{self._kind}:type=connector-metrics,context={context},server={self._prefix},*"


def is_snapshot_only(config: Mapping[str, str]) -> bool:
    """Whether no changes follow the snapshot."""
    return snapshot_mode(config) == _ONLY_SNAPSHOT


def snapshot_mode(config: Mapping[str, str]) -> str:
    return config.get(_MODE, "").strip().lower()


def is_past_snapshot(offset: Mapping[str, object]) -> bool:
    """Whether a run from ``offset`` would go on with the changes alone: no snapshot is under way, an incremental one neither."""
    is_whole = offset.get("snapshot") in (None, False, "false") or bool(
        offset.get("last_snapshot_record") or offset.get("snapshot_completed")
    )
    return is_whole and not any(str(key).startswith("incremental_snapshot") for key in offset)


def is_asked_by_changes_alone(config: Mapping[str, str]) -> bool:
    """Whether no signal comes from elsewhere than from the tables."""
    channels = {each.strip() for each in config.get("signal.enabled.channels", "source").split(",")}
    return channels <= {"source", ""} and not is_snapshot_only(config)
