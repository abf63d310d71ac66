"""The ``airflow.*`` keys of a connector config as one checked value. Knows nothing of Airflow.

They control the connector's DAG and are not passed to the connector.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.key_values import (
    count,
    delay,
    duration,
    factor,
    heap_bytes,
    heap_size,
    names,
    one_of,
    positive_duration,
    schedule_of,
    text_of,
    whole_number,
)
from airflow_provider_connect.runtime.model.secret_keys import is_secret_key, variable_spans
from airflow_provider_connect.runtime.model.unknown_settings import nearest

PREFIX = "airflow."
DEFINED_IN = "airflow.defined.in"
RELEASED = "airflow.released"  # in a config that a DAG file no longer defines: the connector's last target state
SCHEDULE = "airflow.schedule"
CONTINUOUS = "@continuous"
"""The schedule of a run that stays."""
RUN_DURATION = "airflow.run.max.duration"
IDLE_TIMEOUT = "airflow.run.idle.timeout"
ASSET_INTERVAL = "airflow.asset.interval"
APPLICATION = "airflow.application"
"""The shared application that hosts the connector's tasks."""
ENGINE = "airflow.engine"
ON_FAILURE, ON_DEADLINE = "airflow.on.failure", "airflow.on.deadline"
DEADLINE = "airflow.deadline."
_DEADLINES = _RUN, _SILENCE, LAG = f"{DEADLINE}duration", f"{DEADLINE}silence", f"{DEADLINE}lag"
_LAG_DURATION = f"{LAG}.duration"
PROBE_INTERVAL, POLL_TIMEOUT = "airflow.java.probe.interval", "airflow.java.poll.timeout"
JAVA_MEMORY, WORKERS_JAVA_MEMORY = "airflow.java.memory", "java.memory"
MOST_JAVA_MEMORY = "java.memory.max"
_DEFAULT_JAVA_MEMORY, _DEFAULT_MOST_JAVA_MEMORY = "512m", "4g"
TASKS_PER_APPLICATION = "tasks.per.application"
SPARK, PROCESS = "spark", "process"
"""The values of ``airflow.engine``: tasks run as Spark jobs, or in the application's own process, without Spark."""
MAX_TASKS = 1024  # Airflow's limit for a mapped task ([core] max_map_length)
ANY = "*"
_SPREAD_SECONDS = 300
_SHOWN = 200  # characters of a value in an error
_APPLICATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}", re.ASCII)
_COMPARED = 100  # unknown keys that are compared with the known ones; each takes up to a millisecond
_OWN_POOL, _OWN_QUEUE = "default_pool", "default"
_P = TypeVar("_P")
_D = TypeVar("_D")


@dataclass(frozen=True, slots=True)
class DagSettings:
    """The settings of a connector's DAG. ``schedule`` None: no automatic runs. ``tasks_per_application`` None: one application runs all
    tasks. ``probe_interval_seconds`` None: each run starts a Java source that only a run can check for new data. ``poll_timeout_seconds``
    None: no limit for a poll of a Java source. ``java_memory`` None: the worker's heap size for its JVMs."""

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
    engine: str = SPARK
    probe_interval_seconds: float | None = None
    poll_timeout_seconds: float | None = None
    java_memory: str | None = None
    on_failure: tuple[str, ...] = ()
    on_deadline: tuple[str, ...] = ()
    longest_run_seconds: float | None = None  # from the time it is queued to its end
    longest_silence_seconds: float | None = None  # without a successful run
    most_lag: int | None = None  # records
    longest_lag_seconds: float = 600.0  # how long the lag may exceed most_lag
    run_seconds: float = 86_400.0  # how long a run stays
    asset_seconds: float = 60.0  # between two asset events of a run that stays
    idle_seconds: float | None = None  # how long a run without new records goes on
    application: str | None = None  # the shared application; None: each run has its own

    @property
    def stays_seconds(self) -> float | None:
        """How long each run stays; None: it ends when it has read everything."""
        return self.run_seconds if self.schedule == CONTINUOUS else None


