"""The common parts of Debezium's database sources: a snapshot that is followed by changes, MBeans that report a task's progress, and
signals.

Knows nothing of any database.
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
    """The phase of a task: SNAPSHOT (before or in it), AFTER_SNAPSHOT (after a snapshot in this run), or CHANGES (without a snapshot in
    this run)."""

    SNAPSHOT = "snapshot"
    AFTER_SNAPSHOT = "after snapshot"
    CHANGES = "changes"


class Beans:
    """The MBeans of a task of the connector ``kind`` with this ``config``. Raises ConfigException if the topic prefix has characters that
    Debezium does not allow, because the prefix would then be a pattern."""

    def __init__(self, kind: str, config: Mapping[str, str]) -> None:
        self._kind = kind
        self._prefix = config.get(PREFIX, "")
        if not _LEGAL_PREFIX.fullmatch(self._prefix):
            raise ConfigException.of(PREFIX, self._prefix, "It must be of letters, digits, dots, hyphens and underscores.")

    def phase(self, worker: ConnectWorker) -> Phase:
        found = worker.mbean_attributes(self._name("snapshot"), _SNAPSHOT)
        is_taken = bool(found.get("SnapshotCompleted"))
        if found.get("SnapshotRunning") or not (is_taken or found.get("SnapshotSkipped")):
            return Phase.SNAPSHOT
        return Phase.AFTER_SNAPSHOT if is_taken else Phase.CHANGES

    def reader(self, worker: ConnectWorker, *names: str) -> dict[str, object] | None:
        """Attributes of the reader of changes. None: the reader is not connected."""
        found = worker.mbean_attributes(self._name("streaming"), ("Connected", *names))
        return found if found.get("Connected") else None

    def _name(self, context: str) -> str:
        return f"debezium.{self._kind}:type=connector-metrics,context={context},server={self._prefix},*"


def is_snapshot_only(config: Mapping[str, str]) -> bool:
    """Whether no changes follow the snapshot."""
    return snapshot_mode(config) == _ONLY_SNAPSHOT


def snapshot_mode(config: Mapping[str, str]) -> str:
    return config.get(_MODE, "").strip().lower()


def is_past_snapshot(offset: Mapping[str, object]) -> bool:
    """Whether a run from ``offset`` would only read changes: no snapshot is in progress, not even an incremental one."""
    is_whole = offset.get("snapshot") in (None, False, "false") or bool(
        offset.get("last_snapshot_record") or offset.get("snapshot_completed")
    )
    return is_whole and not any(str(key).startswith("incremental_snapshot") for key in offset)


def has_table_signals_only(config: Mapping[str, str]) -> bool:
    """Whether changes of tables are the only input: no other channel sends signals, and the connector does more than take a snapshot."""
    channels = {each.strip() for each in config.get("signal.enabled.channels", "source").split(",")}
    return channels <= {"source", ""} and not is_snapshot_only(config)
