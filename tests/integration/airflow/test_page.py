"""The page in Airflow's UI, in a real Chromium: list, connector, form, tab and card; in light and dark, for a viewer too.

Screenshots are kept in ``.dev/screenshots``.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect

from airflow_provider_connect.runtime.model.ids import dag_id_for
from tests.chromium import beyond, launched, serious
from tests.conftest import CACHE, CHECKOUT
from tests.integration.airflow.conftest import Airflow
from tests.waiting import HANG_SECONDS, wait_until

SCREENSHOTS = CHECKOUT / ".dev" / "screenshots"
HANG_MS = 1000 * HANG_SECONDS
VIEW: ViewportSize = {"width": 1280, "height": 800}
HOSTILE = "<img src=x onerror='document.title=\"hacked\"'>"
SECRET_KEY = "x.api.password"
SECRET = "canary-of-the-page"


@pytest.fixture(scope="module")
def passwords(airflow: Airflow) -> Mapping[str, str]:
    found: Mapping[str, str] = json.loads((airflow.stack.folder / "airflow" / "home" / "passwords.json").read_text())
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    with launched(CACHE) as browser:
        yield browser


def signed_in(browser: Browser, airflow: Airflow, user: str, password: str) -> Page:
    """A page of its own with this user's cookie, as the form of the simple auth manager leaves it."""
    token = httpx.post(f"{airflow.url}/auth/token", json={"username": user, "password": password}, timeout=HANG_SECONDS).json()[
        "access_token"
    ]
    context = browser.new_context(viewport=VIEW)
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


def dry_run(page: Page) -> Locator:
    """Ask for a dry run of the form's config; returns the table of its records."""
    records, late = page.get_by_role("table", name="Records of the dry run"), page.get_by_text("did not answer within")
    for _ in range(10):  # a plugin has 30 s, which a busy machine may not have
        page.get_by_role("button", name="Dry run").click()
        expect(records.or_(late)).to_be_visible()
        if records.is_visible():
            break
    return records


def test_the_list_shows_real_connectors_and_hostile_names_as_text(page: Page, airflow: Airflow, connectors: dict[str, str]) -> None:
    opened(page, airflow)
    expect(row(page, connectors["runs"])).to_contain_text(re.compile("FileStreamSource"))
    expect(row(page, connectors["runs"])).to_contain_text(re.compile("2.*B", re.DOTALL))  # two records, and their bytes
    expect(row(page, connectors["stopped"])).to_contain_text("STOPPED")
    expect(row(page, HOSTILE).get_by_role("link")).to_have_text(HOSTILE)
    assert page.locator("img[src=x]").count() == 0
    expect(row(page, connectors["runs"]).get_by_role("cell").nth(6)).to_have_text("—When triggered")  # its DAG is known
    assert page.get_by_role("columnheader").count() == 8
    assert beyond(page, "Table of connectors") == []
    page.screenshot(path=SCREENSHOTS / "page-list-light.png")
    assert serious(page) == []
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.screenshot(path=SCREENSHOTS / "page-list-wide.png")
    page.set_viewport_size({"width": 1024, "height": 768})
    page.screenshot(path=SCREENSHOTS / "page-list-narrow.png")
    assert beyond(page, "Table of connectors") == []
    page.set_viewport_size(VIEW)
    page.get_by_role("button", name="Owner", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("columnheader", name="Owner")).to_have_attribute("aria-sort", "ascending")
    assert "sort=owner" in page.url

    page.get_by_label("Search connectors").press_sequentially("page-")
    page.get_by_label("State", exact=True).select_option("STOPPED")
    expect(page.locator("tr[data-connector]")).to_have_count(1)
    assert "q=page-" in page.url
    assert "state=STOPPED" in page.url
    page.reload()
    expect(page.locator("tr[data-connector]")).to_have_count(1)
    expect(page.get_by_label("Search connectors")).to_have_value("page-")
    assert "hacked" not in page.title()