@dataclass(frozen=True, slots=True)
class ApplicationSettings:
    """The settings of a shared application's DAG, from worker settings. ``spark_conn_id`` None: the connection of other connectors."""

    engine: str = SPARK
    spark_conn_id: str | None = None
    pool: str | None = None
    queue: str | None = None
    run_seconds: float = 86_400.0


@dataclass(frozen=True, slots=True)
class DagLimits:
    """The worker settings that limit DAG settings of configs from REST or the config topic. Configs in DAG files have no limits. ``pools``,
    ``queues`` and ``engines`` are allowed in addition to the defaults. ``*`` allows any. ``continuous``: runs may stay, and each then takes
    a slot of Airflow's executor. ``applications`` are the shared applications that a connector may join. ``notifiers`` are the notifiers in
    the worker settings."""

    min_interval_seconds: float = 10.0
    continuous: bool = False
    pools: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()
    engines: frozenset[str] = frozenset()
    applications: frozenset[str] = frozenset()
    notifiers: frozenset[str] = frozenset()
    max_pool_slots: int = 8
    max_priority_weight: int = 100


MIN_INTERVAL, ALLOWED_CONTINUOUS = "airflow.min.schedule.interval", "airflow.allowed.continuous"
ALLOWED_POOLS, ALLOWED_QUEUES, ALLOWED_ENGINES = "airflow.allowed.pools", "airflow.allowed.queues", "airflow.allowed.engines"
ALLOWED_APPLICATIONS = "airflow.allowed.applications"
MAX_SLOTS, MAX_PRIORITY = "airflow.max.pool.slots", "airflow.max.priority.weight"

ShortestInterval = Callable[[str], float | None]
"""The shortest time between two runs of a cron expression or preset, in seconds. None: there is at most one run. Raises ValueError for an
expression that Airflow refuses, or that has no run."""

DagCheck = Callable[[str, Mapping[str, str]], dict[str, list[str]]]
"""The errors that prevent a DAG for a connector of this name and config, by key."""


def dag_settings(connector: str, config: Mapping[str, str], worker_schedule: str | None = None) -> DagSettings:
    """The settings in ``config``, with the worker's schedule if it has none.

    Raises ConfigException with every ``airflow.*`` key that is unknown or has a wrong value.
    """
    read = _Reader(config)
    settings = _settings(read, connector, worker_schedule)
    read.raise_errors()
    return settings


def steering_errors(
    connector: str, config: Mapping[str, str], limits: DagLimits, shortest_interval: ShortestInterval | None = None
) -> dict[str, list[str]]:
    """The errors of the keys that control the connector's DAG, by key: values that Airflow refuses, and values beyond ``limits``.

    Without ``shortest_interval``, which calls Airflow, checks only the number of fields of a cron expression.
    """
    read = _Reader({key: value for key, value in config.items() if key not in (DEFINED_IN, RELEASED)})
    settings = _settings(read, connector, None)
    if SCHEDULE in config and SCHEDULE not in read.errors and settings.application is None:
        _check_interval(read, settings.schedule, limits, shortest_interval)
    if settings.idle_seconds is not None:
        _check_continuous(read, IDLE_TIMEOUT, limits, "omit it")
    for key, value, allowed, own, setting in (
        ("airflow.pool", settings.pool, limits.pools, _OWN_POOL, ALLOWED_POOLS),
        ("airflow.queue", settings.queue, limits.queues, _OWN_QUEUE, ALLOWED_QUEUES),
        (ENGINE, settings.engine, limits.engines, SPARK, ALLOWED_ENGINES),
        (APPLICATION, settings.application, limits.applications, None, ALLOWED_APPLICATIONS),
    ):
        if value is not None and value != own and not allowed & {value, ANY}:
            read.refuse(key, value, f"the worker setting {setting} does not name it; ask an admin to add it, or omit the key")
    for key, name in [*((ON_FAILURE, name) for name in settings.on_failure), *((ON_DEADLINE, name) for name in settings.on_deadline)]:
        if name not in limits.notifiers:
            known = ", ".join(sorted(limits.notifiers)) or "none"
            read.refuse(key, name, f"no notifier has this name; the worker settings airflow.notifiers.… define {known}")
    for key, number, most, setting in (
        ("airflow.pool.slots", settings.pool_slots, limits.max_pool_slots, MAX_SLOTS),
        ("airflow.priority.weight", settings.priority_weight, limits.max_priority_weight, MAX_PRIORITY),
    ):
        if number > most:
            read.refuse(key, str(number), f"the worker setting {setting} allows {most}")
    return read.errors


