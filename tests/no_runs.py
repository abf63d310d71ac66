"""A launcher for servers on which nothing runs."""

from collections.abc import Sequence


class NoRuns:
    """Never starts anything."""

    def is_running(self, connector: str) -> bool:
        return False

    def running(self) -> dict[str, Sequence[str]]:
        return {}

    def end(self, connector: str) -> None:
        pass

    def trigger(self, connector: str, tasks: Sequence[int] | None = None) -> None:
        pass

    def obstacle(self, connector: str | None = None) -> str | None:
        return None

    def forget(self, connector: str) -> None:
        pass