def test_a_connector_at_a_glance(page: Page, airflow: Airflow, connectors: dict[str, str]) -> None:
    opened(page, airflow, f"?connector={connectors['runs']}")
    overview = page.get_by_role("tabpanel", name="Overview")
    for title, fact in (("Delivered, last run", "2 records"), ("Refused, last run", "0"), ("Next run", "When triggered")):
        expect(overview).to_contain_text(re.compile(f"{title}[^A-Z]*{fact}"))
    (bar,) = overview.get_by_role("list", name="Last runs").get_by_role("link").all()
    expect(bar).to_have_accessible_name(re.compile("2 records, [0-9.]+ s, "))
    expect(overview).to_contain_text(re.compile(r"Reads/.*\.txtWritestopic page-", re.DOTALL))
    page.screenshot(path=SCREENSHOTS / "page-overview-light.png")
    assert serious(page) == []
    page.set_viewport_size({"width": 320, "height": 640})
    page.screenshot(path=SCREENSHOTS / "page-overview-narrow.png")
    assert overview.evaluate("(box) => box.scrollWidth <= box.clientWidth")
    boxes = [box for tab in page.get_by_role("tab").all() if (box := tab.bounding_box())]
    assert all(before["x"] + before["width"] <= after["x"] + 1 for before, after in pairwise(boxes)), "no title covers another"
    page.set_viewport_size(VIEW)
    bar.click()
    page.wait_for_url("**/runs/**")


def test_pausing_and_resuming_from_the_list_moves_the_dag(page: Page, airflow: Airflow, connectors: dict[str, str]) -> None:
    name = connectors["runs"]
    opened(page, airflow, "?q=page-runs")
    row(page, name).get_by_text("Select page-runs").check(force=True)
    page.get_by_role("button", name="Pause", exact=True).click()
    wait_until(lambda: state(airflow, name) == "PAUSED" and airflow.is_paused(name), "status and DAG are paused")
    expect(row(page, name)).to_contain_text("PAUSED")
    row(page, name).get_by_text("Select page-runs").check(force=True)
    page.get_by_role("button", name="Resume", exact=True).click()
    wait_until(lambda: state(airflow, name) != "PAUSED" and not airflow.is_paused(name), "status and DAG go on")
    expect(row(page, name)).not_to_contain_text("PAUSED")


@pytest.mark.soak
def test_offsets_are_changed_with_the_connector_stopped_meanwhile(page: Page, airflow: Airflow, connectors: dict[str, str]) -> None:
    name = connectors["runs"]
    connect(airflow, "PUT", f"/connectors/{name}/pause")  # so that no run moves the offsets besides
    wait_until(lambda: state(airflow, name) == "PAUSED" and airflow.is_paused(name), "it is paused")
    opened(page, airflow, f"?connector={name}&tab=offsets")
    (before,) = committed(airflow, name)
    field = page.get_by_role("textbox", name=re.compile("^Offset of"))
    expect(field).to_have_value(json.dumps(before["offset"], separators=(",", ":")))
    field.fill("[1]")
    expect(page.get_by_text("An offset must be a JSON object")).to_be_visible()
    field.fill('{"position": -1}')
    page.get_by_role("button", name="Change offsets").click()
    dialog = page.get_by_role("alertdialog")
    dialog.get_by_role("button", name="Change offsets").click()
    expect(page.get_by_role("status").filter(has_text="position")).to_be_visible()  # refused, with the reason
    dialog.wait_for(state="hidden")
    assert committed(airflow, name) == [before]
    field.fill('{"position": 4}')
    page.get_by_role("button", name="Change offsets").click()
    dialog.wait_for()
    assert serious(page, "[role=alertdialog]") == []
    dialog.get_by_role("button", name="Change offsets").click()
    expect(page.get_by_text("Offsets changed. The connector is paused again.")).to_be_visible()
    wait_until(lambda: state(airflow, name) == "PAUSED", "it is paused again")
    history = page.get_by_role("table", name="Offset history")
    expect(history).to_contain_text('{"position":4}')
    page.screenshot(path=SCREENSHOTS / "page-offsets-light.png")
    history.get_by_role("row").filter(has_text="admin").get_by_role("button").first.click()
    expect(dialog).to_contain_text(f'{{"position":4}} → {json.dumps(before["offset"], separators=(",", ":"))}')
    dialog.get_by_role("button", name="Restore", exact=True).click()
    expect(page.get_by_text("Offsets restored. The connector is paused again.")).to_be_visible()
    wait_until(lambda: committed(airflow, name) == [before], "the offsets are those of before")
    connect(airflow, "PUT", f"/connectors/{name}/resume")


