"""What the herder asks of whoever makes previews: they run plugins' code, so they are made in processes of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from airflow_provider_connect.model.previews import Preview


class Previewer(Protocol):
    """Safe to share between threads. Each call is bounded in time."""

    def preview(self, connector: str, config: Mapping[str, str], *, records: int, version: str | None = None) -> Preview:
        """The next ``records`` records of a connector with this raw config, in ``version`` (a range) of its plugin; None: in the one that
        a run would take. Commits nothing. Raises ConfigException for a config that could not run, ConnectException with what the connector
        raised, RetriableException when it took too long."""
        ...
