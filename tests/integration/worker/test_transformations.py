"""A chain of transformations in a run on a real broker: predicates, casts that fail for some records, the record's own offset."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.model.run import RunState
from tests.example_dags import configs_of
from tests.integration.worker.environment import RunEnvironment, make_topic, read_topic, send, values_of

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


def test_a_statement_delivers_all_but_what_it_drops_and_cannot_cast(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    texts = [json.dumps({"n": number(offset), "offset": offset}) for offset in range(COUNT)]
    send(environment.bootstrap, unique, texts)
    dead_letters = f"dlq-{environment.connector}"
    statement = "SELECT CAST(_value->>'n' AS INTEGER) AS n, _offset AS offset FROM batch WHERE _offset % 3 <> 0"
    settings = {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "transforms": "sql",
        "transforms.sql.type": "SqlTransform",
        "transforms.sql.sql": statement,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": dead_letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    result = environment.run(environment.file_sink(unique) | settings)
    assert (result.state, result.error) == (RunState.DONE, None)
    wanted = [(offset, number(offset)) for offset in range(COUNT) if offset % 3 and number(offset) != "many"]
    assert environment.lines() == [f"Struct{{{'' if n is None else f'n={n},'}offset={offset}}}" for offset, n in wanted]
    found = [int(dict(letter.headers)["__connect.errors.offset"] or b"") for letter in read_topic(environment.bootstrap, dead_letters)]
    assert found == [offset for offset in range(9, COUNT, 50) if offset % 3]
    assert environment.group_offsets()[TopicPartition(unique, 0)].offset == COUNT


def test_the_example_of_a_statement_delivers_lines_with_an_amount(
    environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CONNECT_DEMO_DIR", str(tmp_path))
    [example] = configs_of(monkeypatch, "example_sql_transform.py").values()
    config = example | {"topic": f"payments-{environment.connector}"}
    for lines in ("name,amount\nAda,12.50\n\n", "nothing\n", "Grace , 3\nx,y\n"):
        with (tmp_path / "payments.txt").open("a") as file:
            file.write(lines)
        result = dataclasses.replace(environment, connector=f"p-{environment.connector}").run(config)
        assert (result.state, result.error) == (RunState.DONE, None)
    assert values_of(environment.bootstrap, config["topic"]) == ['{"name":"Ada","amount":12.50}', '{"name":"Grace","amount":3.00}']
    offsets = dataclasses.replace(environment, connector=f"p-{environment.connector}").offsets()
    assert offsets.get({"filename": config["file"]}) == {"position": (tmp_path / "payments.txt").stat().st_size}
