"""Our REST API alone on its port, with connectors that really run, as the tests of foreign clients meet it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.standalone.agent import Agent


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector that a client may make: a source that reads ``file`` into ``topic``."""

    name: str
    file: Path
    topic: str


@pytest.fixture(scope="package")
def connect_url(tmp_path_factory: pytest.TempPathFactory, bootstrap: str) -> Iterator[str]:
    """The address of a server that all clients share."""
    agent = Agent(tmp_path_factory.mktemp("connect"), bootstrap)
    try:
        agent.start()
        yield f"http://127.0.0.1:{agent.port}"
    finally:
        agent.stop()


@pytest.fixture
def connector(tmp_path: Path, unique: str) -> Connector:
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\n")
    return Connector(unique, file, f"lines-{unique}")
