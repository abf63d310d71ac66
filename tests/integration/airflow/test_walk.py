"""A walk through the page in Airflow's UI, recorded as ``.dev/walk.webp``: a sink is created by the form and tried, runs, fails, is
repaired, gets a refused record back, and has its offsets set back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.conftest import CHECKOUT
from tests.integration.airflow.conftest import Airflow
from tests.integration.airflow.test_page import (
    browser,  # noqa: F401 - a fixture
    connect,
    dry_run,
    opened,
    passwords,  # noqa: F401 - a fixture
    signed_in,
    state,
)
from tests.integration.worker.environment import make_topic, send, values_of
from tests.recording import Recording, recorded
from tests.waiting import wait_until

GOOD = 3_000_000
RECORDING = CHECKOUT / ".dev" / "walk.webp"
JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture
def topic(airflow: Airflow) -> str:
    """A topic whose last but one record is no JSON."""
    name, bootstrap = "walk-orders", airflow.settings().bootstrap_servers
    make_topic(bootstrap, name)
    for first in range(0, GOOD, 50_000):
        send(bootstrap, name, [f'{{"order":{number}}}' for number in range(first, first + 50_000)])
    send(bootstrap, name, ['{"order":', '{"order":"the last"}'])
    return name


@pytest.fixture
def page(browser: Browser, airflow: Airflow, passwords: Mapping[str, str]) -> Iterator[Page]:  # noqa: F811
    page = signed_in(browser, airflow, "admin", passwords["admin"])
    yield page
    page.context.close()


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_a_sink_is_created_breaks_is_repaired_and_goes_back(page: Page, airflow: Airflow, topic: str, tmp_path: Path) -> None:
    name, file = "orders-to-file", tmp_path / "orders.txt"
    opened(page, airflow)
    try:
        with recorded(page, RECORDING) as recording:
            create(page, recording, name, topic, file)
            fail(page, recording, airflow, name)
            repair(page, recording, airflow, name)
            replay(page, recording, airflow, name, topic)
            go_back(page, recording, airflow, name)
    finally:
        for gone in (name, f"{name}-replay"):
            connect(airflow, "DELETE", f"/connectors/{gone}")
    assert RECORDING.stat().st_size > 0
    lines = file.read_text().splitlines()
    assert lines[:GOOD] == [f"{{order={number}}}" for number in range(GOOD)]
    assert set(lines[GOOD:]) == {"{order=by hand}", "{order=the last}"}  # one of them again, where a run has come since


def setting(page: Page, key: str, value: str) -> None:
    """Set ``key`` in the form, whether it is shown there or has to be added."""
    field = page.get_by_label(re.compile(rf"^{re.escape(key)}(?![.\w])")).first
    if not field.count():
        page.get_by_label("Name of another setting").fill(key)
        page.get_by_role("button", name="Add setting").click()
    if field.evaluate("(each) => each.tagName") == "SELECT":
        field.select_option(value)
    else:
        field.fill(value)


def create(page: Page, recording: Recording, name: str, topic: str, file: Path) -> None:
    recording.caption = "1. A new connector: choose its class, fill the form, try it"
    page.get_by_role("link", name="New connector").click()
    page.get_by_label("Search classes").fill("filestreamsink")
    page.get_by_role("link", name=re.compile("FileStreamSink")).first.click()
    page.get_by_label("Name", exact=False).first.fill(name)
    expect(page.get_by_text(re.compile("[1-9].* errors?$"))).to_be_visible()
    page.get_by_role("button", name=re.compile("^All settings")).click()
    for key, value in {"topics": topic, "file": str(file), "value.converter": JSON, "value.converter.schemas.enable": "false"}.items():
        setting(page, key, value)
    setting(page, "airflow.schedule", "none")
    expect(page.get_by_text("No errors")).to_be_visible()
    expect(dry_run(page)).to_contain_text('"order":0')
    page.get_by_role("table", name="Records of the dry run").scroll_into_view_if_needed()
    page.wait_for_timeout(2000)
    page.get_by_role("button", name="Create connector").click()
    page.get_by_role("heading", name=name).wait_for()


def fail(page: Page, recording: Recording, airflow: Airflow, name: str) -> None:
    recording.caption = "2. Its run, as far as it is"
    expect(page.get_by_role("group", name="Progress of current runs")).to_contain_text(re.compile(r"Delivered: [\d,.]+[kM]? records"))
    wait_until(lambda: "FAILED" in connect(airflow, "GET", f"/connectors/{name}/status").text, "its task has failed")
    recording.caption = "3. The task has failed: the trace names the record"
    page.get_by_role("tab", name="Tasks").click()
    expect(page.get_by_text(re.compile("Tolerance exceeded")).first).to_be_visible()
    page.locator("summary").first.click()
    expect(page.get_by_text(re.compile(f"offset {GOOD}")).first).to_be_visible()
    page.wait_for_timeout(2000)


def repair(page: Page, recording: Recording, airflow: Airflow, name: str) -> None:
    recording.caption = "4. Such records go to a dead letter queue from now on"
    page.get_by_role("tab", name="Config").click()
    page.get_by_role("button", name="Edit config").click()
    page.get_by_role("button", name=re.compile("^All settings")).click()
    queue = {"topic.name": f"{name}-refused", "topic.replication.factor": "1", "context.headers.enable": "true"}
    for key, value in {"errors.tolerance": "all", **{f"errors.deadletterqueue.{key}": value for key, value in queue.items()}}.items():
        setting(page, key, value)
    expect(page.get_by_text("No errors")).to_be_visible()
    page.get_by_role("button", name="Change config").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Change config").click()
    expect(page.get_by_text("Config changed.")).to_be_visible()
    page.get_by_role("button", name="Restart", exact=True).click()
    wait_until(lambda: connect(airflow, "GET", f"/ui/connectors/{name}/dead-letters").json().get("records"), "it has refused a record")
    wait_until(lambda: state(airflow, name) == "RUNNING", "it runs again")


def replay(page: Page, recording: Recording, airflow: Airflow, name: str, topic: str) -> None:
    recording.caption = "5. The refused record: edited, tried, and replayed"
    page.get_by_role("tab", name="Dead letters").click()
    letter = page.get_by_role("table", name="Dead letters").get_by_role("row").nth(1)
    letter.locator("summary").click()
    letter.get_by_role("button", name="Edit for replay").click()
    letter.get_by_role("textbox", name="Value for replay").fill('{"order":"by hand"}')
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_role("table", name="Records of the dry run").get_by_role("row").nth(1)).to_contain_text("by hand")
    page.get_by_role("button", name="Replay", exact=True).click()
    page.get_by_role("alertdialog").get_by_role("button", name="Replay").click()
    expect(page.get_by_text("Last replay done: 1 record written.")).to_be_visible()
    assert values_of(airflow.settings().bootstrap_servers, topic, start=GOOD)[-1] == '{"order":"by hand"}'
    airflow.run(name)


def go_back(page: Page, recording: Recording, airflow: Airflow, name: str) -> None:
    recording.caption = "6. Its offsets, and the way back"
    page.get_by_role("tab", name="Offsets").click()
    history = page.get_by_role("table", name="Offset history")
    expect(history.get_by_role("row").nth(1)).to_be_visible()
    history.get_by_role("button", name=re.compile("^Undo this")).first.click()
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("→")
    page.wait_for_timeout(2000)
    dialog.get_by_role("button", name="Restore", exact=True).click()
    expect(page.get_by_text(re.compile("^Offsets restored"))).to_be_visible()
    page.wait_for_timeout(2000)
