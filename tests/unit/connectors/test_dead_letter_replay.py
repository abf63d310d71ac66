"""What a replay takes of a queue, what it makes of it, and the position behind it. Kafka is a list of records here."""

import json
import random
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.codecs.dead_letters import origin_header, origin_of
from airflow_provider_connect.connectors.dead_letters.connector import DeadLetterReplayConnector
from airflow_provider_connect.connectors.dead_letters.settings import REPLAY
from airflow_provider_connect.connectors.dead_letters.task import DeadLetterReplayTask
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.data.schema import BYTES_SCHEMA
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch
from airflow_provider_connect.sdk.record_columns import headers_type
from airflow_provider_connect.sdk.task import RangeReader
from airflow_provider_connect.sdk.testing.contexts import MemorySourceContext, Offsets, partition_key

DATA = "org.apache.kafka.connect.errors.DataException"
Letter = tuple[int, str, str, str]  # offset, connector, topic, exception: the value is text of the offset


class ListReader:
    """Batches of two records each."""

    def __init__(self, letters: Mapping[int, list[Letter]], ranges: Mapping[TopicPartition, tuple[int, int]]) -> None:
        self.positions = {at: start for at, (start, _) in ranges.items()}
        self._left = {at: [letter for letter in letters[at.partition] if start <= letter[0] < end] for at, (start, end) in ranges.items()}

    @property
    def exhausted(self) -> bool:
        return not any(self._left.values())

    def read(self, timeout_seconds: float) -> list[Batch]:
        found: list[Batch] = []
        for at, letters in self._left.items():
            taken, self._left[at] = letters[:2], letters[2:]
            if taken:
                found.append(batch_of(at, taken))
        return found

    def close(self) -> None:
        """Nothing is open."""


class ListContext(MemorySourceContext):
    letters: Mapping[int, list[Letter]]

    def read_ranges(self, client_config: Mapping[str, Any] | None, ranges: Mapping[TopicPartition, tuple[int, int]]) -> RangeReader:
        assert client_config is None
        return ListReader(self.letters, ranges)


def batch_of(at: TopicPartition, letters: list[Letter]) -> KafkaBatch:
    headers = [
        [
            {"key": "own", "value": b"1"},
            {"key": "__connect.errors.topic", "value": topic.encode()},
            {"key": "__connect.errors.partition", "value": b"3"},
            {"key": "__connect.errors.offset", "value": b"9"},
            {"key": "__connect.errors.connector.name", "value": connector.encode()},
            {"key": "__connect.errors.exception.class.name", "value": exception.encode()},
        ]
        for _, connector, topic, exception in letters
    ]
    schema = BYTES_SCHEMA.as_optional()
    return KafkaBatch(
        at.topic,
        pa.array([f"{at.partition}:{offset}".encode() for offset, *_ in letters], pa.binary()),
        pa.array([b"key"] * len(letters), pa.binary()),
        schema,
        schema,
        pa.array(headers, headers_type()),
        pa.array([1000 + offset for offset, *_ in letters], pa.int64()),
        at.partition,
        first_offset=letters[0][0],
        next_offset=letters[-1][0] + 1,
        kafka_offset=pa.array([offset for offset, *_ in letters], pa.int64()),
    )


def config_of(replay: str, **settings: str) -> dict[str, str]:
    given = {f"dead.letters.{name.replace('_', '.')}": value for name, value in settings.items()}
    return {
        "dead.letters.topic": "dlq",
        "dead.letters.connector": "sink",
        "dead.letters.origins": "orders:9,bills:9",
        "dead.letters.until": "0:20",
        "dead.letters.replay": replay,
        **given,
    }


def run(letters: Mapping[int, list[Letter]], offsets: Offsets, config: Mapping[str, str], polls: int = 100) -> list[Batch]:
    """The records of so many polls, whose offsets are committed with them."""
    context = ListContext(config, offsets)
    context.letters = letters
    task = DeadLetterReplayTask()
    task.initialize(context)
    task.start(DeadLetterReplayConnector.task_config(config))
    written: list[Batch] = []
    for _ in range(polls):
        batches = task.poll()
        if batches is None:
            break
        for batch in batches:
            assert isinstance(batch, Batch)
            if batch.source_partition is not None:
                offsets[partition_key(batch.source_partition)] = dict(batch.source_offset or {})
            if batch.num_records:
                written.append(batch)
    task.stop()
    return written


