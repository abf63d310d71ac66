"""The config topic: config records ↔ the bytes that Kafka Connect writes and reads (contract §2.3)."""

from collections.abc import Callable, Mapping
from functools import partial

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.runtime.model.config_limits import LONGEST_NOTE, cut
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.records import (
    CommitRecord,
    ConfigRecord,
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
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.model.upgrades import Upgrade
from airflow_provider_connect.runtime.wire.compact_json import JsonValue, dumps, loads
from airflow_provider_connect.runtime.wire.record import (
    Headers,
    WireRecord,
    author_headers,
    author_of,
    claim_headers,
    claim_of,
    count_of,
    integer_of,
    key_in_message,
    key_text,
    map_of,
    optional_text_of,
    owner_headers,
    owner_of,
    successor_headers,
    successor_of,
    text_of,
)

_SESSION_KEY = "session-key"
_OF_USERS = (ConnectorRecord, TargetStateRecord, RestartRecord, LoggerRecord, UpgradeRecord)


def encode(record: ConfigRecord) -> WireRecord:
    """The bytes of a record. The claim, owner and successor of a FencingRecord and the author of a user's request are headers."""
    key, value = _key_and_value(record)
    headers = []
    if isinstance(record, FencingRecord):
        headers = [*claim_headers(record.claim), *owner_headers(record.owner), *successor_headers(record.successor)]
    headers += author_headers(record.author) if isinstance(record, _OF_USERS) else []
    return WireRecord(key.encode(), None if value is None else dumps(value), headers)


def _key_and_value(record: ConfigRecord) -> tuple[str, Mapping[str, object] | None]:
    match record:
        case ConnectorRecord():
            return f"connector-{record.connector}", _properties(record.config)
        case TargetStateRecord():
            return f"target-state-{record.connector}", _target_state(record.state)
        case TaskRecord():
            return f"task-{record.task}", _properties(record.config)
        case CommitRecord():
            return f"commit-{record.connector}", {"tasks": record.tasks}
        case FencingRecord():
            return f"tasks-fencing-{record.connector}", {"task-count": record.count}
        case _:
            return _other_key_and_value(record)


def _other_key_and_value(
    record: RestartRecord | SessionKeyRecord | LoggerRecord | UpgradeRecord | NoteRecord,
) -> tuple[str, Mapping[str, object] | None]:
    """The key and value of other records: requests to running workers, and records of ours."""
    match record:
        case NoteRecord():
            return f"{record.kind}-{record.connector}", None if record.note is None else {"note": record.note}
        case UpgradeRecord():
            return f"upgrade-{record.connector}", None if record.upgrade is None else record.upgrade.to_json()
        case RestartRecord():
            return f"restart-connector-{record.connector}", {"include-tasks": record.include_tasks, "only-failed": record.only_failed}
        case SessionKeyRecord():
            created = record.creation_timestamp
            return _SESSION_KEY, {"key": record.key, "algorithm": record.algorithm, "creation-timestamp": created}
        case LoggerRecord():
            return f"logger-cluster-{record.logger}", {"level": record.level}


def _properties(config: Mapping[str, str] | None) -> Mapping[str, object] | None:
    return None if config is None else {"properties": config}


def _target_state(state: TargetState | None) -> Mapping[str, object] | None:
    """Workers that do not know STOPPED read ``state``. Newer workers read ``state.v2``."""
    if state is None:
        return None
    return {"state": "PAUSED" if state is TargetState.STOPPED else str(state), "state.v2": str(state)}


def decode(key: bytes | None, value: bytes | None, headers: Headers | None = (), *, offset: int = -1) -> ConfigRecord | Unreadable:
    """The record's content, or the reason why it cannot be read. Never raises."""
    try:
        name = key_text(key)
        for prefix, read in _READERS:
            if name.startswith(prefix):
                subject = name.removeprefix(prefix)
                if not subject:
                    raise DataException(f"key {name} names nothing")
                return read(subject, None if value is None else loads(value), headers, offset)
        if name == _SESSION_KEY:
            return _read_session_key(None if value is None else loads(value), offset)
        return Unreadable(f"unknown key {name}", key, offset)
    except DataException as error:
        return Unreadable(f"{key_in_message(key)}: {error}", key, offset)


def _read_connector(subject: str, value: JsonValue, headers: Headers | None, offset: int) -> ConfigRecord:
    return ConnectorRecord(subject, None if value is None else _text_map(value), offset, author_of(headers))


def _read_task(subject: str, value: JsonValue, _: Headers | None, offset: int) -> ConfigRecord:
    task = ConnectorTaskId.parse(subject)
    if task is None:
        raise DataException("key names no task")
    return TaskRecord(task, None if value is None else _text_map(value), offset)


def _text_map(value: JsonValue) -> dict[str, str]:
    """Leaves out a key whose value is null. Real workers accept such a key, and fail on it later. We treat it as not set."""
    properties = map_of(map_of(value, "value").get("properties"), "properties")
    texts = {name: optional_text_of(text, f"property {name!r}") for name, text in properties.items()}
    return {name: text for name, text in texts.items() if text is not None}


def _read_target_state(subject: str, value: JsonValue, _: Headers | None, offset: int) -> ConfigRecord:
    if value is None:
        return TargetStateRecord(subject, None, offset)
    values = map_of(value, "value")
    newer = values.get("state.v2")
    text = newer if isinstance(newer, str) else values.get("state")
    if not isinstance(text, str) or text not in TargetState.__members__:
        raise DataException(f"target state must be one of {', '.join(TargetState)}, is {text!r}")
    return TargetStateRecord(subject, TargetState(text), offset)


def _read_commit(subject: str, value: JsonValue, _: Headers | None, offset: int) -> ConfigRecord:
    return CommitRecord(subject, count_of(map_of(value, "value").get("tasks"), "tasks"), offset)


def _read_restart(subject: str, value: JsonValue, _: Headers | None, offset: int) -> ConfigRecord:
    values = map_of(value, "value")
    return RestartRecord(subject, values.get("include-tasks") is True, values.get("only-failed") is True, offset)


def _read_fencing(subject: str, value: JsonValue, headers: Headers | None, offset: int) -> ConfigRecord:
    count = count_of(map_of(value, "value").get("task-count"), "task-count")
    return FencingRecord(subject, count, claim_of(headers), offset, owner_of(headers), successor_of(headers))


def _read_session_key(value: JsonValue, offset: int) -> ConfigRecord:
    values = map_of(value, "value")
    key, algorithm = (text_of(values.get(name), name) for name in ("key", "algorithm"))
    return SessionKeyRecord(key, algorithm, integer_of(values.get("creation-timestamp"), "creation-timestamp"), offset)


def _read_upgrade(subject: str, value: JsonValue, _: Headers | None, offset: int) -> ConfigRecord:
    try:
        return UpgradeRecord(subject, None if value is None else Upgrade.of_json(map_of(value, "value")), offset)
    except (KeyError, TypeError, ValueError) as error:
        raise DataException(f"value is not an upgrade: {error}") from error


def _read_note(kind: NoteKind, subject: str, value: JsonValue, _: Headers | None, offset: int) -> ConfigRecord:
    note = None if value is None else cut(text_of(map_of(value, "value").get("note"), "note"), LONGEST_NOTE)
    return NoteRecord(subject, note, kind, offset)


def _read_logger(subject: str, value: JsonValue, _: Headers | None, offset: int) -> ConfigRecord:
    return LoggerRecord(subject, text_of(map_of(value, "value").get("level"), "level"), offset)


_READERS: tuple[tuple[str, Callable[[str, JsonValue, Headers | None, int], ConfigRecord]], ...] = (
    ("target-state-", _read_target_state),
    ("connector-", _read_connector),
    ("task-", _read_task),
    ("commit-", _read_commit),
    ("restart-connector-", _read_restart),
    ("tasks-fencing-", _read_fencing),
    ("logger-cluster-", _read_logger),
    ("upgrade-", _read_upgrade),
    *((f"{kind}-", partial(_read_note, kind)) for kind in NoteKind),
)
