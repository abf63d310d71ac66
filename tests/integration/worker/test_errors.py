"""Poisoned records on a real broker: skipped or the end of the task, in the dead letter queue once, and everything else delivered."""

from __future__ import annotations

import base64
import json
import logging
import random
from collections.abc import Mapping

import pytest
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.model.run import RunResult, RunState
from airflow_provider_connect.runtime.stores.kafka_errors import TopicMissingException
from airflow_provider_connect.runtime.stores.log_consumer import LogRecord
from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep
from tests.contract.dead_letter_cases import CASES, sink_config
from tests.contract.record_dead_letters import GOLDEN, as_json, send_records
from tests.integration.herder.killed_change import KillPoint
from tests.integration.worker.environment import RunEnvironment, make_topic, read_topic, send, values_of
from tests.integration.worker.killed_run import run_and_kill
from tests.raw_headers import NOT_UTF_8, produce
from tests.waiting import HANG_SECONDS, wait_until

JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
COUNT, EVERY = 5000, 100


def poisoned(count: int = COUNT, every: int = EVERY) -> list[str]:
    """Every ``every``-th is no JSON."""
    return [f'{{"n":{n}' + ("}" if n % every != 7 else "") for n in range(count)]


def tolerant(environment: RunEnvironment, **more: str) -> dict[str, str]:
    """Settings that tolerate errors and keep dead letters with their context."""
    return {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": dead_letter_topic(environment),
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
        **more,
    }


def dead_letter_topic(environment: RunEnvironment) -> str:
    return f"dlq-{environment.connector}"


def dead_letters(environment: RunEnvironment) -> list[LogRecord]:
    """The dead letters there are."""
    try:
        return read_topic(environment.bootstrap, dead_letter_topic(environment))
    except TopicMissingException:
        return []


def context(dead_letter: LogRecord) -> dict[str, str]:
    return {name.removeprefix("__connect.errors."): (value or b"").decode() for name, value in dead_letter.headers}


def measured(result: RunResult) -> Mapping[str, float]:
    return result.tasks[0].metrics


def trace(result: RunResult) -> str:
    return str(result.tasks[0].trace)


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once", "at_most_once"])
def test_poisoned_topic_is_delivered_but_for_the_poison(environment: RunEnvironment, unique: str, guarantee: str) -> None:
    make_topic(environment.bootstrap, unique)
    values = poisoned()
    send(environment.bootstrap, unique, values)
    result = environment.run(environment.file_sink(unique, delivery_guarantee=guarantee) | JSON | tolerant(environment))
    assert (result.state, result.error) == (RunState.DONE, None)
    assert [json.loads(line.replace("=", ":").replace("{n", '{"n"')) for line in environment.lines()] == [
        json.loads(value) for value in values if value.endswith("}")
    ]
    found = dead_letters(environment)
    assert [(dead_letter.value or b"").decode() for dead_letter in found] == [value for value in values if not value.endswith("}")]
    assert [int(context(dead_letter)["offset"]) for dead_letter in found] == list(range(7, COUNT, EVERY))
    bad = COUNT // EVERY
    counted = {name: value for name, value in measured(result).items() if name.startswith(("total-", "deadletter"))}
    assert counted == {
        "total-record-failures": bad,
        "total-record-errors": bad,
        "total-records-skipped": bad,
        "total-errors-logged": 0,
        "total-retries": 0,
        "deadletterqueue-produce-requests": bad,
        "deadletterqueue-produce-failures": 0,
    }
    assert environment.group_offsets()[TopicPartition(unique, 0)].offset == COUNT
    assert environment.readiness().state == "no-work"