def values(batches: Iterable[Batch]) -> list[str]:
    return [value.decode() for batch in batches for value in listed(batch.value)]


def listed(column: pa.Array | None) -> list[Any]:  # Any: what the column holds
    assert column is not None
    return list(column.to_pylist())


def letters_of(*offsets: int, connector: str = "sink", topic: str = "orders", exception: str = DATA) -> list[Letter]:
    return [(offset, connector, topic, exception) for offset in offsets]


def test_records_go_back_as_they_were_without_headers_about_failures() -> None:
    (batch,) = run({0: letters_of(4)}, {}, config_of("1"))
    assert (batch.topic, batch.kafka_partition) == ("orders", 3)
    assert listed(batch.value) == [b"0:4"]
    assert listed(batch.key) == [b"key"]
    assert listed(batch.timestamp) == [1004]
    assert listed(batch.headers) == [[{"key": "own", "value": b"1"}]]


def test_a_dry_run_names_the_record_of_the_queue_in_the_first_header() -> None:
    (batch,) = run({0: letters_of(4, 7)}, {}, config_of("1", origin="true"))
    named = [[each["key"] for each in row] for row in listed(batch.headers)]
    assert [(origin_of(first), *others) for first, *others in named] == [((0, 4), "own"), ((0, 7), "own")]
    assert [origin_of(name) for name in ("own", origin_header(1, 2) + "x", "__connect.replay.origin.1")] == [None] * 3


def test_a_record_is_replayed_once_whatever_is_chosen() -> None:
    offsets: Offsets = {}
    letters = {0: letters_of(0, 2, 4, 6, 8)}
    assert values(run(letters, offsets, config_of("1", offsets="0:2-4"))) == ["0:2", "0:4"]
    assert values(run(letters, offsets, config_of("2"))) == ["0:0", "0:6", "0:8"]
    assert values(run(letters, offsets, config_of("3"))) == []


def test_records_that_were_not_taken_are_left_for_the_next_replay() -> None:
    offsets: Offsets = {}
    letters = {0: [*letters_of(0, 1), *letters_of(2, exception="x.y.Other"), *letters_of(3, topic="bills"), *letters_of(4)]}
    assert values(run(letters, offsets, config_of("1", exceptions="Other"))) == ["0:2"]
    assert values(run(letters, offsets, config_of("2", from_topics="bills"))) == ["0:3"]
    assert values(run(letters, offsets, config_of("3", exceptions=DATA))) == ["0:0", "0:1", "0:4"]


def test_records_of_other_connectors_and_of_foreign_topics_are_not_replayed() -> None:
    offsets: Offsets = {}
    letters = {0: [*letters_of(0, connector="other"), *letters_of(1, topic="connect-configs"), *letters_of(2)]}
    assert values(run(letters, offsets, config_of("1"))) == ["0:2"]
    (at,) = offsets.values()
    assert at["replayed"] == "0,2-19"  # what is another's is no gap; what goes nowhere is


def test_a_partition_that_the_topic_has_not_is_chosen_by_the_key() -> None:
    batches = run({0: letters_of(1, 2)}, {}, config_of("1", origins="orders:3"))
    assert {batch.kafka_partition for batch in batches} == {None}, "a record names partition 3, and the topic has 0 to 2"


@pytest.mark.parametrize("origins", ["orders", "orders:", ":3", "orders:-1", "orders:1234567890"])
def test_origins_that_are_no_topics_with_partitions_are_refused(origins: str) -> None:
    with pytest.raises(ConfigException, match="orders:3"):
        DeadLetterReplayConnector.task_config(config_of("1", origins=origins))


def test_a_named_topic_takes_records_by_their_keys() -> None:
    (batch,) = run({0: letters_of(1, 2)}, {}, config_of("1", target_topic="repaired"))
    assert (batch.topic, batch.kafka_partition) == ("repaired", None)


