"""A chain of transformations in a run on a real broker: predicates, casts that fail for some records, the record's own offset."""

from __future__ import annotations

import json

from airflow_provider_connect.model.run import RunState
from airflow_provider_connect.sdk.records import TopicPartition
from tests.integration.worker.environment import RunEnvironment, make_topic, read_topic, send

TRANSFORMS = "org.apache.kafka.connect.transforms."
SCHEMA = {"type": "struct", "optional": False, "fields": [{"field": "n", "type": "string", "optional": True}]}
CHAIN = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "transforms": "drop,narrow,where",
    "transforms.drop.type": "Filter",
    "transforms.drop.predicate": "tombstone",
    "transforms.narrow.type": f"{TRANSFORMS}Cast$Value",
    "transforms.narrow.spec": "n:int32",
    "transforms.where.type": f"{TRANSFORMS}InsertField$Value",
    "transforms.where.offset.field": "offset!",
    "transforms.where.static.field": "by",
    "transforms.where.static.value": "us",
    "predicates": "tombstone",
    "predicates.tombstone.type": "RecordIsTombstone",
}
COUNT = 1000


def number(offset: int) -> str | None:
    """Some are no numbers, some are null."""
    return "many" if offset % 50 == 9 else None if offset % 50 == 10 else str(offset - 500)


def test_a_chain_with_a_predicate_delivers_all_but_what_it_cannot_cast(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    texts = [json.dumps({"schema": SCHEMA, "payload": {"n": number(offset)}}) for offset in range(COUNT)]
    send(environment.bootstrap, unique, [None if offset % 100 == 3 else text for offset, text in enumerate(texts)])
    dead_letters = f"dlq-{environment.connector}"
    tolerant = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": dead_letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    result = environment.run(environment.file_sink(unique) | CHAIN | tolerant)
    assert (result.state, result.error) == (RunState.DONE, None)
    wanted = [(offset, number(offset)) for offset in range(COUNT) if offset % 100 != 3 and number(offset) != "many"]
    assert environment.lines() == [f"Struct{{{'' if n is None else f'n={n},'}offset={offset},by=us}}" for offset, n in wanted]
    found = [dict(dead_letter.headers) for dead_letter in read_topic(environment.bootstrap, dead_letters)]
    assert [int(headers["__connect.errors.offset"] or b"") for headers in found] == list(range(9, COUNT, 50))
    assert {headers["__connect.errors.stage"] for headers in found} == {b"TRANSFORMATION"}
    assert environment.group_offsets()[TopicPartition(unique, 0)].offset == COUNT
