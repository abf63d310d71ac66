"""The reports of a run to Airflow: metrics, asset events, values for XCom, and the exception of a run that FAILED.

Metrics have Kafka Connect's groups and names, ``connect.«group».«name»``, with connector and task as tags. Totals are increments by this
run; all other values are of this run alone. ``docs/metrics.md`` lists them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from airflow.sdk import Asset, AssetAlias
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.sdk.observability import stats

from airflow_provider_connect.errors import last_line
from airflow_provider_connect.runtime.model import metric_names
from airflow_provider_connect.runtime.model.ids import consumer_group
from airflow_provider_connect.runtime.model.lineage import delivered_ranges
from airflow_provider_connect.runtime.model.metric_names import BY_NAME, Kind
from airflow_provider_connect.runtime.model.run import RunResult, RunState, TaskResult
from airflow_provider_connect.sdk.datasets import kafka_namespace

_READ_BY_SOURCES = "source-record-poll-total"
_ALIASED = {"transforms": (metric_names.TRANSFORM, "transform"), "predicates": (metric_names.PREDICATE, "predicate")}
_URI_LENGTH = 1500  # characters of an asset's URI that Airflow keeps


# --- metrics --------------------------------------------------------------------------------------------------------------------------


def emit_run(result: RunResult) -> None:
    """Called once by the Airflow task that ran the application. Skipped runs are not counted."""
    if result.state is RunState.SKIPPED:
        return
    connector = {"connector": result.connector}
    _emit_starts("connector", int(not result.tasks and result.state is RunState.FAILED), 1, connector)
    if result.tasks:
        _emit_starts("task", sum(task.trace is not None for task in result.tasks), len(result.tasks), connector)
    for task in result.tasks:
        tags = {**connector, "task": str(task.task)}
        is_source = _READ_BY_SOURCES in task.metrics
        for name, value in task.metrics.items():
            _emit(metric_names.group_of(name, is_source=is_source), name, value, tags)
        for key, version in result.versions.items():
            _emit_version(key, version, tags)


def emit_lost(connector: str) -> None:
    """Emit that an application ended without a result."""
    _emit_starts("connector", 1, 1, {"connector": connector})


def _emit_starts(kind: str, failed: int, attempts: int, tags: Mapping[str, str]) -> None:
    counts = {"attempts": attempts, "success": attempts - failed, "failure": failed}
    for word, count in counts.items():
        _emit(metric_names.WORKER, f"{kind}-startup-{word}-total", count, tags)
        if word != "attempts":
            _emit(metric_names.WORKER, f"{kind}-startup-{word}-percentage", count / attempts, tags)


def _emit_version(key: str, version: str, tags: Mapping[str, str]) -> None:
    """Emit a version as a tag of the value 1. ``key`` is a key of ``ChosenPlugins.versions``."""
    kind, _, alias = key.partition(".")
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


# --- asset events ---------------------------------------------------------------------------------------------------------------------


def emit_asset_events(context: Mapping[str, Any], bootstrap_servers: str, result: RunResult, *, group: str | None) -> None:
    """One event for each topic with delivered records: ``{"connector": …, "ranges": {partition: [[first, next], …]}}``.

    The API server emits the events of tasks whose ranges are in the batch log, because their run has stayed."""
    alias = AssetAlias(context["ti"].dag_id)
    if alias not in (context["task"].outlets or []):
        return
    for topic, ranges in sorted(delivered_ranges(task for task in result.tasks if not task.is_logged).items()):
        asset = topic_asset(bootstrap_servers, topic, group=group)
        context["outlet_events"][alias].add(asset, extra=event_extra(result.connector, ranges))


def event_extra(connector: str, ranges: Mapping[str, Sequence[Sequence[int]]]) -> dict[str, Any]:
    """The content of an asset event. ``ranges`` has the spans of each partition."""
    return {"connector": connector, "ranges": ranges}


def sink_group(connector: str, config: Mapping[str, str]) -> str | None:
    """The consumer group of a sink; None for a source."""
    return consumer_group(connector, config) if config.get("topics") or config.get("topics.regex") else None


def topic_asset(bootstrap_servers: str, topic: str, *, group: str | None = None) -> Asset:
    """The asset of a topic, or with ``group``, the asset of this sink's deliveries from the topic.

    The two differ, because a sink whose DAG is scheduled on the topic's asset would otherwise start itself repeatedly.
    """
    uri = f"{kafka_namespace(bootstrap_servers)}/{topic}"
    if group is None:
        return Asset(uri)
    whole = f"{uri}?group={quote(group, safe='')}"
    return Asset(whole if len(whole) <= _URI_LENGTH else f"{uri}?group-sha256={hashlib.sha256(group.encode()).hexdigest()}")


# --- the task's value and its failure -------------------------------------------------------------------------------------------------


def xcom_values(result: RunResult) -> dict[str, dict[str, float]]:
    """The values for XCom: task numbers and counts, but nothing of the config."""
    return {
        str(task.task): {
            "records": task.records,
            "bytes": task.bytes,
            "seconds": round(task.seconds, 3),
            "cpu_seconds": round(task.cpu_seconds, 3),
            **({"failed": task.failed} if task.failed else {}),
        }
        for task in result.tasks
    }


def failure(result: RunResult, failed: Sequence[TaskResult]) -> Exception:
    """The exception for a run that FAILED. Airflow retries the run if at least one of its causes may be transient."""
    causes = [f"task {task.task} FAILED: {last_line(task.trace or '') or 'no reason given'}" for task in failed]
    if not causes or result.error:
        causes.insert(0, last_line(result.error or "the connector FAILED"))
    retriable = result.retriable if not failed else any(task.retriable for task in failed)
    kind = AirflowException if retriable else AirflowFailException
    return kind(f"Connector {result.connector}: {'; '.join(causes)}")  # type: ignore[no-any-return]
