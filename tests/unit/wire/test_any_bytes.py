"""Generated input: no bytes whatever make a reader raise, folding is deterministic, and what is written is read back."""

import copy
import json
from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.runtime.model.batches import BatchRecord, ConnectorType
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState, ConfigLog
from airflow_provider_connect.runtime.model.config_limits import MOST_TASKS
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.offsets import OffsetRecord
from airflow_provider_connect.runtime.model.records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    FencingRecord,
    LoggerRecord,
    RestartRecord,
    SessionKeyRecord,
    TargetStateRecord,
    TaskRecord,
)
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import ConnectorStatus, StatusRecord, StatusState, TaskStatus, TopicReset, TopicStatus
from airflow_provider_connect.runtime.wire import batch_topic, config_topic, offset_topic, status_topic
from airflow_provider_connect.runtime.wire.compact_json import dumps, loads

Raw = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]

PREFIXES = [
    *(b"connector-", b"task-", b"commit-", b"target-state-", b"restart-connector-", b"tasks-fencing-", b"session-key", b"logger-cluster-"),
    *(b"status-connector-", b"status-task-", b"status-topic-", b"topic-", b'["', b"["),
]
WORDS = [
    "properties",
    "tasks",
    "state",
    "state.v2",
    "task-count",
    "generation",
    "trace",
    "worker_id",
    "topic",
    "name",
    "connector",
    "task",
    "key",
]
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["STARTED", "RUNNING", "STOPPED"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
json_bytes = values.map(lambda value: json.dumps(value).encode())
names = st.sampled_from([b"a", b"b-c", b"a-0", b"a-1", b"a-2", b"t:connector-a", b"", b"-0", b"a-"])
keys = st.none() | st.binary(max_size=30) | st.tuples(st.sampled_from(PREFIXES), names | st.binary(max_size=10)).map(b"".join) | json_bytes
headers = st.lists(
    st.tuples(st.sampled_from(["claim", "other"]), st.none() | st.binary(max_size=8) | st.sampled_from([b"t:1", b"t:9"])), max_size=2
)
plausible = st.sampled_from(
    [
        *(b'{"properties":{"a":"b"}}', b'{"properties":{}}', b'{"tasks":0}', b'{"tasks":1}', b'{"tasks":2}', b'{"tasks":3}'),
        *(b'{"state":"PAUSED","state.v2":"STOPPED"}', b'{"state":"STARTED"}', b'{"task-count":1}', b'{"task-count":7}'),
        *(
            b'{"state":"RUNNING","generation":0}',
            b'{"state":"UNASSIGNED","generation":0}',
            b'{"state":"FAILED","generation":3,"trace":"x"}',
        ),
        b'{"topic":{"name":"t","connector":"a","task":0,"discoverTimestamp":1}}',
    ]
)
raw_records: st.SearchStrategy[Raw] = st.tuples(keys, st.none() | st.binary(max_size=40) | json_bytes | plausible, headers)


def folded(records: Iterable[Raw]) -> tuple[ClusterConfigState, StatusState, list[str]]:
    log, statuses, reasons = ConfigLog("t"), StatusState(), []
    for offset, (key, value, carried) in enumerate(records):
        reasons.append(log.apply(config_topic.decode(key, value, carried, offset=offset)))
        reasons.append(statuses.apply(status_topic.decode(key, value, carried, offset=offset, timestamp=offset)))
        offset_topic.decode(key, value, carried, offset=offset)
        batch_topic.decode(key, value, carried, offset=offset)
    return log.state, statuses, reasons


@settings(deadline=None)
@given(st.lists(raw_records, max_size=25))
def test_no_bytes_make_a_reader_raise_and_folding_them_twice_gives_the_same(records: list[Raw]) -> None:
    state, statuses, reasons = folded(records)
    again = folded(records)
    assert (state, reasons) == (again[0], again[2])
    assert (statuses.connectors, statuses.tasks, statuses.topics) == (again[1].connectors, again[1].tasks, again[1].topics)
    assert state.offset == len(records)


@settings(deadline=None)
@given(st.lists(raw_records, max_size=25))
def test_whatever_the_records_every_task_that_is_listed_has_a_config(records: list[Raw]) -> None:
    state, _, _ = folded(records)
    for connector in state.connectors():
        assert all(state.task_config(connector, task) is not None for task in state.tasks(connector))
        assert set(state.all_task_configs(connector)) == set(state.tasks(connector))
        assert state.target_state(connector) is not None


@settings(deadline=None)
@given(st.lists(raw_records, max_size=15), st.lists(raw_records, max_size=15))
def test_copied_state_is_left_alone_by_later_records(before: list[Raw], after: list[Raw]) -> None:
    log = ConfigLog("t")
    for key, value, carried in before:
        log.apply(config_topic.decode(key, value, carried))
    taken, expected = log.state.copy(), copy.deepcopy(log.state)
    for key, value, carried in after:
        log.apply(config_topic.decode(key, value, carried))
    assert taken == expected


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_json_of_any_bytes_is_read_or_refused_with_a_data_exception(data: bytes) -> None:
    try:
        value = loads(data)
    except DataException:
        return
    assert loads(dumps(value)) == value or "NaN" in repr(value) or "inf" in repr(value)


text = st.text(max_size=12)
name = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
numbers = st.integers(0, 2**31 - 1)
counts = st.integers(0, MOST_TASKS)
claims = st.builds(Claim, st.integers(0, 2**62), st.text(st.characters(exclude_categories=["Cs"]), max_size=8))
configs = st.dictionaries(text, text, max_size=5)
ids = st.builds(ConnectorTaskId, name, numbers)
config_records: st.SearchStrategy[ConfigRecord] = st.one_of(
    st.builds(ConnectorRecord, name, st.none() | configs),
    st.builds(TargetStateRecord, name, st.none() | st.sampled_from(TargetState)),
    st.builds(TaskRecord, ids, st.none() | configs),
    st.builds(CommitRecord, name, counts),
    st.builds(RestartRecord, name, st.booleans(), st.booleans()),
    st.builds(FencingRecord, name, counts, st.none() | claims),
    st.builds(SessionKeyRecord, text, text, st.integers(-(2**63), 2**63 - 1)),
    st.builds(LoggerRecord, name, text),
)


@settings(deadline=None)
@given(config_records)
def test_config_record_is_read_back_as_it_was_written(record: ConfigRecord) -> None:
    assert config_topic.decode(*config_topic.encode(record)) == record


visible = st.sampled_from([state for state in State if state is not State.DESTROYED])
details = (visible, text, st.none() | text, st.integers(-(2**31), 2**31 - 1), st.none() | text, st.none() | claims)
topic_names = name.filter(lambda topic: ":" not in topic)
status_records: st.SearchStrategy[StatusRecord] = st.one_of(
    st.builds(ConnectorStatus, name, *details),
    st.builds(ConnectorStatus, name, st.just(State.DESTROYED)),
    st.builds(TaskStatus, name, numbers, *details),
    st.builds(TopicStatus, topic_names, name, numbers, numbers, st.none() | claims),
    st.builds(TopicReset, topic_names, name, st.none() | claims),
)


@settings(deadline=None)
@given(status_records)
def test_status_is_read_back_as_it_was_written(record: StatusRecord) -> None:
    assert status_topic.decode(*status_topic.encode(record)) == record


offsets = st.dictionaries(
    text, st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | text, max_size=5
)


@settings(deadline=None)
@given(name, offsets, st.none() | offsets)
def test_offset_is_read_back_as_it_was_written(connector: str, partition: dict[str, object], offset: dict[str, object] | None) -> None:
    wire = offset_topic.encode(connector, partition, offset)
    assert offset_topic.decode(wire.key, wire.value) == OffsetRecord(connector, partition, offset, wire.key)


spans = st.dictionaries(text, st.dictionaries(numbers, st.tuples(numbers, numbers), min_size=1, max_size=3), max_size=3)
positions = st.dictionaries(text, st.dictionaries(numbers, numbers, min_size=1, max_size=3), max_size=3)
seconds = st.floats(0, 1e9)
entries = st.builds(BatchRecord, ids, text, claims, st.sampled_from(ConnectorType), numbers, numbers, seconds, seconds, spans, positions)


@settings(deadline=None)
@given(entries)
def test_batch_log_entry_is_read_back_as_it_was_written(entry: BatchRecord) -> None:
    assert batch_topic.decode(*batch_topic.encode(entry)) == entry
