"""The metrics by group and name, each with its meaning and kind: Kafka Connect's metrics (contract §14), the metrics of KIP-891 and
KIP-1278, and ours.

Knows nothing of where values come from and where they are sent. ``docs/metrics.md`` lists the same metrics.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

CONNECTOR, TASK = "connector-metrics", "connector-task-metrics"
SOURCE_TASK, SINK_TASK = "source-task-metrics", "sink-task-metrics"
TASK_ERROR = "task-error-metrics"
WORKER, STATUS_STORE = "connect-worker-metrics", "status-backing-store-metrics"
TRANSFORM, PREDICATE = "connector-transform-metrics", "connector-predicate-metrics"


class Kind(StrEnum):
    """How the values of different runs are combined."""

    TOTAL = "total"  # added
    GAUGE = "gauge"  # the newest value is used
    TEXT = "text"  # a word, shown as a label of the value 1


@dataclass(frozen=True, slots=True)
class Metric:
    """``group`` and ``name`` are Connect's. ``meaning`` is one line."""

    group: str
    name: str
    kind: Kind
    meaning: str


def _metrics(group: str, *lines: tuple[str, Kind, str]) -> tuple[Metric, ...]:
    return tuple(Metric(group, *line) for line in lines)


T, G, W = Kind.TOTAL, Kind.GAUGE, Kind.TEXT
METRICS: Sequence[Metric] = (
    *_metrics(
        CONNECTOR,
        ("status", W, "unassigned, running, paused, stopped, failed or restarting"),
        ("health", W, "healthy, idle, behind, refusing, missing, stuck, waiting or failing; none while PAUSED or STOPPED (not of Connect)"),
        ("connector-type", W, "source or sink"),
        ("connector-class", W, "the class or alias that the config names"),
        ("connector-version", W, "the version that runs or ran last"),
        ("records-lag", G, "of a sink: records between its committed offsets and the ends of its partitions (not of Connect)"),
        ("records-lag-max", G, "of these, the records of the partition with the largest lag (not of Connect)"),
        ("held-wal-bytes", G, "of Debezium for PostgreSQL: what its replication slot holds back on the server (not of Connect)"),
    ),
    *_metrics(
        TASK,
        ("status", W, "unassigned, running, paused, failed or restarting"),
        ("running-ratio", G, "1 while the task is running, else 0"),
        ("pause-ratio", G, "1 while the task is paused, else 0"),
        ("offset-commit-max-time-ms", G, "the longest commit"),
        ("offset-commit-avg-time-ms", G, "the average commit"),
        ("offset-commit-success-percentage", G, "share of commits that succeeded, 0 to 1"),
        ("offset-commit-failure-percentage", G, "share of commits that failed, 0 to 1"),
        ("batch-size-max", G, "records of the largest batch"),
        ("batch-size-avg", G, "records of the average batch"),
        ("connector-class", W, "the class or alias that the config names (KIP-891)"),
        ("connector-type", W, "source or sink (KIP-891)"),
        ("connector-version", W, "version of the connector (KIP-891)"),
        ("task-class", W, "the class of the task (KIP-891)"),
        ("task-version", W, "version of the task (KIP-891)"),
        ("key-converter-class", W, "the key converter (KIP-891)"),
        ("key-converter-version", W, "its version (KIP-891)"),
        ("value-converter-class", W, "the value converter (KIP-891)"),
        ("value-converter-version", W, "its version (KIP-891)"),
        ("header-converter-class", W, "the header converter (KIP-891)"),
        ("header-converter-version", W, "its version (KIP-891)"),
        ("records-lost-total", T, "offsets of a topic that its retention removed before they were read (not of Connect)"),
        ("last-delivery-timestamp", G, "when the task delivered records last, in ms since 1970 (not of Connect)"),
    ),
    *_metrics(
        TRANSFORM,
        ("transform-class", W, "the transformation of an alias (KIP-891)"),
        ("transform-version", W, "its version (KIP-891)"),
    ),
    *_metrics(
        PREDICATE,
        ("predicate-class", W, "the predicate of an alias (KIP-891)"),
        ("predicate-version", W, "its version (KIP-891)"),
    ),
    *_metrics(
        SOURCE_TASK,
        ("source-record-poll-total", T, "records polled, before transformations"),
        ("source-record-poll-rate", G, "the same a second, over the run"),
        ("source-record-write-total", T, "records written, after transformations, without those filtered out"),
        ("source-record-write-rate", G, "the same a second, over the run"),
        ("poll-batch-max-time-ms", G, "the longest poll"),
        ("poll-batch-avg-time-ms", G, "the average poll"),
        ("source-record-active-count", G, "records written whose offsets are not committed yet"),
        ("source-record-active-count-max", G, "the most of them at once"),
        ("source-record-active-count-avg", G, "as many on average when they were committed"),
        ("transaction-size-min", G, "records of the smallest transaction, exactly once"),
        ("transaction-size-max", G, "records of the largest transaction, exactly once"),
        ("transaction-size-avg", G, "records of the average transaction, exactly once"),
    ),
    *_metrics(
        SINK_TASK,
        ("sink-record-read-total", T, "records read, before transformations"),
        ("sink-record-read-rate", G, "the same a second, over the run"),
        ("sink-record-send-total", T, "records passed to put"),
        ("sink-record-send-rate", G, "the same a second, over the run"),
        ("sink-record-active-count", G, "records put whose offsets are not committed yet"),
        ("sink-record-active-count-max", G, "the most of them at once"),
        ("sink-record-active-count-avg", G, "as many on average when they were committed"),
        ("partition-count", G, "partitions that the task reads"),
        ("offset-commit-seq-no", G, "the number of the last commit in the run"),
        ("offset-commit-completion-total", T, "commits that succeeded"),
        ("offset-commit-completion-rate", G, "the same a second, over the run"),
        ("offset-commit-skip-total", T, "commits that were late: always 0, because the task's own thread commits"),
        ("offset-commit-skip-rate", G, "the same a second"),
        ("put-batch-max-time-ms", G, "the longest put"),
        ("put-batch-avg-time-ms", G, "the average put"),
        (
            "sink-values-lost-total",
            T,
            "values of delivered records that the destination does not have: fields without a column, or a rounded number (not of Connect)",
        ),
    ),
    *_metrics(
        TASK_ERROR,
        ("total-record-failures", T, "operations on a record that failed: conversions, transformations, writes; each try counts"),
        ("total-record-errors", T, "records that failed for good"),
        ("total-records-skipped", T, "of these, those left out because errors are tolerated"),
        ("total-errors-logged", T, "errors written to the log"),
        ("deadletterqueue-produce-requests", T, "records sent to the dead letter queue"),
        ("deadletterqueue-produce-failures", T, "of these, those that did not arrive there"),
        ("total-retries", T, "retries of operations, polls and puts after a RetriableException"),
        ("last-error-timestamp", G, "when a record failed, or the task, last, in ms since 1970"),
    ),
    *_metrics(
        WORKER,
        ("connector-count", G, "connectors"),
        ("task-count", G, "tasks"),
        ("connector-startup-attempts-total", T, "runs that started, or tried to start, a connector"),
        ("connector-startup-success-total", T, "those that did"),
        ("connector-startup-success-percentage", G, "their share, 0 to 1"),
        ("connector-startup-failure-total", T, "those that did not"),
        ("connector-startup-failure-percentage", G, "their share, 0 to 1"),
        ("task-startup-attempts-total", T, "tasks that runs started"),
        ("task-startup-success-total", T, "those that did not fail"),
        ("task-startup-success-percentage", G, "their share, 0 to 1"),
        ("task-startup-failure-total", T, "those that FAILED"),
        ("task-startup-failure-percentage", G, "their share, 0 to 1"),
        ("connector-total-task-count", G, "tasks of a connector"),
        ("connector-running-task-count", G, "those that are running"),
        ("connector-paused-task-count", G, "those that are paused"),
        ("connector-failed-task-count", G, "those that have FAILED"),
        ("connector-unassigned-task-count", G, "those that are unassigned"),
        ("connector-destroyed-task-count", G, "those that are being removed: always 0, because removal is one step"),
        ("connector-restarting-task-count", G, "those that are restarting"),
    ),
    *_metrics(
        STATUS_STORE,
        ("status-update-retry-total", T, "retries of status writes (KIP-1278)"),
        ("status-update-failure-total", T, "status writes that failed for good (KIP-1278)"),
        ("status-update-success-total", T, "status writes that succeeded (KIP-1278)"),
    ),
)
BY_NAME = {(metric.group, metric.name): metric for metric in METRICS}
"""Every metric by group and name."""
TOTALS = frozenset(metric.name for metric in METRICS if metric.kind is Kind.TOTAL)
"""The names of the metrics whose values are added."""


def merge_metrics(newer: Mapping[str, float], older: Mapping[str, float]) -> dict[str, float]:
    """The metrics of two runs. Totals are added. For other metrics, the newer value is used."""
    totals = {name: value + older.get(name, 0.0) for name, value in newer.items() if name in TOTALS}
    return {**older, **newer, **totals}


def group_of(name: str, *, is_source: bool) -> str:
    """The group of a task's metric. A metric may be older than a change of the connector's class, or the plugin may be missing. The group
    may then be that of the other direction. Raises KeyError for an unknown name."""
    own, other = (SOURCE_TASK, SINK_TASK) if is_source else (SINK_TASK, SOURCE_TASK)
    for group in (own, TASK, TASK_ERROR, STATUS_STORE, other):
        if (group, name) in BY_NAME:
            return group
    raise KeyError(name)
