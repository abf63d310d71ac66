"""``rest_source`` creates a source connector for the resources of a REST API.

Each resource is a source partition with its own function, as with ``@source``. The resources are distributed over the tasks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.sdk.config_def import (
    REQUIRED,
    Config,
    ConfigDef,
    ConfigKey,
    ConfigValue,
    Importance,
    NonEmptyString,
    Range,
    Type,
    add_errors,
)
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport, OffsetReader
from airflow_provider_connect.sdk.functions.cursor import CURSOR, cursor_of, refuse_unknown_null_cursor
from airflow_provider_connect.sdk.functions.overlap import is_overlap, reached_of
from airflow_provider_connect.sdk.functions.signature import Signature
from airflow_provider_connect.sdk.functions.source import (
    FIELDS,
    PARTITION,
    SCHEMA,
    TASK_PARTITIONS,
    TOPIC,
    FunctionSource,
    FunctionSourceTask,
    Partition,
    SourceFunction,
    source_partition_of,
)
from airflow_provider_connect.sdk.http.credentials import Authentication, Credentials
from airflow_provider_connect.sdk.http.resource import OFFSET_KEYS, PARENT, Resource, ResourceReader
from airflow_provider_connect.sdk.http.rest_client import PACKAGES, RateLimit, RestClient, http_library

BASE_URL, TIMEOUT, TASK_COUNT = "base.url", "request.timeout.ms", "task.count"
MOST_TIMEOUT_MS: Final = 3_600_000
CHECK_SECONDS: Final = 10.0  # for one request of a check for new data, which runs in Airflow's process
RESOURCE: Final = "${resource}"
"""The placeholder for the resource's name in the setting ``topic``."""


class RestSourceTask(FunctionSourceTask):
    """Reads its resources one after another. Each API has its own subclass, with ``api``."""

    api: ClassVar[_Api]

    def start(self, config: Config) -> None:
        super().start(config)
        access = self.api.access(config, config[TASK_COUNT])
        self._functions = {name: self.api.function_of(name, access) for name in self.api.resources}

    def declared_for(self, partition: Partition) -> SourceFunction:
        return self._functions[str(partition)]

    def topic_of(self, partition: Partition) -> str:
        return super().topic_of(partition).replace(RESOURCE, str(partition))


class RestSource(FunctionSource):
    """A connector of one API. ``rest_source`` creates a subclass for each, with ``resources`` by name."""

    resources: ClassVar[Mapping[str, Resource]]
    api: ClassVar[_Api]

    def start(self, config: Config) -> None:
        http_library()  # if httpx is missing, the connector fails instead of each task
        super().start(config)

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """Also checks that the packages of REST sources are installed."""
        values = super().validate(config)
        add_errors(values, PACKAGES.mistakes(BASE_URL, "[hidden]"))
        return values

    def has_new_data(self, config: Config, offsets: OffsetReader) -> bool | None:
        """Requests the first rows after each cursor.

        Returns None without a request if a resource is not sorted by a cursor or has not been read yet, because the result could not be
        False."""
        cursors = {name: reached_of(cursor_of(offsets(source_partition_of(name)))) for name in self.resources}
        if not all(resource.is_sorted for resource in self.resources.values()) or None in cursors.values():
            return None
        answers: list[bool | None] = []
        with self.api.client(config, self.api.access(config, 1), most_seconds=CHECK_SECONDS) as client:
            for name, resource in self.resources.items():
                answers.append(self.api.reader(client, resource, config).has_rows_beyond(cursors[name]))
                if answers[-1]:
                    return True
        return None if None in answers else False

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        """Distributes the resources evenly over the tasks. Each task config has the number of tasks, because they share the rate limit."""
        configs = super().task_configs(max_tasks)
        return [{**config, TASK_COUNT: str(len(configs))} for config in configs]

    def output_topics(self, config: Mapping[str, str]) -> list[str]:
        topic = self.config_def.parse(config)[TOPIC]
        return list(dict.fromkeys(topic.replace(RESOURCE, name) for name in self.resources))

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """SUPPORTED if every resource is sorted by a cursor, and no rows without a cursor are delivered. Other pages may change between two
        requests."""
        is_exact = all(resource.is_exact for resource in self.resources.values())
        return ExactlyOnceSupport.SUPPORTED if is_exact else ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:  # Any: JSON from a user, checked here
        """Refuses partitions and offsets that this source would not write."""
        for partition, offset in offsets.items() if isinstance(offsets, Mapping) else offsets:
            [(kind, name)] = partition.items() if isinstance(partition, Mapping) and len(partition) == 1 else [("", "")]
            if offset is None:
                continue
            if kind not in (PARTITION, SCHEMA) or name not in self.resources:
                raise ConnectException(f"A source partition is {{'{PARTITION}': one of {', '.join(self.resources)}}}, got {partition}")
            if kind == PARTITION and self.resources[name].is_sorted and is_overlap(offset):
                continue
            known = {FIELDS} if kind == SCHEMA else {CURSOR} if self.resources[name].is_sorted else OFFSET_KEYS
            if not offset or not set(offset) <= known:
                raise ConnectException(f"An offset of {partition} may have the keys {', '.join(sorted(known))}, got {dict(offset)}")
        return True