@pytest.mark.soak  # secrets: test_runs
def test_a_connector_in_the_dark_and_its_config_without_secrets(page: Page, airflow: Airflow, connectors: dict[str, str]) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(airflow.url)
    page.evaluate("localStorage.setItem('theme', 'dark')")
    try:
        opened(page, airflow)
        expect(row(page, connectors["runs"])).to_be_visible()
        page.screenshot(path=SCREENSHOTS / "page-list-dark.png")
        assert serious(page) == []
        for tab in ("overview", "tasks", "runs", "topics", "config"):
            opened(page, airflow, f"?connector={connectors['runs']}&tab={tab}")
            page.get_by_role("tabpanel").get_by_role("table").or_(page.get_by_role("tabpanel").get_by_role("list")).first.wait_for()
            assert page.evaluate("document.documentElement.classList.contains('dark')")
            page.screenshot(path=SCREENSHOTS / f"page-{tab}-dark.png")
            assert serious(page) == [], tab
        config = page.get_by_role("table", name="Config", exact=True)
        expect(config.get_by_role("row", name=re.compile(re.escape(SECRET_KEY)))).to_contain_text("[hidden]")
        expect(config.get_by_role("row", name=re.compile("airflow.schedule"))).to_contain_text("none")
        page.get_by_role("button", name="Edit config").click()
        page.get_by_label("topic", exact=False).first.wait_for()
        expect(page.get_by_text("No errors")).to_be_visible()
        dry_run(page)
        page.screenshot(path=SCREENSHOTS / "page-form-dark.png")
        assert serious(page) == []
        assert SECRET not in page.content()
    finally:
        page.evaluate("localStorage.setItem('theme', 'light')")
        page.emulate_media(color_scheme="light")


@pytest.mark.soak
def test_a_config_is_rolled_back(page: Page, airflow: Airflow, connectors: dict[str, str]) -> None:
    name = connectors["stopped"]
    changed = connect(airflow, "PATCH", f"/connectors/{name}/config", json={"topic": "page-other-lines"})
    assert changed.status_code == 200, changed.text
    opened(page, airflow, f"?connector={name}&tab=config")
    history = page.get_by_role("table", name="Config history")
    expect(history).to_contain_text("topic: page-lines → page-other-lines")
    expect(history).to_contain_text("admin")
    history.get_by_role("button", name=re.compile("^Roll back")).click()
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("topic: page-other-lines → page-lines")
    dialog.get_by_role("button", name="Roll back").click()
    expect(page.get_by_role("status").filter(has_text="Rolled back to the config of revision")).to_be_visible()
    assert connect(airflow, "GET", f"/connectors/{name}/config").json()["topic"] == "page-lines"
    expect(history).to_contain_text("topic: page-other-lines → page-lines")
    page.get_by_label("Target version or range").fill("99")
    page.get_by_role("button", name="Compare versions").click()
    expect(page.get_by_role("status").filter(has_text="99")).to_be_visible()  # refused, with the reason
    assert SECRET not in page.content()
    assert serious(page) == []


