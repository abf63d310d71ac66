"""The notifiers in the worker settings, by the names that connectors' configs use. Knows nothing of Airflow.

::

    airflow.notifiers.«name».class         a Python class that extends Airflow's BaseNotifier
    airflow.notifiers.«name».«argument»    a text argument of the class
    airflow.notifiers.«name».arguments     other arguments, as a JSON object

An argument's name may contain full stops in place of ``_``, as in options of airflow.cfg.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_connect.errors import ConfigException

PREFIX = "airflow.notifiers."
_CLASS, _ARGUMENTS = "class", "arguments"
_NAME = re.compile(r"[A-Za-z0-9-]{1,100}")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)
_ARGUMENT = re.compile(r"[A-Za-z]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class NotifierSettings:
    """One notifier. ``arguments`` may contain secrets."""

    class_name: str
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)  # Any: JSON


def read_notifiers(values: Mapping[str, str]) -> tuple[dict[str, NotifierSettings], dict[str, str]]:
    """The valid notifiers, and the errors of the others by key. Errors contain no values of arguments."""
    given: dict[str, dict[str, str]] = {}
    errors: dict[str, str] = {}
    for key, value in values.items():
        if key.startswith(PREFIX):
            name, _, rest = key.removeprefix(PREFIX).partition(".")
            if _NAME.fullmatch(name) is None or not rest:
                errors[key] = (
                    f"Unknown configuration {key}: a notifier is defined by {PREFIX}«name».class, its name of letters, digits and -"
                )
            else:
                given.setdefault(name, {})[rest] = value
    found: dict[str, NotifierSettings] = {}
    for name, settings in given.items():
        try:
            found[name] = _notifier(f"{PREFIX}{name}.", settings)
        except ConfigException as error:
            errors |= dict.fromkeys(error.keys, error.message)
    return found, errors


def notifier_names(values: Mapping[str, str], note: Callable[[str, str], None]) -> frozenset[str]:
    """The names that connectors may use. Calls ``note`` with the key and text of each error."""
    found, errors = read_notifiers(values)
    for key, error in errors.items():
        note(key, error)
    return frozenset(found)


def without_notifiers(values: Mapping[str, str]) -> dict[str, str]:
    """``values`` without the notifiers' arguments, which may be secrets. For processes that run plugins' code."""
    return {key: value for key, value in values.items() if not key.startswith(PREFIX)}


def _notifier(prefix: str, settings: Mapping[str, str]) -> NotifierSettings:
    """Raises ConfigException with the keys to remove or correct."""
    class_name = settings.get(_CLASS, "").strip()
    if _DOTTED.fullmatch(class_name) is None:
        reason = f"Invalid value {class_name} for configuration {prefix}{_CLASS}: give the dotted path of a class that extends BaseNotifier"
        raise ConfigException(reason, keys=[f"{prefix}{key}" for key in settings])
    arguments = _json_object(f"{prefix}{_ARGUMENTS}", settings.get(_ARGUMENTS, "{}"))
    for key, value in settings.items():
        if key not in (_CLASS, _ARGUMENTS):
            argument = key.replace(".", "_")
            if _ARGUMENT.fullmatch(argument) is None:
                raise ConfigException(f"Unknown configuration {prefix}{key}: {argument} is no name of an argument", keys=[f"{prefix}{key}"])
            arguments[argument] = value
    return NotifierSettings(class_name, arguments)


def _json_object(key: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ConfigException(f"Invalid value for configuration {key}: give a JSON object", keys=[key])
    return value
