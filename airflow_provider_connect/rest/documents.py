"""The shapes of answers and bodies, for the OpenAPI document alone: nothing is parsed or checked with them."""

from typing import Any

from pydantic import BaseModel, Field


class ErrorMessage(BaseModel):
    """Every error."""

    error_code: int
    message: str


class ServerInfo(BaseModel):
    version: str
    commit: str
    kafka_cluster_id: str


class WorkerStatus(BaseModel):
    status: str
    message: str


class TaskId(BaseModel):
    connector: str
    task: int


class ConnectorInfo(BaseModel):
    name: str
    config: dict[str, str]
    tasks: list[TaskId]
    type: str


class State(BaseModel):
    state: str
    worker_id: str
    version: str | None = None
    trace: str | None = None


class TaskState(State):
    id: int


class ConnectorState(BaseModel):
    name: str
    connector: State
    tasks: list[TaskState]
    type: str


class Expanded(BaseModel):
    status: ConnectorState | None = None
    info: ConnectorInfo | None = None


class TaskInfo(BaseModel):
    id: TaskId
    config: dict[str, str]


class TaskDetail(TaskInfo):
    status: TaskState | None


class Topics(BaseModel):
    topics: list[str]


class ConnectorOffset(BaseModel):
    partition: dict[str, Any]
    offset: dict[str, Any] | None


class ConnectorOffsets(BaseModel):
    offsets: list[ConnectorOffset]


class Message(BaseModel):
    message: str


class Plugin(BaseModel):
    class_: str = Field(alias="class")
    type: str
    version: str | None = None


class ConfigKey(BaseModel):
    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str
    group: str | None
    order_in_group: int
    width: str
    display_name: str
    dependents: list[str]


class ConfigValue(BaseModel):
    name: str
    value: str | None
    recommended_values: list[str]
    errors: list[str]
    visible: bool


class ValidatedConfig(BaseModel):
    definition: ConfigKey | None
    value: ConfigValue


class Validation(BaseModel):
    name: str
    error_count: int
    groups: list[str]
    configs: list[ValidatedConfig]


class LoggerLevel(BaseModel):
    level: str
    last_modified: int | None


class Worker(BaseModel):
    worker_id: str
    connector: str
    claim: str | None
    tasks: list[int]
    started: str | None


class PreviewedTask(BaseModel):
    task: int
    config: dict[str, str]
    records: int
    end: str
    partitions: list[dict[str, Any]]


class PreviewedTopic(BaseModel):
    topic: str
    records: int
    bytes: int
    key: dict[str, str]
    value: dict[str, str]
    digests: list[str]


class PreviewedRecord(BaseModel):
    task: int
    topic: str
    partition: int | None
    offset: int | None
    timestamp: int | None
    key: Any
    value: Any
    headers: list[dict[str, Any]]
    is_cut: bool


class Preview(BaseModel):
    connector: str
    type: str
    class_name: str
    versions: dict[str, str]
    read: int
    tasks: list[PreviewedTask]
    topics: list[PreviewedTopic]
    records: list[PreviewedRecord]
    offsets: dict[str, str]
    skipped: int
    failures: list[str]
    seconds: float


class Difference(BaseModel):
    subject: str
    change: str
    topic: str
    path: str
    old: str | None
    new: str | None


class Comparison(BaseModel):
    old_version: str
    new_version: str
    records: int
    equal_records: int
    differences: list[Difference]
    has_seen_enough: bool


class Upgrade(BaseModel):
    state: str
    to: str
    old: str
    new: str
    class_name: str
    named: str | None
    canary: int
    accepts_schema_change: bool
    reason: str
    comparison: Comparison | None
    claim: str | None
    passed: list[int]
    is_replanned: bool
    requested_ms: int
    changed_ms: int


_SETTING = {"type": ["string", "number", "boolean"]}
CONFIG = {"type": "object", "additionalProperties": _SETTING, "description": "Numbers and booleans become their text"}
CONFIG_PATCH = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
    "description": "Settings to put; null removes one",
}
NEW_CONNECTOR = {
    "type": "object",
    "required": ["name", "config"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string"},
        "config": CONFIG,
        "initial_state": {"type": ["string", "null"], "enum": ["RUNNING", "PAUSED", "STOPPED", None], "description": "In any case"},
    },
}
OFFSETS = {
    "type": "object",
    "required": ["offsets"],
    "additionalProperties": False,
    "properties": {
        "offsets": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {"partition": {"type": ["object", "null"]}, "offset": {"type": ["object", "null"]}},
            },
        }
    },
}
LOG_LEVEL = {
    "type": "object",
    "required": ["level"],
    "properties": {"level": {"type": "string", "enum": ["OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "ALL"]}},
}
TASK_CONFIGS = {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "string"}}}
PREVIEW = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "records": {"type": "integer", "minimum": 1, "maximum": 10000, "default": 10},
        "version": {"type": ["string", "null"], "description": "A version of its plugin or a range, in place of the config's own"},
        "config": {**CONFIG, "description": "A config to try in place of the connector's own"},
    },
}
_VERSION = {"type": "string", "description": "A version, exactly that one, or a range such as [2.0,3.0)"}
UPGRADE = {
    "type": "object",
    "required": ["to"],
    "additionalProperties": False,
    "properties": {
        "to": _VERSION,
        "canary": {"type": "integer", "minimum": 0, "maximum": 10000, "default": 100, "description": "Records to compare; 0: none"},
        "accept_schema_change": {"type": "boolean", "default": False, "description": "Other fields, types, topics are no hindrance"},
    },
}
COMPARISON = {
    "type": "object",
    "required": ["to"],
    "additionalProperties": False,
    "properties": {"to": _VERSION, "records": {"type": "integer", "minimum": 1, "maximum": 10000, "default": 100}},
}