def test_a_sink_goes_on_behind_records_that_python_cannot_hold(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    hostile = ["[" * 1500 + "]" * 1500, '{"n":' + "9" * 5000 + "}"]
    send(environment.bootstrap, unique, ['{"n":1}', *hostile, '{"n":2}'])
    result = environment.run(environment.file_sink(unique) | JSON | tolerant(environment))
    assert (result.state, result.error) == (RunState.DONE, None)
    assert environment.lines() == ["{n=1}", "{n=2}"]
    found = dead_letters(environment)
    assert [(dead_letter.value or b"").decode() for dead_letter in found] == hostile
    assert {context(dead_letter)["stage"] for dead_letter in found} == {"VALUE_CONVERTER"}


def test_a_header_whose_name_is_no_text_costs_its_record_alone(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, ['{"n":1}'])
    produce(environment.bootstrap, unique, b'{"n":2}', [(b"good", b"1"), (NOT_UTF_8, b"2")])
    send(environment.bootstrap, unique, ['{"n":3}'])
    config = environment.file_sink(unique) | JSON | tolerant(environment)
    result = environment.run({**config, "errors.tolerance": "none"})
    assert result.state is RunState.FAILED
    assert f"failed for offset 1 of {unique}-0: The headers of offset 1 of {unique}-0 cannot be read" in trace(result)
    environment.put_config(config)
    result = environment.run()
    assert (result.state, result.error) == (RunState.DONE, None)
    assert environment.lines() == ["{n=1}", "{n=3}"]
    assert {(each.value, context(each)["stage"], context(each)["offset"]) for each in dead_letters(environment)} == {
        (b'{"n":2}', "HEADER_CONVERTER", "1")
    }


def test_without_tolerance_the_poison_is_named_and_in_the_queue_and_the_task_failed(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, poisoned(300))
    config = environment.file_sink(unique) | JSON | tolerant(environment, **{"errors.tolerance": "none"})
    result = environment.run(config)
    assert result.state is RunState.FAILED
    assert f"failed for offset 7 of {unique}-0" in trace(result)
    assert trace(result).startswith("airflow_provider_connect.errors.ConnectException: Tolerance exceeded in error handler")
    assert measured(result)["total-records-skipped"] == 0
    assert [context(dead_letter)["offset"] for dead_letter in dead_letters(environment)] == ["7"]
    assert environment.lines() == []
    environment.put_config(config | {"errors.tolerance": "all"})
    assert environment.run().state is RunState.DONE
    assert [context(dead_letter)["offset"] for dead_letter in dead_letters(environment)] == ["7", "7", "107", "207"]
    assert len(environment.lines()) == 297


@pytest.mark.parametrize("refuse", ["raise", "report", "late"])
def test_sink_that_refuses_some_records_gets_rid_of_them(environment: RunEnvironment, unique: str, refuse: str) -> None:
    make_topic(environment.bootstrap, unique)
    values = [f"{'bad' if n % 50 == 3 else 'good'} {n}" for n in range(400)]
    send(environment.bootstrap, unique, values)
    prefixed = {"transforms": "r", "transforms.r.type": "RegexRouter", "transforms.r.regex": ".*", "transforms.r.replacement": "elsewhere"}
    result = environment.run(environment.picky_sink(unique, refuse=refuse) | tolerant(environment) | prefixed)
    assert (result.state, result.error) == (RunState.DONE, None)
    assert environment.lines() == [value for value in values if value.startswith("good")]
    found = dead_letters(environment)
    assert [(dead_letter.value or b"").decode() for dead_letter in found] == [value for value in values if value.startswith("bad")]
    assert {context(dead_letter)["topic"] for dead_letter in found} == {unique}
    assert {(context(dead_letter)["stage"], context(dead_letter)["class.name"]) for dead_letter in found} == {
        ("TASK_PUT", "org.apache.kafka.connect.sink.SinkTask")
    }
    assert measured(result)["total-records-skipped"] == 8
    assert [task.records for task in result.tasks] == [392], "the summary counts what was delivered"


@pytest.mark.parametrize("user", ["the same user", "another user"])  # than the group's offsets: then letters have a producer of their own
def test_letters_of_a_run_that_failed_are_written_by_the_next_one_alone(environment: RunEnvironment, unique: str, user: str) -> None:
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, ["good 0", "bad 1", "poison 2", "broken 3", "good 4"])
    fragile = {"transforms": "f", "transforms.f.type": "tests.Fragile"}
    fixed = environment.folder / "fixed"
    config = environment.picky_sink(unique, unless=str(fixed)) | tolerant(environment) | fragile
    if user == "another user":
        environment.properties["connector.client.config.override.policy"] = "All"
        config |= {"consumer.override.security.protocol": "PLAINTEXT"}
    assert "the destination is gone" in trace(environment.run(config))
    assert dead_letters(environment) == []
    fixed.touch()
    assert environment.run(config).state is RunState.DONE
    assert environment.lines() == ["good 0", "broken 3", "good 4"]
    assert [((dead_letter.value or b"").decode(), context(dead_letter)["stage"]) for dead_letter in dead_letters(environment)] == [
        ("bad 1", "TASK_PUT"),
        ("poison 2", "TRANSFORMATION"),
    ]
    assert context(dead_letters(environment)[1])["exception.class.name"] == "builtins.ValueError"


