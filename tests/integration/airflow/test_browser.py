"""The switch that pauses a DAG, moved by a mouse in Airflow's UI in a real Chromium, and Connect's REST API: each shows what the other did.

How long the status took to follow the mouse is printed. Screenshots are kept in ``.dev/screenshots``.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from airflow_provider_connect.runtime.model.ids import dag_id_for
from tests.chromium import launched
from tests.conftest import CACHE, CHECKOUT
from tests.integration.airflow.conftest import Airflow
from tests.waiting import HANG_SECONDS, wait_until

SCREENSHOTS = CHECKOUT / ".dev" / "screenshots"
ON, OFF = "checked", "unchecked"
RELOADED_MS = 60_000  # a page opened before its DAG is there does not show it
CONNECTOR = "mouse"
CONFIG = {"connector.class": "FileStreamSource", "topic": "mouse-lines"}


@pytest.fixture(scope="module")
def stack(airflow: Airflow) -> dict[str, object]:
    """The content of ``stack.json``."""
    return airflow.stack.state() or {}


@pytest.fixture(scope="module")
def connect(stack: dict[str, object]) -> Iterator[httpx.Client]:
    """The REST API, as its clients reach it."""
    login = (str(stack["username"]), str(stack["password"]))
    with httpx.Client(base_url=str(stack["rest_url"]), auth=login, timeout=HANG_SECONDS) as client:
        yield client


@pytest.fixture(scope="module")
def page(stack: dict[str, object]) -> Iterator[Page]:
    """A page of the UI, signed in by its form."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    with launched(CACHE) as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(1000 * HANG_SECONDS)
        page.goto(str(stack["airflow_url"]))
        page.locator("input[name=username]").fill(str(stack["username"]))
        page.locator("input[name=password]").fill(str(stack["password"]))
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="Home").first.wait_for()
        yield page


@pytest.fixture
def connector(connect: httpx.Client, tmp_path: Path) -> Iterator[str]:
    """The name of a connector that runs."""
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\n")
    assert connect.post("/connectors", json={"name": CONNECTOR, "config": {**CONFIG, "file": str(file)}}).status_code == 201
    becomes(connect, "RUNNING", tasks=1)
    yield CONNECTOR
    connect.delete(f"/connectors/{CONNECTOR}")


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_the_mouse_and_rest_move_the_same_switch(
    stack: dict[str, object], connect: httpx.Client, page: Page, connector: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dag = f"{stack['airflow_url']}/dags/{dag_id_for(connector)}"
    shows(page, dag, ON, "1-runs")
    measured: list[tuple[str, float]] = []
    for target, shot in (("PAUSED", "2-paused-by-mouse"), ("RUNNING", "3-unpaused-by-mouse")):
        measured.append((target, clicked(page, connect, target)))
        expect(switch(page)).to_have_attribute("data-state", OFF if target == "PAUSED" else ON, timeout=1000 * HANG_SECONDS)
        page.screenshot(path=SCREENSHOTS / f"{shot}.png")
    for verb, state, shown in (("pause", "PAUSED", OFF), ("resume", "RUNNING", ON), ("stop", "STOPPED", OFF)):
        assert connect.put(f"/connectors/{connector}/{verb}").is_success
        becomes(connect, state)
        shows(page, dag, shown, f"4-rest-{verb}")
    assert states(connect) == ["STOPPED"]
    shows(page, f"{stack['airflow_url']}/dags?name_pattern={dag_id_for(connector)}", OFF, "5-list-stopped")

    measured.append(("RUNNING, from STOPPED", clicked(page, connect, "RUNNING")))
    becomes(connect, "RUNNING", tasks=1)
    shows(page, dag, ON, "6-started-by-mouse")
    with capsys.disabled():
        print("\nGET …/status follows the mouse: " + ", ".join(f"{target} after {seconds:.2f} s" for target, seconds in measured))


def switch(page: Page) -> Locator:
    return page.get_by_test_id("toggle-pause")


def shows(page: Page, address: str, state: str, shot: str) -> None:
    """What a user sees who opens or reloads the page, again until the DAG is there and its switch stands so."""

    def is_shown() -> bool:
        page.goto(address)
        try:
            expect(switch(page)).to_have_attribute("data-state", state, timeout=RELOADED_MS)
        except AssertionError:
            return False
        finally:
            page.screenshot(path=SCREENSHOTS / f"{shot}.png")
        return True

    wait_until(is_shown, f"{address} shows {state}")


def clicked(page: Page, connect: httpx.Client, state: str) -> float:
    """Seconds from the click to the status that it asks for."""
    started = time.monotonic()
    switch(page).click()
    becomes(connect, state)
    return time.monotonic() - started


def becomes(connect: httpx.Client, state: str, *, tasks: int = 0) -> None:
    """Waits until the connector, and as many of its tasks at least, are in this state."""

    def has_become() -> bool:
        found = states(connect)
        return found == [state] * len(found) and len(found) > tasks

    wait_until(has_become, lambda: f"{state}, not {states(connect)}")


def states(connect: httpx.Client) -> list[str]:
    """Of the connector, then of its tasks."""
    status: dict[str, Any] = connect.get(f"/connectors/{CONNECTOR}/status").raise_for_status().json()
    return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
