"""Notes as records of one topic partition, the tasks of a lake's sink that write them, and the suite over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow_provider_connect.data.records import SinkRecord, TopicPartition
from airflow_provider_connect.data.schema import INT64_SCHEMA, STRING_SCHEMA, Schema
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.connector import SinkConnector
from airflow_provider_connect.sdk.testing import MemorySinkContext, SinkConnectorSuite, run
from airflow_provider_connect.sdk.testing.calls import SinkCalls, start_task

NOTE = Schema.struct({"id": INT64_SCHEMA, "text": STRING_SCHEMA.as_optional()})
KEY = Schema.struct({"id": INT64_SCHEMA})
PARTITION = TopicPartition("notes", 0)


class NotesSuite(SinkConnectorSuite):
    """What the framework relies on in a sink, tried with notes."""

    exactly_once = True
    value_schema: ClassVar[Schema | None] = NOTE
    settings: ClassVar[dict[str, str]] = {}

    def values(self, first: int, count: int) -> list[Any]:
        return [note(number, f"note {number}") for number in range(first, first + count)]


def note(id: int, text: str | None = None) -> dict[str, object]:
    return {"id": id, "text": text}


def batches(values: Sequence[Mapping[str, object] | None], schema: Schema = NOTE, first: int = 0, partition: int = 0) -> list[Batch]:
    """Batches of records with the key ``{"id": …}``; None is a tombstone, of the key ``id`` 1."""
    optional = schema.as_optional() if None in values else schema
    return Batch.from_sink_records(
        SinkRecord("notes", partition, first + n, {"id": (value or {}).get("id", 1)}, value, KEY, optional)
        for n, value in enumerate(values)
    )


def deliver(sink: type[SinkConnector], settings: Mapping[str, str], records: Sequence[Batch], **more: Any) -> None:
    """One run of the sink, exactly once unless ``more`` differs."""
    run(sink(), settings, batches=records, **({"exactly_once": True} | more))


def opened(sink: type[SinkConnector], settings: Mapping[str, str], claim_epoch: int = 1) -> SinkCalls:
    """A task that has taken ``PARTITION``, exactly once."""
    context = MemorySinkContext(settings, [PARTITION], claim_epoch=claim_epoch, exactly_once=True)
    calls = SinkCalls(start_task(sink(), settings, context, ALL_ALLOWED), [PARTITION])
    calls.open()
    return calls
