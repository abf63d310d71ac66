"""Backfills on the page in Airflow's UI, in a real Chromium: tried, started, followed and removed; of a sink and a source."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from airflow_provider_connect.runtime.model.ids import dag_id_for
from tests.chromium import serious
from tests.integration.airflow.conftest import Airflow
from tests.integration.airflow.test_page import (
    SCREENSHOTS,
    browser,  # noqa: F401 - a fixture
    connect,
    opened,
    page,  # noqa: F401 - a fixture
    passwords,  # noqa: F401 - a fixture
    signed_in,
)
from tests.integration.worker.environment import make_topic, send, values_of
from tests.waiting import wait_until


@pytest.fixture
def sink(airflow: Airflow, unique: str, file_sink: tuple[Path, dict[str, str]]) -> Iterator[tuple[str, str, Path]]:
    """A sink that has delivered five records: its name, its topic, and another file for a backfill."""
    name, (file, config) = f"page-again-{unique}", file_sink
    bootstrap, topic = airflow.settings().bootstrap_servers, config["topics"]
    make_topic(bootstrap, topic)
    send(bootstrap, topic, ["a", "b", "c", "d", "e"])
    created = connect(airflow, "POST", "/connectors", json={"name": name, "config": {**config, "airflow.schedule": "none"}})
    assert created.status_code == 201, created.text
    wait_until(lambda: file.exists() and len(file.read_text().splitlines()) == 5, "all is delivered")
    yield name, topic, file.with_name("again.txt")
    delete(airflow, name)


@pytest.fixture
def source(airflow: Airflow, unique: str, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A stopped source of a folder with two files: its name and its topic."""
    name, topic = f"page-files-{unique}", f"files-{unique}"
    for number, file in enumerate(("new/a.json", "old/b.json")):
        (tmp_path / "files" / file).parent.mkdir(parents=True)
        (tmp_path / "files" / file).write_text(f'{{"n":{number}}}\n')
    config = {
        "connector.class": "FileSystemSource",
        "url": str(tmp_path / "files"),
        "format": "json",
        "file.minimum.age.ms": "0",
        "topic": topic,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "airflow.schedule": "none",
    }
    created = connect(airflow, "POST", "/connectors", json={"name": name, "config": config, "initial_state": "STOPPED"})
    assert created.status_code == 201, created.text
    yield name, topic
    delete(airflow, name)


def delete(airflow: Airflow, name: str) -> None:
    """With its backfills."""
    for each in connect(airflow, "GET", f"/connectors/{name}/backfills").json():
        connect(airflow, "DELETE", f"/connectors/{each['name']}")
    connect(airflow, "DELETE", f"/connectors/{name}")


def start(page: Page) -> None:  # noqa: F811
    page.get_by_role("button", name="Start backfill").click()
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("do not change")
    assert serious(page, "[role=alertdialog]") == []
    dialog.get_by_role("button", name="Start backfill").click()


def line(page: Page, name: str) -> Locator:  # noqa: F811
    """Of the table, the backfill with this name."""
    return page.get_by_role("table", name="Backfills").get_by_role("row").filter(has_text=name)


