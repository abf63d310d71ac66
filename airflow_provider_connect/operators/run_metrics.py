"""What a run counted, sent to wherever Airflow's metrics go, by Kafka Connect's groups and names: ``connect.«group».«name»``.

Connector and task are tags. Totals are what this run adds; everything else is this run's own. ``docs/metrics.md`` lists them.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow.sdk.observability import stats

from airflow_provider_connect.model import metric_names
from airflow_provider_connect.model.metric_names import BY_NAME, Kind
from airflow_provider_connect.model.run import RunResult, RunState, TaskResult

_READ_BY_SOURCES = "source-record-poll-total"
_ALIASED = {"transforms": (metric_names.TRANSFORM, "transform"), "predicates": (metric_names.PREDICATE, "predicate")}


def emit_run(result: RunResult) -> None:
    """Called once by the Airflow task that ran the application. A run that was skipped counts as none."""
    if result.state is RunState.SKIPPED:
        return
    connector = {"connector": result.connector}
    _emit_starts("connector", int(not result.tasks and result.state is RunState.FAILED), 1, connector)
    if result.tasks:
        _emit_starts("task", sum(task.trace is not None for task in result.tasks), len(result.tasks), connector)
    for task in result.tasks:
        _emit_task(task, {**connector, "task": str(task.task)})
        for place, version in result.versions.items():
            _emit_version(place, version, {**connector, "task": str(task.task)})


def emit_lost(connector: str) -> None:
    """The application ended without a result."""
    _emit_starts("connector", 1, 1, {"connector": connector})


def _emit_starts(kind: str, failed: int, attempts: int, tags: Mapping[str, str]) -> None:
    counts = {"attempts": attempts, "success": attempts - failed, "failure": failed}
    for word, count in counts.items():
        _emit(metric_names.WORKER, f"{kind}-startup-{word}-total", count, tags)
        if word != "attempts":
            _emit(metric_names.WORKER, f"{kind}-startup-{word}-percentage", count / attempts, tags)


def _emit_task(task: TaskResult, tags: Mapping[str, str]) -> None:
    is_source = _READ_BY_SOURCES in task.metrics
    for name, value in task.metrics.items():
        _emit(metric_names.group_of(name, is_source=is_source), name, value, tags)


def _emit_version(place: str, version: str, tags: Mapping[str, str]) -> None:
    """A version is a tag of the value 1; ``place`` as ``ChosenPlugins.versions`` names it."""
    kind, _, alias = place.partition(".")
    group, tags = (metric_names.TASK, tags) if kind not in _ALIASED else (_ALIASED[kind][0], {**tags, _ALIASED[kind][1]: alias})
    word = f"{kind}-converter" if alias == "converter" else _ALIASED[kind][1] if kind in _ALIASED else kind
    _emit(group, f"{word}-version", 1, {**tags, f"{word}-version".replace("-", "_"): version})


def _emit(group: str, name: str, value: float, tags: Mapping[str, str]) -> None:
    stat = f"connect.{group}.{name}"
    if BY_NAME[group, name].kind is Kind.TOTAL:
        if value:
            stats.incr(stat, int(value), tags=dict(tags))
    else:
        stats.gauge(stat, value, tags=dict(tags))
