"""Changes by the page on ``connect-standalone``, in a real Chromium: what is typed reaches the server as it is."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, Request, expect

from tests.chromium import serious
from tests.integration.standalone.agent import Agent
from tests.integration.standalone.conftest import SCREENSHOTS, opened
from tests.integration.worker.environment import make_topic, send
from tests.unit.plugins.locations import tree
from tests.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.soak  # a browser for each; one change of each kind: test_page

ACCOUNT = """\
import time
from pathlib import Path

from airflow_provider_connect.sdk import Batch, ConfigDef, ConfigKey, SinkConnector, SinkTask, SourceConnector, SourceTask, Type, pa


class AccountTask(SourceTask):
    def start(self, config):
        self.config, self.partition = config, {"account": 9223372036854775807}
        self.is_done = bool(self.context.offset(self.partition))

    def poll(self):
        if self.is_done:
            return None
        self.is_done = True
        offset = {"id": 1780000000000000123}
        return Batch.of(self.config["topic"], value=pa.array(["a row"]), source_partition=self.partition, source_offset=offset)

    def stop(self):
        pass


class AccountSource(SourceConnector):
    \"\"\"Logs in to be validated, as connectors of databases do. All logins are noted.\"\"\"

    task_class = AccountTask
    config_def = ConfigDef(
        ConfigKey("topic"), ConfigKey("logins"), ConfigKey("note", default=""), ConfigKey("login.password", Type.PASSWORD)
    )

    def task_configs(self, max_tasks):
        return [self.config]

    def alter_offsets(self, config, offsets):
        return True

    def validate(self, config):
        values = super().validate(config)
        with Path(config["logins"]).open("a") as logins:
            logins.write(config.get("login.password", "") + " " + config.get("x.api.password", "") + "\\n")
        if config.get("login.password") not in ("topsecret", "hunter2"):
            next(value for value in values if value.name == "topic").errors.append("the login is refused")
        return values


class SlowTask(SinkTask):
    def start(self, config):
        pass

    def put(self, batch):
        time.sleep(len(batch) / 5_000)

    def stop(self):
        pass


class SlowSink(SinkConnector):
    task_class = SlowTask
    config_def = ConfigDef()

    def task_configs(self, max_tasks):
        return [{}]