@pytest.mark.timeout(1200)
@pytest.mark.soak
def test_a_sinks_range_is_tried_delivered_again_and_the_backfill_removed(
    airflow: Airflow,
    browser: Browser,  # noqa: F811
    passwords: Mapping[str, str],  # noqa: F811
    page: Page,  # noqa: F811
    sink: tuple[str, str, Path],
) -> None:
    name, topic, again = sink
    opened(page, airflow, f"?connector={name}&tab=backfills")
    expect(page.get_by_text("This connector has no backfills.")).to_be_visible()
    page.get_by_label("From", exact=True).fill("1")
    page.get_by_label("To (exclusive)").fill("3")
    page.get_by_label("ID", exact=True).fill("one")
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_role("alert").filter(has_text="Give the backfill a destination of its own")).to_be_visible()
    expect(page.get_by_role("button", name="Start backfill")).to_be_disabled()
    page.get_by_role("textbox", name="Settings to override, one per line").fill(f"file={again}")
    page.get_by_role("button", name="Dry run").press("Enter")
    tried = page.get_by_role("table", name="Ranges of the dry run").get_by_role("row").nth(1)
    expect(tried.get_by_role("cell")).to_have_text([topic, "0", "1", "3", "2"])
    assert serious(page) == []
    page.screenshot(path=SCREENSHOTS / "page-backfill-light.png", full_page=True)
    start(page)
    backfill = f"{name}.backfill.one"
    expect(line(page, backfill)).to_contain_text("done")
    expect(line(page, backfill)).to_contain_text("2 of 2 offsets")
    assert again.read_text() == "b\nc\n"
    run = line(page, backfill).get_by_role("link", name=re.compile("^2 records"))
    assert f"/dags/{dag_id_for(backfill)}/runs/" in (run.get_attribute("href") or "")
    check_dark_theme(page, backfill)

    viewer = signed_in(browser, airflow, "viewer", passwords["viewer"])
    opened(viewer, airflow, f"?connector={name}&tab=backfills")
    expect(line(viewer, backfill)).to_contain_text("done")
    assert viewer.get_by_role("button", name=re.compile("^(Dry run|Start|Delete)")).count() == 0
    viewer.context.close()

    line(page, backfill).get_by_role("link", name=backfill).click()
    page.get_by_role("tab", name="Backfills").click()
    expect(page.get_by_text("This connector is a backfill of")).to_be_visible()
    page.get_by_role("link", name=name, exact=True).click()
    page.get_by_role("tab", name="Backfills").click()
    line(page, backfill).get_by_role("button", name=re.compile("^Delete")).click()
    page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("This connector has no backfills.")).to_be_visible()
    assert connect(airflow, "GET", f"/connectors/{name}/backfills").json() == []


def check_dark_theme(page: Page, backfill: str) -> None:  # noqa: F811
    """After a reload; with a range of times, and another one that is removed again."""
    page.emulate_media(color_scheme="dark")
    page.evaluate("localStorage.setItem('theme', 'dark')")
    page.reload()
    expect(line(page, backfill)).to_contain_text("done")
    page.get_by_role("button", name="Add range").click()
    second = page.get_by_role("group", name="Range 2")
    second.get_by_label("Range in").select_option("times")
    second.get_by_label("From", exact=True).fill("2026-01-30T00:00")
    assert page.evaluate("document.documentElement.classList.contains('dark')")
    page.screenshot(path=SCREENSHOTS / "page-backfill-dark.png", full_page=True)
    assert serious(page) == []
    second.get_by_role("button", name=re.compile("^Remove")).click()
    expect(second).to_have_count(0)
    page.evaluate("localStorage.setItem('theme', 'light')")
    page.emulate_media(color_scheme="light")


@pytest.mark.timeout(1200)
@pytest.mark.soak
def test_a_source_is_bounded_by_its_own_settings(airflow: Airflow, page: Page, source: tuple[str, str]) -> None:  # noqa: F811
    name, topic = source
    opened(page, airflow, f"?connector={name}&tab=backfills")
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_role("alert").filter(has_text="Bound what the backfill reads")).to_be_visible()
    page.get_by_label("file.prefix").fill("old/")
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_text("The config is valid, and its settings limit what is read.")).to_be_visible()
    assert serious(page) == []
    start(page)
    started = page.get_by_role("status").filter(has_text="started.")
    expect(started).to_be_visible()
    found = re.search(r"Backfill (\S+) started", started.inner_text())
    assert found is not None
    expect(line(page, found[1])).to_contain_text(re.compile("1 record, "))
    assert values_of(airflow.settings().bootstrap_servers, topic) == ['{"n":1}']
    config = connect(airflow, "GET", f"/connectors/{found[1]}/config").json()
    assert (config["file.prefix"], config["backfill.of"]) == ("old/", name)
