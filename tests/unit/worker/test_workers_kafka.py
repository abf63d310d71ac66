"""What source tasks are offered of the worker's own cluster: records decoded by the connector's converters, and back to bytes."""

import json
from typing import Any, cast

import pyarrow as pa
import pytest

from airflow_provider_connect.converters.json.converter import JsonConverter
from airflow_provider_connect.converters.plain import ByteArrayConverter, StringConverter
from airflow_provider_connect.data.schema import BYTES_SCHEMA
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.stores.offset_store import SourceOffsets
from airflow_provider_connect.runtime.worker.errors.tolerance import Tolerance
from airflow_provider_connect.runtime.worker.pipeline.source_pipeline import SourcePipeline
from airflow_provider_connect.runtime.worker.pipeline.stages import Converters, Stage
from airflow_provider_connect.runtime.worker.task.contexts import TaskSourceContext, WorkersKafka
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch
from airflow_provider_connect.sdk.converter import RAW_HEADERS
from airflow_provider_connect.transforms.fields import ReplaceFieldValue


def converters() -> Converters:
    key, value = StringConverter(), JsonConverter()
    key.configure({}, is_key=True)
    value.configure({"schemas.enable": "false", "converter.type": "value"}, is_key=False)
    return Converters(key, value, RAW_HEADERS)


def context() -> TaskSourceContext:
    """Of a task without settings: its reader is not used."""
    kafka = WorkersKafka(cast(Any, None), cast(Any, None), converters(), Tolerance())
    return TaskSourceContext({}, Claim(1, "t"), SourceOffsets("c", {}), lambda: False, kafka=kafka)


def raw(*values: bytes | None) -> KafkaBatch:
    schema = BYTES_SCHEMA.as_optional()
    count = len(values)
    return KafkaBatch(
        "orders",
        pa.array(values, pa.binary()),
        pa.array([b"k"] * count, pa.binary()),
        schema,
        schema,
        kafka_partition=3,
        first_offset=50,
        next_offset=50 + count,
        kafka_offset=pa.array(range(50, 50 + count), pa.int64()),
    )


def test_decoded_records_can_be_transformed_and_are_encoded_again() -> None:
    drop = ReplaceFieldValue()
    drop.configure(drop.config_def.parse({"exclude": "n"}))
    pipeline = SourcePipeline(converters(), [Stage(drop)], Tolerance())
    found = []
    for piece in context().decode(raw(b'{"n":1,"m":2}', b'{"m":3}', None)):
        batch = Batch("orders", piece.value, piece.key, piece.value_schema, piece.key_schema, kafka_partition=3)
        for encoded in pipeline.encode(batch):
            assert encoded.key is not None
            assert encoded.value is not None
            found += list(zip(encoded.key.to_pylist(), encoded.value.to_pylist(), strict=True))
    assert [(key, value and json.loads(value)) for key, value in found] == [(b"k", {"m": 2}), (b"k", {"m": 3}), (b"k", None)]


def test_a_record_that_cannot_be_decoded_is_named_by_where_it_failed_first() -> None:
    with pytest.raises(ConnectException, match="offset 51 of orders-3"):
        context().decode(raw(b'{"n":1}', b'{"n":'))


def test_without_access_to_the_cluster_a_task_is_refused() -> None:
    bare = TaskSourceContext({}, Claim(1, "t"), SourceOffsets("c", {}), lambda: False)
    with pytest.raises(ConnectException, match="no access"):
        bare.decode(raw(b"{}"))


def test_raw_converters_leave_bytes_as_they_are() -> None:
    plain = ByteArrayConverter()
    plain.configure({}, is_key=False)
    batch = raw(b"\xff", None)
    (encoded,) = SourcePipeline(Converters(plain, plain, RAW_HEADERS), (), Tolerance()).encode(batch)
    assert encoded.value is not None
    assert encoded.value.to_pylist() == [b"\xff", None]
