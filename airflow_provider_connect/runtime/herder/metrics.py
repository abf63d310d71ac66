"""The counts of tasks, by connector, task and Kafka Connect's metric name, and the lags of sinks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from airflow_provider_connect.data.records import Distance, TopicPartition
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.backfill import beginnings_within, ends_within, known_ranges, positions_beyond
from airflow_provider_connect.runtime.model.batches import ALTERED, ALTERING, BatchRecord, ConnectorType, refusals
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.model.health import NOTHING_DELIVERED, Pace
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId, named_topics, refusal_of_topic
from airflow_provider_connect.runtime.model.run import Claim, TaskResult
from airflow_provider_connect.runtime.model.views import WorkerView
from airflow_provider_connect.runtime.stores.batch_log import BatchLog, Delivered
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.stores.topic_ends import topic_ends

TaskMetrics = Mapping[tuple[str, int], Mapping[str, float]]
ReadTaskMetrics = Callable[[], TaskMetrics]

LastPositions = Mapping[str, Mapping[TopicPartition, int]]
"""By connector and partition: the offset after the last record that a sink has delivered."""

_WRITTEN = {ConnectorType.SOURCE: "source-record-write-total", ConnectorType.SINK: "sink-record-send-total"}
_FAILED = "total-records-skipped"
_log = logging.getLogger(__name__)


class BatchLogMetrics:
    """Metrics from the batch log, which tasks in other processes write. Totals begin with the last run of each task and grow during the
    life of this process. Safe to share between threads."""

    def __init__(self, batch_log: BatchLog) -> None:
        self._batch_log = batch_log
        self._lock = threading.Lock()
        self._warnings: Mapping[str, str] = {}
        self._paces: Mapping[str, Pace] | None = None

    def read(self) -> TaskMetrics:
        """Empty while the batch log cannot be read, because metrics of states are useful without the batch log."""
        delivered = self._delivered() or {}
        return {(task.connector, task.task): _counted(found) for task, found in delivered.items()}

    def with_records(self, workers: Sequence[WorkerView], running: Mapping[str, Collection[str]]) -> list[WorkerView]:
        """``workers`` with the deliveries of their tasks under their claims. Unchanged while the batch log cannot be read. ``running``: the
        runs of each connector that have not ended. Until a new run has a claim, the worker of an earlier run is left out."""
        if not workers or self._delivered() is None:
            return list(workers)
        with self._lock:
            entries = self._batch_log.last_entries()
        found = ((worker, _entries_of(worker, entries)) for worker in workers)
        return [_with_entries(worker, own) for worker, own in found if _may_run(own, running.get(worker.connector, ()))]

    def _delivered(self) -> Mapping[ConnectorTaskId, Delivered] | None:
        try:
            with self._lock:
                delivered = self._batch_log.delivered()
                self._warnings = _warnings(self._batch_log.last_entries())
                self._paces = _paces(self._batch_log.last_entries(), delivered)
                return delivered
        except ConnectException as error:
            _log.warning("The batch log cannot be read for metrics: %s", error.message)
            return None

    def source_distances(self) -> dict[str, Distance]:
        """By connector, from the newest claims' entries at the last ``read``. Sources without a known distance are left out."""
        newest: dict[str, list[BatchRecord]] = {}
        with self._lock:
            entries = self._batch_log.last_entries()
        for task, entry in entries.items():
            if entry.type is ConnectorType.SOURCE:
                newest.setdefault(task.connector, []).append(entry)
        found = {name: distance_of([each for each in known if each.claim == _last(known)]) for name, known in newest.items()}
        return {name: distance for name, distance in found.items() if distance is not None}

    def sink_positions(self) -> LastPositions:
        """The positions at the last ``read``."""
        with self._lock:
            return self._batch_log.sink_positions()

    def warnings(self) -> Mapping[str, str]:
        """By connector, a warning that its last run left out records, based on the last ``read``."""
        return self._warnings

    def pace(self, connector: str) -> Pace | None:
        """What the connector delivers, based on the last ``read``. None: nothing was read yet."""
        return None if self._paces is None else self._paces.get(connector, NOTHING_DELIVERED)

    def datasets(self, connector: str) -> list[tuple[str, str]]:
        """Namespaces and names of the datasets outside of Kafka that the connector's last run has read or written, based on the last
        ``read``. Sorted."""
        with self._lock:
            own = [entry for task, entry in self._batch_log.last_entries().items() if task.connector == connector]
        named = {(namespace, name) for entry in own if entry.claim == _last(own) for namespace, name in entry.datasets}
        return sorted(named)

    def close(self) -> None:
        with self._lock:
            self._batch_log.close()


