"""Every transformation and predicate against what Kafka Connect 4.3.1's own made of the same records (``golden/transforms.jsonl``)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from airflow_provider_connect.converters.json import JsonConverter
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.isolation.built_ins import built_ins
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.columns import column_of
from airflow_provider_connect.sdk.records import SinkRecord, SourceRecord
from airflow_provider_connect.sdk.schema import STRING_SCHEMA
from airflow_provider_connect.sdk.transformation import Predicate, Transformation
from tests.contract.transforms.cases import CLASSES, Json, rows
from tests.contract.transforms.deviations import deviation
from tests.contract.transforms.record import GOLDEN

PACKAGE = "org.apache.kafka.connect.transforms."
REFERENCES = {
    plugin.class_name.removeprefix(PACKAGE): plugin.reference for plugin in built_ins("1") if plugin.class_name.startswith(PACKAGE)
}


def converter(*, has_schemas: bool) -> JsonConverter:
    made = JsonConverter()
    made.configure({"schemas.enable": str(has_schemas).lower(), "replace.null.with.default": "false"})
    return made


WITH_SCHEMA, WITHOUT_SCHEMA = converter(has_schemas=True), converter(has_schemas=False)


@pytest.fixture(scope="module")
def recorded() -> Iterator[dict[str, list[tuple[Json, Json]]]]:
    """Cases and answers by class."""
    answers = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    found: dict[str, list[tuple[Json, Json]]] = {name: [] for name in CLASSES}
    for case, answer in zip(rows(), answers, strict=True):
        found[case["class"]].append((case, answer))
    counts: Counter[str] = Counter()
    COUNTS[0] = counts
    yield found
    print(f"{counts.total()} cases: {dict(counts.most_common())}")


COUNTS: list[Counter[str]] = [Counter()]


@pytest.mark.parametrize("name", CLASSES)
def test_records_become_what_connect_makes_of_them(recorded: dict[str, list[tuple[Json, Json]]], name: str) -> None:
    wrong = []
    for case, wanted in recorded[name]:
        got = answered(case)
        reason = "equal" if got == wanted else deviation(case, wanted, got)
        COUNTS[0][reason or "wrong"] += 1
        if reason is None:
            wrong.append(f"{json.dumps(case)}\n  Connect: {json.dumps(wanted)}\n  ours:    {json.dumps(got)}")
    assert wrong == [], f"{len(wrong)} of {len(recorded[name])}:\n" + "\n".join(wrong[:10])


def answered(case: Json) -> Any:
    """What ours makes of a case, told as ``TransformRecorder`` tells it."""
    module, _, class_name = REFERENCES[case["class"]].partition(":")
    plugin: Transformation | Predicate = getattr(import_module(module), class_name)()
    if "definition" in case:
        return plugin.config_def.describe()
    if "validate" in case:
        return {"errors": {value.name: value.errors for value in plugin.config_def.validate(case["config"]) if value.errors}}
    plugin.header_converter = WITH_SCHEMA
    try:
        plugin.configure(plugin.config_def.parse(case["config"]))
    except ConfigException as error:
        return {"refused": "ConfigException", "message": error.errors[0]}
    try:
        return _applied(plugin, _batch(case))
    except ConnectException as error:
        return {"failed": type(error).__name__, "message": str(error)}


def _batch(case: Json) -> Batch:
    key, value = (_read(case[side]) for side in ("key", "value"))
    if case["kind"] == "sink":
        sunk = SinkRecord(
            case["topic"], case["partition"], case["offset"], key[1], value[1], key[0], value[0], timestamp=case["timestamp"]
        )  # fmt: skip
        for name, text in case["headers"]:
            sunk.headers.add(name, text, STRING_SCHEMA)
        return Batch.from_sink_records([sunk], WITH_SCHEMA)[0]
    read = SourceRecord({"file": "a"}, {"position": 1}, case["topic"], value[1], key[1], kafka_partition=case["partition"])
    read.key_schema, read.value_schema, read.timestamp = key[0], value[0], case["timestamp"]
    for name, text in case["headers"]:
        read.headers.add(name, text, STRING_SCHEMA)
    return Batch.from_source_records([read], WITH_SCHEMA)[0]


def _read(side: Json | None) -> tuple[Any, Any]:
    if side is None:
        return None, None
    if "schema" in side:
        return tuple(WITH_SCHEMA.to_connect_data("t", json.dumps(side).encode()))
    return tuple(WITHOUT_SCHEMA.to_connect_data("t", json.dumps(side["payload"]).encode()))


def _applied(plugin: Transformation | Predicate, batch: Batch) -> Json:
    if isinstance(plugin, Predicate):
        return {"true": plugin.test_batch(batch).to_pylist()[0]}
    made = plugin.apply_batch(batch)
    if made is None:
        return {"dropped": True}
    after = made[0] if isinstance(made, list) else made
    headers = [] if after.headers is None else after.headers.to_pylist()[0]
    return {
        "topic": after.topic,
        "partition": after.kafka_partition,
        "timestamp": None if after.timestamp is None else after.timestamp.to_pylist()[0],
        "key": _written(after.key_schema, after.key),
        "value": _written(after.value_schema, after.value),
        "headers": [[header["key"], None if header["value"] is None else json.loads(header["value"])] for header in headers],
    }


def _written(schema: Any, column: Any) -> Any:
    if schema is None and (column is None or column.null_count):
        return None
    try:
        if schema is None:
            return {"payload": json.loads(WITHOUT_SCHEMA.from_connect_column("t", None, column).to_pylist()[0])}
        data = WITH_SCHEMA.from_connect_column("t", schema, column_of([None], schema) if column is None else column)
        return json.loads(data.to_pylist()[0])
    except ConnectException as error:
        return {"unwritable": type(error).__name__, "message": str(error)}
