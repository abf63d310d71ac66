"""Reads the bodies of requests, within limits. Accepts every body that Kafka Connect accepts. Sends a clear 400 where Kafka Connect sends a
500.

``receive`` runs in the event loop and only collects bytes. All other functions are called from worker threads, because parsing a megabyte
would block the event loop for too long.
"""

import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

import anyio
from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema, field_validator
from starlette.requests import ClientDisconnect, Request

from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.rest.answers import HttpException
from airflow_provider_connect.rest.documents import CONFIG
from airflow_provider_connect.runtime.model.backfill import MOST_RANGES
from airflow_provider_connect.runtime.model.backfill_request import AskedRange, BackfillRequest, time_id
from airflow_provider_connect.runtime.model.config_limits import refuse_many_aliases
from airflow_provider_connect.runtime.model.states import INITIAL_STATES, TargetState
from airflow_provider_connect.runtime.model.views import OffsetView

MOST_BYTES = 1024 * 1024
MOST_LEVELS = 32
LONGEST_SETTING = 256 * 1024
"""The longest value of a setting, in characters. The PEM certificates of all public authorities have about 220,000."""

Config = dict[str, str | None]
_Version = Annotated[str, Field(min_length=1, description="A version, exactly that one, or a range such as [2.0,3.0)")]

_HALF_PAIR = re.compile("[\ud800-\udfff]")
_MOST_DIGITS = 1000
_MOST_ID = 2**53
_MOST_LENGTH_DIGITS = 20
_TYPES = frozenset({"str", "int", "constrained-int"})
_KINDS = {dict: "an object", list: "an array", bool: "true or false", type(None): "null", str: "text"}


@dataclass(frozen=True, slots=True)
class Body:
    """The bytes of a body and the Content-Type that the client declared."""

    data: bytes
    content_type: str | None


async def receive(request: Request, *, seconds: float) -> Body:
    """Raises HttpException: 413 as soon as the body is known to be too long, 408 if it does not arrive within ``seconds``."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and len(declared) < _MOST_LENGTH_DIGITS and int(declared) > MOST_BYTES:
        raise _too_long()
    data = bytearray()
    try:
        with anyio.fail_after(seconds):
            async for chunk in request.stream():
                data += chunk
                if len(data) > MOST_BYTES:
                    raise _too_long()
    except TimeoutError:
        raise HttpException(408, f"The body has not arrived within {seconds:.0f} s", headers={"Connection": "close"}) from None
    except ClientDisconnect:
        raise HttpException(400, "The body ended before its end") from None
    return Body(bytes(data), request.headers.get("content-type"))


def _too_long() -> HttpException:
    return HttpException(413, f"The body is longer than {MOST_BYTES} bytes", headers={"Connection": "close"})


class NumberText(str):
    """A number of the body as written: ``1.50`` stays ``1.50`` in a config."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class NewConnector:
    """The body of ``POST /connectors``."""

    name: str
    config: Config
    initial_state: TargetState | None


def new_connector(body: Body) -> NewConnector:
    """Parse the body. Raises BadRequestException for fields that are unknown, missing or of the wrong kind."""
    fields = _object(_value(body, numbers_as_text=True), "The body", 'such as {"name": "…", "config": {…}}')
    _refuse_unknown(fields, ("name", "config", "initial_state"), "The body")
    name = fields.get("name")
    if name is not None and not isinstance(name, str | bool):
        raise BadRequestException(f"'name' must be text, not {_kind(name)}")
    if fields.get("config") is None:
        raise BadRequestException("'config' is missing: give an object with the connector's settings")
    return NewConnector(
        name="" if name is None else _text(name).strip("".join(map(chr, range(33)))),
        config=settings(_object(fields["config"], "'config'", "with the connector's settings")),
        initial_state=_initial_state(fields.get("initial_state")),
    )


def _initial_state(value: object) -> TargetState | None:
    if value is None:
        return None
    state = INITIAL_STATES.get(value.upper()) if isinstance(value, str) else None
    if state is None:
        raise BadRequestException(f"'initial_state' must be one of RUNNING, PAUSED and STOPPED, not {_shown(value)}")
    return state


def config(body: Body) -> Config:
    """A flat object of settings. Numbers and booleans become text; null stays null. Raises BadRequestException."""
    return settings(_object(_value(body, numbers_as_text=True), "The body", "with the connector's settings"))


def config_patch(body: Body) -> Config | None:
    """Like ``config``. None: the body is empty or null. Kafka Connect refuses such a body only after it has found the connector."""
    value = _value(body, numbers_as_text=True)
    return None if value is None else settings(_object(value, "The body", "with the settings to change"))