@pytest.mark.soak
def test_the_schedule_is_changed_by_the_form(page: Page, airflow: Airflow, connectors: dict[str, str]) -> None:
    name = connectors["stopped"]
    opened(page, airflow, f"?connector={name}&tab=config")
    page.get_by_role("button", name="Edit config").click()
    page.get_by_label("airflow.schedule").fill("@daily")
    expect(page.get_by_text("1 changed")).to_be_visible()
    page.get_by_role("button", name="Change config").click()
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("airflow.schedule: none → @daily")
    dialog.get_by_role("button", name="Change config").click()
    config = page.get_by_role("table", name="Config", exact=True)
    expect(config.get_by_role("row", name=re.compile("airflow.schedule"))).to_contain_text("@daily")
    expect(page.get_by_text(re.compile(r"Schedule: At 00:00 \(0 0 \* \* \*\)"))).to_be_visible()
    assert "airflow.schedule" not in connect(airflow, "GET", f"/connectors/{name}/config").json()


def test_a_connector_is_made_by_the_form(page: Page, airflow: Airflow, tmp_path: Path) -> None:
    name = "page-new"
    opened(page, airflow, "?new=1")
    page.get_by_label("Search classes").fill("filestreamsource")
    page.get_by_role("link", name=re.compile("FileStreamSource")).first.click()
    page.get_by_label("Name", exact=False).first.fill(name)
    expect(page.get_by_text(re.compile("[1-9].* errors?$"))).to_be_visible()
    expect(page.get_by_role("button", name="Create connector")).to_be_disabled()
    (tmp_path / "new.txt").write_text("a line\n")
    page.get_by_role("textbox", name=re.compile("^topic")).first.fill("page-new-lines")
    page.get_by_role("textbox", name=re.compile(r"^file\b")).first.fill(str(tmp_path / "new.txt"))
    page.get_by_label("Name of another setting").fill("fil")
    page.get_by_role("button", name="Add setting").click()
    expect(page.get_by_text(re.compile("did you mean", re.IGNORECASE))).to_be_visible()
    assert serious(page) == []
    page.get_by_role("button", name="Remove fil").click()
    expect(page.get_by_text("No errors")).to_be_visible()
    page.get_by_label("Name of another setting").fill("airflow.schedule")
    page.get_by_role("button", name="Add setting").click()
    page.get_by_label("airflow.schedule").fill("every minute")
    expect(page.get_by_text(re.compile("every minute.*airflow.schedule"))).to_be_visible()
    page.get_by_role("button", name="Remove airflow.schedule").click()
    expect(page.get_by_text("No errors")).to_be_visible()
    expect(dry_run(page)).to_contain_text("a line")
    expect(page.get_by_role("heading", name="Dry run")).to_be_in_viewport()
    expect(page.get_by_text("Dry run: 1 record read, shown above")).to_be_visible()
    page.screenshot(path=SCREENSHOTS / "page-new-light.png")
    assert serious(page) == []
    page.get_by_role("button", name="Create connector").click()
    page.get_by_role("heading", name=name).wait_for()
    try:
        assert connect(airflow, "GET", f"/connectors/{name}/config").json()["topic"] == "page-new-lines"
    finally:
        connect(airflow, "DELETE", f"/connectors/{name}")


def test_the_tab_and_the_card(page: Page, airflow: Airflow, connectors: dict[str, str]) -> None:
    page.goto(airflow.url)
    card = page.get_by_role("link", name="Connectors", exact=True)
    card.wait_for()
    page.screenshot(path=SCREENSHOTS / "page-card-light.png")
    card.click()
    expect(row(page, connectors["runs"])).to_be_visible()
    page.goto(f"{airflow.url}/dags/{dag_id_for(connectors['runs'])}/plugin/connector?tab=runs")
    page.get_by_role("heading", name=connectors["runs"], level=1).last.wait_for()
    expect(page.get_by_role("table", name="Runs that delivered records or failed")).to_contain_text("2")
    expect(page.get_by_role("table", name="Runs that delivered records or failed")).to_contain_text("Cost (EUR)")
    costs = connect(airflow, "GET", f"/connectors/{connectors['runs']}/costs").json()
    assert costs["total"]["money"] == pytest.approx(costs["total"]["cpu_seconds"] / 100, abs=1e-6)
    assert costs["total"]["cpu_seconds"] > 0
    expect(page.get_by_role("table", name="Used by day")).to_contain_text(costs["days"][0]["day"])
    assert serious(page) == []
    page.screenshot(path=SCREENSHOTS / "page-tab-light.png")