def rest_source(
    name: str,
    *,
    base_url: str | None,
    resources: Sequence[Resource],
    auth: Authentication | None = None,
    settings: Sequence[ConfigKey] = (),
    headers: Mapping[str, str] | None = None,
    requests_per_second: float | None = None,
    topic: str | None = None,
) -> type[RestSource]:
    """Create a source connector class for a REST API. ``name`` is the class name; it must be the name of the variable for the class.

    The connector's settings are ``topic``, where ``${resource}`` is replaced by a resource's name; ``base.url``, with the default
    ``base_url`` (None: required); ``request.timeout.ms``; the settings of ``auth``; and ``settings``, which fill placeholders in paths and
    parameters. ``headers`` are sent with each request. ``requests_per_second`` limits the requests of all tasks together. ``topic`` is the
    default of the setting ``topic``.

    Raises TypeError for contradictory declarations.
    """
    by_name = {resource.name: resource for resource in resources}
    _refuse_contradictions(name, resources, {key.name for key in settings if key.type is not Type.PASSWORD})
    own = [
        ConfigKey(
            TOPIC,
            Type.STRING,
            REQUIRED if topic is None else topic,
            validator=NonEmptyString() if len(by_name) == 1 else _names_resource,
            importance=Importance.HIGH,
            doc="The topic to write to; ${resource} is replaced by the name of the resource.",
        ),
        ConfigKey(
            BASE_URL,
            Type.STRING,
            REQUIRED if base_url is None else base_url,
            validator=_is_base_url,
            importance=Importance.HIGH,
            doc="The base URL of the resources' paths.",
        ),
        *(auth.config_keys if auth is not None else ()),
        *settings,
        ConfigKey(
            TIMEOUT,
            Type.LONG,
            30_000,
            validator=Range(at_least=1, at_most=MOST_TIMEOUT_MS),
            doc="How long to wait for a connection, or for the next part of a body.",
        ),
    ]
    config_def = ConfigDef(*own)
    api = _Api(name, by_name, config_def, auth, dict(headers or {}), requests_per_second, [key.name for key in settings])
    declared = api.function_of(next(iter(by_name)), None)
    declared = SourceFunction(declared.function, declared.signature, list(by_name), None, None, None, None)
    shared = {"__module__": sys._getframe(1).f_globals["__name__"], "declared": declared}
    keys = [
        ConfigKey(TASK_PARTITIONS, Type.STRING, json.dumps(list(by_name)), doc="The resources of this task, as JSON."),
        ConfigKey(TASK_COUNT, Type.INT, 1, doc="The number of tasks."),
    ]
    task = {**shared, "__qualname__": f"{name}Task", "config_def": config_def.with_keys(*keys), "api": api}
    connector = {
        **shared,
        "__qualname__": name,
        "__doc__": f"{', '.join(by_name)} of a REST API.",
        "config_def": config_def,
        "function": staticmethod(declared.function),
        "resources": by_name,
        "api": api,
        "task_class": type(f"{name}Task", (RestSourceTask,), task),
    }
    return type(name, (RestSource,), connector)


@dataclass(frozen=True, slots=True)
class _Access:
    """Shared by all requests of one task: one token and one rate limit for all resources. Both are kept after errors."""

    credentials: Credentials
    limit: RateLimit


