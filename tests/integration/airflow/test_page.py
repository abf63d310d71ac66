"""The list of connectors in Airflow's UI, in a real Chromium.

Screenshots are kept in ``.dev/screenshots``.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from tests.chromium import find_chromium
from tests.conftest import CACHE, CHECKOUT
from tests.integration.airflow.conftest import Airflow, wait_until

SCREENSHOTS = CHECKOUT / ".dev" / "screenshots"
HANG_MS = 180_000
HOSTILE = "<img src=x onerror='document.title=\"hacked\"'>"
SECRET_KEY = "x.api.password"
SECRET = "canary-of-the-page"


@pytest.fixture(scope="module")
def passwords(airflow: Airflow) -> Mapping[str, str]:
    found: Mapping[str, str] = json.loads((airflow.stack.folder / "airflow" / "home" / "passwords.json").read_text())
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = find_chromium(CACHE)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.executable, env={**os.environ, **chromium.variables})
        yield browser
        browser.close()


def signed_in(browser: Browser, airflow: Airflow, user: str, password: str) -> Page:
    """A page of its own with this user's cookie, as the form of the simple auth manager leaves it."""
    token = httpx.post(f"{airflow.url}/auth/token", json={"username": user, "password": password}, timeout=120).json()["access_token"]
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.add_cookies([{"name": "_token", "value": token, "url": airflow.url}])
    page = context.new_page()
    page.set_default_timeout(HANG_MS)
    expect.set_options(timeout=HANG_MS)
    return page


@pytest.fixture(scope="module")
def page(browser: Browser, airflow: Airflow, passwords: Mapping[str, str]) -> Iterator[Page]:
    page = signed_in(browser, airflow, "admin", passwords["admin"])
    yield page
    page.context.close()


@pytest.fixture(scope="module")
def connectors(airflow: Airflow, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Three connectors, of which one runs: their names by what they are for."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "lines.txt").write_text("one\ntwo\n")
    config = {"connector.class": "FileStreamSource", "file": str(folder / "lines.txt"), "topic": "page-lines", "airflow.schedule": "none"}
    names = {"runs": "page-runs", "hostile": HOSTILE, "stopped": "page-stopped"}
    for kind, name in names.items():
        state = {} if kind == "runs" else {"initial_state": "STOPPED"}
        created = connect(airflow, "POST", "/connectors", json={"name": name, "config": {**config, SECRET_KEY: SECRET}, **state})
        assert created.status_code == 201, created.text
    wait_until(lambda: committed(airflow, names["runs"]), "the connector has delivered its lines")
    yield names
    for name in names.values():
        connect(airflow, "DELETE", f"/connectors/{quote(name, safe='')}")


def connect(airflow: Airflow, method: str, path: str, **how: Any) -> httpx.Response:
    return airflow.client.request(method, f"/connect{path}", **how)


def committed(airflow: Airflow, name: str) -> Any:
    found = connect(airflow, "GET", f"/connectors/{name}/offsets")
    return found.json()["offsets"] if found.is_success else None


def state(airflow: Airflow, name: str) -> Any:
    found = connect(airflow, "GET", f"/connectors/{name}/status")
    return found.json()["connector"]["state"] if found.is_success else None


def opened(page: Page, airflow: Airflow, query: str = "") -> Locator:
    """The page in Airflow's navigation."""
    page.goto(f"{airflow.url}/plugin/connect{query}")
    whole = page.get_by_role("region", name="Kafka Connect", exact=True)
    whole.wait_for()
    return whole


def row(page: Page, name: str) -> Locator:
    return page.locator(f"tr[data-connector={json.dumps(name)}]")


def serious(page: Page, selector: str = "section[aria-label]") -> list[str]:
    """What axe finds in the page's own part."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text())
    found = page.evaluate("(selector) => axe.run(selector)", selector)
    return [
        f"{each['id']}: {each['help']}: {[node['html'][:300] for node in each['nodes'][:3]]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]


def test_the_list_shows_real_connectors_and_hostile_names_as_text(page: Page, airflow: Airflow, connectors: dict[str, str]) -> None:
    opened(page, airflow)
    expect(row(page, connectors["runs"])).to_contain_text(re.compile("FileStreamSource"))
    expect(row(page, connectors["runs"])).to_contain_text(re.compile("2.*B", re.DOTALL))  # two records, and their bytes
    expect(row(page, connectors["stopped"])).to_contain_text("STOPPED")
    expect(row(page, HOSTILE).get_by_role("link")).to_have_text(HOSTILE)
    assert page.locator("img[src=x]").count() == 0
    page.screenshot(path=SCREENSHOTS / "page-list-light.png")
    assert serious(page) == []

    page.get_by_label("Search connectors").press_sequentially("page-")
    page.get_by_label("State", exact=True).select_option("STOPPED")
    expect(page.locator("tr[data-connector]")).to_have_count(1)
    assert "q=page-" in page.url
    assert "state=STOPPED" in page.url
    page.reload()
    expect(page.locator("tr[data-connector]")).to_have_count(1)
    expect(page.get_by_label("Search connectors")).to_have_value("page-")
    assert "hacked" not in page.title()
