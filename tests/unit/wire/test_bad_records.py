"""Malformed records: each is skipped with a reason, and does not affect the records around it."""

import pytest

from airflow_provider_connect.runtime.model.batches import BatchReset
from airflow_provider_connect.runtime.model.cluster_state import ConfigLog
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.offsets import OffsetRecord
from airflow_provider_connect.runtime.model.records import ConnectorRecord, Unreadable
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import ConnectorStatus, StatusState
from airflow_provider_connect.runtime.wire import batch_topic, config_topic, offset_topic, status_topic

HUGE = b"9" * 400
DEEP = b"[" * 100_000

CONFIG = [
    (None, b"{}", "no key"),
    (b"connector-\xff", b"{}", "not UTF-8"),
    (b"", b"{}", "unknown key"),
    (b"connectors-c", b"{}", "unknown key"),
    (b"session-keys", b"{}", "unknown key"),
    (b"connector-", b'{"properties":{}}', "names nothing"),
    (b"connector-c", b"\xff\xfe", "utf-8"),
    (b"connector-c", b"properties", "not JSON"),
    (b"connector-c", b'{"properties":{"a":"b"}', "not JSON"),
    (b"connector-c", b"{'properties':{}}", "not JSON"),
    (b"connector-c", b"NaN", "not JSON"),
    (b"connector-c", b"[]", "value must be a map, is a list"),
    (b"connector-c", b"5", "value must be a map, is an integer"),
    (b"connector-c", b"5.5", "value must be a map, is a fraction"),
    (b"connector-c", b'"x"', "value must be a map, is text"),
    (b"connector-c", b"true", "value must be a map, is a boolean"),
    (b"connector-c", b"{}", "properties must be a map, is null"),
    (b"connector-c", b'{"properties":[]}', "properties must be a map, is a list"),
    (b"connector-c", b'{"properties":{"tasks.max":1}}', "property 'tasks.max' must be text, is an integer"),
    (b"connector-c", b'{"properties":{"a":{"b":"c"}}}', "property 'a' must be text, is a map"),
    (b"connector-c", DEEP, "nested deeper"),
    (b"connector-c", b'{"properties":' * 100_000, "nested deeper"),
    (b"connector-c", b"[" * 300 + b"]" * 300, "nested deeper"),
    (b"task-c", b'{"properties":{}}', "names no task"),
    (b"task-0", b'{"properties":{}}', "names no task"),
    (b"task--0", b'{"properties":{}}', "names no task"),
    (b"task-c-x", b'{"properties":{}}', "names no task"),
    (b"task-c-", b'{"properties":{}}', "names no task"),
    (b"task-c-1.5", b'{"properties":{}}', "names no task"),
    (b"task-c-99999999999", b'{"properties":{}}', "names no task"),
    (b"task-c-" + HUGE, b'{"properties":{}}', "names no task"),
    (b"task-c-0", b"{}", "properties must be a map"),
    (b"task-c-0", None, "config of task c-0 is null"),
    (b"commit-c", None, "value must be a map, is null"),
    (b"commit-c", b"{}", "tasks must be an integer, is null"),
    (b"commit-c", b'{"tasks":"2"}', "tasks must be an integer, is text"),
    (b"commit-c", b'{"tasks":1.0}', "tasks must be an integer, is a fraction"),
    (b"commit-c", b'{"tasks":true}', "tasks must be an integer, is a boolean"),
    (b"commit-c", b'{"tasks":-1}', "tasks must be between"),
    (b"commit-c", b'{"tasks":4000000000}', "tasks must be between"),
    (b"commit-c", b'{"tasks":' + b"9" * 5000 + b"}", "5000 digits"),
    (b"commit-c", b'{"tasks":1e999}', "is a fraction"),
    (b"target-state-c", b"{}", "target state must be one of"),
    (b"target-state-c", b'{"state":"RUNNING"}', "'RUNNING'"),
    (b"target-state-c", b'{"state":"started"}', "'started'"),
    (b"target-state-c", b'{"state":1,"state.v2":2}', "target state must be one of"),
    (b"target-state-c", b'{"state":"PAUSED","state.v2":"BOGUS"}', "'BOGUS'"),
    (b"target-state-c", b'["STARTED"]', "value must be a map"),
    (b"restart-connector-c", None, "value must be a map, is null"),
    (b"restart-connector-c", b"[]", "value must be a map"),
    (b"tasks-fencing-c", None, "value must be a map"),
    (b"tasks-fencing-c", b'{"task-count":null}', "task-count must be an integer"),
    (b"tasks-fencing-c", b'{"tasks":1}', "task-count must be an integer"),
    (b"tasks-fencing-c", b'{"task-count":-5}', "task-count must be between"),
    (b"tasks-fencing-c", b'{"task-count":2147483647}', "task-count must be between 0 and 100000, is 2147483647"),
    (b"commit-c", b'{"tasks":2147483647}', "tasks must be between 0 and 100000, is 2147483647"),
    (b"session-key", None, "value must be a map"),
    (b"session-key", b'{"key":1,"algorithm":"HmacSHA256","creation-timestamp":1}', "key must be text"),
    (b"session-key", b'{"key":"a","creation-timestamp":1}', "algorithm must be text"),
    (b"session-key", b'{"key":"a","algorithm":"b","creation-timestamp":"1"}', "creation-timestamp must be an integer"),
    (b"logger-cluster-l", b'{"level":5}', "level must be text"),
    (b"logger-cluster-l", b"{}", "level must be text"),
]

