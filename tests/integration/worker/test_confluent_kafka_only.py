"""Runs with ``librdkafka.direct.access.enable=false``: the same records, offsets and errors as with direct access."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.worker.delivery import librdkafka
from tests.integration.worker.environment import RunEnvironment, make_topic, read_topic, send, values_of
from tests.waiting import HANG_SECONDS

LINES = [f"line {number}" for number in range(1_000)]
WAYS = {"direct": "true", "objects": "false"}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Sets the worker's setting. ``objects`` fails a run that loads librdkafka all the same."""
    environment.properties["librdkafka.direct.access.enable"] = WAYS[request.param]
    if request.param == "objects":
        monkeypatch.setattr(librdkafka, "Librdkafka", None)
        librdkafka.load_librdkafka.cache_clear()
    yield str(request.param)
    librdkafka.load_librdkafka.cache_clear()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once", "at_most_once"])
def test_a_source_delivers_its_lines_once(environment: RunEnvironment, unique: str, guarantee: str) -> None:
    environment.file.write_text("\n".join(LINES) + "\n")
    result = environment.run(environment.file_source(unique, delivery_guarantee=guarantee))
    assert (result.state, result.error, [task.records for task in result.tasks]) == (RunState.DONE, None, [len(LINES)])
    assert values_of(environment.bootstrap, unique) == LINES
    assert environment.offsets().get({"filename": str(environment.file)}) == {"position": environment.file.stat().st_size}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once", "at_most_once"])
def test_a_sink_receives_its_records_once(environment: RunEnvironment, unique: str, guarantee: str) -> None:
    make_topic(environment.bootstrap, unique, 2)
    send(environment.bootstrap, unique, LINES, partitions=2)
    result = environment.run(environment.file_sink(unique, delivery_guarantee=guarantee))
    assert (result.state, result.error) == (RunState.DONE, None)
    assert sorted(environment.lines()) == sorted(LINES)
    assert {p: known.offset for p, known in environment.group_offsets().items()} == {TopicPartition(unique, n): 500 for n in range(2)}


@pytest.mark.usefixtures("way")
def test_a_source_that_reads_kafka_copies_keys_and_values(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    values = [b"\x00\xff", b"", b"three"]
    producer = Producer({"bootstrap.servers": environment.bootstrap})
    for value in values:
        producer.produce(unique, value, b"\xfe")
    assert producer.flush(HANG_SECONDS) == 0
    result = environment.run(environment.copy_source(unique, f"{unique}-copy", len(values)))
    assert (result.state, result.error) == (RunState.DONE, None)
    assert [(record.key, record.value) for record in read_topic(environment.bootstrap, f"{unique}-copy")] == [(b"\xfe", v) for v in values]


def test_a_record_that_is_too_large_fails_the_task_with_the_same_advice(environment: RunEnvironment, unique: str, way: str) -> None:
    make_topic(environment.bootstrap, unique)
    environment.file.write_text("x" * 2_000_000 + "\n")
    result = environment.run(environment.file_source(unique, line_max_bytes="4000000"))
    assert result.tasks[0].state == "FAILED", way
    text = "it has 2000036 bytes with its overhead, and the producer takes 1048576. Raise producer.override.max.request.size"
    assert text in (result.tasks[0].trace or "")
