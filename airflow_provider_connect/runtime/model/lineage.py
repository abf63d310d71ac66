"""The lineage of a run: datasets under OpenLineage's names, and the delivered offsets.

Knows nothing of OpenLineage's client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider_connect.data.schema import Schema, SchemaType
from airflow_provider_connect.runtime.model.run import Claim, RunResult, TaskResult
from airflow_provider_connect.sdk.datasets import kafka_namespace

MOST_FIELDS: Final = 10_000
"""The maximum number of fields over all datasets of a task. Later fields are left out."""
MOST_DATASETS: Final = 1000
LONGEST_TEXT: Final = 1000
_DEEPEST: Final = 8

FieldJson = dict[str, Any]
"""``{"name", "type"}``. Structs, and arrays and maps of structs, also have ``"fields"``. Any: the values are JSON."""


@dataclass(slots=True)
class Fields:
    """Converts schemas to at most ``left`` fields, because a schema from outside may have any number of fields. ``hide`` hides secrets in
    texts."""

    hide: Callable[[str], str]
    left: int = MOST_FIELDS

    def text(self, text: object) -> str:
        """A name or type, masked and truncated."""
        return str(self.hide(str(text)))[:LONGEST_TEXT]

    def of(self, schema: Schema | Mapping[str, str] | None) -> list[FieldJson]:
        """The columns of a dataset. Empty if they are unknown, or if values are not structs."""
        if schema is None:
            return []
        if isinstance(schema, Schema):
            return self._of_schema(schema, 0)
        return [{"name": self.text(name), "type": self.text(type)} for name, type in self._taken(list(schema.items()))]

    def _of_schema(self, schema: Schema, depth: int) -> list[FieldJson]:
        if schema.type is not SchemaType.STRUCT or depth >= _DEEPEST:
            return []
        return [self._field(each.name, each.schema, depth) for each in self._taken(schema.fields)]

    def _field(self, name: str, schema: Schema, depth: int) -> FieldJson:
        found: FieldJson = {"name": self.text(name), "type": self.text(type_name(schema))}
        inner = schema.value_schema if schema.value_schema is not None else schema
        if nested := self._of_schema(inner, depth + 1):
            found["fields"] = nested
        return found

    def _taken(self, fields: Sequence[Any]) -> Sequence[Any]:
        taken = fields[: max(self.left, 0)]
        self.left -= len(taken)
        return taken


def type_name(schema: Schema) -> str:
    """The name of a type: Kafka Connect's name. For a logical type, the last word of its name. For arrays and maps, the name with the
    element types."""
    if schema.logical_name is not None:
        return schema.logical_name.rpartition(".")[2].lower()
    if schema.type is SchemaType.ARRAY and schema.value_schema is not None:
        return f"array<{type_name(schema.value_schema)}>"
    if schema.type is SchemaType.MAP and schema.key_schema is not None and schema.value_schema is not None:
        return f"map<{type_name(schema.key_schema)},{type_name(schema.value_schema)}>"
    return str(schema.type)


@dataclass(slots=True)
class NamedDataset:
    """One dataset of an event. ``fields`` empty: unknown."""

    namespace: str
    name: str
    fields: list[FieldJson] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RunLineage:
    """``delivery`` is the run's facet: ``{"connector", "kind", "state", "claim", "records", "bytes", "ranges": [{"topic", "partition",
    "first", "next"}, …]}``."""

    inputs: list[NamedDataset]
    outputs: list[NamedDataset]
    delivery: dict[str, Any]


def run_lineage(result: RunResult, bootstrap_servers: str, *, is_source: bool) -> RunLineage:
    """The lineage of a run, from the reports of its tasks."""
    cluster = kafka_namespace(bootstrap_servers)
    topics = [NamedDataset(cluster, topic, fields) for task in result.tasks for topic, fields in _topics(task).items()]
    outside = [NamedDataset(**each) for task in result.tasks for each in task.datasets]
    inputs, outputs = (outside, topics) if is_source else (topics, outside)
    delivery = {
        "connector": result.connector,
        "kind": "source" if is_source else "sink",
        "state": str(result.state),
        "claim": None if result.claim is None else str(result.claim),
        "records": sum(task.records for task in result.tasks),
        "bytes": sum(task.bytes for task in result.tasks),
        "ranges": _as_list(delivered_ranges(result.tasks)),
    }
    return RunLineage(_merged(inputs), _merged(outputs), delivery)


def staying_lineage(
    connector: str,
    bootstrap_servers: str,
    *,
    claim: Claim,
    state: str,
    is_source: bool,
    records: int,
    size: int,
    ranges: Mapping[str, Mapping[str, list[list[int]]]],
    datasets: Iterable[tuple[str, str]],
) -> RunLineage:
    """The lineage of a run that stays, so far. ``state`` is ``running``, or that of a run that was ended. The columns are not known."""
    cluster = kafka_namespace(bootstrap_servers)
    topics, outside = [NamedDataset(cluster, topic) for topic in ranges], [NamedDataset(*each) for each in datasets]
    inputs, outputs = (outside, topics) if is_source else (topics, outside)
    delivery = {
        "connector": connector,
        "kind": "source" if is_source else "sink",
        "state": state,
        "claim": str(claim),
        "records": records,
        "bytes": size,
        "ranges": _as_list(ranges),
    }
    return RunLineage(_merged(inputs), _merged(outputs), delivery)


def _as_list(ranges: Mapping[str, Mapping[str, list[list[int]]]]) -> list[dict[str, Any]]:
    return [
        {"topic": topic, "partition": int(partition), "first": first, "next": end}
        for topic, partitions in sorted(ranges.items())
        for partition, spans in sorted(partitions.items(), key=lambda each: int(each[0]))
        for first, end in spans
    ]


def delivered_ranges(tasks: Iterable[TaskResult]) -> dict[str, dict[str, list[list[int]]]]:
    """The first and the next offset of each range that contains records, by topic and partition."""
    topics: dict[str, dict[str, list[list[int]]]] = {}
    for task in tasks:
        for topic, partitions in task.ranges.items():
            for partition, (first, end) in partitions.items():
                if end > first:
                    topics.setdefault(topic, {}).setdefault(partition, []).append([first, end])
    return topics


def _topics(task: TaskResult) -> dict[str, list[FieldJson]]:
    """The topics of a task with the fields of their values. Without known ranges (Java connectors), the topics that the task has used."""
    delivered = delivered_ranges([task])
    return {topic: task.topics.get(topic, []) for topic in (delivered or (task.topics if task.records else ()))}


def _merged(datasets: Iterable[NamedDataset]) -> list[NamedDataset]:
    """Each dataset once, with its fields if a task knows them, sorted by name."""
    found: dict[tuple[str, str], NamedDataset] = {}
    for each in datasets:
        known = found.setdefault((each.namespace, each.name), each)
        known.fields = known.fields or each.fields
    return [found[name] for name in sorted(found)]