def _check_continuous(read: "_Reader", key: str, limits: DagLimits, fix: str) -> None:
    if not limits.continuous:
        reason = f"each run that stays takes a slot of Airflow's executor, and the worker setting {ALLOWED_CONTINUOUS} is false"
        read.refuse(key, read.config[key], f"{reason}; ask an admin to set it to true, or {fix}")


def _check_interval(read: "_Reader", schedule: str | float | None, limits: DagLimits, shortest_interval: ShortestInterval | None) -> None:
    text = read.config[SCHEDULE]
    if schedule == CONTINUOUS:
        _check_continuous(read, SCHEDULE, limits, "give another schedule")
        return
    try:
        known = isinstance(schedule, str) and shortest_interval is not None
        seconds = shortest_interval(schedule) if known else schedule  # type: ignore[misc, arg-type]  # as ``known`` has it
    except ValueError as error:
        read.refuse(SCHEDULE, text, str(error))
        return
    if isinstance(seconds, float) and seconds < limits.min_interval_seconds:
        shortest = f"{limits.min_interval_seconds:g}s"
        read.refuse(SCHEDULE, text, f"runs would be {seconds:g}s apart, and the worker setting {MIN_INTERVAL} is {shortest}")


def _settings(read: "_Reader", connector: str, worker_schedule: str | None) -> DagSettings:
    read.refuse_unknown()
    default = CONTINUOUS if APPLICATION in read.config else default_schedule(connector) if worker_schedule is None else worker_schedule
    schedule = read.value(SCHEDULE, schedule_of, schedule_of(default))
    given = {name: read.value(key, parse, None) for key, (name, parse) in _KEYS.items()}
    settings = {name: value for name, value in given.items() if value is not None}
    for key, parse in RETRY_KEYS.items():
        read.value(key, parse, 0)
    _check_deadlines(read, has_notifiers=bool(settings.get("on_deadline")))
    _check_stay(read, stays=schedule == CONTINUOUS)
    _check_member(read, stays=schedule == CONTINUOUS)
    return DagSettings(schedule=schedule, **settings)


def _check_deadlines(read: "_Reader", *, has_notifiers: bool) -> None:
    """Refuses a deadline without a notifier, and a notifier without a deadline. Otherwise these mistakes would be found too late."""
    deadlines = [key for key in (*_DEADLINES, _LAG_DURATION) if key in read.config]
    for key in deadlines:
        if not has_notifiers and ON_DEADLINE not in read.errors:
            read.refuse(key, read.config[key], f"no notice of this deadline would be sent: name notifiers in {ON_DEADLINE}")
    if _LAG_DURATION in deadlines and LAG not in deadlines:
        read.refuse(_LAG_DURATION, read.config[_LAG_DURATION], f"it has no effect without {LAG}: set that too, or omit it")
    if has_notifiers and not deadlines:
        read.refuse(ON_DEADLINE, read.config[ON_DEADLINE], f"the connector has no deadline: set one of {', '.join(_DEADLINES)}")


_BOUNDED = {
    TASKS_PER_APPLICATION: "all tasks of a run that stays share one application",
    "airflow.max.duration": f"Airflow would fail each run that stays; {RUN_DURATION} ends it in good order",
    _RUN: f"each run that stays would miss it; limit {_SILENCE} or {LAG}",
    IDLE_TIMEOUT: "a run waits for new records without a limit",
}