@dataclass(frozen=True, slots=True)
class _Api:
    """Shared by all resources. ``settings`` has the names of settings that fill placeholders."""

    name: str
    resources: Mapping[str, Resource]
    config_def: ConfigDef
    auth: Authentication | None
    headers: Mapping[str, str]
    rate: float | None
    settings: Sequence[str]

    def access(self, config: Config, tasks: int) -> _Access:
        """Credentials and rate limit of a task. ``tasks`` tasks share the rate."""
        credentials = Credentials() if self.auth is None else self.auth.credentials(config)
        return _Access(credentials, RateLimit(None if self.rate is None else self.rate / tasks))

    def function_of(self, name: str, access: _Access | None) -> SourceFunction:
        """The function that reads a resource. Without ``access``, each call has its own credentials and rate limit."""
        resource = self.resources[name]

        def read(config: Config, cursor: Any = None) -> Iterator[Any]:
            with self.client(config, access or self.access(config, 1)) as client:
                reader = self.reader(client, resource, config)
                yield from reader.sorted_rows(cursor) if resource.is_sorted else reader.rows(cursor)

        read.__qualname__ = read.__name__ = f"{self.name}.{name}"
        declared = SourceFunction(read, _WholeConfig(self.config_def, {}), None, None, resource.key, None, resource.schema)
        cursor = resource.incremental if resource.is_sorted else None
        if cursor is None:
            return declared
        return replace(declared, cursor=cursor.field, overlap=cursor.overlap, on_null_cursor=cursor.on_null_cursor)

    def client(self, config: Config, access: _Access, *, most_seconds: float | None = None) -> RestClient:
        """A client for one call. ``most_seconds`` limits the time of a whole request."""
        seconds = config[TIMEOUT] / 1000
        return RestClient(
            config[BASE_URL],
            access.credentials,
            headers=self.headers,
            limit=access.limit,
            timeout_seconds=seconds if most_seconds is None else min(seconds, most_seconds),
            request_seconds=most_seconds,
        )

    def reader(self, client: RestClient, resource: Resource, config: Config) -> ResourceReader:
        settings = {name: config[name] for name in self.settings}
        return ResourceReader(client, resource, self.resources.get(resource.parent or ""), settings)


class _WholeConfig(Signature):
    """A signature whose only argument is the whole config."""

    def arguments(self, config: Config) -> dict[str, Any]:
        return {"config": config}


def _refuse_contradictions(name: str, resources: Sequence[Resource], settings: set[str]) -> None:
    by_name = {resource.name: resource for resource in resources}
    if not name.isidentifier() or not resources or len(by_name) < len(resources):
        raise TypeError(f"rest_source({name!r}): the name must be a class name, and resources must have different names")
    for resource in resources:
        title = f"rest_source({name!r}), resource {resource.name!r}"
        parent = None if resource.parent is None else by_name.get(resource.parent)
        if resource.parent is not None and (parent is None or parent.parent is not None):
            raise TypeError(f"{title}: its parent {resource.parent!r} is not a resource without a parent")
        if resource.parent is not None and resource.incremental is not None:
            raise TypeError(f"{title}: a resource with a parent cannot be incremental; set incremental on the parent")
        if resource.parent is None and resource.parent_fields:
            raise TypeError(f"{title}: parent_fields needs a parent")
        if resource.incremental is not None:
            refuse_unknown_null_cursor(title, resource.incremental.on_null_cursor)
        unknown = {each for each in resource.placeholders() if not (resource.parent and each.startswith(PARENT)) and each not in settings}
        if unknown:
            raise TypeError(
                f"{title}: nothing fills {', '.join(f'{{{each}}}' for each in sorted(unknown))}; a secret cannot, because URLs are visible"
            )


def _names_resource(name: str, value: Any) -> None:
    """Validates ``topic`` of several resources."""
    if value is not None and RESOURCE not in value:
        raise ConfigException.of(name, value, f"several resources need different topics: it must contain {RESOURCE}")


def _is_base_url(name: str, value: Any) -> None:
    """Validates ``base.url``. The message does not contain the value, which may have a password."""
    try:
        url = urlsplit(value or "")
        is_right = url.scheme in ("http", "https") and bool(url.hostname) and (url.port or 1) > 0
    except ValueError:
        is_right = False
    if not is_right:
        raise ConfigException.of(name, "[hidden]", "it must be a URL such as https://host/path")
    if url.username is not None or url.password is not None or url.query or url.fragment:
        raise ConfigException.of(name, "[hidden]", "the URL must have no user, password, query or fragment; credentials are other settings")
