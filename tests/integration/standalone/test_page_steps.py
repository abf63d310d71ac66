"""The dry run of a config on the page, step by step, in a real Chromium."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from airflow_provider_connect.dev.own_server import free_ports
from airflow_provider_connect.rest.server import rest_server
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.stores.admin_connection import server_info
from airflow_provider_connect.standalone.embedded import Connect
from tests.chromium import serious
from tests.integration.standalone.conftest import HANG_MS, SCREENSHOTS

HOSTILE = "<img src=x onerror='document.title=\"hacked\"'>"
KAFKA = "org.apache.kafka.connect.transforms"
TRANSFORMS = {
    "transforms": "hoist,say,no,route,sql",
    "transforms.hoist.type": f"{KAFKA}.HoistField$Value",
    "transforms.hoist.field": "line",
    "transforms.say.type": "InsertHeader",
    "transforms.say.header": HOSTILE,
    "transforms.say.value.literal": "42",
    "transforms.no.type": "Filter",
    "transforms.no.predicate": "empty",
    "transforms.route.type": "RegexRouter",
    "transforms.route.regex": "(.*)",
    "transforms.route.replacement": "$1-routed",
    "transforms.sql.type": "SqlTransform",
    "transforms.sql.sql": "SELECT upper(line) AS text FROM batch WHERE line <> 'two'",
    "predicates": "empty",
    "predicates.empty.type": "RecordIsTombstone",
}


@pytest.fixture
def page(browser: Browser, bootstrap: str, tmp_path: Path, unique: str) -> Iterator[Page]:
    """The page of a server with one connector, STOPPED. Its offsets are on topics: without those there are no dry runs."""
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    config = {"name": "c", "connector.class": "FileStreamSource", "file": str(tmp_path / "lines.txt"), "topic": "lines", **TRANSFORMS}
    factors = {f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")}
    worker = {"bootstrap.servers": bootstrap, "connectors.allowed.paths": str(tmp_path), **factors}
    listeners = {"listeners": f"http://127.0.0.1:{free_ports(1)[0]}"}
    settings = WorkerSettings.of(worker)
    with (
        Connect(unique, worker) as connect,
        rest_server(listeners, herder=lambda: connect.herder, info=lambda: server_info(settings)) as rest,
    ):
        connect.herder.create_connector("c", config, TargetState.STOPPED)
        page = browser.new_page()
        page.set_default_timeout(HANG_MS)
        expect.set_options(timeout=HANG_MS)
        page.goto(f"{rest.url}/ui?connector=c&tab=config")
        yield page
        page.close()


def changes(page: Page, table: str) -> list[list[str]]:
    rows = page.get_by_role("table", name=table, exact=True).locator("tbody tr")
    cells = [rows.nth(index).get_by_role("cell").all_inner_texts() for index in range(rows.count())]
    return [[" ".join(text.split()) for text in row] for row in cells]


@pytest.mark.soak
def test_a_dry_run_shows_what_each_transformation_changes(page: Page) -> None:
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.get_by_role("button", name="Edit config").click()
    expect(page.get_by_text("No errors")).to_be_visible()
    page.get_by_role("button", name="Dry run").press("Enter")
    expect(page.get_by_role("table", name="Records of the dry run")).to_contain_text("ONE")
    expect(page.get_by_text("Record 2: dropped by sql")).to_be_visible()
    page.get_by_text("Record 1: would go to topic lines-routed").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("table", name="Record 1 as read")).to_be_visible()
    assert changes(page, "Record 1 as read")[-2:] == [["key", "null"], ["value", '"one"']]
    assert changes(page, "Record 1 after hoist")[-2:] == [["+ added", "value.line", '"one"'], ["− removed", "value", '"one"']]
    assert changes(page, "Record 1 after say")[-1] == ["+ added", f"header {json.dumps(HOSTILE)}", "42"]
    expect(page.get_by_role("heading", name="no (Filter) skipped")).to_be_visible()
    expect(page.get_by_text("Predicate: empty, which did not select the record")).to_be_visible()
    assert changes(page, "Record 1 after route")[0] == ["~ changed", "topic", "lines → lines-routed"]
    assert ["+ added", "value.text", '"ONE"'] in changes(page, "Record 1 after sql")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.screenshot(path=SCREENSHOTS / f"page-steps-{scheme}.png", full_page=True)
        assert serious(page) == [], scheme
    assert page.locator("img[src=x]").count() == 0
    assert wrong == []
