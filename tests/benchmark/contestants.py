"""Who races, seen from the race: something that is sent a connector's config, and returns afterwards what carrying it out has cost."""

from collections.abc import Mapping
from typing import Protocol

from tests.benchmark.measure import Cost


class Running(Protocol):
    """A connector at work."""

    def check(self) -> None:
        """Raises RuntimeError with the reason when the connector has failed. Asked every few milliseconds."""

    def end(self) -> Cost:
        """Called when the last record has arrived: takes the connector away and returns what the whole has cost."""


class Contestant(Protocol):
    """A system under measurement in one configuration."""

    @property
    def name(self) -> str: ...

    def send(self, connector: str, config: Mapping[str, str]) -> Running:
        """Sends the request for a connector of a name never used before. The clock runs since just before."""
