"""Views of the page with answers that a real server once gave, so that their texts and pictures can be compared with kept ones.

``python -m tests.integration.standalone.page_views`` starts a server, records its answers, and renews the texts and pictures: after the
page was changed on purpose. ``--kept`` renews them with the kept answers. All are in ``views``.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from PIL import Image, ImageFilter

from airflow_provider_connect.dev.kafka_server import KafkaServer
from tests.chromium import launched
from tests.conftest import CACHE
from tests.integration.standalone.agent import Agent
from tests.integration.worker.environment import make_topic, send
from tests.waiting import HANG_SECONDS, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request, Response, Route

Theme = Literal["light", "dark"]
THEMES: Final[tuple[Theme, ...]] = ("light", "dark")
KEPT: Final = Path(__file__).parent / "views"
ANSWERS: Final = KEPT / "answers.json"
_AT: Final = "http://connect.test"
_CELL, _SIZE = 8, (640, 400)
_VISIBLE: Final = 12.0  # of 255, in the mean of a cell; how other versions of the browser smooth letters stays below


JSON = "org.apache.kafka.connect.json.JsonConverter"
VIEWS: Final = {
    "list": ("", "tr[data-connector=orders-source]"),
    "overview": ("?connector=orders-refused", "[role=tabpanel] >> text=topic orders-json"),
    "tasks": ("?connector=orders-sink&tab=tasks", "table"),
    "offsets": ("?connector=orders-source&tab=offsets", "[aria-label=Offsets]"),
    "dead-letters": ("?connector=orders-refused&tab=dead-letters", "table[aria-label='Dead letters']"),
    "topics": ("?connector=orders-source&tab=topics", "[role=tabpanel] >> text=orders"),
    "config": ("?connector=orders-sink&tab=config", "[aria-label=Config]"),
    "classes": ("?new=1", "text=FileStreamSource"),
    "form": ("?new=1&class=FileStreamSource", "text=/[1-9].* errors?$/"),
}
"""By name: the page's query, and what there is once it is drawn."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What a server answered, by method and address, at the time ``at_ms``."""

    at_ms: int
    by_request: dict[str, dict[str, Any]]

    @classmethod
    def kept(cls) -> Answers:
        return cls(**json.loads(ANSWERS.read_text(encoding="utf-8")))


