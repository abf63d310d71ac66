"""The page on ``connect-standalone``, in a real Chromium: no Airflow, with React of its own."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import httpx
from playwright.sync_api import Browser, Locator, Page, expect

from airflow_provider_connect.dev.own_server import is_listening
from tests.chromium import beyond, serious
from tests.integration.standalone.agent import Agent, properties
from tests.integration.standalone.conftest import SCREENSHOTS, opened
from tests.waiting import HANG_SECONDS, wait_until

MakeAgent = Callable[..., Agent]
REFUSES = "refuses"
HOSTILE = "<img src=x onerror='document.title=\"hacked\"'>"


def refusing(topic: str, file: Path) -> dict[str, str]:
    """A sink that can read none of the lines."""
    return {
        "name": REFUSES,
        "connector.class": "FileStreamSink",
        "file": str(file),
        "topics": topic,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{topic}-letters",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }


def check_refused(page: Page, agent: Agent, topic: str) -> None:
    """Lag and dead letters of that sink, in the dark and by the keyboard."""
    wait_until(lambda: len(agent.request("GET", f"/ui/connectors/{REFUSES}/dead-letters")[1].get("records", [])) == 2)
    page.emulate_media(color_scheme="dark")
    page.get_by_role("link", name="All connectors").click()
    refuses = page.locator(f"tr[data-connector={REFUSES}]")
    expect(refuses.get_by_role("cell", name="0", exact=True)).to_have_count(1)  # its lag
    refuses.get_by_role("link", name=REFUSES).click()
    page.get_by_role("tab", name="Offsets").click()
    partition = page.get_by_role("table", name="Lag by partition").get_by_role("row").nth(1)
    expect(partition.get_by_role("cell")).to_have_text(
        [topic, "0", re.compile("[2-9]"), re.compile("[2-9]"), "0"]
    )  # markers have offsets too
    assert serious(page) == []
    page.get_by_role("tab", name="Dead letters").focus()
    page.keyboard.press("Enter")
    letters = page.get_by_role("table", name="Dead letters").get_by_role("row")
    expect(letters).to_have_count(3)
    expect(letters.nth(2)).to_contain_text(f"{topic}, partition 0, offset 0")
    expect(letters.nth(1)).to_contain_text("VALUE_CONVERTER")
    letters.nth(1).locator("summary").focus()
    page.keyboard.press("Enter")
    expect(letters.nth(1).get_by_text("two", exact=True)).to_be_visible()
    assert serious(page) == []
    page.screenshot(path=SCREENSHOTS / "page-letters-dark.png")
    replay_refused(page, agent, letters.nth(1))


def replay_refused(page: Page, agent: Agent, letter: Locator) -> None:
    """One of them is edited and replayed by the keyboard. There is no dry run where offsets are in a file, and the page shows why."""
    letter.get_by_role("button", name="Edit for replay").press("Enter")
    value = letter.get_by_role("textbox", name="Value for replay")
    value.focus()
    page.keyboard.press("Control+A")
    page.keyboard.type('{"n": 2}')
    expect(letter).to_contain_text("edited")
    expect(page.get_by_text("1 selected", exact=True)).to_be_visible()
    replay = page.get_by_role("button", name="Replay", exact=True)
    expect(replay).to_be_disabled()
    page.get_by_role("button", name="Dry run").press("Enter")
    expect(page.get_by_role("alert").filter(has_text="The dry run failed")).to_be_visible()
    assert serious(page) == []
    replay.press("Enter")
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("They go back to the topics on which they failed")
    assert serious(page, "[role=alertdialog]") == []
    dialog.get_by_role("button", name="Replay").press("Enter")
    expect(page.get_by_text("Last replay done: 1 record written.")).to_be_visible()
    expect(letter).to_contain_text("replayed")
    wait_until(lambda: agent.request("GET", f"/ui/connectors/{REFUSES}/replay")[1]["replay"]["is_done"])
    file = Path(agent.request("GET", f"/connectors/{REFUSES}/config")[1]["file"])
    wait_until(lambda: file.exists() and file.read_text() == "{n=2}\n")


def test_connectors_are_seen_paused_and_created_without_airflow(
    make_agent: MakeAgent, browser: Browser, tmp_path: Path, unique: str
) -> None:
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    (tmp_path / "source.properties").write_text(
        properties({"name": HOSTILE, "connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": unique})
    )
    (tmp_path / "refuses.properties").write_text(properties(refusing(unique, tmp_path / "nothing.txt")))
    agent = make_agent()
    agent.start(tmp_path / "source.properties", tmp_path / "refuses.properties")
    page, wrong = opened(browser, agent)
    row = page.locator(f"tr[data-connector={json.dumps(HOSTILE)}]")
    expect(row).to_contain_text("FileStreamSource")
    expect(row).to_contain_text("RUNNING")
    assert beyond(page, "Table of connectors") == []
    row.get_by_text(f"Select {HOSTILE}").check(force=True)
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(row).to_contain_text("PAUSED")
    assert agent.request("GET", f"/ui/connectors/{quote(HOSTILE, safe='')}")[1]["target"] == "PAUSED"
    row.get_by_role("link", name=HOSTILE).click()
    page.get_by_role("heading", name=HOSTILE, level=1).wait_for()
    assert page.get_by_role("tab").all_text_contents() == ["Overview", "Tasks", "Offsets", "Backfills", "Topics", "Config"]
    expect(page.get_by_role("tabpanel", name="Overview")).to_contain_text(re.compile(f"Reads.*Writestopic {unique}", re.DOTALL))
    page.get_by_role("tab", name="Offsets").click()
    expect(page.get_by_role("textbox", name=re.compile("^Offset of"))).to_have_value('{"position":8}')
    assert page.get_by_role("link", name="DAG").count() == 0
    page.reload()  # the address has it all
    expect(page.get_by_role("textbox", name=re.compile("^Offset of"))).to_have_value('{"position":8}')

    page.get_by_role("link", name="All connectors").click()
    page.get_by_role("link", name="New connector").click()
    page.get_by_label("Search classes").fill("filestreamsink")
    page.get_by_role("link", name=re.compile("FileStreamSink")).first.click()
    page.get_by_label("Name", exact=False).first.fill(unique)
    page.get_by_role("textbox", name=re.compile("^topics")).first.fill(unique)
    page.get_by_role("textbox", name=re.compile(r"^file\b")).first.fill(str(tmp_path / "out.txt"))
    page.get_by_role("button", name="Create connector").click()
    page.get_by_role("heading", name=unique).wait_for()
    wait_until(lambda: (tmp_path / "out.txt").exists() and (tmp_path / "out.txt").read_text() == "one\ntwo\n")
    page.get_by_role("tab", name="Offsets").click()
    expect(page.get_by_text("This server keeps no history of the lag.")).to_be_visible()
    page.get_by_role("table", name="Lag by partition").wait_for()
    page.get_by_role("tab", name="Dead letters").click()
    expect(page.get_by_text("This connector has no dead letter queue.")).to_be_visible()
    assert serious(page) == []
    check_refused(page, agent, unique)
    assert "hacked" not in page.title()
    assert wrong == ["Failed to load resource: the server responded with a status of 400 (Bad Request)"]  # the dry run that is refused


def test_the_page_is_for_the_users_of_the_server_and_loads_nothing_from_elsewhere(make_agent: MakeAgent, tmp_path: Path) -> None:
    users = tmp_path / "users.properties"
    users.write_text("ada=secret\n")
    users.chmod(0o600)
    agent = make_agent(rest_basic_auth_credentials_file=str(users))
    agent.start(answers=False)
    wait_until(lambda: is_listening(agent.port))
    with httpx.Client(base_url=f"http://127.0.0.1:{agent.port}", timeout=HANG_SECONDS) as stranger:
        for path in ("/ui", "/ui/host.js", "/ui/connectors"):
            answer = stranger.get(path)
            assert (answer.status_code, answer.headers["WWW-Authenticate"].partition(" ")[0]) == (401, "Basic"), path
    with httpx.Client(base_url=f"http://127.0.0.1:{agent.port}", timeout=HANG_SECONDS, auth=("ada", "secret")) as ada:
        answer = ada.get("/ui", headers={"Accept": "text/html,*/*;q=0.8"})
        assert answer.status_code == 200
        assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        addresses = re.findall(r'(?:src|href)="([^"]*)"', answer.text)
        assert [address.partition("?")[0] for address in addresses] == ["/", "ui/host.js", "ui/connect.js"]
        for address in addresses[1:]:
            script = ada.get(f"/{address}")
            assert script.status_code == 200
            assert "immutable" in script.headers["Cache-Control"]
