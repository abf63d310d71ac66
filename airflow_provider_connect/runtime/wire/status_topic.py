"""The status topic: statuses of connectors, tasks and topics ↔ the bytes that Kafka Connect writes and reads (contract §2.8)."""

import dataclasses
from collections.abc import Callable, Mapping

from airflow_provider_connect.errors import DataException, shorten
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.records import Unreadable
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import ConnectorStatus, StatusRecord, TaskStatus, TopicReset, TopicStatus
from airflow_provider_connect.runtime.wire.compact_json import JsonValue, dumps, loads
from airflow_provider_connect.runtime.wire.record import (
    Headers,
    WireRecord,
    author_headers,
    claim_headers,
    claim_of,
    integer_of,
    key_in_message,
    key_text,
    map_of,
    optional_text_of,
)

FAILURES_HEADER = "failures"
_DIGITS = 10


def encode(record: StatusRecord) -> WireRecord:
    """The bytes of a status. State DESTROYED and a TopicReset are tombstones. The claim and the author, if known, are headers."""
    match record:
        case ConnectorStatus():
            key, value = f"status-connector-{record.connector}", _state(record)
        case TaskStatus():
            key, value = f"status-task-{record.id}", _state(record)
        case TopicStatus() | TopicReset():
            key, value = f"status-topic-{record.topic}:connector-{record.connector}", _topic(record)
    headers = claim_headers(record.claim)
    if not isinstance(record, TopicStatus):
        headers += author_headers(record.author)
    if isinstance(record, TaskStatus) and record.failures:
        headers.append((FAILURES_HEADER, str(record.failures).encode()))
    return WireRecord(key.encode(), None if value is None else dumps(value), headers)


def concerns(key: bytes | None, connector: str) -> bool:
    """Whether a record with this key may belong to the connector. Never false for a record of the connector. Seldom true for any other
    record."""
    name = connector.encode()
    return key is not None and (
        key.startswith((b"status-connector-" + name, b"status-task-" + name)) or key.endswith(b":connector-" + name)
    )


def _state(status: ConnectorStatus | TaskStatus) -> Mapping[str, object] | None:
    if status.state is State.DESTROYED:
        return None
    return {
        "state": str(status.state),
        "trace": None if status.trace is None else shorten(status.trace),
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
    }


def _topic(status: TopicStatus | TopicReset) -> Mapping[str, object] | None:
    if isinstance(status, TopicReset):
        return None
    names = {"name": status.topic, "connector": status.connector}
    return {"topic": {**names, "task": status.task, "discoverTimestamp": status.discover_timestamp}}


def decode(
    key: bytes | None, value: bytes | None, headers: Headers | None = (), *, offset: int = -1, timestamp: int = -1
) -> StatusRecord | Unreadable:
    """The record's content, or the reason why it cannot be read. Never raises. ``timestamp`` is the record's timestamp, in ms."""
    try:
        name, claim = key_text(key), claim_of(headers)
        for prefix, read in _READERS:
            if name.startswith(prefix):
                found = read(name.removeprefix(prefix), None if value is None else loads(value), claim)
                found = dataclasses.replace(found, offset=offset, timestamp=timestamp)
                return dataclasses.replace(found, failures=_failures(headers)) if isinstance(found, TaskStatus) else found
        return Unreadable(f"unknown key {name}", key, offset)
    except DataException as error:
        return Unreadable(f"{key_in_message(key)}: {error}", key, offset)


def _failures(headers: Headers | None) -> int:
    """The number of failures in the header. 0 if the header is missing, as in a real worker's status, or is not a number."""
    values = [value or b"" for name, value in headers or () if name == FAILURES_HEADER]
    return int(values[-1]) if values and values[-1].isdigit() and len(values[-1]) < _DIGITS else 0


def _read_connector(subject: str, value: JsonValue, claim: Claim | None) -> StatusRecord:
    if not subject:
        raise DataException("key names no connector")
    state, worker_id, trace, generation, version = _read_state(value)
    return ConnectorStatus(subject, state, worker_id, trace, generation, version, claim)


def _read_task(subject: str, value: JsonValue, claim: Claim | None) -> StatusRecord:
    task = ConnectorTaskId.parse(subject)
    if task is None:
        raise DataException("key names no task")
    state, worker_id, trace, generation, version = _read_state(value)
    return TaskStatus(task.connector, task.task, state, worker_id, trace, generation, version, claim)


def _read_state(value: JsonValue) -> tuple[State, str, str | None, int, str | None]:
    """State, worker id, trace, generation, version. Workers before 4.1 write no version."""
    if value is None:
        return State.DESTROYED, "", None, 0, None
    fields = map_of(value, "value")
    state = fields.get("state")
    if not isinstance(state, str) or state not in State.__members__:
        raise DataException(f"state must be one of {', '.join(State)}, is {state!r}")
    worker_id, trace, version = (optional_text_of(fields.get(name), name) for name in ("worker_id", "trace", "version"))
    return State(state), worker_id or "", trace, integer_of(fields.get("generation"), "generation"), version


def _read_topic(subject: str, value: JsonValue, claim: Claim | None) -> StatusRecord:
    """Also reads the format of KIP-558's draft: a key without ``status-``, and field ``timestamp``."""
    topic, colon, rest = subject.partition(":")
    connector = rest.removeprefix("connector-")
    if not (topic and colon and connector and rest.startswith("connector-")):
        raise DataException("key must be «topic»:connector-«connector»")
    if value is None:
        return TopicReset(topic, connector, claim)
    fields = map_of(map_of(value, "value").get("topic"), "topic")
    if (fields.get("name"), fields.get("connector")) != (topic, connector):
        raise DataException(f"value is of topic {fields.get('name')!r} and connector {fields.get('connector')!r}")
    discovered = integer_of(fields.get("discoverTimestamp", fields.get("timestamp")), "discoverTimestamp")
    return TopicStatus(topic, connector, integer_of(fields.get("task"), "task"), discovered, claim)


_READERS: tuple[tuple[str, Callable[[str, JsonValue, Claim | None], StatusRecord]], ...] = (
    ("status-connector-", _read_connector),
    ("status-task-", _read_task),
    ("status-topic-", _read_topic),
    ("topic-", _read_topic),
)
