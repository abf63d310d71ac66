"""Messages between a probe and the process that runs plugins' code. Each line is a JSON object, with views and errors as plain values.

Answers come from a process in which untrusted code has run. So they are read as data only, with a limit on their length.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from airflow_provider_connect import errors
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.runtime.model.views import ConfigKeyView, ConfigValueView, ValidatedKey, Validation

LONGEST_ANSWER: Final = 64 << 20
LATE: Final = "late"
"""The key in an answer whose value is the line of the plugin's code that was running at the timeout."""
_RAISED: Final = (
    "BadRequestException",
    "ConfigException",
    "PluginNotFoundException",
    "RetriableException",
    "TaskException",
    "ConnectException",
)
_NOT_THERE: Final = "NotImplementedError"


def to_line(message: Mapping[str, object]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def from_line(line: bytes) -> dict[str, Any]:
    """Raises ValueError for anything but a JSON object."""
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("not an object")  # noqa: TRY004  (as bad as no JSON)
    return message


def error_message(error: Exception) -> dict[str, object]:
    """The answer that represents an exception."""
    kind = next((cls.__name__ for cls in type(error).__mro__ if cls.__name__ in (*_RAISED, _NOT_THERE)), "")
    text = str(error) if kind else f"{type(error).__name__}: {error}"
    return {"error": text, "kind": kind, "errors": error.errors if isinstance(error, ConfigException) else []}


def error_of(answer: Mapping[str, Any]) -> ConnectException | NotImplementedError:
    """The exception in an answer. ConnectException for classes that are not ours."""
    kind, text = str(answer.get("kind")), str(answer["error"])
    if kind == _NOT_THERE:
        return NotImplementedError(text)
    if kind == "ConfigException":
        return ConfigException(text, errors=map(str, answer.get("errors") or ()))
    raised: type[ConnectException] = getattr(errors, kind) if kind in _RAISED else ConnectException
    return raised(text)


def validation_of(answer: Mapping[str, Any]) -> Validation:
    """Raises KeyError, TypeError or ValueError for an invalid answer."""
    configs = tuple(ValidatedKey(None if key is None else key_of(key), _value_of(value)) for key, value in answer["configs"])
    groups, warnings = (tuple(map(str, answer[name])) for name in ("groups", "warnings"))
    return Validation.counted(str(answer["name"]), groups, configs, int(answer["counted_by_key"]), warnings)


def keys_of(answer: Sequence[Mapping[str, Any]]) -> list[ConfigKeyView]:
    return [key_of(key) for key in answer]


def key_of(about: Mapping[str, Any]) -> ConfigKeyView:
    return ConfigKeyView(**{**about, "dependents": tuple(about["dependents"])})


def _value_of(about: Mapping[str, Any]) -> ConfigValueView:
    return ConfigValueView(
        name=str(about["name"]),
        value=None if about["value"] is None else str(about["value"]),
        recommended_values=tuple(about["recommended_values"]),
        errors=tuple(map(str, about["errors"])),
        visible=bool(about["visible"]),
    )
