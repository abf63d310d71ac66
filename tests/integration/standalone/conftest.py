from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.standalone.agent import Agent


@pytest.fixture
def make_agent(tmp_path: Path, bootstrap: str) -> Iterator[Callable[..., Agent]]:
    """Makes agents, not started, that keep their files in the test's folder and end with the test. Arguments are worker settings, with
    ``_`` for ``.``."""
    made: list[Agent] = []

    def make(**worker: str) -> Agent:
        made.append(Agent(tmp_path, bootstrap, {name.replace("_", "."): value for name, value in worker.items()}))
        return made[-1]

    yield make
    for agent in made:
        agent.stop()
