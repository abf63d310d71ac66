"""The ``airflow.*`` keys of a connector config as one checked value. Knows nothing of Airflow.

They steer the connector's DAG and never reach the connector. Durations are numbers of seconds or carry a unit: ``10``, ``500ms``, ``10s``,
``5m``, ``2h``, ``1d``.
"""

import difflib
import hashlib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.model.secret_keys import is_secret_key

PREFIX = "airflow."
DEFINED_IN = "airflow.defined.in"
SCHEDULE = "airflow.schedule"
TASKS_PER_APPLICATION = "tasks.per.application"
MAX_TASKS = 1024  # Airflow maps a task over no more ([core] max_map_length)
_SPREAD_SECONDS = 300
_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)\s*")
_VARIABLE = re.compile(r"\$\{[^}]*:[^}]*\}")
_P = TypeVar("_P")
_D = TypeVar("_D")


@dataclass(frozen=True, slots=True)
class DagSettings:
    """How the DAG of a connector runs. ``schedule`` None: never by itself; ``tasks_per_application`` None: all in one application."""

    schedule: str | float | None
    tags: tuple[str, ...] = ()
    owner: str | None = None
    retries: int = 3
    retry_delay_seconds: float = 10.0
    pool: str | None = None
    pool_slots: int = 1
    queue: str | None = None
    priority_weight: int = 1
    description: str | None = None
    display_name: str | None = None
    doc: str | None = None
    max_duration_seconds: float | None = None
    tasks_per_application: int | None = None


def dag_settings(connector: str, config: Mapping[str, str], worker_schedule: str | None = None) -> DagSettings:
    """The settings in ``config``, with the worker's schedule where it has none.

    Raises ConfigException with every ``airflow.*`` key that is unknown or has a wrong value.
    """
    read = _Reader(config)
    read.refuse_unknown()
    settings = DagSettings(
        schedule=read.value(
            SCHEDULE, schedule_of, default_schedule(connector) if worker_schedule is None else schedule_of(worker_schedule)
        ),
        tags=read.value("airflow.tags", _names, ()),
        owner=read.value("airflow.owner", _filled, None),
        retries=read.value("airflow.retries", _count(0, 1000), 3),
        retry_delay_seconds=read.value("airflow.retry.delay", duration_seconds, 10.0),
        pool=read.value("airflow.pool", _filled, None),
        pool_slots=read.value("airflow.pool.slots", _count(1, 10_000), 1),
        queue=read.value("airflow.queue", _filled, None),
        priority_weight=read.value("airflow.priority.weight", _count(1, 1_000_000), 1),
        description=read.value("airflow.description", _filled, None),
        display_name=read.value("airflow.display.name", _filled, None),
        doc=read.value("airflow.doc", _filled, None),
        max_duration_seconds=read.value("airflow.max.duration", _positive_duration, None),
        tasks_per_application=read.value(TASKS_PER_APPLICATION, _count(1, MAX_TASKS), None),
    )
    for name, parse in RETRY_KEYS.items():
        read.value(name, parse, 0)
    read.raise_errors()
    return settings


def default_schedule(connector: str) -> str:
    """Every five minutes, at a minute and second that the name decides, so that a thousand connectors do not start at once.

    Cron with seconds, as Airflow reads it: in the sixth field.
    """
    minute, second = divmod(int.from_bytes(hashlib.sha256(connector.encode()).digest()[:8]) % _SPREAD_SECONDS, 60)
    return f"{minute}-59/5 * * * * {second}"


