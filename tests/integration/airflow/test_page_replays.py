"""Dead-letter records on the page in Airflow's UI, in a real Chromium: chosen, edited, tried, replayed and followed; in light and dark."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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

DROP = """
transforms = d
transforms.d.type=org.apache.kafka.connect.transforms.ReplaceField$Value
transforms.d.exclude=note
"""


@pytest.fixture
def refuses(airflow: Airflow, unique: str, file_sink: tuple[Path, dict[str, str]]) -> Iterator[tuple[str, str, Path]]:
    """A sink that has refused two records of its topic and has written one; its name, topic and file."""
    name, (file, config) = f"page-refuses-{unique}", file_sink
    bootstrap, topic = airflow.settings().bootstrap_servers, config["topics"]
    make_topic(bootstrap, topic)
    send(bootstrap, topic, ['{"n":1}', '{"n":2', '{"n":3'])
    whole = {
        **config,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "airflow.schedule": "none",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"letters-{unique}",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    created = connect(airflow, "POST", "/connectors", json={"name": name, "config": whole})
    assert created.status_code == 201, created.text
    wait_until(lambda: len(refused(airflow, name)) == 2, "two records are refused")
    yield name, topic, file
    for gone in (name, f"{name}-replay"):
        connect(airflow, "DELETE", f"/connectors/{gone}")


def refused(airflow: Airflow, name: str) -> Any:
    found = connect(airflow, "GET", f"/ui/connectors/{name}/dead-letters")
    return found.json()["records"] if found.is_success else []


@pytest.mark.timeout(1200)
@pytest.mark.soak
def test_dead_letters_are_tried_replayed_and_followed(
    airflow: Airflow,
    browser: Browser,  # noqa: F811
    passwords: Mapping[str, str],  # noqa: F811
    page: Page,  # noqa: F811
    refuses: tuple[str, str, Path],
) -> None:
    name, topic, file = refuses
    opened(page, airflow, f"?connector={name}&tab=dead-letters")
    letters = page.get_by_role("table", name="Dead letters").get_by_role("row")
    expect(letters).to_have_count(3)
    older = letters.nth(2)
    older.locator("summary").click()
    older.get_by_role("button", name="Edit for replay").click()
    older.get_by_role("textbox", name="Value for replay").fill('{"n":2,"note":"by hand"}')
    expect(older.get_by_role("checkbox", name=re.compile("^Select the record at offset"))).to_be_checked()
    page.get_by_text("Transformations", exact=True).click()
    settings = page.get_by_role("textbox", name="Transformation settings, one per line")
    settings.fill("transforms")
    expect(page.get_by_text("Expected name=value, such as transforms=d, not transforms")).to_be_visible()
    dry_run, replay = page.get_by_role("button", name="Dry run"), page.get_by_role("button", name="Replay", exact=True)
    expect(dry_run).to_be_disabled()
    settings.fill(DROP)
    expect(replay).to_be_disabled()
    dry_run.click()
    tried = page.get_by_role("table", name="Records of the dry run").get_by_role("row").nth(1)
    expect(tried.get_by_role("cell")).to_have_text(
        [re.compile("^0:[0-9]+$"), f"{topic}, partition 0", 'Key: nullValue: {"n":2', 'Key: nullValue: {"n":2}']
    )
    expect(page.get_by_text("Nothing was written. A replay writes 1 record.")).to_be_visible()
    assert serious(page) == []
    page.screenshot(path=SCREENSHOTS / "page-replay-light.png", full_page=True)
    settings.fill("")
    expect(replay).to_be_disabled()  # another request than the one that was tried
    replay_and_follow(page, older)
    assert values_of(airflow.settings().bootstrap_servers, topic)[3:] == ['{"n":2,"note":"by hand"}']
    run = page.get_by_role("link", name=re.compile("^DAG run "))
    assert f"/dags/{dag_id_for(f'{name}-replay')}/runs/" in (run.get_attribute("href") or "")
    check_dark_theme(page)
    run.click()
    expect(page).to_have_url(re.compile("/runs/"))
    airflow.run(name)
    assert sorted(file.read_text().splitlines()) == ["{n=1}", "{note=by hand, n=2}"]
    check_as_viewer(signed_in(browser, airflow, "viewer", passwords["viewer"]), airflow, name)


def replay_and_follow(page: Page, letter: Locator) -> None:  # noqa: F811
    """The selected record, edited."""
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_role("table", name="Records of the dry run").get_by_role("row").nth(1)).to_contain_text('"note":"by hand"')
    page.get_by_role("button", name="Replay", exact=True).click()
    page.get_by_role("alertdialog").get_by_role("button", name="Replay").click()
    expect(page.get_by_text("Last replay done: 1 record written.")).to_be_visible()
    expect(letter).to_contain_text("replayed")


def check_dark_theme(page: Page) -> None:  # noqa: F811
    """After a reload, with a dry run of all that is left."""
    page.emulate_media(color_scheme="dark")
    page.evaluate("localStorage.setItem('theme', 'dark')")
    page.reload()
    expect(page.get_by_text("Last replay done: 1 record written.")).to_be_visible()
    assert page.evaluate("document.documentElement.classList.contains('dark')")
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_text("Nothing was written. A replay writes 1 record.")).to_be_visible()
    page.screenshot(path=SCREENSHOTS / "page-replay-dark.png", full_page=True)
    assert serious(page) == []
    page.evaluate("localStorage.setItem('theme', 'light')")
    page.emulate_media(color_scheme="light")


def check_as_viewer(viewer: Page, airflow: Airflow, name: str) -> None:
    """Who may not change the sink is offered no replay."""
    opened(viewer, airflow, f"?connector={name}&tab=dead-letters")
    expect(viewer.get_by_role("table", name="Dead letters").get_by_role("row")).to_have_count(3)
    assert viewer.get_by_role("button", name=re.compile("^(Dry run|Replay|Select)")).count() == 0
    assert viewer.get_by_role("checkbox").count() == 0
    viewer.context.close()
