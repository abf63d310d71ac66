"""What a request for a replay becomes: the config of the connector that carries it out."""

import json

import pytest

from airflow_provider_connect.connectors.dead_letters.settings import REPLAY, parse_edits
from airflow_provider_connect.errors import BadRequestException, NotFoundException
from airflow_provider_connect.runtime.config.config_providers import variables
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.herder.replays import Queue, is_replay, replay_config
from airflow_provider_connect.runtime.model.replays import ReplayRequest

QUEUE = Queue("dlq", "id-1", {0: 120, 1: 7}, {"orders": 3, "bills": 1})
SINK = {
    "connector.class": "FileStreamSink",
    "topics": "orders,bills",
    "file": "/out.txt",
    "value.converter": "JsonConverter",
    "value.converter.basic.auth.user.info": "${airflow:registry:login}",
    "transforms": "own",
    "transforms.own.type": "HoistField$Value",
    "producer.override.linger.ms": "5",
    "consumer.override.group.id": "its-group",
    "airflow.schedule": "@hourly",
}
RAW = "org.apache.kafka.connect.converters.ByteArrayConverter"


def made(asked: ReplayRequest) -> dict[str, str]:
    return replay_config("orders-sink", SINK, QUEUE, asked, "replay-1")


def test_without_transformations_bytes_are_not_touched() -> None:
    config = made(ReplayRequest())
    assert config == {
        "connector.class": "DeadLetterReplay",
        "tasks.max": "1",
        "airflow.schedule": "none",
        "dead.letters.topic": "dlq",
        "dead.letters.topic.id": "id-1",
        "dead.letters.connector": "orders-sink",
        "dead.letters.replay": "replay-1",
        "dead.letters.until": "0:120,1:7",
        "dead.letters.origins": "bills:1,orders:3",
        "key.converter": RAW,
        "value.converter": RAW,
        "header.converter": RAW,
        "producer.override.linger.ms": "5",
    }
    REPLAY.parse(config)
    assert is_replay(config, "orders-sink")
    assert not is_replay(config, "orders")


def test_transformations_get_what_the_sinks_converters_make() -> None:
    config = made(ReplayRequest(transforms={"transforms": "d", "transforms.d.type": "ReplaceField$Value", "transforms.d.exclude": "n"}))
    assert config["dead.letters.decode"] == "true"
    assert config["value.converter.basic.auth.user.info"] == "${airflow:registry:login}"
    assert "key.converter" not in config, "the worker's, as for the sink"
    assert config["transforms"] == "d"
    assert "transforms.own.type" not in config


def test_what_may_quote_records_knows_the_sinks_secrets() -> None:
    config = {**SINK, "db.password": "geheim", "own.kind": "verborgen"}
    drop = ReplayRequest(transforms={"transforms": "d", "transforms.d.type": "ReplaceField$Value"})
    made = replay_config("orders-sink", config, QUEUE, drop, "1", redact=lambda given: {**given, "own.kind": "[hidden]"})
    assert set(json.loads(made["dead.letters.hidden"]).values()) == {"geheim", "verborgen"}
    assert made["dead.letters.hidden.variables"] == "${airflow:registry:login}"
    mask = Mask([made["dead.letters.hidden"]])
    assert mask("my geheim, your verborgen") == "my [hidden], your [hidden]"
    assert "dead.letters.hidden" not in replay_config("orders-sink", config, QUEUE, ReplayRequest(), "1")


def test_nothing_in_an_edit_is_a_variable() -> None:
    text = "${airflow:registry:login} $1 ${x:y}"
    config = made(ReplayRequest(edits={"0:1": {"value": text}}))
    assert variables(config) == []
    assert parse_edits(REPLAY.parse(config)["dead.letters.edits"]) == {(0, 1): {"value": text.encode()}}


def test_a_secret_with_a_dollar_sign_is_hidden_too() -> None:
    config = {**SINK, "db.password": "${not:a-variable"}
    drop = ReplayRequest(transforms={"transforms": "d", "transforms.d.type": "ReplaceField$Value"})
    made = replay_config("orders-sink", config, QUEUE, drop, "1", redact=dict)
    assert Mask([made["dead.letters.hidden"]])("my ${not:a-variable") == "my [hidden]"


def test_conditions_and_edits_are_settings() -> None:
    edits = {"0:15": {"value": "x", "key": None}}
    config = made(ReplayRequest(["0:5-20", "0:30"], ["orders"], ["DataException", "x.Y"], "repaired", edits))
    assert (config["dead.letters.offsets"], config["dead.letters.until"]) == ("0:5-20,0:30", "0:31")
    assert (config["dead.letters.from.topics"], config["dead.letters.exceptions"]) == ("orders", "DataException,x.Y")
    assert config["dead.letters.target.topic"] == "repaired"
    assert json.loads(config["dead.letters.edits"]) == edits
    assert str(REPLAY.parse(config)["dead.letters.edits"]) == "[hidden]"


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (ReplayRequest(["x"]), "has no partition"),
        (ReplayRequest(["0:9-1"]), "not a range of offsets"),
        (ReplayRequest(["0:1,0:2"]), "not a range of offsets"),
        (ReplayRequest(from_topics=["a,b"]), "has a comma"),
        (ReplayRequest(exceptions=[""]), "is empty"),
        (ReplayRequest(transforms={"transformsX": "a"}), "transformsX"),
        (ReplayRequest(transforms={"value.converter": "a"}), r"value\.converter"),
        (ReplayRequest(topic=".."), "is not a valid topic"),
        (ReplayRequest(edits={"x": {"value": "1"}}), "has no partition"),
        (ReplayRequest(edits={"0:1": {"value": "my [hidden]"}}), "stands for a secret"),
        (ReplayRequest(edits={"0:1": {"value": "x" * 262_144}}), "262144"),
        (ReplayRequest(edits={"0:1": {"value": "$" * 50_000}}), "262144"),
        (ReplayRequest(edits={"0:120": {"value": "1"}}), "matches no selected record of dlq"),
        (ReplayRequest(["0:2-3"], edits={"0:1": {"value": "1"}}), "matches no selected record"),
        (ReplayRequest(edits={"0:1": {"value": "1"}, "0:01": {"value": "2"}}), "two edits of record 0:1"),
        (ReplayRequest(transforms={"transforms.d.type": "DropAll"}), "no 'transforms'"),
    ],
)
def test_what_makes_no_sense_is_refused(asked: ReplayRequest, reason: str) -> None:
    with pytest.raises(BadRequestException, match=reason):
        made(asked)


def test_partitions_without_records_are_not_replayed() -> None:
    with pytest.raises(NotFoundException, match="holds no records that are asked for"):
        made(ReplayRequest(["5:1"]))
