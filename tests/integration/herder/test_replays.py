"""Dead-letter records of a real sink, replayed on a real broker: each once, also where a run is killed at a step of its commit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from airflow_provider_connect.errors import BadRequestException, ConflictException, NotFoundException
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.replays import Replay, ReplayRequest, replay_connector
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.model.view_json import of_json, to_json
from airflow_provider_connect.runtime.stores.log_consumer import LogRecord
from airflow_provider_connect.runtime.worker.delivery.commit_steps import SOURCE_STEPS
from airflow_provider_connect.runtime.worker.preview.runner import PreviewRunner
from tests import raw_headers
from tests.integration.herder.conftest import AskedHere, RunsByHand
from tests.integration.herder.killed_change import KillPoint
from tests.integration.worker.environment import RunEnvironment, make_topic, read_topic, send, values_of
from tests.integration.worker.killed_run import run_and_kill
from tests.samples import sample

JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
GOOD, BAD = '{{"n":{}}}', '{{"n":{}'
STEPS = SOURCE_STEPS["exactly_once"]
KILL_POINTS = [KillPoint(STEPS[0], "before"), *(KillPoint(step) for step in STEPS)]


@pytest.fixture
def previewing(environment: RunEnvironment, launcher: RunsByHand, probe: AskedHere) -> Iterator[Herder]:
    """A herder whose previews are made in processes of their own."""
    with Herder(environment.settings, launcher, probe=probe, previewer=PreviewRunner(environment.settings)) as herder:
        yield herder


def queue_of(environment: RunEnvironment) -> str:
    return f"dlq-{environment.connector}"


def sink(environment: RunEnvironment, topic: str, **more: str) -> dict[str, str]:
    return (
        environment.file_sink(topic)
        | JSON
        | {
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": queue_of(environment),
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
            **more,
        }
    )


def refused(environment: RunEnvironment, topic: str, config: Mapping[str, str] | None = None, *, count: int = 20) -> None:
    """Run the sink over records of two partitions, of which every other one is no JSON."""
    make_topic(environment.bootstrap, topic, 2)
    send(environment.bootstrap, topic, [(BAD if number % 4 < 2 else GOOD).format(number) for number in range(count)], partitions=2)
    environment.put_config(config or sink(environment, topic))
    assert environment.run().state is RunState.DONE


def replaying(environment: RunEnvironment) -> RunEnvironment:
    """The connector that replays."""
    return replace(environment, connector=replay_connector(environment.connector), runs=0)


def run(environment: RunEnvironment) -> None:
    result = replaying(environment).run()
    assert (result.state, result.error) == (RunState.DONE, None)


def letters(environment: RunEnvironment) -> list[LogRecord]:
    return read_topic(environment.bootstrap, queue_of(environment))


def fixes(environment: RunEnvironment) -> dict[str, dict[str, str | None]]:
    """Each record of the queue, with what it lacks."""
    return {f"{each.partition}:{each.offset}": {"value": f"{(each.value or b'').decode()}}}"} for each in letters(environment)}


def replayed(environment: RunEnvironment, topic: str, count: int = 20) -> list[LogRecord]:
    """What came behind the first ``count`` records of the topic, with two partitions of half as many each."""
    return [record for record in read_topic(environment.bootstrap, topic) if record.offset >= count // 2]


def test_refused_records_are_fixed_replayed_and_delivered_once(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    refused(environment, unique)
    bad = [number for number in range(20) if number % 4 < 2]
    name = environment.connector
    with pytest.raises(NotFoundException, match="were replayed yet"):
        herder.dead_letter_replay(name)
    requested = herder.replay_dead_letters(name, ReplayRequest(edits=fixes(environment)), author="anna")
    assert (requested.connector, requested.queue, requested.is_done, requested.records) == (
        f"{name}-replay",
        queue_of(environment),
        False,
        0,
    )
    run(environment)
    done = herder.dead_letter_replay(name)
    assert (done.replay, done.is_done, done.records, done.state) == (requested.replay, True, 10, "RUNNING")
    found = replayed(environment, unique)
    assert sorted((record.value or b"").decode() for record in found) == sorted(GOOD.format(number) for number in bad)
    assert {record.partition for record in found} == {0, 1}, "each is in its partition again"
    assert all(record.headers == [] for record in found)
    assert environment.run().state is RunState.DONE
    assert sorted(environment.lines()) == sorted(f"{{n={number}}}" for number in range(20))
    assert len(letters(environment)) == 10

    herder.replay_dead_letters(name, ReplayRequest())
    run(environment)
    assert len(replayed(environment, unique)) == 10, "what was replayed is not replayed again"


def test_a_record_in_the_queue_whose_headers_cannot_be_read_is_no_dead_letter(
    environment: RunEnvironment, herder: Herder, unique: str
) -> None:
    refused(environment, unique)
    raw_headers.produce(environment.bootstrap, queue_of(environment), b"no", [(raw_headers.NOT_UTF_8, b"")])
    shown = herder.dead_letters(environment.connector, limit=100, redact=dict)
    assert len(shown.records) == 10
    herder.replay_dead_letters(environment.connector, ReplayRequest())
    run(environment)
    done = herder.dead_letter_replay(environment.connector)
    assert (done.is_done, done.records) == (True, 10)


@pytest.mark.parametrize("kill_point", sample(KILL_POINTS, 2), ids=str)
def test_a_killed_replay_loses_and_doubles_nothing(environment: RunEnvironment, herder: Herder, unique: str, kill_point: KillPoint) -> None:
    refused(environment, unique)
    herder.replay_dead_letters(environment.connector, ReplayRequest())
    replay = replaying(environment)
    config = environment.configs().connector_config(replay.connector) or {}
    run_and_kill(replay, config, kill_point)
    run(environment)
    expected = sorted(each.value or b"" for each in letters(environment))
    assert sorted(record.value or b"" for record in replayed(environment, unique)) == expected
    done = herder.dead_letter_replay(environment.connector)
    assert (done.is_done, done.records) == (True, 10)


def test_chosen_records_go_to_another_topic_and_the_others_are_left(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    refused(environment, unique)
    make_topic(environment.bootstrap, f"{unique}-repaired")
    offsets = [each.offset for each in letters(environment)]
    chosen = ReplayRequest([f"0:{offsets[0]}-{offsets[3]}"], exceptions=["DataException"], topic=f"{unique}-repaired")
    herder.replay_dead_letters(environment.connector, chosen)
    run(environment)
    first = values_of(environment.bootstrap, f"{unique}-repaired")
    assert first == [(each.value or b"").decode() for each in letters(environment)[:4]]
    assert replayed(environment, unique) == []
    herder.replay_dead_letters(environment.connector, ReplayRequest(exceptions=["NoSuchException"]))
    run(environment)
    herder.replay_dead_letters(environment.connector, ReplayRequest())
    run(environment)
    again = [(record.value or b"").decode() for record in replayed(environment, unique)]
    assert sorted([*first, *again]) == sorted((each.value or b"").decode() for each in letters(environment))


def test_records_are_transformed_by_the_sinks_converters(environment: RunEnvironment, previewing: Herder, unique: str) -> None:
    cast = {"transforms": "c", "transforms.c.type": "org.apache.kafka.connect.transforms.Cast$Value", "transforms.c.spec": "n:int32"}
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, ['{"n":"one","m":1}', '{"n":"2","m":2}'])
    environment.put_config(sink(environment, unique, **cast))
    assert environment.run().state is RunState.DONE
    (letter,) = letters(environment)
    drop = {"transforms": "d", "transforms.d.type": "org.apache.kafka.connect.transforms.ReplaceField$Value", "transforms.d.exclude": "n"}
    asked = ReplayRequest(transforms=drop)
    shown = previewing.replay_dead_letters(environment.connector, asked, dry_run=True)
    assert shown.preview is not None
    origin = {"partition": letter.partition, "offset": letter.offset}
    shown_records = [(each.topic, each.value, each.source_offset, each.headers) for each in shown.preview.records]
    assert shown_records == [(unique, {"m": 1}, origin, [])]
    [steps] = shown.preview.steps
    for each in (steps.read, steps.transforms[-1].records[0]):
        assert (each.topic, each.source_offset, each.headers) == (unique, origin, [])
    with pytest.raises(NotFoundException):
        previewing.dead_letter_replay(environment.connector)
    previewing.replay_dead_letters(environment.connector, asked)
    run(environment)
    assert values_of(environment.bootstrap, unique)[2:] == ['{"m":1}']
    assert (letter.value or b"") == b'{"n":"one","m":1}'


def test_a_record_that_cannot_be_decoded_fails_the_replay_by_its_name(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    refused(environment, unique)
    drop = {"transforms": "d", "transforms.d.type": "org.apache.kafka.connect.transforms.ReplaceField$Value", "transforms.d.exclude": "n"}
    herder.replay_dead_letters(environment.connector, ReplayRequest(transforms=drop))
    result = replaying(environment).run()
    assert result.state is RunState.FAILED
    state = herder.dead_letter_replay(environment.connector)
    assert (state.state, state.is_done, state.records) == ("FAILED", False, 0)
    assert f"of {unique}-" in str(result.tasks[0].trace)
    edits = {**fixes(environment)}
    herder.replay_dead_letters(environment.connector, ReplayRequest(transforms=drop, edits=edits))
    run(environment)
    assert {(record.value or b"").decode() for record in replayed(environment, unique)} == {"{}"}


def test_what_cannot_be_replayed_is_refused_with_the_reason(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    name = environment.connector
    with pytest.raises(NotFoundException, match="not found"):
        herder.replay_dead_letters(name, ReplayRequest())
    environment.put_config(sink(environment, unique))
    with pytest.raises(NotFoundException, match="no record has failed, or the sink could not create it"):
        herder.replay_dead_letters(name, ReplayRequest())
    environment.put_config(sink(environment, unique, **{"errors.deadletterqueue.context.headers.enable": "false"}))
    with pytest.raises(BadRequestException, match=r"context\.headers\.enable is not true"):
        herder.replay_dead_letters(name, ReplayRequest())
    environment.put_config(environment.file_sink(unique))
    with pytest.raises(BadRequestException, match="has no dead letter queue"):
        herder.replay_dead_letters(name, ReplayRequest())
    refused(environment, unique)
    for asked, reason in (
        (ReplayRequest(["5"]), "has no partition"),
        (ReplayRequest(edits={"0:1": {"value": "a [hidden] b"}}), "stands for a secret"),
        (ReplayRequest(transforms={"connector.class": "x"}), "connector.class"),
        (ReplayRequest(topic="a/b"), "is not a valid topic"),
        (ReplayRequest(exceptions=["a,b"]), "comma"),
        (ReplayRequest(edits={"0:1": {"value": "x" * 300_000}}), "262144 characters"),
    ):
        with pytest.raises(BadRequestException, match=reason):
            herder.replay_dead_letters(name, asked)
    with pytest.raises(NotFoundException, match="holds no records"):
        herder.replay_dead_letters(name, ReplayRequest(["7:1"]))
    with pytest.raises(NotFoundException):
        herder.dead_letter_replay(name)


def test_one_replay_at_a_time_and_the_same_request_twice_is_one(
    environment: RunEnvironment, herder: Herder, launcher: RunsByHand, unique: str
) -> None:
    refused(environment, unique)
    name = environment.connector
    first = herder.replay_dead_letters(name, ReplayRequest(replay="mine"))
    assert launcher.triggered == [f"{name}-replay"]
    assert herder.replay_dead_letters(name, ReplayRequest(replay="mine")) == first
    assert launcher.triggered == [f"{name}-replay"]
    with pytest.raises(ConflictException, match=f"abandon it by pausing connector {name}-replay"):
        herder.replay_dead_letters(name, ReplayRequest())
    herder.pause(f"{name}-replay")
    second = herder.replay_dead_letters(name, ReplayRequest())
    assert second.replay != first.replay
    assert herder.config_state().target_state(f"{name}-replay") is TargetState.STARTED
    run(environment)
    assert herder.dead_letter_replay(name).is_done
    assert herder.replay_dead_letters(name, ReplayRequest(replay="third")).replay == "third"


def test_another_connector_of_that_name_is_left_alone(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    refused(environment, unique)
    other = replaying(environment)
    other.put_config(other.file_source(f"{unique}-other"))
    with pytest.raises(ConflictException, match="does not replay"):
        herder.replay_dead_letters(environment.connector, ReplayRequest())
    with pytest.raises(NotFoundException):
        herder.dead_letter_replay(environment.connector)


def test_a_replay_in_json_has_no_preview_where_there_is_none() -> None:
    found = Replay("c-replay", "1", "dlq", ["0:5"], 3, False, "RUNNING")
    assert "preview" not in to_json(found)
    assert of_json(Replay, json.loads(json.dumps(to_json(found)))) == found