def settings(fields: Mapping[str, Any]) -> Config:
    """Settings as text. Raises BadRequestException. Raises ConfigException for too many aliases, because each alias calls a plugin."""
    given = {key: _setting(key, value) for key, value in fields.items()}
    refuse_many_aliases(given)
    return given


def _setting(key: str, value: object) -> str | None:
    if isinstance(value, dict | list):
        raise BadRequestException(f"The value of setting '{key}' must be text, a number, true or false, not {_kind(value)}")
    if isinstance(value, str) and len(value) > LONGEST_SETTING:
        fix = "keep it in a file and write a variable such as ${file:/path:key}"
        raise BadRequestException(f"The value of setting '{key}' has {len(value)} characters, and the limit is {LONGEST_SETTING}: {fix}")
    return None if value is None else _text(value)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def offsets(body: Body) -> list[OffsetView]:
    """``{"offsets": [{"partition": {…}, "offset": {…}}]}``; a missing partition or offset is None. The herder checks for None.

    Raises BadRequestException.
    """
    fields = _object(_value(body), "The body", 'such as {"offsets": [{"partition": {…}, "offset": {…}}]}')
    _refuse_unknown(fields, ("offsets",), "The body")
    entries = fields.get("offsets")
    if entries is not None and not isinstance(entries, list):
        raise BadRequestException(f"'offsets' must be an array, not {_kind(entries)}")
    if not entries:
        raise BadRequestException("Partitions / offsets need to be provided for an alter offsets request")
    return [_offset(entry) for entry in entries]


def _offset(entry: object) -> OffsetView:
    fields = _object(entry, "Each of 'offsets'", "with 'partition' and 'offset'")
    _refuse_unknown(fields, ("partition", "offset"), "Each of 'offsets'")
    parts = {name: fields.get(name) for name in ("partition", "offset")}
    for name, value in parts.items():
        if value is not None and not isinstance(value, dict):
            raise BadRequestException(f"'{name}' must be an object or null, not {_kind(value)}")
    return OffsetView(**parts)  # the herder refuses a missing partition


class JsonBody(BaseModel):
    """The body of one of our own routes. A missing body is read as an empty object."""

    model_config = ConfigDict(strict=True, extra="forbid")

    @classmethod
    def of(cls, body: Body) -> Self:
        """Raises BadRequestException."""
        value, known = _value(body), tuple(cls.model_fields)
        fields = {} if value is None else _object(value, "The body", f"of {', '.join(known)}")
        _refuse_unknown(fields, known, "The body")
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            first, *others = error.errors(include_url=False, include_input=False)
            name, texts = _field(first["loc"]), [first["msg"]]
            texts += [other["msg"] for other in others if len(other["loc"]) > 1 and _field(other["loc"]) == name]
            if first["type"] == "missing" and cls is RollbackBody:
                raise BadRequestException(f"'{name}' is missing: give the number of a revision") from None
            if first["type"] in ("missing", "string_too_short"):
                raise BadRequestException(f"'{name}' is missing: give a version or a range such as [2.0,3.0)") from None
            raise BadRequestException(f"'{name}': {', or '.join(texts)}") from None


def _field(location: Iterable[int | str]) -> str:
    """The name of the invalid field. If a field may have several types, pydantic appends the type that it tried."""
    return ".".join(str(part) for part in location if part not in _TYPES)


class PreviewBody(JsonBody):
    """The body of ``POST /connectors/«c»/preview``. Without ``config``, the connector's own config is used."""

    records: int = Field(10, ge=1, le=10_000)
    version: str | None = Field(None, description="A version of its plugin or a range, in place of the config's own")
    config: Annotated[dict[str, Any] | None, WithJsonSchema({**CONFIG, "description": "Used in place of the connector's own"})] = None

    @field_validator("config")
    @classmethod
    def _with_texts(cls, config: dict[str, Any] | None) -> Config | None:
        """Convert numbers to text."""
        if config is None:
            return None
        return settings({key: json.dumps(value) if type(value) in (int, float) else value for key, value in config.items()})


class UpgradeBody(JsonBody):
    """The body of ``PUT /connectors/«c»/upgrade``."""

    to: _Version
    canary: int = Field(100, ge=0, le=10_000, description="Number of records to compare; 0: none")
    accept_schema_change: bool = Field(False, description="Continue if fields, types or topics differ")


class RollbackBody(JsonBody):
    """The body of ``POST /connectors/«c»/config/rollback``."""

    revision: int = Field(ge=1, le=_MOST_ID, description="The number of a revision, as GET …/config/history has it")