def _warnings(entries: Mapping[ConnectorTaskId, BatchRecord]) -> dict[str, str]:
    """Warnings for connectors with a task that skipped records, based on the newest claims' entries."""
    concerned = {task.connector for task, entry in entries.items() if entry.failed}
    known: dict[str, list[BatchRecord]] = {name: [] for name in concerned}
    for task in sorted(entries):
        if task.connector in concerned:
            known[task.connector].append(entries[task])
    found = {name: refusals(each for each in own if each.claim == _last(own)) for name, own in known.items()}
    return {name: text for name, text in found.items() if text is not None}


def _paces(entries: Mapping[ConnectorTaskId, BatchRecord], delivered: Mapping[ConnectorTaskId, Delivered]) -> dict[str, Pace]:
    """Of each connector, based on its newest claim's entries. A change of offsets replaces entries, but not the time of a delivery."""
    of_runs: dict[str, list[BatchRecord]] = {}
    for task, entry in entries.items():
        if entry.run not in (ALTERED, ALTERING):
            of_runs.setdefault(task.connector, []).append(entry)
    last_ms: dict[str, int] = {}
    for task, found in delivered.items():
        if found.timestamp >= 0:
            last_ms[task.connector] = max(found.timestamp, last_ms.get(task.connector, -1))
    return {name: _pace(of_runs.get(name, []), last_ms.get(name)) for name in of_runs.keys() | last_ms.keys()}


def _pace(entries: Collection[BatchRecord], last_ms: int | None) -> Pace:
    newest = [entry for entry in entries if entry.claim == _last(entries)]
    return Pace(
        sum(entry.records for entry in newest),
        sum(entry.bytes for entry in newest),
        max((entry.seconds for entry in newest), default=0.0),
        last_ms,
        any(entry.stay is not None for entry in newest),
    )


def _last(entries: Iterable[BatchRecord]) -> Claim:
    return max(entry.claim for entry in entries)


def _counted(delivered: Delivered) -> dict[str, float]:
    counted = {_WRITTEN[delivered.type]: float(delivered.records), _FAILED: float(delivered.failed)}
    return counted | ({"last-delivery-timestamp": float(delivered.timestamp)} if delivered.timestamp >= 0 else {})


def _entries_of(worker: WorkerView, entries: Mapping[ConnectorTaskId, BatchRecord]) -> list[BatchRecord]:
    """The entries of the worker's tasks under its claim."""
    known = (entries.get(ConnectorTaskId(worker.connector, task)) for task in worker.tasks)
    return [entry for entry in known if entry is not None and str(entry.claim) == worker.claim]


def _may_run(entries: Sequence[BatchRecord], runs: Collection[str]) -> bool:
    """Whether the application that wrote ``entries`` may be one of ``runs``."""
    return not entries or not runs or any(entry.run in runs for entry in entries)


def _with_entries(worker: WorkerView, found: Sequence[BatchRecord]) -> WorkerView:
    records, size = sum(entry.records for entry in found), sum(entry.bytes for entry in found)
    left, unit = (distance_of(found) if len(found) == len(worker.tasks) else None) or (None, None)
    seconds = max((entry.seconds for entry in found), default=0.0)
    failed = sum(entry.failed for entry in found)
    return replace(worker, records=records, bytes=size, seconds=seconds, left=left, left_unit=unit, failed=failed)


def distance_of(entries: Iterable[BatchRecord]) -> Distance | None:
    """The sum over tasks. None: a distance is unknown, or distances have different units."""
    known = [entry.distance for entry in entries]
    units = {None if each is None else each.unit for each in known}
    if len(units) != 1 or None in units:
        return None
    return Distance(sum(each.left for each in known if each is not None), str(units.pop()))


def with_counted_records(read: ReadTaskMetrics, workers: Iterable[WorkerView], _running: Mapping[str, Collection[str]]) -> list[WorkerView]:
    """``workers`` with the records that their process has counted."""
    counted = read()
    found = ((worker, [counted.get((worker.connector, task), {}) for task in worker.tasks]) for worker in workers)
    return [replace(worker, records=sum(map(_written, tasks)), failed=sum(map(_left_out, tasks))) for worker, tasks in found]