def _check_stay(read: "_Reader", *, stays: bool) -> None:
    """Refuses settings that fit only runs that end, if the run stays. Refuses a duration for a run that does not stay."""
    for key, reason in _BOUNDED.items() if stays else ():
        if key in read.config:
            read.refuse(key, read.config[key], f"with {SCHEDULE}={CONTINUOUS}, {reason}: omit it")
    if not stays and RUN_DURATION in read.config and IDLE_TIMEOUT not in read.config:
        reason = f"it has no effect without {SCHEDULE}={CONTINUOUS} or {IDLE_TIMEOUT}: set one of them too, or omit it"
        read.refuse(RUN_DURATION, read.config[RUN_DURATION], reason)
    if not stays and ASSET_INTERVAL in read.config:
        reason = f"a run that ends has its asset events at its end: set {SCHEDULE}={CONTINUOUS} too, or omit it"
        read.refuse(ASSET_INTERVAL, read.config[ASSET_INTERVAL], reason)


def _check_member(read: "_Reader", *, stays: bool) -> None:
    """Refuses settings that a member of a shared application cannot have."""
    if APPLICATION not in read.config:
        return
    if not stays and SCHEDULE not in read.errors:
        read.refuse(SCHEDULE, read.config[SCHEDULE], f"runs stay in a shared application ({APPLICATION}): omit it, or write {CONTINUOUS}")
    if ENGINE in read.config:
        name = read.config[APPLICATION]
        reason = f"all connectors of a shared application have its engine, the worker setting {application_key(name, 'engine')}: omit it"
        read.refuse(ENGINE, read.config[ENGINE], reason)


def default_schedule(connector: str) -> str:
    """Every five minutes, at a minute and second derived from the name, so that a thousand connectors do not start at the same time.

    The cron expression has seconds in the sixth field, as in Airflow.
    """
    minute, second = divmod(int.from_bytes(hashlib.sha256(connector.encode()).digest()[:8]) % _SPREAD_SECONDS, 60)
    return f"{minute}-59/5 * * * * {second}"


def check_definition(connector: str, config: Mapping[str, str]) -> None:
    """Checks a config without a broker and without the plugin. Raises ConfigException with each wrong key and its fix."""
    errors = [_text_error(key, value) for key, value in config.items() if not isinstance(key, str) or not isinstance(value, str)]
    if errors:
        raise ConfigException("; ".join(errors), errors=errors)
    if not connector.strip() or re.search(r"[\x00-\x1f]", connector):
        errors.append(f"Invalid value {connector!r} for configuration name: a connector needs a name without control characters")
    if config.get("name", connector) != connector:
        errors.append(f"Invalid value {config['name']} for configuration name: the DAG is of connector {connector}; omit 'name'")
    if not config.get("connector.class", "").strip():
        errors.append(
            'Missing required configuration "connector.class" which has no default value: give the connector\'s class or alias, '
            "for instance FileStreamSource"
        )
    if DEFINED_IN in config:
        errors.append(f"Invalid value {config[DEFINED_IN]} for configuration {DEFINED_IN}: it is set from the DAG's file; omit it")
    if config.get("topics", "").strip() and config.get("topics.regex", "").strip():
        errors.append("topics and topics.regex are mutually exclusive options, but both are set: omit one")
    tasks_max = whole_number(config.get("tasks.max", "1"))
    if tasks_max is None or not 1 <= tasks_max <= MAX_TASKS:
        errors.append(f"Invalid value {config['tasks.max']} for configuration tasks.max: give a whole number from 1 to {MAX_TASKS}")
    errors += lag_errors(config)
    if errors:
        raise ConfigException("; ".join(errors), errors=errors)


def lag_errors(config: Mapping[str, str]) -> list[str]:
    """The error of a source's config that limits the source's lag: only sinks have a lag."""
    if LAG not in config or config.get("topics", "").strip() or config.get("topics.regex", "").strip():
        return []
    return [ConfigException.of(LAG, config[LAG], "a source has no lag: omit it, or limit airflow.deadline.silence").message]


def literal_secrets(config: Mapping[str, str]) -> list[str]:
    """The keys that are named like secrets but contain the value itself instead of a variable such as ``${airflow:shop:password}``."""
    return sorted(key for key, value in config.items() if is_secret_key(key) and value.strip() and not any(variable_spans(value)))


def dag_keys(config: Mapping[str, str]) -> dict[str, str]:
    """The keys of ``config`` that control the DAG, as their author set them. REST does not show them, because Kafka Connect does not have
    them."""
    return {key: value for key, value in config.items() if key.startswith(PREFIX) and key not in (DEFINED_IN, RELEASED)}


