"""Single records of each topic, both ways, where the recordings have none: our header, older workers, drafts of the KIPs."""

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_connect.data.records import Distance
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.runtime.model.batches import BatchRecord, BatchReset, ConnectorType, Stay
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.offsets import OffsetRecord
from airflow_provider_connect.runtime.model.records import (
    ConnectorRecord,
    FencingRecord,
    LoggerRecord,
    NoteKind,
    NoteRecord,
    RestartRecord,
    SessionKeyRecord,
    TargetStateRecord,
    TaskRecord,
    Unreadable,
    UpgradeRecord,
)
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import ConnectorStatus, TaskStatus, TopicReset, TopicStatus
from airflow_provider_connect.runtime.wire import batch_topic, config_topic, offset_topic, status_topic
from airflow_provider_connect.runtime.wire.record import WireRecord

CLAIM = Claim(42, "qxMbM7u3Q5W")


def test_an_entry_of_the_batch_log_has_the_records_that_failed() -> None:
    entry = BatchRecord(ConnectorTaskId("c", 0), "run", CLAIM, ConnectorType.SINK, failed=7, error="TASK_PUT of offset 3 of t-0: no")
    assert batch_topic.decode(*batch_topic.encode(entry)) == entry
    assert b"failed" not in (batch_topic.encode(replace(entry, failed=0, error="")).value or b"")


def test_count_of_a_claim_carries_it_as_a_header() -> None:
    wire = config_topic.encode(FencingRecord("c", 3, CLAIM))
    assert wire == WireRecord(b"tasks-fencing-c", b'{"task-count":3}', [("claim", b"qxMbM7u3Q5W:42")])
    assert config_topic.decode(*wire, offset=50) == FencingRecord("c", 3, CLAIM, 50)


def test_new_claim_carries_none() -> None:
    assert config_topic.encode(FencingRecord("c", 3)).headers == []