class UndoBody(JsonBody):
    """The body of ``POST /connectors/«c»/offsets/undo``: either ``to`` or ``entry``."""

    to: str | int | None = Field(None, description="An instant: ISO 8601 with a time zone, or milliseconds since 1970")
    entry: int | None = Field(None, ge=1, le=_MOST_ID, description="The number of a change: it and all later changes are undone")
    dry_run: bool = Field(False, description="Change nothing, and return what would change")


class _RangeBody(BaseModel):
    """One range of ``BackfillBody``."""

    model_config = ConfigDict(strict=True, extra="forbid")

    topic: str | None = Field(None, description="Optional if the sink reads only one topic")
    partition: int | None = Field(None, ge=0, le=_MOST_ID, description="Default: all partitions")
    first: Annotated[int, Field(ge=0, le=_MOST_ID)] | str | None = Field(
        None, alias="from", description="An offset, or an instant in ISO 8601 with a time zone; default: the beginning"
    )
    end: Annotated[int, Field(ge=0, le=_MOST_ID)] | str | None = Field(
        None, alias="to", description="As 'from', exclusive; default: the current end"
    )


class BackfillBody(JsonBody):
    """The body of ``POST /connectors/«c»/backfills``."""

    ranges: list[_RangeBody] = Field(
        default_factory=list, max_length=MOST_RANGES, description="For a sink; {} is its whole only topic. Not for a source"
    )
    config: Annotated[dict[str, Any], WithJsonSchema({**CONFIG, "description": "Settings that differ; null removes one"})] = {}
    id: str | None = Field(None, description="The end of its name, «connector».backfill.«id»; default: the time")
    dry_run: bool = Field(False, description="Create nothing, and return what would be delivered")

    @field_validator("config")
    @classmethod
    def _with_texts(cls, config: dict[str, Any]) -> Config:
        """Convert numbers to text."""
        return settings({key: json.dumps(value) if type(value) in (int, float) else value for key, value in config.items()})

    def request(self) -> BackfillRequest:
        """The request. Its default id is the current time."""
        ranges = [AskedRange(each.topic, each.partition, each.first, each.end) for each in self.ranges]
        return BackfillRequest(ranges, self.config, time_id(time.time()) if self.id is None else self.id)


class ComparisonBody(JsonBody):
    """The body of ``POST /connectors/«c»/upgrade/comparison``."""

    to: _Version
    records: int = Field(100, ge=1, le=10_000)


def log_level(body: Body) -> str:
    """The ``level`` of an object; other fields are ignored. Raises BadRequestException."""
    value = _value(body, numbers_as_text=True)
    level = settings(_object(value, "The body", 'such as {"level": "DEBUG"}')).get("level")
    if level is None:
        raise BadRequestException("Desired 'level' parameter was not specified in request.")
    return level


def _value(body: Body, *, numbers_as_text: bool = False) -> Any:
    """The value of the body's JSON; None for an empty body."""
    data, declared = body.data, body.content_type
    if data if declared is None else not declared.strip().lower().startswith("application/json"):
        raise HttpException(415)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadRequestException(f"The body is not UTF-8: byte {error.start + 1} cannot be read") from None
    if not text.strip():
        return None
    try:
        number: Any = NumberText if numbers_as_text else None
        value = json.loads(text, parse_constant=_no_constant, parse_int=number or _integer, parse_float=number or _fraction)
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as error:
        raise BadRequestException(f"The body is not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except ValueError as error:
        raise BadRequestException(f"The body is not JSON: {error}") from None
    _check(value)
    return value


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not a value")


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _fraction(text: str) -> float:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} characters")
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def _check(value: object) -> None:
    """Refuse deep nesting, and text with an unpaired surrogate, which cannot be written to a topic."""
    level: list[object] = [value]
    for _ in range(MOST_LEVELS + 1):
        if any(isinstance(one, str) and _HALF_PAIR.search(one) for one in level):
            raise BadRequestException("The body has text with half of a surrogate pair, which is not a character")
        level = [inner for one in level for inner in _within(one)]
        if not level:
            return
    raise _too_deep()


def _within(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else ()


def _too_deep() -> BadRequestException:
    return BadRequestException(f"The body is nested deeper than {MOST_LEVELS} levels")


def _object(value: object, what: str, hint: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadRequestException(f"{what} must be a JSON object {hint}, not {'empty' if value is None else _kind(value)}")
    return value


def _refuse_unknown(fields: Mapping[str, object], known: tuple[str, ...], what: str) -> None:
    for name in fields:
        if name not in known:
            raise BadRequestException(f"{what} has the unknown field '{name}'; known fields: {', '.join(known)}")


def _kind(value: object) -> str:
    if isinstance(value, NumberText | int | float) and not isinstance(value, bool):
        return "a number"
    return _KINDS.get(type(value), "something else")


def _shown(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else _kind(value)
