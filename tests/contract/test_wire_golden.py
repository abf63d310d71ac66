"""Every record that a real Kafka Connect 4.3.1 wrote: read, written again to the same bytes, in the same partition, and folded."""

import base64
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_provider_connect.data.java_text import in_hash_order
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.runtime.model.cluster_state import ConfigLog
from airflow_provider_connect.runtime.model.ids import partition_for
from airflow_provider_connect.runtime.model.offsets import OffsetRecord, normalised
from airflow_provider_connect.runtime.model.records import Unreadable
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import StatusState, TaskStatus
from airflow_provider_connect.runtime.wire import config_topic, offset_topic, status_topic
from airflow_provider_connect.runtime.wire.compact_json import JsonValue, dumps, loads
from airflow_provider_connect.runtime.wire.record import WireRecord

GOLDEN = Path(__file__).parent / "golden"
PARTITIONS = {"config": 1, "offsets": 25, "status": 5}


@dataclass(frozen=True)
class Recorded:
    """One recorded record."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes
    value: bytes | None


def recorded(path: Path) -> Iterator[Recorded]:
    for line in path.read_text().splitlines():
        row = json.loads(line)
        value = None if row["value"] is None else row["value"].encode()
        yield Recorded(path.suffixes[-2][1:], row["partition"], row["offset"], row["timestamp"], row["key"].encode(), value)


FILES = sorted((GOLDEN / "topics").glob("*/*.jsonl"))
RECORDS = [record for path in FILES for record in recorded(path)]


def written_again(record: Recorded) -> WireRecord:
    """The record decoded and encoded."""
    match record.topic:
        case "config":
            config = config_topic.decode(record.key, record.value, (), offset=record.offset)
            assert not isinstance(config, Unreadable), config
            return config_topic.encode(config)
        case "status":
            status = status_topic.decode(record.key, record.value, (), offset=record.offset)
            assert not isinstance(status, Unreadable), status
            return status_topic.encode(status)
        case _:
            offset = offset_topic.decode(record.key, record.value, (), offset=record.offset)
            assert isinstance(offset, OffsetRecord), offset
            return offset_topic.encode(offset.connector, offset.partition, offset.offset)


def test_every_record_is_read_and_written_again_to_the_same_bytes() -> None:
    counts: Counter[str] = Counter()
    for record in RECORDS:
        assert written_again(record) == WireRecord(record.key, record.value, []), record
        counts[record.topic] += 1
    print(f"golden records, byte for byte: {dict(counts)}, {sum(counts.values())} in all")
    assert counts == {"config": 200, "offsets": 29, "status": 358}


def test_every_record_lies_in_the_partition_of_its_key() -> None:
    counts: Counter[str] = Counter()
    for record in RECORDS:
        assert partition_for(record.key, PARTITIONS[record.topic]) == record.partition, record
        counts[f"{record.topic} of {PARTITIONS[record.topic]}"] += 1
    print(f"golden records, partition by murmur2: {dict(counts)}")
    assert {record.partition for record in RECORDS if record.topic == "status"} == set(range(5))


def test_key_of_a_source_partition_is_as_a_real_worker_writes_it_after_a_change_of_offsets() -> None:
    for record in RECORDS:
        if record.topic == "offsets":
            decoded = offset_topic.decode(record.key, record.value)
            assert isinstance(decoded, OffsetRecord)
            assert offset_topic.key_bytes(decoded.connector, normalised(decoded.partition)) == record.key


@pytest.mark.parametrize("path", [path for path in FILES if ".config." in path.name], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_config_records_of_a_scenario_fold_without_a_skip_and_end_with_nothing_left(path: Path) -> None:
    log = ConfigLog("topic")
    for record in recorded(path):
        assert log.apply(config_topic.decode(record.key, record.value, (), offset=record.offset)) == "", record
        assert not log.state.inconsistent
    assert log.state.connector_configs == {}
    assert log.state.task_configs == {}
    assert log.state.target_states == {}
    assert log.skipped == 0


@pytest.mark.parametrize("path", [path for path in FILES if ".status." in path.name], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_status_records_of_a_scenario_fold_to_nothing_once_its_connectors_are_deleted(path: Path) -> None:
    statuses, late = StatusState(), 0
    for record in recorded(path):
        reason = statuses.apply(status_topic.decode(record.key, record.value, (), offset=record.offset, timestamp=record.timestamp))
        assert reason == "" or reason.startswith("late UNASSIGNED"), record
        late += bool(reason)
    assert statuses.connectors == {}
    assert statuses.tasks == {}
    assert statuses.topics == {}
    assert statuses.skipped == late


def test_offsets_scenario_passes_through_the_states_that_its_requests_asked_for() -> None:
    log, seen = ConfigLog("topic"), []
    for record in recorded(GOLDEN / "topics" / "default" / "source-offsets.config.jsonl"):
        log.apply(config_topic.decode(record.key, record.value, (), offset=record.offset))
        seen.append((log.state.target_state("off-g431"), log.state.tasks("off-g431")))
    assert (TargetState.PAUSED, [0]) in seen
    assert (TargetState.STOPPED, []) in seen
    assert seen[-1] == (None, [])


def test_exactly_once_scenario_makes_each_fencing_record_a_newer_claim() -> None:
    log, claims = ConfigLog("topic"), []
    for record in recorded(GOLDEN / "topics" / "eos" / "eos-source.config.jsonl"):
        log.apply(config_topic.decode(record.key, record.value, (), offset=record.offset))
        claims.append(log.state.claims.get("eos-g431"))
    offsets = [claim.offset for claim in claims if claim is not None]
    assert sorted(set(offsets)) == [8, 13, 20, 25]
    assert offsets == sorted(offsets)


def test_failed_task_is_read_with_its_trace_and_runs_again_after_the_restart() -> None:
    seen = []
    for record in recorded(GOLDEN / "topics" / "default" / "task-failure.status.jsonl"):
        status = status_topic.decode(record.key, record.value)
        if isinstance(status, TaskStatus):
            seen.append((status.state, status.trace is not None))
    failed, restarting = seen.index((State.FAILED, True)), seen.index((State.RESTARTING, False))
    assert failed < restarting < len(seen) - seen[::-1].index((State.RUNNING, False))


def _bytes(value: object) -> bytes:
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else str(value).encode()


def _in_java_order(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return in_hash_order((name, _in_java_order(member)) for name, member in value.items())
    return [_in_java_order(member) for member in value] if isinstance(value, list) else value


def _text_written(read: bytes) -> str | None:
    try:
        value = loads(read)
    except DataException:
        return None
    return "" if value is None else dumps(_in_java_order(value)).decode()


# Read here and refused by Jackson, or the reverse: rubbish behind a number at the top, where no record of ours has one, bytes
# that are no UTF-8 behind the value, and the sign of zero.
TOLERATED = {b"5.", b"1.", b"1.5e", b"0x10", b"1_000", b"1\xc2\xa0", b'{"a":1}\xff', b"-0.0"}


def test_json_is_read_and_written_as_the_json_converter_does() -> None:
    counts: Counter[str] = Counter()
    for line in (GOLDEN / "json_converter.jsonl").read_text().splitlines():
        row = json.loads(line)
        read = _bytes(row["read"])
        ours = _text_written(read)
        if read in TOLERATED or ours == row["written"]:
            counts["tolerated" if read in TOLERATED else "refused by both" if ours is None else "equal"] += 1
        elif ours is not None and ours.startswith("["):
            raise AssertionError((read, ours, row["written"]))
        elif len(read) >= 900:
            counts["beyond our limits"] += 1
        else:
            assert ours is not None, row
            assert float(ours) == float(row["written"]), row
            counts["same number, one digit less"] += 1
    print(f"json_converter.jsonl: {dict(counts)}")
    assert counts["equal"] > 500
    assert counts["same number, one digit less"] < 5
