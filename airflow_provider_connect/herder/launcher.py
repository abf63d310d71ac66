"""What the herder needs of whoever runs connectors. Knows nothing of Airflow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Launcher(Protocol):
    """Starts, watches and ends the applications of connectors, named by the connector."""

    def is_running(self, connector: str) -> bool:
        """Whether an application of the connector may be alive."""
        ...

    def running(self) -> list[str]:
        """The connectors of which an application may be alive."""
        ...

    def end(self, connector: str) -> None:
        """End the connector's runs, the queued ones too; an application that lives is told to end, and killed if it does not."""
        ...

    def trigger(self, connector: str, tasks: Sequence[int] | None = None) -> None:
        """Start a run soon, of ``tasks`` alone where given; nothing where one waits already. A connector that has no DAG yet gets its run
        once it has one."""
        ...

    def obstacle(self, connector: str | None = None) -> str | None:
        """Why no run of the connector will ever start, with what to do about it; None: runs start. Without a connector: of those that are
        created over REST in general. Asked at every change of a connector, and by the health check."""
        ...

    def forget(self, connector: str) -> None:
        """The connector is deleted: what runs it goes too, its history stays. Its runs have ended."""
        ...