@contextmanager
def drawn_view(browser: Browser, answers: Answers, view: str, theme: Theme) -> Iterator[Page]:
    """The view, once it no longer changes. Raises AssertionError where the page asks for what was not recorded."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 800}, color_scheme=theme, reduced_motion="reduce", locale="en-US", timezone_id="UTC"
    )
    page, asked, unknown = context.new_page(), list[str](), list[str]()

    def answer(route: Route) -> None:
        path = route.request.url.removeprefix(_AT)
        asked.append(path)
        if (script := path.partition("?")[0]).endswith(".js"):
            body = files("airflow_provider_connect.rest").joinpath("ui", script.rpartition("/")[2]).read_bytes()
            return route.fulfill(body=body, content_type="text/javascript")
        known = answers.by_request.get(_key(route.request, _AT))
        if known is None:
            unknown.append(path)
            return route.fulfill(status=404, json={"error_code": 404, "message": "not recorded"})
        return route.fulfill(status=known["status"], body=known["body"], content_type=known["type"])

    page.route(f"{_AT}/**", answer)
    page.clock.set_fixed_time(answers.at_ms / 1000)
    _draw(page, _AT, view)
    before = None
    while before != (now := (text(page), len(asked))):
        before = now
        page.evaluate("new Promise(requestIdleCallback)")
        page.wait_for_timeout(250)
    assert unknown == [], f"not in {ANSWERS.name}: record the answers again"
    yield page
    context.close()


def text(page: Page) -> str:
    """The roles, names and texts of all that is in the page, as YAML: the same with any font and theme."""
    return page.locator("body").aria_snapshot() + "\n"


def picture(page: Page) -> bytes:
    """The page as PNG."""
    return page.screenshot(animations="disabled", caret="hide")


def _draw(page: Page, address: str, view: str) -> None:
    query, drawn = VIEWS[view]
    page.goto(f"{address}/ui{query}")
    page.locator(drawn).first.wait_for(timeout=1000 * HANG_SECONDS)
    page.wait_for_timeout(500)


def _key(request: Request, address: str) -> str:
    return f"{request.method} {request.url.removeprefix(address)}"


def kept_text(view: str) -> Path:
    return KEPT / f"{view}.yaml"


def kept_picture(view: str, theme: Theme) -> Path:
    return KEPT / f"{view}-{theme}.webp"


def small(taken: Path | bytes) -> Image.Image:
    """The picture as it is kept and compared: smaller, without the fine shapes of letters."""
    if isinstance(taken, Path):
        with Image.open(taken) as kept:
            return kept.convert("RGB")
    with Image.open(io.BytesIO(taken)) as whole:
        return whole.convert("RGB").resize(_SIZE, Image.Resampling.LANCZOS)


def changed_share(one: Image.Image, other: Image.Image) -> float:
    """Which part of the view differs, from 0 to 1."""
    blurred = [np.asarray(each.filter(ImageFilter.GaussianBlur(2)), dtype=np.float64) for each in (one, other)]
    rows, columns = _SIZE[1] // _CELL, _SIZE[0] // _CELL
    cells = [each.reshape(rows, _CELL, columns, _CELL, 3).mean(axis=(1, 3)) for each in blurred]
    return float((np.abs(cells[0] - cells[1]).max(axis=2) > _VISIBLE).mean())


# ── recording ──


@contextmanager
def _server(folder: Path) -> Iterator[Agent]:
    """With a source that runs, a sink that has failed, one that has refused a record, and one that is stopped."""
    (folder / "orders.txt").write_text("".join(f"order {number}\n" for number in range(1000)))
    with KafkaServer(folder / "kafka", CACHE, {}) as kafka:
        make_topic(kafka.bootstrap_servers, "orders-json")
        send(kafka.bootstrap_servers, "orders-json", ['{"order":1}', '{"order":'])
        agent = Agent(folder, kafka.bootstrap_servers).start()
        try:
            for name, config in _connectors(folder).items():
                code, text = agent.request("POST", "/connectors", {"name": name, "config": config})
                assert code == 201, text
            agent.request("PUT", "/connectors/orders-stopped/stop")
            wait_until(lambda: "FAILED" in agent.states("orders-sink"))
            wait_until(lambda: agent.states("orders-stopped") == ["STOPPED"])
            wait_until(lambda: agent.request("GET", "/ui/connectors/orders-refused/dead-letters")[1].get("records"))
            wait_until(lambda: agent.request("GET", "/connectors/orders-source/offsets")[1]["offsets"])
            yield agent
        finally:
            agent.stop()


def _connectors(folder: Path) -> dict[str, dict[str, str]]:
    sink = {
        "connector.class": "FileStreamSink",
        "topics": "orders-json",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
    }
    queue = {"topic.name": "orders-refused-records", "topic.replication.factor": "1", "context.headers.enable": "true"}
    tolerant = {"errors.tolerance": "all", **{f"errors.deadletterqueue.{key}": value for key, value in queue.items()}}
    source = {"connector.class": "FileStreamSource", "topic": "orders", "file": str(folder / "orders.txt")}
    return {
        "orders-source": source,
        "orders-sink": {**sink, "file": str(folder / "sink.txt")},
        "orders-refused": {**sink, **tolerant, "file": str(folder / "refused.txt")},
        "orders-stopped": {**source, "topic": "orders-again"},
    }


def _recorded(browser: Browser, agent: Agent, folder: Path) -> Answers:
    address = f"http://127.0.0.1:{agent.port}"
    found: dict[str, dict[str, Any]] = {}
    page = browser.new_page()

    def note(response: Response) -> None:
        if not response.url.partition("?")[0].endswith(".js"):
            body = response.text().replace(str(folder), "/data").replace(address, _AT).replace(str(agent.port), "8083")
            found[_key(response.request, address)] = {
                "status": response.status,
                "type": response.headers.get("content-type", ""),
                "body": body.replace(agent.bootstrap, "kafka:9092"),
            }

    page.on("response", note)
    for view in VIEWS:
        _draw(page, address, view)
    page.wait_for_timeout(16_000)  # what is asked for less often
    at_ms = round(time.time() * 1000)
    page.close()
    return Answers(at_ms, found)


def _record(browser: Browser) -> None:
    with tempfile.TemporaryDirectory() as name, _server(Path(name)) as agent:
        answers = _recorded(browser, agent, Path(name))
    ANSWERS.write_text(json.dumps({"at_ms": answers.at_ms, "by_request": answers.by_request}, indent=1, sort_keys=True) + "\n")


def main() -> None:
    with launched(CACHE) as browser:
        if "--kept" not in sys.argv:
            _record(browser)
        for view in VIEWS:
            for theme in THEMES:
                with drawn_view(browser, Answers.kept(), view, theme) as page:
                    kept_text(view).write_text(text(page), encoding="utf-8")
                    small(picture(page)).save(kept_picture(view, theme), quality=80)


if __name__ == "__main__":
    main()
