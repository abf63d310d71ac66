"""``/metrics``: Kafka Connect's metrics of the connectors that the user may read, for Prometheus.

States and versions come from the topics; counts of tasks come from the herder. A metric has the name ``kafka_connect_«group»_«name»``, with
underscores for hyphens; a word (a state, a class, a version) is a label of a sample whose value is 1.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_connect.rest.calls import calls_of, user_of
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model import metric_names
from airflow_provider_connect.runtime.model.health import health_of
from airflow_provider_connect.runtime.model.metric_names import BY_NAME, Kind
from airflow_provider_connect.runtime.model.views import ConnectorInfo, ConnectorStatusView, Health, PluginView, TaskView

router = APIRouter(tags=["server"])
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STATES = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")
_ALIASED = {"transforms": (metric_names.TRANSFORM, "transform"), "predicates": (metric_names.PREDICATE, "predicate")}
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. ``name`` is valid in Prometheus; ``kind`` is ``counter`` or ``gauge``."""

    name: str
    kind: str
    meaning: str


Sample = tuple[Family, Mapping[str, str], float]

_FAMILIES = {
    key: Family(
        f"kafka_connect_{metric.group}_{metric.name}".replace("-", "_"), "counter" if metric.kind is Kind.TOTAL else "gauge", metric.meaning
    )
    for key, metric in BY_NAME.items()
}


@dataclass(frozen=True, slots=True)
class ConnectorMetrics:
    """The metrics of one connector. ``plugins`` are the plugins of its next run, by their prefixes in the config. ``task_classes`` and
    ``metrics`` have a key for each task. ``numbers`` are metrics of the whole connector."""

    info: ConnectorInfo
    status: ConnectorStatusView
    plugins: Mapping[str, PluginView]
    task_classes: Mapping[int, str]
    metrics: Mapping[int, Mapping[str, float]]
    numbers: Mapping[str, float] = field(default_factory=dict)
    health: Health | None = None


@router.get("/metrics", response_class=Response, responses={200: {"description": "Done", "content": {"text/plain": {}}}})
async def get_metrics(request: Request) -> Response:
    """Metrics of the connectors that the user may read, in Prometheus' text format."""
    calls = calls_of(request)

    def page(herder: Herder) -> Response:
        known = herder.expanded(info=True, status=True)
        readable = calls.access.readable(user_of(request), known)
        measured = _measure(herder, {name: known[name] for name in known if name in readable})
        return Response(text_of(samples(measured, herder.status_update_metrics())), media_type=CONTENT_TYPE)

    return await calls.ask(request, page)


def _measure(herder: Herder, connectors: Mapping[str, Mapping[str, ConnectorInfo | ConnectorStatusView]]) -> Iterator[ConnectorMetrics]:
    metrics, state = herder.task_metrics(), herder.config_state()
    lags, held = herder.sink_lags(connectors), herder.retained_wal.retained_bytes()
    distances, now_ms = herder.distances(connectors, lags), time.time() * 1000
    for name, expanded in connectors.items():
        info, status = expanded.get("info"), expanded.get("status")
        if isinstance(info, ConnectorInfo) and isinstance(status, ConnectorStatusView):
            tasks = [task.id for task in status.tasks]
            counted = {task: metrics.get((name, task), {}) for task in tasks}
            classes = {task: (state.task_config(name, task) or {}).get("task.class", "") for task in tasks}
            numbers = {**lags.get(name, {}), **({"held-wal-bytes": held[name]} if name in held else {})}
            health = health_of(status, distances.get(name), herder.pace(name), now_ms=now_ms)
            yield ConnectorMetrics(info, status, herder.chosen_plugins(info), classes, counted, numbers, health)


