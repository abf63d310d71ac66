"""The lineage of a task, for its result: topics with the fields of their values, and datasets outside Kafka.

Invalid entries are left out and logged, and never fail a task.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import plugin_code, trace_of
from airflow_provider_connect.runtime.model.lineage import MOST_DATASETS, FieldJson, Fields
from airflow_provider_connect.sdk.datasets import Dataset
from airflow_provider_connect.sdk.task import SinkTask, SourceTask

log = logging.getLogger(__name__)


def task_datasets(name: str, task: SourceTask | SinkTask, hide: Callable[[str], str]) -> list[dict[str, Any]]:
    """The datasets of ``task``, as JSON. ``hide`` masks secrets. ``name`` is the task's name for the log. Called at the end of a
    run, and once a minute in a run that stays."""
    try:
        with plugin_code():
            found = list(islice(task.datasets(), MOST_DATASETS))
        return _as_json(found, Fields(hide))
    except (Exception, SystemExit) as error:  # (an author's code)
        log.warning("Task %s: what it has read or written is not known to lineage: %s", name, hide(trace_of(error)))
        return []


def topic_fields(schemas: Mapping[str, Schema | None], hide: Callable[[str], str]) -> dict[str, list[FieldJson]]:
    """The fields of the values of each topic. Empty if values have no schema or are not structs."""
    fields = Fields(hide)
    try:
        return {topic: fields.of(schema) for topic, schema in islice(schemas.items(), MOST_DATASETS)}
    except RecursionError:  # (a schema may be of any depth)
        return {topic: [] for topic in islice(schemas, MOST_DATASETS)}


def _as_json(datasets: Iterable[Dataset], fields: Fields) -> list[dict[str, Any]]:
    return [
        {"namespace": fields.text(each.namespace), "name": fields.text(each.name), "fields": fields.of(each.schema)}
        for each in datasets
        if each.namespace and each.name
    ]
