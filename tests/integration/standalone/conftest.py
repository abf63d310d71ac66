from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.chromium import launched
from tests.conftest import CACHE, CHECKOUT
from tests.integration.standalone.agent import Agent
from tests.waiting import HANG_SECONDS

SCREENSHOTS = CHECKOUT / ".dev" / "screenshots"
HANG_MS = 1000 * HANG_SECONDS


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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    with launched(CACHE) as browser:
        yield browser


def opened(browser: Browser, agent: Agent) -> tuple[Page, list[str]]:
    """The page, and what goes wrong in it."""
    page = browser.new_page()
    page.set_default_timeout(HANG_MS)
    expect.set_options(timeout=HANG_MS)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.goto(f"http://127.0.0.1:{agent.port}/ui")
    return page, wrong
