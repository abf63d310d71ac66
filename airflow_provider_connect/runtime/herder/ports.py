"""The protocols that the herder's host implements: runs, plugin calls, previews, and the history. Knows nothing of Airflow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from airflow_provider_connect.runtime.model.cost import DayUsage, RunUsage, Span
from airflow_provider_connect.runtime.model.history import Line, Page
from airflow_provider_connect.runtime.model.previews import Preview
from airflow_provider_connect.runtime.model.views import ConfigKeyView, OffsetView, PluginView, Validation

Pair = tuple[Mapping[str, object] | None, Mapping[str, object] | None]
"""A partition and its offset, as GET offsets returns them."""
Ask = Callable[[str, Sequence[Pair]], bool]
"""Calls ``offsets.ask_connector`` for one connector, given source or sink, and offsets."""


class Launcher(Protocol):
    """Starts, watches and ends the applications of connectors, each by its connector's name."""

    def is_running(self, connector: str) -> bool:
        """Whether an application of the connector may be alive."""
        ...

    def running(self) -> Mapping[str, Collection[str]]:
        """The connectors of which an application may be alive, each with the ids of its runs. No ids: they are unknown."""
        ...

    def end(self, connector: str) -> None:
        """End the connector's runs, including queued ones. A living application is asked to end, then killed."""
        ...

    def trigger(self, connector: str, tasks: Sequence[int] | None = None) -> None:
        """Start a run soon, of ``tasks`` only if given. Does nothing if a run is already queued. A connector without a DAG gets its run
        once it has a DAG."""
        ...

    def obstacle(self, connector: str | None = None) -> str | None:
        """Why no run of the connector can ever start, and how to fix it. None: runs start. Without a connector: why no run of a connector
        that is created over REST can start. Called at every change of a connector, and by the health check."""
        ...

    def forget(self, connector: str) -> None:
        """Remove a deleted connector's DAG, and keep its history. The caller has ended its runs."""
        ...


class Probe(Protocol):
    """Runs plugins' code in a separate process. Safe to share between threads. Each call is bounded in time."""

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Validation:
        """The plugin's and the framework's validation of ``config``. Raises PluginNotFoundException for an unknown plugin."""
        ...

    def config_keys(self, plugin: str, version: str | None = None, location: str | None = None) -> Sequence[ConfigKeyView]: ...

    def plugins(self, connectors_only: bool = True) -> Sequence[PluginView]: ...

    def alter_offsets(self, connector: str, config: Mapping[str, str], offsets: Sequence[Pair]) -> bool:
        """Call the connector's ``alter_offsets`` for each pair. False: it has no such method.

        Raises ConnectException with the connector's own text for offsets that it refuses, NotImplementedError if it accepts no offsets at
        all, RetriableException if it does not answer in time.
        """
        ...


class Previewer(Protocol):
    """Makes previews in separate processes. Safe to share between threads. Each call is bounded in time."""

    def preview(self, connector: str, config: Mapping[str, str], *, records: int, version: str | None = None) -> Preview:
        """The next ``records`` records of a connector with this raw config, in ``version`` (a range) of its plugin. None: in the version
        that a run would use. Commits nothing. Raises ConfigException for a config that could not run, ConnectException with the connector's
        own error, RetriableException after a timeout."""
        ...


class RecordedChanges(Protocol):
    """The history of connectors, from a copy of the topics, which may lag behind the topics. Safe to share between threads. Lines of
    offsets belong to one ``topic``: an offsets topic, or for a sink the batch log. A page contains lines below ``before``. See
    ``model.history.page_of``."""

    def config_lines(self, connector: str, *, limit: int, before: int | None = None) -> Page: ...

    def config_line(self, connector: str, number: int) -> Line | None: ...

    def offset_lines(self, connector: str, topic: str, *, limit: int, before: int | None = None) -> Page: ...

    def offset_line(self, connector: str, number: int) -> Line | None: ...

    def starts_ms(self, connector: str, claim: str) -> int | None:
        """The time of the first change of offsets under the claim. None: there was no change."""
        ...

    def offsets_at(self, connector: str, topic: str, at_ms: int) -> dict[str, OffsetView]:
        """The offsets at this instant of the partitions that have changed since then, by ``model.history.partition_key``. None: the
        partition had no offset."""
        ...

    def offsets_now(self, connector: str, topics: list[str], *, is_sink: bool) -> dict[str, object]:
        """The offsets in the copy, in the form of ``model.history.by_partition``. If they are on several topics, the last topic takes
        precedence."""
        ...

    def begins_ms(self, topic: str) -> int | None:
        """The time since which the history of a topic is complete. None: the topic is not followed."""
        ...

    def connectors_used(self, span: Span) -> list[str]:
        """The connectors that delivered something in the span, including deleted ones."""
        ...

    def usage_by_day(self, connectors: Sequence[str], span: Span, *, most: int) -> list[DayUsage]:
        """A row for each of the connectors and each day, unordered, at most ``most``."""
        ...

    def usage_by_run(self, connector: str, span: Span, *, most: int) -> list[RunUsage]:
        """The connector's runs in the span, the newest first, at most ``most``."""
        ...