def counted_warnings(read: ReadTaskMetrics) -> dict[str, str]:
    """As ``BatchLogMetrics.warnings``, but based on the counts of this process's tasks since the process began."""
    counts: dict[str, list[TaskResult]] = {}
    for (name, task), counted in read().items():
        result = TaskResult(task, records=_written(counted), failed=_left_out(counted))
        counts.setdefault(name, []).append(result)
    found = {name: refusals(each) for name, each in counts.items()}
    return {name: text for name, text in found.items() if text is not None}


def _left_out(counts: Mapping[str, float]) -> int:
    return int(counts.get(_FAILED, 0))


def _written(counts: Mapping[str, float]) -> int:
    return int(sum(counts.get(name, 0.0) for name in _WRITTEN.values()))


def sink_lags(settings: WorkerSettings, positions: LastPositions, configs: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, float]]:
    """``records-lag`` and ``records-lag-max`` of the sinks in ``configs`` with positions: the lag of all partitions together, and the
    largest lag of a partition. A lag is the number of records between the position and the end for a read_committed reader. In a partition
    without a position, it counts from the beginning. Topics that were deleted or that the config no longer names do not count.

    Few requests for all connectors together. A sink is left out while one of its partitions cannot be read, because the sum would be too
    small, and while a position is beyond the end, because its lag is unknown.
    """
    known = {name: _still_read(configs[name], positions[name]) for name in configs.keys() & positions.keys()}
    topics = _topics(settings, {name: configs[name] for name in known})
    ends = topic_ends(
        settings,
        {partition for partitions in known.values() for partition in partitions},
        {topic for name in topics for topic in topics[name]},
    )
    fresh = {
        name: {at for at in (*ends.offsets, *ends.unread) if at.topic in topics.get(name, ()) and at not in known[name]} for name in known
    }
    firsts = topic_ends(settings, {at for partitions in fresh.values() for at in partitions}, beginnings=True)
    behind = {at for found in known.values() for at, position in found.items() if at in ends.offsets and position > ends.offsets[at]}
    highs = topic_ends(settings, behind, read_committed=False)  # a transaction may be open before these positions
    unread = {**ends.unread, **firsts.unread, **highs.unread}
    unknown = sorted(name for name in known if not (known[name].keys() | fresh[name]).isdisjoint(unread))
    if unknown:
        partition, reason = min(unread.items())
        _log.warning("The lag of %s is not known: partition %s of %s cannot be read: %s", unknown, *partition[::-1], reason)
    lags = {
        name: _lags({at: firsts.offsets[at] for at in fresh[name] if at in firsts.offsets} | found, ends.offsets, configs[name])
        for name, found in known.items()
        if name not in unknown and not positions_beyond(found, highs.offsets, known_ranges(configs[name]))
    }
    return {name: {"records-lag": float(sum(found)), "records-lag-max": float(max(found))} for name, found in lags.items() if found}


def _lags(positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], config: Mapping[str, str]) -> list[int]:
    """The lag of each partition with a known end. For a backfill, within its ranges."""
    ranges = known_ranges(config)
    wanted = ends_within({at: ends[at] for at in positions if at in ends}, ranges)
    starts = beginnings_within(positions, ranges)
    return [max(end - starts[at], 0) for at, end in wanted.items()]


def _topics(settings: WorkerSettings, configs: Mapping[str, Mapping[str, str]]) -> dict[str, set[str]]:
    """The topics that each sink names, or that match its pattern. Without the sinks whose pattern is not valid."""
    found = {name: {topic for topic in _named(config) if not refusal_of_topic(topic)} for name, config in configs.items()}
    patterns = {name: config["topics.regex"].strip() for name, config in configs.items() if not found[name] and config.get("topics.regex")}
    matching: dict[str, set[str]] = {}
    if patterns:
        with closing(TopicAdmin(settings)) as admin:
            for pattern in {*patterns.values()}:
                try:
                    matching[pattern] = set(admin.matching(pattern))
                except ConnectException as error:
                    _log.warning("The topics that %s matches are not known: %s", cut(pattern), error.message)
    return found | {name: matching.get(pattern, set()) for name, pattern in patterns.items()}


def _still_read(config: Mapping[str, str], positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    named = _named(config)
    return {partition: position for partition, position in positions.items() if not named or partition.topic in named}


def _named(config: Mapping[str, str]) -> set[str]:
    """The topics that the config names. Empty if a variable in them could not be resolved: only the topics that the sink has read are
    known."""
    return set() if "${" in (config.get("topics") or "") else set(named_topics(config))