STATUS = [
    (None, b"{}", "no key"),
    (b"status-task-\xc3", b"{}", "not UTF-8"),
    (b"status-", b"{}", "unknown key"),
    (b"status-connector-", None, "names no connector"),
    (b"status-connector-c", b"{", "not JSON"),
    (b"status-connector-c", b"[]", "value must be a map"),
    (b"status-connector-c", b"{}", "state must be one of"),
    (b"status-connector-c", b'{"state":"running","generation":1}', "'running'"),
    (b"status-connector-c", b'{"state":7,"generation":1}', "state must be one of"),
    (b"status-connector-c", b'{"state":["RUNNING"],"generation":1}', "state must be one of"),
    (b"status-connector-c", b'{"state":"RUNNING"}', "generation must be an integer, is null"),
    (b"status-connector-c", b'{"state":"RUNNING","generation":"1"}', "generation must be an integer, is text"),
    (b"status-connector-c", b'{"state":"RUNNING","generation":1.5}', "generation must be an integer, is a fraction"),
    (b"status-connector-c", b'{"state":"RUNNING","generation":1,"worker_id":5}', "worker_id must be text"),
    (b"status-connector-c", b'{"state":"RUNNING","generation":1,"trace":{}}', "trace must be text"),
    (b"status-connector-c", b'{"state":"RUNNING","generation":1,"version":1}', "version must be text"),
    (b"status-connector-c", DEEP, "nested deeper"),
    (b"status-task-c", None, "names no task"),
    (b"status-task-0", None, "names no task"),
    (b"status-task-c-one", None, "names no task"),
    (b"status-task-c-0", b"7", "value must be a map"),
    (b"status-topic-t", None, "key must be"),
    (b"status-topic-:connector-c", None, "key must be"),
    (b"status-topic-t:connector-", None, "key must be"),
    (b"status-topic-t:c", None, "key must be"),
    (b"status-topic-t:connector-c", b"{}", "topic must be a map"),
    (b"status-topic-t:connector-c", b'{"topic":"t"}', "topic must be a map"),
    (b"status-topic-t:connector-c", b'{"topic":{"name":"u","connector":"c","task":0,"discoverTimestamp":1}}', "value is of topic 'u'"),
    (b"status-topic-t:connector-c", b'{"topic":{"name":"t","connector":"d","task":0,"discoverTimestamp":1}}', "connector 'd'"),
    (b"status-topic-t:connector-c", b'{"topic":{"name":"t","connector":"c","task":"0","discoverTimestamp":1}}', "task must be an integer"),
    (b"status-topic-t:connector-c", b'{"topic":{"name":"t","connector":"c","task":0}}', "discoverTimestamp must be an integer"),
]

OFFSETS = [
    (None, b"{}", "no key"),
    (b"", b"{}", "key must be"),
    (b"\xff", b"{}", "utf-8"),
    (b"c", b"{}", "not JSON"),
    (b"{}", b"{}", "key must be"),
    (b'"c"', b"{}", "key must be"),
    (b"[]", b"{}", "key must be"),
    (b'["c"]', b"{}", "key must be"),
    (b'["c",null]', b"{}", "key must be"),
    (b'["c","p"]', b"{}", "key must be"),
    (b'["c",[]]', b"{}", "key must be"),
    (b'[null,{"f":"a"}]', b"{}", "key must be"),
    (b'[1,{"f":"a"}]', b"{}", "key must be"),
    (b'["c",{"f":"a"},1]', b"{}", "key must be"),
    (b'["c",{"f":"a"}]', b"5", "value must be a map"),
    (b'["c",{"f":"a"}]', b"[5]", "value must be a map"),
    (b'["c",{"f":"a"}]', b'{"position":', "not JSON"),
    (b'["c",{"f":"a"}]', b"\xff", "utf-8"),
    (b'["c",{"f":' + DEEP, b"{}", "nested deeper"),
    (b'["c",{"f":"a"}]', DEEP, "nested deeper"),
]

