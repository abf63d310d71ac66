"""``airflow connect top``: what a frame shows of connectors, in terminals of several sizes."""

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from airflow_provider_connect.cli import own_connect
from airflow_provider_connect.cli.overview import Line, Overview
from airflow_provider_connect.cli.printing import print_rows
from airflow_provider_connect.cli.top import SORTS, frame
from airflow_provider_connect.client.conversation import ServerException
from airflow_provider_connect.data.records import Distance
from airflow_provider_connect.errors import NotFoundException
from airflow_provider_connect.runtime.model.page import ConnectorRow, PlanView, RunView
from airflow_provider_connect.runtime.model.progress import Progress
from airflow_provider_connect.runtime.model.views import (
    ConnectorInfo,
    ConnectorStatusView,
    Health,
    HealthWord,
    StateView,
    TaskView,
    WorkerView,
)

NOW_MS = 1_000_000_000_000.0
LAST = RunView("run-1", 1, 70, 9000, 1.0, 1.0, 0, int(NOW_MS) - 90_000)
BEHIND = "36,000 records wait: more than it delivers in a minute."
FAILURE = "shop.NoTable: no table orders in schema public, which the connector's setting table.whitelist names"


def line(name: str, state: str = "RUNNING", **changes: Any) -> Line:
    progress = changes.pop("progress", None)
    row = ConnectorRow(name, f"connect.{name}", "sink", "org.FileStreamSink", "1", state, {"RUNNING": 2}, False, None)
    return Line(ConnectorRow(**{**{key: getattr(row, key) for key in row.__slots__}, **changes}), progress)


RUNS = line("orders-sink", lag=36_000, progress=Progress(1_234_567, 45_000_000, 300.0), plan=PlanView(int(NOW_MS) + 40_000, None, []))
RUNS = replace(RUNS, row=replace(RUNS.row, health=Health(HealthWord.BEHIND, BEHIND)))
IDLE = Health(HealthWord.IDLE, "It has delivered nothing for an hour.")
WAITS = line("customers", last_run=LAST, lag=0, health=IDLE, plan=PlanView(int(NOW_MS) - 1, None, []))
FAILED = line("invoices", tasks={"RUNNING": 1, "FAILED": 1}, last_run=LAST, health=Health(HealthWord.FAILING, FAILURE))


def shown(lines: Sequence[Line], width: int, **more: Any) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, markup=False, emoji=False)
    console.print(frame(lines, width, now_ms=NOW_MS, **more))
    return [text.rstrip() for text in out.getvalue().splitlines()]


def test_a_wide_frame_has_all_there_is() -> None:
    summary, head, *rows = shown([FAILED, RUNS, WAITS], 220)
    assert summary.endswith("3 connectors · 1 with a run in progress · 1 failed")
    assert head.split() == ["NAME", "STATE", "HEALTH", "TASKS", "RUN", "RECORDS", "BYTES", "RATE", "LAG", "LEFT", "NEXT", "REASON"]
    assert rows[0].endswith(FAILURE)
    assert rows[0].split()[:5] == ["invoices", "RUNNING", "failing", "1/2", "90"]
    assert rows[1].split() == [
        "orders-sink",
        "RUNNING",
        "behind",
        "2/2",
        "now",
        "1,234,567",
        "45.0",
        "MB",
        "300/s",
        "36,000",
        "2",
        "min",
        "in",
        "40",
        "s",
        *BEHIND.split(),
    ]
    assert rows[2].split() == ["customers", "RUNNING", "idle", "2/2", "90", "s", "ago", "70", "9.0", "kB", "-", "0", "-", "due"]


@pytest.mark.parametrize("width", range(20, 230, 7))
def test_a_frame_fits_its_terminal(width: int) -> None:
    texts = shown([FAILED, RUNS, line("n" * 300), line("日本" * 40)], width)
    assert max(map(len, texts)) <= width
    assert len(texts) == 6
    assert texts[1].split()[:2] == ["NAME", "STATE"]


def test_a_narrow_frame_keeps_what_matters() -> None:
    assert shown([WAITS], 80)[1].split() == ["NAME", "STATE", "HEALTH", "TASKS", "RUN", "RECORDS", "RATE", "LAG", "LEFT", "NEXT"]
    assert shown([RUNS], 80)[1].split() == ["NAME", "STATE", "HEALTH", "TASKS", "RECORDS", "LAG", "REASON"]
    _, head, row = shown([FAILED], 60)
    assert ("REASON" in head.split(), "shop.NoTable" in row) == (True, True)
    assert shown([RUNS], 40)[1].split() == ["NAME", "STATE", "HEALTH", "LAG"]


def test_a_low_terminal_has_the_first_lines_and_their_number() -> None:
    texts = shown([RUNS, WAITS, FAILED], 100, height=5, note="q quits")
    assert (len(texts), texts[-1]) == (5, "… and 1 more · q quits")


def test_without_connectors_the_first_step_is_named() -> None:
    (text,) = shown([], 120)
    assert "No connectors yet: airflow connect create NAME" in text