def connector_config(config: Mapping[str, str]) -> dict[str, str]:
    """``config`` without the keys that control the DAG."""
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


def application_key(application: str, name: str) -> str:
    """The worker setting ``name`` of a shared application."""
    return f"{APPLICATION}.{application}.{name}"


def application_name(text: str) -> str:
    """The name of a shared application. Raises ValueError for a name that cannot be part of a DAG's id."""
    if _APPLICATION.fullmatch(text) is None:
        raise ValueError("expected 1 to 100 letters, digits and hyphens, beginning with a letter or digit")
    return text


def application_settings(application: str, worker: Mapping[str, str]) -> ApplicationSettings:
    """The settings of a shared application. ``worker`` are the worker's settings. Raises ConfigException for an unknown or wrong one."""
    settings, read = _application(application, worker)
    read.raise_errors()
    return settings


def application_errors(worker: Mapping[str, str]) -> dict[str, list[str]]:
    """The errors of the settings of all shared applications, by key."""
    prefix = f"{APPLICATION}."
    names = {key.removeprefix(prefix).partition(".")[0] for key in worker if key.startswith(prefix)}
    return {key: errors for name in sorted(names) for key, errors in _application(name, worker)[1].errors.items()}


def _application(application: str, worker: Mapping[str, str]) -> tuple[ApplicationSettings, "_Reader"]:
    prefix = application_key(application, "")
    read = _Reader({key: text for key, text in worker.items() if key.startswith(prefix)})
    known = {prefix + name for name in _APPLICATION_KEYS}
    for key in sorted(read.config.keys() - known):
        read.refuse(key, read.config[key], f"a shared application has {', '.join(sorted(known))}")
    given = {field: read.value(prefix + name, parse, None) for name, (field, parse) in _APPLICATION_KEYS.items()}
    return ApplicationSettings(**{field: value for field, value in given.items() if value is not None}), read


def asset_seconds(config: Mapping[str, str]) -> float:
    """The shortest time between two asset events of a raw config, of a connector whose runs stay. The default if the value is invalid."""
    parse = _KEYS[ASSET_INTERVAL][1]
    found = _Reader(config).value(ASSET_INTERVAL, parse, None)
    return DagSettings(None).asset_seconds if found is None else float(found)


def application_of(config: Mapping[str, str]) -> str | None:
    """The shared application that a raw config names. None: none, or not by a valid name."""
    name = config.get(APPLICATION, "")
    return name if _APPLICATION.fullmatch(name) else None


RETRY_KEYS: Mapping[str, Callable[[str], float]] = {
    "airflow.retries": count(0, 1000),
    "airflow.retry.delay": delay,
    "airflow.retry.delay.max": delay,
    "airflow.retry.delay.multiplier": factor(1, 100),
    "airflow.retry.delay.jitter": factor(0, 1),
}
"""The settings of the retry policy, in the Variable and in the connector's config. The config takes precedence."""

_KEYS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "airflow.tags": ("tags", names(100, "tags")),
    "airflow.owner": ("owner", text_of(250)),
    "airflow.retries": ("retries", RETRY_KEYS["airflow.retries"]),
    "airflow.retry.delay": ("retry_delay_seconds", delay),
    "airflow.pool": ("pool", text_of(256)),
    "airflow.pool.slots": ("pool_slots", count(1, 10_000)),
    "airflow.queue": ("queue", text_of(256)),
    "airflow.priority.weight": ("priority_weight", count(1, 1_000_000)),
    "airflow.description": ("description", text_of(5000)),
    "airflow.display.name": ("display_name", text_of(2000)),
    "airflow.doc": ("doc", text_of(50_000)),
    "airflow.max.duration": ("max_duration_seconds", positive_duration),
    ON_FAILURE: ("on_failure", names(10, "notifiers")),
    ON_DEADLINE: ("on_deadline", names(10, "notifiers")),
    _RUN: ("longest_run_seconds", duration(10)),
    _SILENCE: ("longest_silence_seconds", duration(60)),
    LAG: ("most_lag", count(0, 2**31 - 1)),
    _LAG_DURATION: ("longest_lag_seconds", duration(0)),
    ENGINE: ("engine", one_of(SPARK, PROCESS)),
    APPLICATION: ("application", application_name),
    PROBE_INTERVAL: ("probe_interval_seconds", positive_duration),
    POLL_TIMEOUT: ("poll_timeout_seconds", positive_duration),
    JAVA_MEMORY: ("java_memory", heap_size),
    TASKS_PER_APPLICATION: ("tasks_per_application", count(1, MAX_TASKS)),
    RUN_DURATION: ("run_seconds", duration(60)),
    IDLE_TIMEOUT: ("idle_seconds", duration(1)),
    ASSET_INTERVAL: ("asset_seconds", duration(10)),
}
"""By key: the field of ``DagSettings`` and the parser. The field has the default."""