WHOLE = (
    b'{"run":"r","claim":"t:1","type":"sink","records":1,"bytes":2,"seconds":1.5,"cpu_seconds":0.5,'
    b'"ranges":{"t":{"0":[3,4]}},"next":{"t":{"0":4}}}'
)
BATCHES = [
    (None, WHOLE, "no key"),
    (b"", WHOLE, "key must be"),
    (b'["c"]', WHOLE, "key must be"),
    (b'["c","0"]', WHOLE, "key must be"),
    (b'["c",true]', WHOLE, "key must be"),
    (b'["c",0]', b"[]", "value must be a map"),
    (b'["c",0]', b"{}", "run must be text"),
    (b'["c",0]', b"{", "not JSON"),
    (b'["c",0]', WHOLE.replace(b'"t:1"', b'"t"'), "cannot be read"),
    (b'["c",0]', WHOLE.replace(b'"t:1"', b"1"), "claim must be text"),
    (b'["c",0]', WHOLE.replace(b'"sink"', b'"drain"'), "cannot be read"),
    (b'["c",0]', WHOLE.replace(b'"records":1', b'"records":"1"'), "records must be an integer"),
    (b'["c",0]', WHOLE.replace(b"1.5", b'"1.5"'), "seconds must be an integer"),
    (b'["c",0]', WHOLE.replace(b"[3,4]", b"[3]"), "a range must be"),
    (b'["c",0]', WHOLE.replace(b"[3,4]", b"[3,null]"), "next offset must be an integer"),
    (b'["c",0]', WHOLE.replace(b'"0":4', b'"x":4'), "cannot be read"),
    (b'["c",0]', WHOLE.replace(b'"0":4', b'"0":"4"'), "next must be an integer"),
    (b'["c",0]', WHOLE.replace(b'{"t":{"0":4}}', b"[]"), "next must be a map"),
]


@pytest.mark.parametrize(("key", "value", "reason"), CONFIG)
def test_bad_config_record_is_skipped_with_its_reason_and_counted(key: bytes | None, value: bytes | None, reason: str) -> None:
    log = ConfigLog("topic")
    assert reason in log.apply(config_topic.decode(key, value, (), offset=7))
    assert log.skipped == 1
    assert log.state.offset == 8
    assert log.state.connectors() == []


@pytest.mark.parametrize(("key", "value", "reason"), STATUS)
def test_bad_status_record_is_skipped_with_its_reason_and_counted(key: bytes | None, value: bytes | None, reason: str) -> None:
    statuses = StatusState()
    assert reason in statuses.apply(status_topic.decode(key, value))
    assert statuses.skipped == 1
    assert (statuses.connectors, statuses.tasks, statuses.topics) == ({}, {}, {})


@pytest.mark.parametrize(("key", "value", "reason"), OFFSETS)
def test_bad_offset_record_is_unreadable_with_its_reason(key: bytes | None, value: bytes | None, reason: str) -> None:
    decoded = offset_topic.decode(key, value, (), offset=7)
    assert isinstance(decoded, Unreadable)
    assert reason in decoded.reason
    assert (decoded.key, decoded.offset) == (key, 7)


@pytest.mark.parametrize(("key", "value", "reason"), BATCHES)
def test_bad_batch_log_entry_is_unreadable_with_its_reason(key: bytes | None, value: bytes | None, reason: str) -> None:
    decoded = batch_topic.decode(key, value)
    assert isinstance(decoded, Unreadable)
    assert reason in decoded.reason


@pytest.mark.parametrize("header", [b"", b"t:", b"t:x", b"\xff:1", None])
def test_record_whose_claim_cannot_be_read_is_skipped(header: bytes | None) -> None:
    for decoded in (
        config_topic.decode(b"tasks-fencing-c", b'{"task-count":1}', [("claim", header)]),
        status_topic.decode(b"status-connector-c", None, [("claim", header)]),
    ):
        assert isinstance(decoded, Unreadable), header
        assert "claim" in decoded.reason


@pytest.mark.parametrize("value", [None, b"", b" ", b"null"])
def test_null_in_any_form_is_a_tombstone_as_for_a_real_worker(value: bytes | None) -> None:
    assert config_topic.decode(b"connector-c", value) == ConnectorRecord("c", None)
    assert status_topic.decode(b"status-connector-c", value) == ConnectorStatus("c", State.DESTROYED)
    assert offset_topic.decode(b'["c",{}]', value) == OffsetRecord("c", {}, None, b'["c",{}]')
    assert batch_topic.decode(b'["c",0]', value) == BatchReset(ConnectorTaskId("c", 0))


def test_reason_shows_no_more_than_the_start_of_a_long_key() -> None:
    decoded = config_topic.decode(b"connector-" + b"x" * 1_000_000, b"5")
    assert isinstance(decoded, Unreadable)
    assert len(decoded.reason) < 300


def test_reason_shows_no_value_of_a_config() -> None:
    decoded = config_topic.decode(b"connector-c", b'{"properties":{"password":["secret"]}}')
    assert isinstance(decoded, Unreadable)
    assert "secret" not in decoded.reason


def test_bad_records_leave_the_good_ones_around_them_alone() -> None:
    log = ConfigLog("topic")
    good = [
        (b"connector-good", b'{"properties":{"name":"good"}}'),
        (b"task-good-0", b'{"properties":{}}'),
        (b"commit-good", b'{"tasks":1}'),
    ]
    for record in [good[0], *[row[:2] for row in CONFIG], good[1], *[row[:2] for row in CONFIG], good[2]]:
        log.apply(config_topic.decode(*record))
    assert log.state.connectors() == ["good"]
    assert log.state.tasks("good") == [0]
    assert log.skipped == 2 * len(CONFIG)
    print(f"bad records: {len(CONFIG)} config, {len(STATUS)} status, {len(OFFSETS)} offsets, {len(BATCHES)} batches")