@pytest.mark.parametrize(
    ("kill_point", "times"),
    [
        pytest.param(
            KillPoint("runtime.worker.delivery.dead_letter_producers:FencedDeadLetterProducer.send", "before"), 1, marks=pytest.mark.soak
        ),
        (KillPoint("runtime.worker.delivery.dead_letter_producers:FencedDeadLetterProducer.send", "after"), 2),
        pytest.param(KillPoint(CommitStep.PRE_COMMIT, "after"), 1, marks=pytest.mark.soak),
        pytest.param(KillPoint(CommitStep.COMMIT_GROUP, "after"), 1, marks=pytest.mark.soak),
    ],
    ids=lambda value: f"{value.side} {value.method.rpartition('.')[2]}" if isinstance(value, KillPoint) else str(value),
)
def test_killed_at_a_step_of_its_commit_it_loses_no_letter(
    environment: RunEnvironment, unique: str, kill_point: KillPoint, times: int
) -> None:
    """Between letters and data, and there alone, letters come again; lines are there once whichever step was the last."""
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, poisoned(300))
    config = environment.file_sink(unique, delivery_guarantee="exactly_once") | JSON | tolerant(environment)
    run_and_kill(environment, config, kill_point)
    assert environment.run(config).state is RunState.DONE
    assert len(environment.lines()) == len(set(environment.lines())) == 297
    assert sorted(int(context(dead_letter)["offset"]) for dead_letter in dead_letters(environment)) == sorted([7, 107, 207] * times)


def test_retriable_failure_passes_and_nothing_is_skipped(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, ["a", "poison", "b"])
    fragile = {
        "transforms": "f",
        "transforms.f.type": "tests.Fragile",
        "transforms.f.retriable": "true",
        "transforms.f.fix": "true",
        "transforms.f.unless": str(environment.folder / "fixed"),
    }
    result = environment.run(environment.file_sink(unique) | fragile | {"errors.retry.timeout": "60000"})
    assert (result.state, result.error) == (RunState.DONE, None)
    assert environment.lines() == ["a", "poison", "b"]
    assert measured(result)["total-retries"] >= 1


def test_record_that_is_waited_for_keeps_no_run_from_stopping(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, ["a", "poison", "b"])
    fragile = {"transforms": "f", "transforms.f.type": "tests.Fragile", "transforms.f.retriable": "true"}
    config = environment.file_sink(unique) | fragile | tolerant(environment, **{"errors.retry.timeout": "-1"})
    under_way = environment.start(config)
    wait_until(lambda: environment.states() == {0: "RUNNING"})
    under_way.application.request_end()
    assert under_way.wait().tasks[0].stopped_by is not None
    assert (environment.lines(), dead_letters(environment)) == ([], [])
    assert environment.group_offsets()[TopicPartition(unique, 0)].offset == 0


