"""Records with times that Python does not have, in a preview."""

import datetime
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.data.schema import DATE_SCHEMA, INT32_SCHEMA, STRING_SCHEMA, TIMESTAMP_SCHEMA, Schema
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.worker.preview.findings import Findings
from airflow_provider_connect.runtime.worker.preview.records import readable_records
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch
from airflow_provider_connect.sdk.converter import RAW_HEADERS

INFINITY_MS, MINUS_INFINITY_MS = 9_223_372_036_825_200_000, -9_223_372_036_832_400_000
NOW = datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC)
NOW_MS = int(NOW.timestamp() * 1000)
INFINITY, MINUS_INFINITY = "292278994-08-16T23:00:00.000Z", "-292275055-05-16T23:00:00.000Z"


def times(*milliseconds: int | None) -> pa.Array:
    return pa.array(milliseconds, pa.int64()).cast(pa.timestamp("ms", "UTC"))


def shown(column: pa.Array, schema: Schema) -> list[Any]:
    keys = pa.array(range(len(column)), pa.int32())
    batch = KafkaBatch("t", value=column, value_schema=schema, key=keys, key_schema=INT32_SCHEMA, first_offset=5)
    with pytest.raises(DataException):
        batch.sink_records()
    for records in (readable_records(batch, Batch.sink_records), readable_records(batch, Batch.source_records)):
        findings = Findings(RAW_HEADERS, Mask([]))
        findings.add(0, records)
        assert [record.key for record in findings.shown] == list(range(len(column)))
        assert findings.topics()[0].records == len(column)
    assert [record.kafka_offset for record in readable_records(batch, Batch.sink_records)] == list(range(5, 5 + len(column)))
    return [record.value for record in findings.shown]


def optional(schema: Schema) -> Schema:
    return Schema(schema.type, name=schema.name, optional=True)


def test_infinite_timestamps_are_texts_and_others_are_as_ever() -> None:
    column = times(INFINITY_MS, NOW_MS, None, MINUS_INFINITY_MS)
    assert shown(column, optional(TIMESTAMP_SCHEMA)) == [INFINITY, NOW.isoformat(), None, MINUS_INFINITY]


def test_infinite_dates() -> None:
    column = pa.array([2**31 - 1, 20_778, -(2**31)], pa.int32()).cast(pa.date32())
    assert shown(column, DATE_SCHEMA) == ["5881580-07-11", "2026-11-21", "-5877641-06-23"]


def test_within_structs_lists_and_maps() -> None:
    at = optional(TIMESTAMP_SCHEMA)
    fields = {"at": at, "all": Schema.array(at, optional=True), "by": Schema.map(STRING_SCHEMA, at, optional=True)}
    schema = Schema.struct(fields, optional=True)
    plain = [
        {"at": INFINITY_MS, "all": [NOW_MS, INFINITY_MS], "by": [("a", INFINITY_MS)]},
        None,
        {"at": None, "all": None, "by": None},
        {"at": NOW_MS, "all": [], "by": []},
    ]
    instant = pa.timestamp("ms", "UTC")
    kind = pa.struct([("at", instant), ("all", pa.list_(instant)), ("by", pa.map_(pa.string(), instant))])
    column = pa.array([None, *plain], kind)[1:]
    assert shown(column, schema) == [
        {"at": INFINITY, "all": [NOW.isoformat(), INFINITY], "by": {"a": INFINITY}},
        None,
        {"at": None, "all": None, "by": None},
        {"at": NOW.isoformat(), "all": [], "by": {}},
    ]