"""
ENTRIES = "source:AccountSource = account:AccountSource", "sink:SlowSink = account:SlowSink"
NAME = "account"


@pytest.fixture(scope="module")
def agent(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    folder = tmp_path_factory.mktemp("agent")
    tree(folder / "plugins" / "account", "account", "1.0", {"account.py": ACCOUNT}, *ENTRIES)
    agent = Agent(folder, bootstrap, {"plugin.path": str(folder / "plugins"), "offset.flush.interval.ms": "500"})
    agent.start()
    yield agent
    agent.stop()


@pytest.fixture
def account(agent: Agent, unique: str) -> Iterator[Path]:
    """A connector that logs in, ``NAME``; the file of its logins."""
    logins = agent.folder / f"{unique}.logins"
    config = {"connector.class": "AccountSource", "topic": unique, "logins": str(logins), "note": "old", "login.password": "topsecret"}
    created = agent.request("POST", "/connectors", {"name": NAME, "config": {**config, "x.api.password": "further"}})
    assert created[0] == 201, created
    yield logins
    agent.request("DELETE", f"/connectors/{NAME}")


@pytest.fixture
def page(browser: Browser, agent: Agent) -> Iterator[Page]:
    page, _ = opened(browser, agent)
    yield page
    page.close()


def at(page: Page, agent: Agent, query: str) -> None:
    page.goto(f"http://127.0.0.1:{agent.port}/ui{query}")


def confirmed(page: Page, label: str) -> None:
    dialog = page.get_by_role("alertdialog")
    dialog.get_by_role("button", name=label).click()
    dialog.wait_for(state="hidden")


def test_a_secret_is_kept_replaced_and_removed_by_the_form(page: Page, agent: Agent, account: Path) -> None:
    account.write_text("")
    at(page, agent, f"?connector={NAME}&tab=config")
    page.get_by_role("button", name="Edit config").click()
    password = page.get_by_label("login.password", exact=False).first
    expect(password).to_have_value("")
    expect(password).to_have_attribute("placeholder", "unchanged")
    page.get_by_role("textbox", name="note").fill("a note")
    expect(page.get_by_text("1 changed")).to_be_visible()
    expect(page.get_by_text("No errors")).to_be_visible()
    assert logins(account) == {"topsecret further"}, "each validation logs in with the password that the connector has"
    password.press_sequentially("hunter2")
    expect(page.get_by_text("2 changed")).to_be_visible()
    password.fill("")
    expect(page.get_by_text("1 changed")).to_be_visible()
    password.press_sequentially("hunter2")
    expect(page.get_by_text("No errors")).to_be_visible()
    assert serious(page) == []
    page.get_by_role("button", name="Change config").click()
    expect(page.get_by_role("alertdialog")).to_contain_text("login.password: secret changed")
    expect(page.get_by_role("alertdialog")).to_contain_text("note: old → a note")
    confirmed(page, "Change config")
    expect(page.get_by_text("Config changed.")).to_be_visible()
    page.get_by_role("button", name="Dismiss").click()

    account.write_text("")
    page.get_by_role("button", name="Edit config").click()
    expect(page.get_by_text("No errors")).to_be_visible()
    assert logins(account) == {"hunter2 further"}, "the password that was typed is the one that is stored"
    page.get_by_role("button", name="Remove login.password").click()
    expect(page.get_by_text(re.compile("^[1-9] error"))).to_be_visible()  # it is required
    expect(page.get_by_role("button", name="Change config")).to_be_disabled()
    page.get_by_role("button", name="Keep login.password").click()
    page.get_by_label("x.api.password", exact=False).first.press_sequentially("other")
    expect(page.get_by_text("1 changed")).to_be_visible()
    expect(page.get_by_text("No errors")).to_be_visible()
    page.get_by_role("button", name="Change config").click()
    confirmed(page, "Change config")
    expect(page.get_by_text("Config changed.")).to_be_visible()
    assert wait_until(lambda: account.read_text().splitlines()[-1] == "hunter2 other")


def logins(file: Path) -> set[str]:
    """The passwords of all logins that had one."""
    return {line for line in file.read_text().splitlines() if line[0] != " "}


def test_whole_numbers_of_64_bits_are_shown_and_sent_as_they_are(page: Page, agent: Agent, account: Path) -> None:
    path, partition = f"/connectors/{NAME}/offsets", {"account": 9223372036854775807}
    wait_until(lambda: agent.request("GET", path)[1]["offsets"])
    at(page, agent, f"?connector={NAME}&tab=offsets")
    offset = page.get_by_role("textbox", name='Offset of {"account":9223372036854775807}')
    expect(offset).to_have_value('{"id":1780000000000000123}')
    offset.fill('{"id": 1780000000000000125}')
    page.get_by_role("button", name="Change offsets").click()
    expect(page.get_by_role("alertdialog")).to_contain_text('{"id":1780000000000000123} → {"id": 1780000000000000125}')
    confirmed(page, "Change offsets")
    expect(page.get_by_text("Offsets changed. The connector has resumed.")).to_be_visible()
    expect(offset).to_have_value('{"id":1780000000000000125}')
    assert agent.request("GET", path)[1]["offsets"] == [{"partition": partition, "offset": {"id": 1780000000000000125}}]


def test_what_was_done_is_shown_where_the_connector_cannot_be_resumed(page: Page, agent: Agent, account: Path) -> None:
    wait_until(lambda: agent.request("GET", f"/connectors/{NAME}/offsets")[1]["offsets"])
    at(page, agent, f"?connector={NAME}&tab=offsets")
    page.route("**/resume", lambda route: route.abort())  # the server is restarted just then
    page.get_by_role("button", name="Reset all").click()
    confirmed(page, "Reset offsets")
    expect(page.get_by_text(re.compile("Offsets reset. However, the connector may still be STOPPED, .* resumed"))).to_be_visible()
    assert agent.states(NAME) == ["STOPPED"]
    page.get_by_role("textbox", name=re.compile("^Offset of")).wait_for(state="detached")
    page.unroute("**/resume")
    page.get_by_role("button", name="Resume").click()
    wait_until(lambda: agent.states(NAME) == ["RUNNING", "RUNNING"])


def test_a_connector_is_stopped_and_deleted(page: Page, agent: Agent, account: Path) -> None:
    at(page, agent, f"?connector={NAME}&tab=tasks")
    page.get_by_role("button", name="Stop", exact=True).click()
    confirmed(page, "Stop")
    expect(page.get_by_text("A stopped connector has no tasks.")).to_be_visible()
    assert agent.states(NAME) == ["STOPPED"]
    page.get_by_role("button", name="Delete").click()
    assert serious(page, "[role=alertdialog]") == []
    page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Connectors", level=1)).to_be_visible()
    expect(page.get_by_text(f"Connector {NAME} deleted.")).to_be_visible()
    expect(page.locator(f"tr[data-connector={NAME}]")).to_have_count(0)
    assert agent.request("GET", f"/connectors/{NAME}/config")[0] == 404
    page.go_back()
    page.go_forward()
    expect(page.get_by_role("heading", name="Connectors", level=1)).to_be_visible()


def test_nothing_is_shown_of_a_connector_that_another_user_has_deleted(page: Page, agent: Agent, account: Path) -> None:
    at(page, agent, f"?connector={NAME}")
    expect(page.get_by_role("button", name="Delete")).to_be_visible()
    assert agent.request("DELETE", f"/connectors/{NAME}")[0] == 204
    expect(page.get_by_text("Connector not found")).to_be_visible()
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)
    page.get_by_role("link", name="All connectors").click()
    expect(page.get_by_role("heading", name="Connectors", level=1)).to_be_visible()


@pytest.fixture
def many(agent: Agent, unique: str) -> Iterator[list[str]]:
    """Sixty connectors that are STOPPED: more than the list shows at once."""
    with stopped(agent, unique, [f"many-{number:02}" for number in range(60)]) as names:
        yield names


@contextmanager
def stopped(agent: Agent, topic: str, names: list[str]) -> Iterator[list[str]]:
    """Connectors with these names that are STOPPED."""
    config = {"connector.class": "FileStreamSource", "file": str(agent.folder / "none.txt"), "topic": topic}
    for name in names:
        created = agent.request("POST", "/connectors", {"name": name, "config": config, "initial_state": "STOPPED"})
        assert created[0] == 201, created
    yield names
    for name in names:
        agent.request("DELETE", f"/connectors/{name}")


def test_the_list_is_at_its_top_after_a_filter_that_nothing_fits(page: Page, agent: Agent, many: list[str]) -> None:
    at(page, agent, "")
    box = page.get_by_role("region", name="Table of connectors")
    box.evaluate("(box) => box.scrollTo(0, box.scrollHeight)")
    expect(row(page, many[-1])).to_be_in_viewport()
    page.get_by_label("State", exact=True).select_option("FAILED")
    expect(page.get_by_text("No connectors match the search and filters.")).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 2400})
    page.get_by_label("State", exact=True).select_option("")
    expect(row(page, many[0])).to_be_in_viewport()
    expect(row(page, many[30])).to_be_in_viewport()  # of a box that is higher than when the page was loaded


def test_a_list_of_hundreds_is_read_as_far_as_it_is_in_view(page: Page, agent: Agent, unique: str) -> None:
    with stopped(agent, unique, [f"some-{number:03}" for number in range(230)]) as names:
        at(page, agent, "?q=some-")
        expect(page.get_by_text(re.compile("^230 "))).to_be_visible()
        box = page.get_by_role("region", name="Table of connectors")
        for top, name in ((1.0, names[-1]), (0.5, names[115]), (0.0, names[0])):
            box.evaluate("(box, top) => box.scrollTo(0, top * (box.scrollHeight - box.clientHeight))", top)
            expect(row(page, name)).to_be_in_viewport()
            assert page.locator("tr[data-connector]").count() <= 100
        page.get_by_text("Select all listed").check(force=True)
        expect(page.get_by_text("230 selected")).to_be_visible()
        page.get_by_role("button", name=re.compile("^Name")).click()
        expect(row(page, names[-1])).to_be_in_viewport()
        page.get_by_text("Select all listed").uncheck(force=True)
        expect(page.get_by_text("0 selected", exact=True)).to_be_visible()


def test_verbs_on_many_leave_alone_what_is_not_listed(page: Page, agent: Agent, many: list[str]) -> None:
    at(page, agent, "?q=many-0")
    for name in many[:2]:
        row(page, name).get_by_text(f"Select {name}").check(force=True)
    expect(page.get_by_text("2 selected")).to_be_visible()
    page.get_by_label("Search connectors").fill("many-3")
    row(page, many[30]).get_by_text(f"Select {many[30]}").check(force=True)
    expect(page.get_by_text("1 selected, 2 more hidden by the filters and not affected")).to_be_visible()
    assert serious(page) == []
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_text("1 connector resumed.")).to_be_visible()
    wait_until(lambda: agent.states(many[30])[:1] == ["RUNNING"])
    assert [agent.states(name) for name in many[:2]] == [["STOPPED"]] * 2

    page.get_by_text("Select all listed").check(force=True)
    expect(page.get_by_text("10 selected, 2 more hidden by the filters and not affected")).to_be_visible()
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_text("10 connectors resumed.")).to_be_visible()
    page.get_by_text("Select all listed").check(force=True)
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("alertdialog")).to_contain_text("Stop 10 connectors?")
    confirmed(page, "Stop")
    expect(page.get_by_text("10 connectors stopped.")).to_be_visible()
    wait_until(lambda: all(agent.states(name) == ["STOPPED"] for name in many[30:40]))
    page.get_by_label("Search connectors").fill("many-0")
    expect(page.get_by_text("2 selected", exact=True)).to_be_visible()


def row(page: Page, name: str) -> Locator:
    return page.locator(f"tr[data-connector={name}]")


@pytest.mark.soak
def test_a_config_is_validated_under_the_name_that_is_typed_and_a_refusal_once(page: Page, agent: Agent, unique: str) -> None:
    sent: list[str | None] = []

    def note(request: Request) -> None:
        if request.url.endswith("/validate"):
            sent.append((request.post_data_json or {}).get("name"))

    page.on("request", note)
    at(page, agent, "?new=1&class=FileStreamSource")
    expect(page.get_by_text(re.compile("^[1-9].* errors?$"))).to_be_visible()
    page.get_by_label("Name", exact=False).first.fill(f" {unique} ")
    page.get_by_role("textbox", name=re.compile("^topic")).first.fill(unique)
    page.get_by_role("textbox", name=re.compile(r"^file\b")).first.fill(str(agent.folder / "none.txt"))
    expect(page.get_by_text("No errors")).to_be_visible()
    assert set(sent) == {None, unique}
    page.get_by_label("Name of another setting").fill("x.password")
    page.get_by_role("button", name="Add setting").click()
    page.get_by_label("x.password", exact=False).first.fill("[hidden]")
    expect(page.get_by_text("Cannot validate the config")).to_be_visible()
    asked = len(sent)
    page.wait_for_timeout(7000)  # longer than it waits before it asks again
    assert len(sent) == asked
    page.get_by_role("button", name="Remove x.password").click()
    page.get_by_role("button", name="Create connector").click()
    page.get_by_role("heading", name=unique, level=1).wait_for()
    assert agent.request("GET", f"/connectors/{unique}/config")[0] == 200


@pytest.mark.soak
def test_what_a_sink_delivers_is_followed_to_its_end(page: Page, agent: Agent, unique: str) -> None:
    make_topic(agent.bootstrap, unique)
    send(agent.bootstrap, unique, [str(number) for number in range(90_000)])  # eighteen seconds for this sink
    config = {"connector.class": "SlowSink", "topics": unique}
    assert agent.request("POST", "/connectors", {"name": unique, "config": config})[0] == 201
    at(page, agent, f"?connector={unique}")
    progress = page.get_by_role("group", name="Progress of current runs")
    expect(progress).to_have_text(re.compile(r"Delivered: [\d,]+ records · [\d,]+ records/s · [\d,]+ left · \d+ s at this rate"))
    bar = progress.get_by_role("progressbar", name="Delivered")
    percents, lefts = [percent_of(bar)], [left_of(progress)]
    assert serious(page) == []
    page.screenshot(path=SCREENSHOTS / "page-progress-light.png")
    ends = time.monotonic() + HANG_SECONDS
    while percents[-1] < 100 and time.monotonic() < ends:
        page.wait_for_timeout(500)
        percents.append(percent_of(bar))
        lefts.append(left_of(progress))
    assert percents == sorted(percents)
    assert lefts == sorted(lefts, reverse=True)
    assert len(set(percents)) > 3, "it was seen on its way"
    expect(progress).to_contain_text("Delivered: 90,000 records")
    expect(progress).to_contain_text("nothing left")
    page.get_by_role("button", name="Stop", exact=True).click()
    confirmed(page, "Stop")
    progress.wait_for(state="detached")
    agent.request("DELETE", f"/connectors/{unique}")


def test_a_position_beyond_the_end_is_not_shown_as_caught_up(page: Page, agent: Agent, unique: str) -> None:
    make_topic(agent.bootstrap, unique)
    config = {"connector.class": "SlowSink", "topics": unique}
    assert agent.request("POST", "/connectors", {"name": unique, "config": config, "initial_state": "STOPPED"})[0] == 201
    offset = {"partition": {"kafka_topic": unique, "kafka_partition": 0}, "offset": {"kafka_offset": 1000}}
    assert agent.request("PATCH", f"/connectors/{unique}/offsets", {"offsets": [offset]})[0] == 200
    at(page, agent, f"?connector={unique}&tab=offsets")
    expect(page.get_by_text("The position of one partition is beyond the end, so the lag there is unknown.")).to_be_visible()
    expect(page.get_by_role("table", name="Lag by partition").get_by_role("row").nth(1)).to_contain_text("unknown")
    assert page.get_by_text("Caught up.").count() == 0
    agent.request("DELETE", f"/connectors/{unique}")


def percent_of(bar: Locator) -> int:
    return int(bar.get_attribute("aria-valuenow") or "0")


def left_of(progress: Locator) -> int:
    found = re.search(r"([\d,]+) left", progress.text_content() or "")
    return int(found[1].replace(",", "")) if found else 0


def test_a_log_level_is_set_for_all_processes(page: Page, agent: Agent) -> None:
    at(page, agent, "")
    page.get_by_role("link", name="Log levels").click()
    page.get_by_role("heading", name="Log levels", level=1).wait_for()
    page.get_by_label("Logger", exact=True).fill("airflow_provider_connect.rest")
    page.get_by_label("Level", exact=True).select_option("WARN")
    page.get_by_role("button", name="Set level").click()
    expect(page.get_by_text("airflow_provider_connect.rest is set to WARN on all servers")).to_be_visible()
    levels = page.get_by_role("table", name="Log levels")
    expect(levels.get_by_role("row").filter(has_text="WARN").first).to_contain_text("airflow_provider_connect.rest")
    assert agent.request("GET", "/admin/loggers/airflow_provider_connect.rest")[1]["level"] == "WARN"
    assert serious(page) == []
    page.get_by_label("Logger", exact=True).fill(" ")
    expect(page.get_by_role("button", name="Set level")).to_be_disabled()
    page.get_by_role("link", name="All connectors").click()
    page.get_by_role("heading", name="Connectors", level=1).wait_for()
