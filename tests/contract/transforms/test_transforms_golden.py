"""Every transformation and predicate against what Kafka Connect 4.3.1's own made of the same records (``golden/transforms.jsonl``)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.converters.json.converter import JsonConverter
from airflow_provider_connect.data.columns import column_of
from airflow_provider_connect.data.schema import STRING_SCHEMA
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import built_ins
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.converter import ColumnRun
from airflow_provider_connect.sdk.record_columns import headers_type
from airflow_provider_connect.sdk.transformations import Predicate, Transformation
from tests.columns import from_kafka
from tests.contract.transforms.cases import CLASSES, Json, rows
from tests.contract.transforms.deviations import deviation
from tests.contract.transforms.record import GOLDEN, mark

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
    for case, line in zip(rows(), answers, strict=True):
        assert line["of"] == mark(case), "cases have changed: run python -m tests.contract.transforms.record"
        found[case["class"]].append((case, line["answer"]))
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
    """Our result of a case, in the form that ``TransformRecorder`` writes."""
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
    """One record, read as a sink's converters read it."""
    key, value = (_read(case[side]) for side in ("key", "value"))
    headers = [[{"key": name, "value": WITH_SCHEMA.from_connect_data("t", STRING_SCHEMA, text)} for name, text in case["headers"]]]
    is_sink = case["kind"] == "sink"
    batch = Batch(
        case["topic"],
        value.column,
        key.column,
        value_schema=value.schema,
        key_schema=key.schema,
        headers=pa.array(headers, headers_type()) if case["headers"] else None,
        timestamp=None if case["timestamp"] is None else pa.array([case["timestamp"]]),
        kafka_partition=case["partition"],
    )
    return from_kafka(batch, first_offset=case["offset"], next_offset=case["offset"] + 1) if is_sink else batch


def _read(side: Json | None) -> ColumnRun:
    if side is None:
        return ColumnRun(1, None, pa.nulls(1))
    converter, read = (WITH_SCHEMA, side) if "schema" in side else (WITHOUT_SCHEMA, side["payload"])
    return converter.to_connect_column("t", pa.array([json.dumps(read).encode()]))[0]


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
        "headers": [[header["key"], _unwrapped(header["value"])] for header in headers],
    }


def _unwrapped(data: bytes | None) -> Any:
    """The JSON of a header; without a schema it has none in the recording."""
    document = None if data is None else json.loads(data)
    return {"payload": document["payload"]} if document is not None and document["schema"] is None else document


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