def test_source_skips_what_cannot_be_transformed_and_its_offset_goes_on(
    environment: RunEnvironment, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [f"{'poison' if n % 40 == 39 else 'line'} {n}" for n in range(200)]
    environment.file.write_text("\n".join(lines) + "\n")
    fragile = {"transforms": "f", "transforms.f.type": "tests.Fragile", "errors.log.enable": "true", "errors.log.include.messages": "true"}
    with caplog.at_level(logging.ERROR):
        result = environment.run(environment.file_source(unique) | fragile | {"errors.tolerance": "all"})
    assert (result.state, result.error) == (RunState.DONE, None)
    assert values_of(environment.bootstrap, unique) == [line for line in lines if line.startswith("line")]
    assert environment.offsets().get({"filename": str(environment.file)}) == {"position": environment.file.stat().st_size}
    assert environment.readiness().state == "no-work"
    assert measured(result)["total-errors-logged"] == 5
    plugin = "tests.integration.worker.plugins.Fragile"
    head = f"Error encountered in task {environment.connector}-0. Executing stage 'TRANSFORMATION' with class '{plugin}'"
    reported = [record.getMessage() for record in caplog.records if record.getMessage().startswith(head)]
    assert len(reported) == 5
    assert "where source record is = SourceRecord{" in reported[0]
    assert "value=poison 39" in reported[0]


def large_and_small(environment: RunEnvironment) -> list[str]:
    """Lines of which some are larger than ``max.message.bytes`` of a topic below, and than what compression can make of them."""
    draw = random.Random(7)
    lines = [draw.randbytes(3000).hex() if n % 60 == 20 else f"line {n}" for n in range(300)]
    environment.file.write_text("\n".join(lines) + "\n")
    return lines


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once", "at_most_once"])
def test_source_skips_what_the_broker_refuses_for_its_size(
    environment: RunEnvironment, unique: str, guarantee: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(environment.bootstrap, unique, max_message_bytes="2000")
    lines = large_and_small(environment)
    more = {"errors.tolerance": "all", "errors.log.enable": "true"}
    with caplog.at_level(logging.ERROR):
        result = environment.run(environment.file_source(unique, delivery_guarantee=guarantee) | more)
    assert (result.state, result.error) == (RunState.DONE, None)
    assert values_of(environment.bootstrap, unique) == [line for line in lines if line.startswith("line")]
    assert f"The record for topic {unique} of source partition {{'filename': '{environment.file}'}} is too large: it has " in caplog.text
    assert f"bytes with its overhead, and topic {unique} takes 2000. Raise max.message.bytes of the topic" in caplog.text
    assert measured(result)["total-records-skipped"] == 5
    assert environment.readiness().state == "no-work"


@pytest.mark.parametrize(("guarantee", "tolerance"), [("at_least_once", "none"), ("exactly_once", "none"), ("at_most_once", "none")])
def test_too_large_record_fails_a_source_that_may_not_skip_it(
    environment: RunEnvironment, unique: str, guarantee: str, tolerance: str
) -> None:
    make_topic(environment.bootstrap, unique, max_message_bytes="2000")
    large_and_small(environment)
    result = environment.run(environment.file_source(unique, delivery_guarantee=guarantee) | {"errors.tolerance": tolerance})
    assert result.state is RunState.FAILED
    assert "is too large: it has " in trace(result)
    assert environment.offsets().get({"filename": str(environment.file)}) is None


@pytest.mark.parametrize(("guarantee", "compression"), [("at_least_once", "lz4"), ("exactly_once", "none"), ("at_most_once", "zstd")])
def test_a_line_that_the_source_takes_and_the_broker_does_not_is_left_out_alone(
    environment: RunEnvironment, unique: str, guarantee: str, compression: str
) -> None:
    """Defaults of all: lines of up to 1 MiB, requests of 1 MiB, batches of 1 MiB and 12 bytes, with their overhead."""
    make_topic(environment.bootstrap, unique)
    text = base64.b64encode(random.Random(3).randbytes(800_000)).decode()  # zstd makes it smaller, and lz4 does not
    of_client, of_topic = 1_048_576 - 36, 1_048_588 - 61 - 11
    sizes = (of_topic, of_topic + 1, of_client, of_client + 1, 1_048_575)
    lines = [line for size in sizes for line in ("a", text[:size], "x" * size)]
    environment.file.write_text("\n".join(lines) + "\n")
    config = environment.file_source(unique, delivery_guarantee=guarantee, **{"producer.override.compression.type": compression})
    result = environment.run(config | {"errors.tolerance": "all"})
    assert (result.state, result.error) == (RunState.DONE, None)
    edges = {"none": (of_topic, of_topic), "lz4": (of_topic, of_client), "zstd": (of_client, of_client)}[compression]
    kept = [line for line in lines if len(line) <= edges[line.startswith("x")]]
    assert [(value[:1], len(value)) for value in values_of(environment.bootstrap, unique)] == [(line[:1], len(line)) for line in kept]
    assert environment.readiness().state == "no-work"


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once", "at_most_once"])
def test_small_records_arrive_in_a_topic_that_takes_less_than_a_batch_of_the_client(
    environment: RunEnvironment, unique: str, guarantee: str
) -> None:
    make_topic(environment.bootstrap, unique, max_message_bytes="3000")
    draw = random.Random(5)
    lines = [draw.randbytes(draw.randrange(1, 1300)).hex() for _ in range(200)]
    environment.file.write_text("\n".join(lines) + "\n")
    result = environment.run(environment.file_source(unique, delivery_guarantee=guarantee))
    assert (result.state, result.error) == (RunState.DONE, None)
    assert values_of(environment.bootstrap, unique) == lines


def test_queue_that_cannot_be_made_fails_the_task_by_name(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, ["a"])
    result = environment.run(
        environment.file_sink(unique) | tolerant(environment, **{"errors.deadletterqueue.topic.replication.factor": "3"})
    )
    assert f"Could not initialize dead letter queue with topic={dead_letter_topic(environment)}" in trace(result)
    assert (
        dead_letter_topic(environment)
        not in AdminClient({"bootstrap.servers": environment.bootstrap}).list_topics(timeout=HANG_SECONDS).topics
    )


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_record_that_fits_into_the_queue_without_its_headers_has_shorter_ones_there(
    environment: RunEnvironment, unique: str, guarantee: str
) -> None:
    """Many of them at once: together they are more than a batch of the queue's topic may have."""
    make_topic(environment.bootstrap, unique)
    make_topic(environment.bootstrap, dead_letter_topic(environment), max_message_bytes="3000")
    draw = random.Random(11)
    values = [draw.randbytes(size // 2).hex() for size in (10, 800, 2000, 2200, 10, 10)]
    send(environment.bootstrap, unique, values)
    config = environment.file_sink(unique, delivery_guarantee=guarantee) | JSON | tolerant(environment)
    result = environment.run(config)
    assert (result.state, result.error) == (RunState.DONE, None)
    found = dead_letters(environment)
    assert [(dead_letter.value or b"").decode() for dead_letter in found] == values
    assert [context(dead_letter)["offset"] for dead_letter in found] == list("012345")
    traces = [context(dead_letter)["exception.stacktrace"] for dead_letter in found]
    assert [trace.endswith(" … (shortened)") for trace in traces] == [len(value) >= 800 for value in values]


def test_queue_that_refuses_a_letter_fails_the_task_and_nothing_is_lost(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    make_topic(environment.bootstrap, dead_letter_topic(environment), max_message_bytes="200")
    send(environment.bootstrap, unique, poisoned(20))
    result = environment.run(environment.file_sink(unique) | JSON | tolerant(environment))
    assert result.state is RunState.FAILED
    assert f"The dead letter queue {dead_letter_topic(environment)} refused a record: offset " in trace(result)
    assert "bytes with its headers, and the queue takes 200 in a batch. Raise max.message.bytes of" in trace(result)
    assert measured(result)["deadletterqueue-produce-failures"] == 1
    assert environment.group_offsets()[TopicPartition(unique, 0)].offset == 0


@pytest.mark.parametrize("name", CASES)
def test_dead_letters_are_those_of_kafka_connect(environment: RunEnvironment, unique: str, name: str) -> None:
    golden = json.loads(GOLDEN.read_text())[name]
    make_topic(environment.bootstrap, unique)
    send_records(environment.bootstrap, unique, CASES[name])
    result = environment.run(sink_config(environment.connector, unique, dead_letter_topic(environment), str(environment.file), CASES[name]))
    assert result.state is (RunState.FAILED if CASES[name].fails else RunState.DONE)
    ours = [as_json(dead_letter) for dead_letter in dead_letters(environment)]
    assert len(ours) == len(golden)
    for dead_letter, theirs in zip(ours, golden, strict=True):
        own = {unique: name, environment.connector: name}
        compared = [[header, own.get(value, value) if isinstance(value, str) else value] for header, value in dead_letter["headers"]]
        assert _comparable({**dead_letter, "headers": compared}) == _comparable(theirs)


def _comparable(dead_letter: dict[str, object]) -> dict[str, object]:
    """Without what two languages phrase differently: the tail of a parser's message, and the stack below the first line."""
    headers = []
    for name, value in dead_letter["headers"]:  # type: ignore[attr-defined]
        text = value
        if name.endswith((".message", ".stacktrace")):
            text = str(value).partition("\n")[0].partition("serialization error: ")[0]
        headers.append([name, text])
    return {**dead_letter, "headers": headers}