def test_edits_replace_keys_and_values_and_a_new_key_finds_its_partition() -> None:
    edits = json.dumps({"0:1": {"value": "neu ü"}, "0:2": {"key": None}, "0:3": {"key": "k", "value": None}})
    batches = run({0: letters_of(1, 2, 3)}, {}, config_of("1", edits=edits))
    found = [
        (key, value, batch.kafka_partition) for batch in batches for key, value in zip(listed(batch.key), listed(batch.value), strict=True)
    ]
    assert found == [(b"key", "neu ü".encode(), 3), (None, b"0:2", None), (b"k", None, None)]


def test_a_replay_that_was_killed_goes_on_where_its_last_commit_was() -> None:
    chance = random.Random(11)
    for _ in range(40):
        letters = {
            partition: [
                (offset, chance.choice(("sink", "sink", "other")), chance.choice(("orders", "bills")), chance.choice((DATA, "a.B")))
                for offset in sorted(chance.sample(range(30), 14))
            ]
            for partition in (0, 1)
        }
        offsets: Offsets = {}
        written: list[str] = []
        for replay in range(6):
            choice = chance.choice(({}, {"exceptions": "B"}, {"from_topics": "bills"}, {"offsets": "0:3-9,1:20-29"}))
            config = config_of(str(replay), until="0:30,1:30", **choice)
            written += values(run(letters, offsets, config, polls=chance.randrange(4)))
            written += values(run(letters, offsets, config, polls=chance.randrange(4)))
        written += values(run(letters, offsets, config_of("last", until="0:30,1:30")))
        ours = [f"{partition}:{offset}" for partition in (0, 1) for offset, connector, *_ in letters[partition] if connector == "sink"]
        assert sorted(written) == sorted(ours)


def test_a_finished_replay_has_nothing_to_do() -> None:
    offsets: Offsets = {}
    config = config_of("1")
    connector = DeadLetterReplayConnector()

    def has_new_data(of: Mapping[str, str]) -> bool | None:
        return connector.has_new_data(REPLAY.parse(of), lambda partition: offsets.get(partition_key(partition)))

    assert has_new_data(config)
    run({0: letters_of(1, 2, 3)}, offsets, config)
    assert not has_new_data(config)
    assert has_new_data(config_of("2"))


def test_a_queue_that_was_created_anew_begins_anew() -> None:
    offsets: Offsets = {}
    run({0: letters_of(1, 2)}, offsets, config_of("1", topic_id="a"))
    assert values(run({0: letters_of(1)}, offsets, config_of("2", topic_id="b"))) == ["0:1"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("dead.letters.until", "0:1-5"),
        ("dead.letters.until", "x"),
        ("dead.letters.offsets", "5-7"),
        ("dead.letters.edits", "{"),
        ("dead.letters.edits", "[1]"),
        ("dead.letters.edits", '{"0:1-2": {"value": "x"}}'),
        ("dead.letters.edits", '{"0:1": {"headers": "x"}}'),
        ("dead.letters.edits", '{"0:1": {"value": 5}}'),
        ("dead.letters.edits", "[" * 100_000),
        ("dead.letters.connector", ""),
    ],
)
def test_wrong_settings_are_refused_without_their_secrets(key: str, value: str) -> None:
    with pytest.raises(ConfigException) as refused:
        REPLAY.parse({**config_of("1"), key: value})
    assert key in refused.value.message
    if key.endswith("edits"):
        assert value not in refused.value.message


def test_the_workers_own_topics_are_no_queue() -> None:
    connector = DeadLetterReplayConnector()
    connector.refusal_of_topic = lambda topic: "internal" if topic == "connect-configs" else ""
    for settings in ({"topic": "connect-configs"}, {"target_topic": "connect-configs"}):
        connector.start(REPLAY.parse(config_of("1", **settings)))
        with pytest.raises(ConfigException, match="internal"):
            connector.task_configs(1)


def test_offsets_that_no_replay_could_have_written_are_refused() -> None:
    connector = DeadLetterReplayConnector()
    at = {"topic": "dlq", "partition": 0}
    assert connector.alter_offsets({}, [(at, {"replayed": "0-4"}), (at, None)])
    for partition, offset in ((at, {"replayed": "x"}), ({"topic": "dlq"}, None), (None, None)):
        with pytest.raises(ConnectException):
            connector.alter_offsets({}, [(partition, offset)])