def samples(connectors: Iterable[ConnectorMetrics], status_updates: Mapping[str, float]) -> Iterator[Sample]:
    """Every sample of the connectors and of this process."""
    count = tasks = 0
    for connector in connectors:
        count, tasks = count + 1, tasks + len(connector.status.tasks)
        yield from _connector(connector)
        for task in connector.status.tasks:
            yield from _task(connector, task)
    yield from _numbers(metric_names.WORKER, {}, {"connector-count": count, "task-count": tasks})
    yield from _numbers(metric_names.STATUS_STORE, {}, status_updates)


def _connector(connector: ConnectorMetrics) -> Iterator[Sample]:
    info, status = connector.info, connector.status
    labels = {"connector": info.name}
    words = {
        "status": status.connector.state.lower(),
        "health": None if connector.health is None else str(connector.health.word),
        "connector-type": status.type,
        "connector-class": info.config.get("connector.class"),
        "connector-version": status.connector.version,
    }
    yield from _words(metric_names.CONNECTOR, labels, words)
    yield from _numbers(metric_names.CONNECTOR, labels, connector.numbers)
    states = [task.state.lower() for task in status.tasks]
    counts = {"connector-total-task-count": len(states)} | {f"connector-{word}-task-count": states.count(word) for word in _STATES}
    yield from _numbers(metric_names.WORKER, labels, counts)


def _task(connector: ConnectorMetrics, task: TaskView) -> Iterator[Sample]:
    labels = {"connector": connector.info.name, "task": str(task.id)}
    words = {
        "status": task.state.lower(),
        "connector-class": connector.info.config.get("connector.class"),
        "connector-type": connector.status.type,
        "connector-version": connector.status.connector.version,
        "task-class": connector.task_classes.get(task.id),
        "task-version": task.version,
    }
    yield from _words(metric_names.TASK, labels, words)
    yield from _numbers(metric_names.TASK, labels, {"running-ratio": task.state == "RUNNING", "pause-ratio": task.state == "PAUSED"})
    for location, plugin in connector.plugins.items():
        yield from _plugin(location, plugin, labels)
    is_source = connector.status.type == "source"
    for name, value in connector.metrics.get(task.id, {}).items():
        group = metric_names.group_of(name, is_source=is_source)
        if group != metric_names.STATUS_STORE:  # reported once, for the process
            yield from _numbers(group, labels, {name: value})


def _plugin(location: str, plugin: PluginView, labels: Mapping[str, str]) -> Iterator[Sample]:
    """``location`` is a converter's key, or ``transforms.`` or ``predicates.`` with an alias. The connector has its own metrics."""
    kind, _, alias = location.partition(".")
    if alias == "converter":
        words = {f"{kind}-converter-class": plugin.class_name, f"{kind}-converter-version": plugin.version}
        yield from _words(metric_names.TASK, labels, words)
    elif kind in _ALIASED:
        group, word = _ALIASED[kind]
        yield from _words(group, {**labels, word: alias}, {f"{word}-class": plugin.class_name, f"{word}-version": plugin.version})


def _words(group: str, labels: Mapping[str, str], words: Mapping[str, str | None]) -> Iterator[Sample]:
    """One sample for each word, with the word as the value of a label. Unknown words are left out."""
    for name, word in words.items():
        if word:
            yield _FAMILIES[group, name], {**labels, name.replace("-", "_"): word}, 1


def _numbers(group: str, labels: Mapping[str, str], values: Mapping[str, float]) -> Iterator[Sample]:
    for name, value in values.items():
        yield _FAMILIES[group, name], labels, value


def text_of(given: Iterable[Sample]) -> str:
    """Samples in Prometheus' text format (version 0.0.4): each metric once, with its samples in the given order."""
    families: dict[Family, list[str]] = {}
    for family, labels, value in given:
        families.setdefault(family, []).append(f"{family.name}{_labels(labels)} {_number(value)}")
    lines = []
    for family, shown in families.items():
        lines += [f"# HELP {family.name} {_help(family.meaning)}", f"# TYPE {family.name} {family.kind}", *shown]
    return "".join(f"{line}\n" for line in lines)


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items()) + "}"


def _help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
