"""``rest_source``: the resources of a REST API as a source connector.

Each resource is a source partition, read by a function, over the protocol of ``@source``. Tasks share the resources among them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from airflow_provider_connect.sdk.functions.cursor import CURSOR, cursor_of
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
CHECK_SECONDS: Final = 10.0  # of one request of a check for new data, which runs in Airflow's process
RESOURCE: Final = "${resource}"
"""Stands for the resource's name in the setting ``topic``."""


class RestSourceTask(FunctionSourceTask):
    """Reads its resources one after the other. A subclass for each API has ``api``."""

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
    """A connector of one API. A subclass for each has ``resources``, by name, and ``api``."""

    resources: ClassVar[Mapping[str, Resource]]
    api: ClassVar[_Api]

    def start(self, config: Config) -> None:
        http_library()  # its absence fails the connector, and not each task
        super().start(config)

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """Also checks that the packages of REST sources are installed."""
        values = super().validate(config)
        add_errors(values, PACKAGES.mistakes(BASE_URL, "[hidden]"))
        return values

    def has_new_data(self, config: Config, offsets: OffsetReader) -> bool | None:
        """Asks for the first rows behind each cursor. Nothing is asked where the answer cannot be no: if a resource is not sorted by a
        cursor, or has not been read yet."""
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
        """The resources in turn. Each task learns how many there are: they share the rate limit."""
        configs = super().task_configs(max_tasks)
        return [{**config, TASK_COUNT: str(len(configs))} for config in configs]

    def output_topics(self, config: Mapping[str, str]) -> list[str]:
        topic = self.config_def.parse(config)[TOPIC]
        return list(dict.fromkeys(topic.replace(RESOURCE, name) for name in self.resources))

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Supported where every resource is sorted by a cursor. Pages of an API may change between two requests."""
        is_exact = all(resource.is_sorted for resource in self.resources.values())
        return ExactlyOnceSupport.SUPPORTED if is_exact else ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:  # Any: JSON from a user, checked here
        """Refuses partitions and offsets of another form than this source writes."""
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
                raise ConnectException(f"An offset of {partition} has keys among {', '.join(sorted(known))}, got {dict(offset)}")
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
    """A source connector class of a REST API. ``name`` is the class's name, as the variable's that holds it.

    Its settings are ``topic``, where ``${resource}`` stands for a resource's name; ``base.url``, whose default is ``base_url`` (None: it
    is required); ``request.timeout.ms``; those of ``auth``; and ``settings``, which fill placeholders in paths and parameters. ``headers``
    go with each request. ``requests_per_second`` limits the requests of all tasks together. ``topic``: the default of the setting.

    Raises TypeError for declarations that contradict one another.
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
            doc="The topic to write to; ${resource} stands for the name of the resource.",
        ),
        ConfigKey(
            BASE_URL,
            Type.STRING,
            REQUIRED if base_url is None else base_url,
            validator=_is_base_url,
            importance=Importance.HIGH,
            doc="The URL that the paths of the resources are below.",
        ),
        *(auth.config_keys if auth is not None else ()),
        *settings,
        ConfigKey(
            TIMEOUT,
            Type.LONG,
            30_000,
            validator=Range(at_least=1, at_most=MOST_TIMEOUT_MS),
            doc="How long a connection, or a part of a body, may take.",
        ),
    ]
    config_def = ConfigDef(*own)
    api = _Api(name, by_name, config_def, auth, dict(headers or {}), requests_per_second, [key.name for key in settings])
    declared = api.function_of(next(iter(by_name)), None)
    declared = SourceFunction(declared.function, declared.signature, list(by_name), None, None, None, None)
    shared = {"__module__": sys._getframe(1).f_globals["__name__"], "declared": declared}
    keys = [
        ConfigKey(TASK_PARTITIONS, Type.STRING, json.dumps(list(by_name)), doc="The resources of this task, as JSON."),
        ConfigKey(TASK_COUNT, Type.INT, 1, doc="How many tasks there are."),
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
    """What all requests of one task share: a token is obtained once, and the rate holds for all resources and over all errors."""

    credentials: Credentials
    limit: RateLimit


@dataclass(frozen=True, slots=True)
class _Api:
    """What all resources share. ``settings`` are the names of those that fill placeholders."""

    name: str
    resources: Mapping[str, Resource]
    config_def: ConfigDef
    auth: Authentication | None
    headers: Mapping[str, str]
    rate: float | None
    settings: Sequence[str]

    def access(self, config: Config, tasks: int) -> _Access:
        """``tasks``: how many share the rate."""
        credentials = Credentials() if self.auth is None else self.auth.credentials(config)
        return _Access(credentials, RateLimit(None if self.rate is None else self.rate / tasks))

    def function_of(self, name: str, access: _Access | None) -> SourceFunction:
        """Reads one resource. Without ``access`` each call has its own."""
        resource = self.resources[name]

        def read(config: Config, cursor: Any = None) -> Iterator[Any]:
            with self.client(config, access or self.access(config, 1)) as client:
                reader = self.reader(client, resource, config)
                yield from reader.sorted_rows(cursor) if resource.is_sorted else reader.rows(cursor)

        read.__qualname__ = read.__name__ = f"{self.name}.{name}"
        field = resource.incremental.field if resource.is_sorted and resource.incremental else None
        overlap = resource.incremental.overlap if field is not None and resource.incremental else None
        return SourceFunction(read, _WholeConfig(self.config_def, {}), None, field, resource.key, None, resource.schema, overlap)

    def client(self, config: Config, access: _Access, *, most_seconds: float | None = None) -> RestClient:
        """``most_seconds``: of one request, from its beginning to its end."""
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
    """The function takes its settings as one config."""

    def arguments(self, config: Config) -> dict[str, Any]:
        return {"config": config}


def _refuse_contradictions(name: str, resources: Sequence[Resource], settings: set[str]) -> None:
    by_name = {resource.name: resource for resource in resources}
    if not name.isidentifier() or not resources or len(by_name) < len(resources):
        raise TypeError(f"rest_source({name!r}): give the name of a class, and resources whose names differ")
    for resource in resources:
        title = f"rest_source({name!r}), resource {resource.name!r}"
        parent = None if resource.parent is None else by_name.get(resource.parent)
        if resource.parent is not None and (parent is None or parent.parent is not None):
            raise TypeError(f"{title}: its parent {resource.parent!r} is not a resource without a parent")
        if resource.parent is not None and resource.incremental is not None:
            raise TypeError(f"{title}: the rows of a parent have the cursor of the parent, which is incremental instead")
        if resource.parent is None and resource.parent_fields:
            raise TypeError(f"{title}: parent_fields are for a resource with a parent")
        unknown = {each for each in resource.placeholders() if not (resource.parent and each.startswith(PARENT)) and each not in settings}
        if unknown:
            raise TypeError(
                f"{title}: nothing fills {', '.join(f'{{{each}}}' for each in sorted(unknown))}; a secret cannot, for URLs are shown"
            )


def _names_resource(name: str, value: Any) -> None:
    """A validator."""
    if value is not None and RESOURCE not in value:
        raise ConfigException.of(name, value, f"several resources need a topic each: {RESOURCE} must stand in it")


def _is_base_url(name: str, value: Any) -> None:
    """A validator. The message does not show the value, which may have a password."""
    try:
        url = urlsplit(value or "")
        is_right = url.scheme in ("http", "https") and bool(url.hostname) and (url.port or 1) > 0
    except ValueError:
        is_right = False
    if not is_right:
        raise ConfigException.of(name, "[hidden]", "a URL begins with http:// or https://, and a host")
    if url.username is not None or url.password is not None or url.query or url.fragment:
        raise ConfigException.of(name, "[hidden]", "the URL must have no user, password, query or fragment; credentials have settings")