_APPLICATION_KEYS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "engine": ("engine", one_of(SPARK, PROCESS)),
    "spark.connection": ("spark_conn_id", text_of(250)),
    "pool": ("pool", text_of(256)),
    "queue": ("queue", text_of(256)),
    "run.max.duration": ("run_seconds", duration(60)),
}
"""Of a shared application, by the last part of the key: the field of ``ApplicationSettings`` and the parser."""

_KNOWN = {SCHEDULE, *RETRY_KEYS, *_KEYS} - {TASKS_PER_APPLICATION}


def java_heap(worker: Mapping[str, str], config: Mapping[str, str]) -> str:
    """The maximum heap size of a JVM for the connector with this ``config``. An empty ``config`` means no connector. ``worker`` are the
    worker's settings. Raises ConfigException for a malformed size, or one above the maximum for connectors."""
    default = _parsed(WORKERS_JAVA_MEMORY, worker.get(WORKERS_JAVA_MEMORY, _DEFAULT_JAVA_MEMORY), heap_size)
    if JAVA_MEMORY not in config:
        return default
    asked = _parsed(JAVA_MEMORY, config[JAVA_MEMORY], heap_size)
    most = _parsed(MOST_JAVA_MEMORY, worker.get(MOST_JAVA_MEMORY, _DEFAULT_MOST_JAVA_MEMORY), heap_size)
    if heap_bytes(asked) > max(heap_bytes(most), heap_bytes(default)):
        reason = f"Value must be no more than {most}, the worker setting {MOST_JAVA_MEMORY}, which an admin may raise"
        raise ConfigException.of(JAVA_MEMORY, asked, reason)
    return asked


def java_seconds(config: Mapping[str, str], key: str) -> float | None:
    """A duration among the settings of Java connectors. None: not set. Raises ConfigException for a malformed duration."""
    return _parsed(key, config[key], positive_duration) if key in config else None


def _parsed(key: str, text: str, parse: Callable[[str], _P]) -> _P:
    try:
        return parse(text)
    except ValueError as error:
        raise ConfigException.of(key, text, str(error)) from None


class _Reader:
    """Reads typed values and collects all errors by key."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self.config = config
        self.errors: dict[str, list[str]] = {}

    def refuse(self, key: str, value: str, reason: str) -> None:
        self._add(key, ConfigException.of(key, value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…", reason).message)

    def refuse_unknown(self) -> None:
        unknown = [key for key in sorted(self.config) if key.startswith(PREFIX) and key not in {*_KNOWN, DEFINED_IN, RELEASED}]
        for number, key in enumerate(unknown):
            near = nearest(key, _KNOWN) if number < _COMPARED else None
            fix = f"did you mean {near}?" if near is not None else f"there are {', '.join(sorted(_KNOWN))}"
            self._add(key, f"Unknown configuration {key}: {fix}")

    def value(self, key: str, parse: Callable[[str], _P], default: _D) -> _P | _D:
        text = self.config.get(key)
        if text is None:
            return default
        try:
            return parse(text)
        except ValueError as error:
            self.refuse(key, text, str(error))
            return default

    def raise_errors(self) -> None:
        errors = [error for key in self.errors for error in self.errors[key]]
        if errors:
            raise ConfigException("; ".join(errors), errors=errors)

    def _add(self, key: str, error: str) -> None:
        found = self.errors.setdefault(key, [])
        if error not in found:
            found.append(error)
