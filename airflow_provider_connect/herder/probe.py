"""What the herder asks of plugins. Whoever answers runs their code in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from airflow_provider_connect.model.views import ConfigKeyView, PluginView, Validation


class Probe(Protocol):
    """Safe to share between threads. Each call is bounded in time."""

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Validation:
        """What the plugin and the framework say of ``config``. Raises PluginNotFoundException for an unknown plugin."""
        ...

    def config_keys(self, plugin: str, version: str | None = None) -> Sequence[ConfigKeyView]: ...

    def plugins(self, connectors_only: bool = True) -> Sequence[PluginView]: ...

    def alter_offsets(
        self, connector: str, config: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, object] | None, Mapping[str, object] | None]]
    ) -> bool:
        """Ask the connector's own hook for each pair of partition and offset, as GET offsets shows them; False: it has none.

        Raises ConnectException with the connector's own text for offsets that it refuses, NotImplementedError where it takes none at all,
        RetriableException when it does not answer in time."""
        ...