@pytest.mark.soak
def test_a_plot_stays_while_it_is_kept_up_to_date(page: Page, airflow: Airflow, connectors: dict[str, str]) -> None:
    name = connectors["runs"]

    def runs() -> int:
        return len(connect(airflow, "GET", f"/ui/connectors/{name}").json()["runs"])

    def run_again() -> None:
        before = runs()
        for method, path in (("PUT", "stop"), ("DELETE", "offsets"), ("PUT", "resume")):
            answer = connect(airflow, method, f"/connectors/{name}/{path}", timeout=HANG_SECONDS)
            assert answer.is_success, answer.text
        wait_until(lambda: runs() > before, "another run has delivered the lines")

    run_again()
    opened(page, airflow, f"?connector={name}&tab=runs")
    plot = page.get_by_role("img", name=re.compile("^Plot of records"))
    plot.locator("canvas").evaluate("(canvas) => { canvas.dataset.mark = 'the same' }")
    for _ in range(2):
        with page.expect_response(re.compile(f"/ui/connectors/{name}$")):
            pass
    expect(plot.locator("canvas")).to_have_attribute("data-mark", "the same")
    run_again()
    expect(plot).to_have_accessible_name(re.compile(f"of the last {runs()} runs"))
    expect(plot.locator("canvas")).to_have_attribute("data-mark", "the same")
    page.emulate_media(color_scheme="dark")
    page.evaluate("document.documentElement.classList.toggle('dark')")
    expect(plot.locator("canvas")).not_to_have_attribute("data-mark", "the same")  # drawn anew in the colours of now
    page.evaluate("document.documentElement.classList.toggle('dark')")
    page.emulate_media(color_scheme="light")


@pytest.mark.soak
def test_the_distance_of_a_source_is_plotted_over_a_span_that_stands_in_the_address(
    page: Page, airflow: Airflow, connectors: dict[str, str]
) -> None:
    opened(page, airflow, f"?connector={connectors['runs']}&tab=offsets")
    plot = page.get_by_role("img", name=re.compile("^Plot of the distance from the end"))
    expect(plot).to_have_accessible_name("Plot of the distance from the end over the last day: 0 B maximum, 0 B latest.")
    page.get_by_role("button", name="Last hour").click()
    expect(plot).to_have_accessible_name(re.compile("over the last hour"))
    expect(page).to_have_url(re.compile("span=hour"))
    page.reload()
    expect(plot).to_have_accessible_name(re.compile("over the last hour"))
    expect(page.get_by_role("button", name="Last hour")).to_have_attribute("aria-pressed", "true")
    for theme in ("light", "dark"):
        plot.scroll_into_view_if_needed()
        page.screenshot(path=SCREENSHOTS / f"page-lags-{theme}.png")
        assert serious(page) == []
        page.emulate_media(color_scheme="dark")
        page.evaluate("document.documentElement.classList.toggle('dark')")
    page.evaluate("document.documentElement.classList.remove('dark')")
    page.emulate_media(color_scheme="light")


def test_a_viewer_is_offered_no_change(
    browser: Browser, airflow: Airflow, passwords: Mapping[str, str], connectors: dict[str, str]
) -> None:
    page = signed_in(browser, airflow, "viewer", passwords["viewer"])
    opened(page, airflow)
    expect(row(page, connectors["runs"])).to_be_visible()
    for label in ("Pause", "Stop", "New connector", "Log levels"):
        assert page.get_by_role("button", name=label, exact=True).count() + page.get_by_role("link", name=label, exact=True).count() == 0
    assert page.get_by_role("checkbox").count() == 0
    opened(page, airflow, f"?connector={connectors['runs']}&tab=offsets")
    page.get_by_role("table", name="Offsets", exact=True).wait_for()
    page.get_by_role("table", name="Offset history").wait_for()
    assert page.get_by_role("button", name=re.compile("Pause|Stop|Restart|Delete|Change|Reset|Undo|Restore")).count() == 0
    page.context.close()
