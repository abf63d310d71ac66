"""MirrorMaker's three sources in runs that end.

An empty poll of these sources does not show that they have read everything. The consumer of MirrorSourceConnector may still wait for an
answer, so the lags that the consumer reports end a run. MirrorCheckpointConnector reads its stores in a thread, so the first empty poll
after the stores are read ends a run. MirrorHeartbeatConnector always has a record, so a run ends after the first record.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.runtime.java.bounded.runs import Goal, Progress
from airflow_provider_connect.runtime.java.jvm.connect_worker import ConnectWorker
from airflow_provider_connect.sdk.connector import OffsetReader

_PACKAGE: Final = "org.apache.kafka.connect.mirror."
SOURCE_CLASS: Final = f"{_PACKAGE}MirrorSourceConnector"
CHECKPOINT_CLASS: Final = f"{_PACKAGE}MirrorCheckpointConnector"
HEARTBEAT_CLASS: Final = f"{_PACKAGE}MirrorHeartbeatConnector"
_ASSIGNED: Final = "task.assigned.partitions"
_SYNC: Final = "sync.group.offsets.enabled"
_SYNC_INTERVAL: Final = "sync.group.offsets.interval.seconds"
_FOR_SHORT_RUNS: Final = {"emit.checkpoints.interval.seconds": "1", _SYNC_INTERVAL: "1"}  # the defaults of 60 s would delay the end
_LAGS: Final = "kafka.consumer:type=consumer-fetch-manager-metrics,*"
_STORE_THREAD: Final = "KafkaBasedLog Work Thread - mm2-offset-syncs"
"""The thread that starts when the topic is read to its end."""
_BATCH: Final = 500
_REST_SECONDS: Final = 1.0
"""The required time without a checkpoint, because the current poll may have begun before the stores were read."""
_UNANSWERED_SECONDS: Final = 60.0
_UNREAD_SECONDS: Final = 300.0


class Mirror:
    """See ``BoundedSource``. ``class_name`` is the connector's class."""

    def __init__(self, class_name: str) -> None:
        self._class_name = class_name

    def task_defaults(self, config: Mapping[str, str], worker: Mapping[str, str], internal: Collection[str]) -> Mapping[str, str]:
        """See ``BoundedSource``."""
        return _FOR_SHORT_RUNS if self._class_name == CHECKPOINT_CLASS else {}

    def goal(self, config: Mapping[str, str], offsets: OffsetReader, within: Callable[..., object]) -> Goal:
        if self._class_name == SOURCE_CLASS:
            return LagGoal(config)
        return FirstRecordGoal() if self._class_name == HEARTBEAT_CLASS else StoresReadGoal(config)

    def has_new_data(self, config: Mapping[str, str], offsets: OffsetReader, within: Callable[..., object]) -> bool | None:
        """None, because only a run can find out. The connector's clients have settings of their own."""
        return None

    def retained_wal(self, config: Mapping[str, str], within: Callable[..., object]) -> None:
        return None


class _MirrorGoal:
    """The common part of the goals. They move no offset and have no open connection."""

    moves_offsets = False

    def offsets_after(self, offsets: OffsetReader) -> list[tuple[dict[str, object], dict[str, object]]]:
        return []

    def close(self) -> None:
        """See ``Goal``."""


class FirstRecordGoal(_MirrorGoal):
    """The goal is one heartbeat record, which the source returns after its interval."""

    def progress(self, worker: ConnectWorker, polled: int) -> Progress:
        return Progress.DELIVERED if polled else Progress.BEHIND


class LagGoal(_MirrorGoal):
    """The goal is every record that was in the task's partitions when the consumer got its first answer for each partition."""

    def __init__(self, config: Mapping[str, str], now: Callable[[], float] = time.monotonic) -> None:
        self._partitions = [each.strip() for each in config.get(_ASSIGNED, "").split(",") if each.strip()]
        self._now = now
        self._answered_at = now()
        self._waiting: int | None = None
        self._last: int | None = None

    def progress(self, worker: ConnectWorker, polled: int) -> Progress:
        """Raises RetriableException if the source cluster has not answered for ``_UNANSWERED_SECONDS``."""
        if self._last is not None and polled >= self._last:
            return Progress.DELIVERED
        lags = self._lags(worker)
        if None in lags:
            if self._now() - self._answered_at > _UNANSWERED_SECONDS:
                missing = [name for name, lag in zip(self._partitions, lags, strict=True) if lag is None]
                raise RetriableException(
                    f"The source cluster has not answered for {len(missing)} partitions in {_UNANSWERED_SECONDS:.0f} s, {missing[0]} among "
                    "them; Java's log has the reason"
                )
            return Progress.BEHIND
        self._answered_at = self._now()
        waiting = sum(lag for lag in lags if lag is not None)
        if self._waiting is None:
            self._waiting = waiting
        elif self._last is None:
            self._last = self._waiting + polled + _BATCH  # ``polled`` was read later than ``waiting``
        return Progress.BEHIND if waiting else Progress.RECEIVED

    def _lags(self, worker: ConnectWorker) -> list[int | None]:
        """The lag of each partition. None: there is no answer yet. Kafka 4.0 and older replace the dots in a topic's name with ``_``."""
        found: dict[tuple[str, str], int] = {}
        for (topic, number), value in worker.mbean_values(_LAGS, "records-lag", keys=("topic", "partition")):
            if isinstance(value, float) and not math.isnan(value):  # NaN before the first answer
                found[topic, number] = int(value)
        split = [name.rpartition("-") for name in self._partitions]
        return [found.get((topic, number), found.get((topic.replace(".", "_"), number))) for topic, _, number in split]


class StoresReadGoal(_MirrorGoal):
    """The goal is the end of the stores from which checkpoints are computed. If groups are synced to the target, one such sync is also part
    of the goal."""

    def __init__(self, config: Mapping[str, str], now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        syncs = config.get(_SYNC, "").strip().lower() == "true"
        self._rest_seconds = _REST_SECONDS + (_seconds(config.get(_SYNC_INTERVAL, _FOR_SHORT_RUNS[_SYNC_INTERVAL])) if syncs else 0)
        self._began_at = now()
        self._still_since: float | None = None
        self._polled = 0

    def progress(self, worker: ConnectWorker, polled: int) -> Progress:
        """Raises RetriableException if the offset syncs are not read after ``_UNREAD_SECONDS``."""
        if self._still_since is None:
            if not worker.has_thread(_STORE_THREAD):
                if self._now() - self._began_at > _UNREAD_SECONDS:
                    raise RetriableException(
                        f"The task has not read its topic mm2-offset-syncs… in {_UNREAD_SECONDS:.0f} s; Java's log has the reason. A "
                        "replication.policy.class that names this topic differently is not supported"
                    )
                return Progress.BEHIND
            self._still_since = self._now()
        if polled != self._polled:
            self._still_since, self._polled = self._now(), polled
        return Progress.RECEIVED if self._now() - self._still_since >= self._rest_seconds else Progress.BEHIND


def _seconds(text: str) -> float:
    return float(text) if text.strip().isascii() and text.strip().isdigit() else 0.0