def duration_seconds(text: str) -> float:
    """The seconds that ``text`` means. Raises ValueError for anything but a number with one of the units ms, s, m, h and d."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError("expected a duration such as 500ms, 10s, 5m or 2h")
    return float(found.group(1)) * _UNITS[found.group(2)]


def check_definition(connector: str, config: Mapping[str, str]) -> None:
    """Refuse what can be seen to be wrong without a broker or the plugin. Raises ConfigException naming each key and its fix."""
    errors = [_text_error(key, value) for key, value in config.items() if not isinstance(key, str) or not isinstance(value, str)]
    if errors:
        raise ConfigException("; ".join(errors), errors=errors)
    if not connector.strip() or re.search(r"[\x00-\x1f]", connector):
        errors.append(f"Invalid value {connector!r} for configuration name: a connector needs a name without control characters")
    if config.get("name", connector) != connector:
        errors.append(f"Invalid value {config['name']} for configuration name: the DAG is of connector {connector}; leave 'name' out")
    if not config.get("connector.class", "").strip():
        errors.append(
            'Missing required configuration "connector.class" which has no default value: give the connector\'s class or alias, '
            "for instance FileStreamSource"
        )
    if DEFINED_IN in config:
        errors.append(f"Invalid value {config[DEFINED_IN]} for configuration {DEFINED_IN}: it is set from the DAG's file; leave it out")
    if config.get("topics", "").strip() and config.get("topics.regex", "").strip():
        errors.append("topics and topics.regex are mutually exclusive options, but both are set: leave one out")
    tasks_max = _number(config.get("tasks.max", "1"))
    if tasks_max is None or not 1 <= tasks_max <= MAX_TASKS:
        errors.append(f"Invalid value {config['tasks.max']} for configuration tasks.max: give a whole number from 1 to {MAX_TASKS}")
    if errors:
        raise ConfigException("; ".join(errors), errors=errors)


def literal_secrets(config: Mapping[str, str]) -> list[str]:
    """The keys that are named like secrets but hold their value itself instead of a variable such as ``${airflow:shop:password}``."""
    return sorted(key for key, value in config.items() if is_secret_key(key) and value.strip() and not _VARIABLE.search(value))


def connector_config(config: Mapping[str, str]) -> dict[str, str]:
    """``config`` without the keys that steer the DAG."""
    return {key: value for key, value in config.items() if not key.startswith(PREFIX)}


def _text_error(key: object, value: object) -> str:
    if not isinstance(key, str):
        return f"The configuration key {key!r} must be text"
    return f'Invalid value {value!r} for configuration {key}: values are text; write "{_as_text(value)}"'


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(_as_text, value))
    return str(value)


def _number(text: str) -> int | None:
    try:
        return int(text.strip())
    except ValueError:
        return None


def schedule_of(text: str) -> str | float | None:
    """A cron expression or a preset, a number of seconds, or None for ``none``. Raises ValueError for anything else."""
    if text.strip().lower() in ("", "none"):
        return None
    if _DURATION.fullmatch(text) and not text.strip().isdecimal():
        return _positive_duration(text)
    if not text.startswith("@") and len(text.split()) not in (5, 6):
        raise ValueError("expected a cron expression, a preset such as @hourly, a duration such as 30s, or none")
    return text.strip()


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("it must not be empty; leave the key out instead")
    return text


def _positive_duration(text: str) -> float:
    seconds = duration_seconds(text)
    if seconds <= 0:
        raise ValueError("the duration must be longer than 0")
    return seconds


def _count(at_least: int, at_most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = _number(text)
        if value is None or not at_least <= value <= at_most:
            raise ValueError(f"give a whole number from {at_least} to {at_most}")
        return value

    return parse


def _factor(at_least: float, at_most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not at_least <= value <= at_most:
            raise ValueError(f"give a number from {at_least:g} to {at_most:g}")
        return value

    return parse


RETRY_KEYS: Mapping[str, Callable[[str], float]] = {
    "airflow.retries": _count(0, 1000),
    "airflow.retry.delay": duration_seconds,
    "airflow.retry.delay.max": duration_seconds,
    "airflow.retry.delay.multiplier": _factor(1, 100),
    "airflow.retry.delay.jitter": _factor(0, 1),
}
"""What the retry policy reads, from the Variable and, stronger, from the connector's config."""

_KNOWN = {
    *RETRY_KEYS,
    SCHEDULE,
    "airflow.tags",
    "airflow.owner",
    "airflow.pool",
    "airflow.pool.slots",
    "airflow.queue",
    "airflow.priority.weight",
    "airflow.description",
    "airflow.display.name",
    "airflow.doc",
    "airflow.max.duration",
}


class _Reader:
    """Reads typed values and gathers what is wrong instead of stopping at the first."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self.config = config
        self.errors: list[str] = []

    def refuse_unknown(self) -> None:
        for key in sorted(self.config):
            if key.startswith(PREFIX) and key not in _KNOWN and key != DEFINED_IN:
                near = difflib.get_close_matches(key, _KNOWN, n=1)
                fix = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(_KNOWN))}"
                self.errors.append(f"Unknown configuration {key}: {fix}")

    def value(self, key: str, parse: Callable[[str], _P], default: _D) -> _P | _D:
        text = self.config.get(key)
        if text is None:
            return default
        try:
            return parse(text)
        except ValueError as error:
            self.errors.append(ConfigException.of(key, text, str(error)).message)
            return default

    def raise_errors(self) -> None:
        errors = list(dict.fromkeys(self.errors))
        if errors:
            raise ConfigException("; ".join(errors), errors=errors)