def test_texts_of_strangers_steer_no_terminal() -> None:
    hostile = line("a\x1b[2J[bold]b\n", state="[red]", health=Health(HealthWord.FAILING, "x\x9b31m\u202e"), tasks={})
    texts = shown([hostile], 120, note="\x1b[0m")
    assert all(each.isprintable() for each in texts)
    assert "a\ufffd[2J[bold]b" in texts[2]


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("state", ["invoices", "orders-sink", "customers"]),
        ("name", ["customers", "invoices", "orders-sink"]),
        ("lag", ["orders-sink", "customers", "invoices"]),
        ("records", ["orders-sink", "customers", "invoices"]),
        ("rate", ["orders-sink", "customers", "invoices"]),
    ],
)
def test_lines_are_sorted(order: str, names: list[str]) -> None:
    assert [each.row.name for each in sorted([WAITS, RUNS, FAILED], key=SORTS[order])] == names


class RealConnect:
    """A Kafka Connect without any route of ours, which counts how often it is asked for one."""

    def __init__(self, refusal: Exception) -> None:
        self.refused, self.refusal = 0, refusal

    def carry_out(self, call: object) -> object:
        self.refused += 1
        raise self.refusal

    def workers(self) -> list[WorkerView]:
        self.refused += 1
        raise NotFoundException("HTTP 404 Not Found")

    def expanded(self, info: bool, status: bool) -> dict[str, dict[str, object]]:
        state = ConnectorStatusView("b", StateView("RUNNING", "w"), [TaskView(0, "FAILED", "w", trace="E: no\n\tat x")], "sink")
        infos = {name: ConnectorInfo(name, {"connector.class": "C"}, [], "sink") for name in "ab"}
        return {"b": {"info": infos["b"], "status": state}, "a": {"info": infos["a"]}, "gone": {}}


@pytest.mark.parametrize("refusal", [NotFoundException("HTTP 404 Not Found"), ServerException("a proxy's page", 404)])
def test_of_a_real_kafka_connect_states_and_failures_are_known(refusal: Exception) -> None:
    connect: Any = RealConnect(refusal)
    overview = Overview(connect)
    for _ in range(3):
        first, second = overview.lines()
        assert (first.row.name, first.row.state, second.row.tasks, second.row.health) == (
            "a",
            None,
            {"FAILED": 1},
            Health(HealthWord.FAILING, "E: no"),
        )
    assert connect.refused == 2
    assert [each.row.name for each in overview.lines(["b"])] == ["b"]
    with pytest.raises(NotFoundException, match="Connector c, d not found"):
        overview.lines(["d", "b", "c"])


REFUSING = Health(HealthWord.REFUSING, "The last run left out 1 of 2 records.")


class HerderOfACommand:
    """Has read nothing yet, as in a process that has just started: only the batch log names what a run has left out."""

    def __init__(self) -> None:
        self.trouble: Health | None = None

    def task_metrics(self) -> None:
        self.trouble = REFUSING

    def listed(self) -> list[tuple[ConnectorInfo, ConnectorStatusView]]:
        status = ConnectorStatusView("a", StateView("RUNNING", "w"), [], "sink", self.trouble)
        return [(ConnectorInfo("a", {"connector.class": "C"}, [], "sink"), status)]

    def distances(self, names: Sequence[str]) -> dict[str, Distance]:
        return {}

    def pace(self, name: str) -> None:
        return None


@pytest.mark.parametrize("names", [[], ["a"]])
def test_records_that_the_last_run_left_out_are_reported_by_the_first_read(names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class NoRuns:
        def last(self) -> dict[str, RunView]:
            return {}

        def of(self, connector: str) -> list[RunView]:
            return []

        def planned(self) -> None:
            return None

    monkeypatch.setattr(own_connect, "MirroredRuns", NoRuns)
    herder: Any = HerderOfACommand()
    assert [row.health for row in own_connect.own_rows(herder, names)] == [REFUSING]


def test_states_are_coloured_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    rows = [{"state": "RUNNING", "tasks": ["1 RUNNING", "1 FAILED"]}, {"state": "wrong", "tasks": []}]
    printed = []
    for variables in ({"NO_COLOR": "", "TERM": "xterm"}, {"NO_COLOR": "1", "TERM": "xterm"}, {"NO_COLOR": "", "TERM": "dumb"}):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        out = Terminal()
        monkeypatch.setattr("sys.stdout", out)
        print_rows(rows, "table")
        printed.append(out.getvalue())
    assert "\x1b[32mRUNNING\x1b[0m  \x1b[1;31m1 RUNNING, 1 FAILED\x1b[0m\nwrong" in printed[0]
    assert "\x1b" not in printed[1] + printed[2]


def test_what_is_left_is_shown_of_sources_too() -> None:
    source = line("orders", left=5_000, left_unit="bytes", progress=Progress(10, 100, 2.0, 4_000, "bytes"))
    assert (source.left, source.seconds_left) == ((4_000, "bytes"), None)
    assert (line("orders", left=5_000, left_unit="bytes").left, RUNS.left[0], RUNS.seconds_left) == ((5_000, "bytes"), 36_000, 120.0)
    mirror = line("mirror", progress=Progress(10, 100, 2.0, 40, "records"))
    assert (mirror.left, mirror.seconds_left) == ((40, "records"), 20.0)
    console = Console(width=120, record=True)
    console.print(frame([source, mirror], 120, now_ms=NOW_MS))
    assert "4.0 kB" in console.export_text()