def test_a_claim_of_a_run_carries_its_owner() -> None:
    wire = config_topic.encode(FencingRecord("c", 3, owner="a" * 99))
    assert wire.headers == [("owner", b"a" * 64)]
    assert config_topic.decode(*wire, offset=50) == FencingRecord("c", 3, owner="a" * 64)
    assert config_topic.decode(wire.key, wire.value, [("owner", b"\xff")]) == FencingRecord("c", 3, owner="\N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize("successor", ["", "b" * 16])
def test_a_handover_is_a_header(successor: str) -> None:
    wire = config_topic.encode(FencingRecord("c", 3, CLAIM, owner="a", successor=successor))
    assert wire.headers == [("claim", b"qxMbM7u3Q5W:42"), ("owner", b"a"), ("successor", successor.encode())]
    assert config_topic.decode(*wire, offset=50) == FencingRecord("c", 3, CLAIM, owner="a", successor=successor)


def test_decoded_record_knows_its_offset_and_is_equal_without_it() -> None:
    decoded = config_topic.decode(b"connector-c", b'{"properties":{"a":"b"}}', (), offset=9)
    assert isinstance(decoded, ConnectorRecord)
    assert decoded.offset == 9
    assert decoded == ConnectorRecord("c", {"a": "b"})


@pytest.mark.parametrize(
    "record",
    [
        ConnectorRecord("c", None, author="anna"),
        TargetStateRecord("c", TargetState.PAUSED, author="anna"),
        RestartRecord("c", author="anna"),
        LoggerRecord("root", "INFO", author="anna"),
        UpgradeRecord("c", None, author="anna"),
    ],
    ids=lambda record: type(record).__name__,
)
def test_the_user_of_a_request_is_a_header(
    record: ConnectorRecord | TargetStateRecord | RestartRecord | LoggerRecord | UpgradeRecord,
) -> None:
    assert config_topic.encode(record).headers == [("author", b"anna")]
    assert config_topic.encode(replace(record, author=None)) == config_topic.encode(record)._replace(headers=[])


def test_the_user_of_a_restart_or_reset_is_a_header_of_the_status() -> None:
    status = TaskStatus("c", 0, State.RESTARTING, "h:1", claim=CLAIM, author="anna")
    assert status_topic.encode(status).headers == [("claim", b"qxMbM7u3Q5W:42"), ("author", b"anna")]
    assert status_topic.decode(*status_topic.encode(status)) == status
    assert status_topic.encode(TopicReset("t", "c", author="anna")).headers == [("author", b"anna")]


def test_a_tasks_distance_from_its_end_is_in_its_entry_where_it_is_known() -> None:
    for distance in (None, Distance(17, "bytes")):
        entry = BatchRecord(ConnectorTaskId("c", 0), "run", CLAIM, ConnectorType.SOURCE, 1, 2, distance=distance)
        wire = batch_topic.encode(entry)
        assert (b'"distance":[17,"bytes"]' in (wire.value or b"")) is (distance is not None)
        assert batch_topic.decode(*wire) == entry


@pytest.mark.parametrize(("kind", "key"), [(NoteKind.MISSING, b"note-c"), (NoteKind.LONG_CALL, b"long-call-c")])
def test_a_note_is_a_record_of_ours(kind: NoteKind, key: bytes) -> None:
    for record, value in ((NoteRecord("c", "no file", kind), b'{"note":"no file"}'), (NoteRecord("c", None, kind), None)):
        wire = config_topic.encode(record)
        assert wire == WireRecord(key, value, [])
        assert config_topic.decode(*wire) == record
    assert isinstance(config_topic.decode(key, b'{"note":1}'), Unreadable)
    long = config_topic.decode(key, b'{"note":"' + b"x" * 900_000 + b'"}')
    assert isinstance(long, NoteRecord)
    assert len(long.note or "") == 1_001


def test_a_tasks_failures_in_a_row_are_a_header_and_none_where_there_are_none() -> None:
    status = TaskStatus("c", 0, State.FAILED, "h:1", "boom", 0, "1.2", CLAIM, failures=12)
    wire = status_topic.encode(status)
    assert wire.headers == [("claim", b"qxMbM7u3Q5W:42"), ("failures", b"12")]
    assert status_topic.decode(*wire) == status
    assert status_topic.encode(TaskStatus("c", 0, State.RUNNING, claim=CLAIM)).headers == [("claim", b"qxMbM7u3Q5W:42")]
    for header in (b"", b"-1", b"x", b"9" * 4301, None):
        found = status_topic.decode(wire.key, wire.value, [("failures", header)])
        assert isinstance(found, TaskStatus)
        assert found.failures == 0


def test_other_headers_and_none_mean_nothing() -> None:
    expected = TargetStateRecord("c", TargetState.PAUSED)
    assert config_topic.decode(b"target-state-c", b'{"state":"PAUSED"}', [("x", b"y")]) == expected
    assert config_topic.decode(b"target-state-c", b'{"state":"PAUSED"}', None) == expected


@pytest.mark.parametrize(
    ("value", "state"),
    [
        (b'{"state":"PAUSED"}', TargetState.PAUSED),  # a worker before STOPPED existed
        (b'{"state":"PAUSED","state.v2":"STOPPED"}', TargetState.STOPPED),
        (b'{"state":"STARTED","state.v2":"PAUSED"}', TargetState.PAUSED),  # contradictory: the newer field counts
        (b'{"state":"STARTED","state.v2":null}', TargetState.STARTED),
        (b'{"state":"STARTED","state.v2":5}', TargetState.STARTED),
        (b'{"state.v2":"STOPPED"}', TargetState.STOPPED),
        (b'{"state":"STOPPED"}', TargetState.STOPPED),
    ],
)
def test_target_state_is_read_from_the_newer_field_if_it_is_text(value: bytes, state: TargetState) -> None:
    assert config_topic.decode(b"target-state-c", value) == TargetStateRecord("c", state)


@pytest.mark.parametrize(
    ("key", "connector"), [(b"task-a-b-0-7", "a-b-0"), (b"task-a--7", "a-"), ("task-ü / x-7".encode(), "ü / x"), (b"task-task--7", "task-")]
)
def test_name_of_a_connector_may_hold_anything_and_hyphens(key: bytes, connector: str) -> None:
    assert config_topic.decode(key, b'{"properties":{}}') == TaskRecord(ConnectorTaskId(connector, 7), {})


@pytest.mark.parametrize("flags", [b"{}", b'{"include-tasks":"true","only-failed":1}', b'{"include-tasks":null}'])
def test_restart_flags_that_are_no_booleans_are_false(flags: bytes) -> None:
    assert config_topic.decode(b"restart-connector-c", flags) == RestartRecord("c")


def test_property_that_is_null_is_not_set() -> None:
    assert config_topic.decode(b"connector-c", b'{"properties":{"a":null,"b":"x"}}') == ConnectorRecord("c", {"b": "x"})


def test_session_key_is_not_shown() -> None:
    assert "c2VjcmV0" not in repr(SessionKeyRecord("c2VjcmV0", "HmacSHA256", 1))


def test_status_of_ours_has_the_workers_bytes_and_the_claim_in_its_header() -> None:
    wire = status_topic.encode(TaskStatus("c", 0, State.FAILED, "h:1", "boom\n\tat x", 0, "1.2", CLAIM))
    assert wire == WireRecord(
        b"status-task-c-0",
        b'{"state":"FAILED","trace":"boom\\n\\tat x","worker_id":"h:1","generation":0,"version":"1.2"}',
        [("claim", b"qxMbM7u3Q5W:42")],
    )
    assert status_topic.decode(*wire) == TaskStatus("c", 0, State.FAILED, "h:1", "boom\n\tat x", 0, "1.2", CLAIM)


def test_status_without_a_version_is_read() -> None:
    value = b'{"state":"RUNNING","trace":null,"worker_id":"h:1","generation":3}'
    assert status_topic.decode(b"status-connector-c", value) == ConnectorStatus("c", State.RUNNING, "h:1", None, 3)


def test_tombstones_of_ours_carry_the_claim_too() -> None:
    assert status_topic.encode(ConnectorStatus("c", State.DESTROYED, claim=CLAIM)) == WireRecord(
        b"status-connector-c", None, [("claim", b"qxMbM7u3Q5W:42")]
    )
    assert status_topic.encode(TopicReset("t", "c")) == WireRecord(b"status-topic-t:connector-c", None, [])


def test_topic_record_of_the_kip_draft_is_read_and_the_released_one_written() -> None:
    draft = b'{"topic":{"name":"t","connector":"c","task":1,"timestamp":5}}'
    decoded = status_topic.decode(b"topic-t:connector-c", draft)
    assert decoded == TopicStatus("t", "c", 1, 5)
    assert isinstance(decoded, TopicStatus)
    assert status_topic.encode(decoded)[:2] == (
        b"status-topic-t:connector-c",
        b'{"topic":{"name":"t","connector":"c","task":1,"discoverTimestamp":5}}',
    )
    assert status_topic.decode(b"topic-t:connector-c", None) == TopicReset("t", "c")


def test_topic_of_a_connector_whose_name_resembles_a_key_is_read() -> None:
    assert status_topic.decode(b"status-topic-t:connector-a:connector-b", None) == TopicReset("t", "a:connector-b")


def test_offset_key_keeps_the_order_of_the_partition() -> None:
    wire = offset_topic.encode("c", {"z": "1", "a": 2}, {"position": 3})
    assert wire == WireRecord(b'["c",{"z":"1","a":2}]', b'{"position":3}', [])
    assert offset_topic.decode(*wire[:2], offset=4) == OffsetRecord("c", {"z": "1", "a": 2}, {"position": 3}, wire.key)


@pytest.mark.parametrize(("partition", "offset"), [({"a": 1}, 5), ({"a": 1}, [5]), ("a", {"position": 3}), (None, {"position": 3})])
def test_what_is_no_mapping_is_not_written_as_an_offset(partition: Any, offset: Any) -> None:
    with pytest.raises(DataException, match="Source partitions and offsets must be mappings, got"):
        offset_topic.encode("c", partition, offset)


def test_batch_log_entry_has_ranges_and_every_position_known() -> None:
    task = ConnectorTaskId("c", 1)
    entry = BatchRecord(task, "r1", CLAIM, ConnectorType.SINK, 10, 1000, 1.5, 2, {"t": {0: (5, 15)}}, {"t": {0: 15, 3: 7}})
    wire = batch_topic.encode(entry)
    assert wire == WireRecord(
        b'["c",1]',
        b'{"run":"r1","claim":"qxMbM7u3Q5W:42","type":"sink","records":10,"bytes":1000,"seconds":1.5,"cpu_seconds":2.0,'
        b'"ranges":{"t":{"0":[5,15]}},"next":{"t":{"0":15,"3":7}}}',
        [],
    )
    assert batch_topic.decode(*wire) == entry


def test_entry_of_a_run_that_stays_has_its_state_and_datasets() -> None:
    datasets = (("file", "/a"), ("postgres://h:1", "shop.public.a"))
    entry = BatchRecord(ConnectorTaskId("c", 0), "r1", CLAIM, ConnectorType.SOURCE, 1, 2, stay=Stay.OVER, datasets=datasets)
    wire = batch_topic.encode(entry)
    assert wire.value is not None
    assert wire.value.endswith(b'"stay":"over","datasets":[["file","/a"],["postgres://h:1","shop.public.a"]]}')
    assert batch_topic.decode(*wire) == entry
    for wrong in (b'"datasets":["file"]', b'"datasets":7', b'"stay":"maybe"'):
        assert isinstance(batch_topic.decode(wire.key, wire.value[:-1] + b"," + wrong + b"}"), Unreadable)


def test_reset_of_the_batch_log_is_a_tombstone() -> None:
    task = ConnectorTaskId("c", 1)
    assert batch_topic.encode(BatchReset(task)) == WireRecord(b'["c",1]', None, [])
    assert batch_topic.decode(b'["c",1]', None) == BatchReset(task)
