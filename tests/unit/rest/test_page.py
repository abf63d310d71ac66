"""The page's bundle belongs to its sources; the rows of its list."""

import gzip
import json
import re
from hashlib import sha256
from threading import Semaphore
from typing import Any

import pytest

from airflow_provider_connect.data.records import Distance
from airflow_provider_connect.rest.access import OpenToAll
from airflow_provider_connect.rest.calls import Calls
from airflow_provider_connect.rest.page import bundle
from airflow_provider_connect.rest.page_facts import KnownRows, NoRuns, PageFacts
from airflow_provider_connect.rest.refreshed import Refreshed
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.health import NOTHING_DELIVERED, health_of
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.page import ConnectorRow, PlanView, RunView, row_of
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.view_json import of_json
from airflow_provider_connect.runtime.model.views import ConnectorInfo, ConnectorStatusView, Health, HealthWord, StateView, TaskView
from tests.conftest import CHECKOUT
from tests.unit.herder.conftest import CONFIG, RunEnvironment
from tests.waiting import HANG_SECONDS, wait_until

UI = CHECKOUT / "ui"
MOST_BYTES = 150_000


def test_the_committed_bundle_is_that_of_the_committed_sources() -> None:
    """``make ui`` builds it anew."""
    digest = sha256()
    for name in ["build.mjs", "package-lock.json", *(f"src/{file.name}" for file in sorted((UI / "src").iterdir()))]:
        digest.update(f"{name}\n".encode() + (UI / name).read_bytes())
    for name in ("connect.js", "host.js"):
        assert bundle(name)[0].startswith(f"/* sources sha256:{digest.hexdigest()} */".encode())


def test_the_bundle_is_small_and_has_no_react_of_its_own() -> None:
    script = bundle()[0]
    assert len(gzip.compress(script)) < MOST_BYTES
    assert b"CLIENT_INTERNALS" not in script
    assert set(re.findall(rb"globalThis\.(\w+)", script)) >= {b"React", b"ChakraUI", b"ReactRouterDOM"}


def test_nothing_of_the_sources_makes_markup_of_text() -> None:
    for file in (UI / "src").iterdir():
        assert not re.search(r"dangerouslySetInnerHTML|innerHTML|insertAdjacentHTML|document\.write|\beval\(", file.read_text()), file.name


def test_no_registry_is_named() -> None:
    assert "registry" not in (UI / "package-lock.json").read_text()


def test_a_row_counts_tasks_and_shows_no_setting_but_the_class() -> None:
    info = ConnectorInfo("a b", {"connector.class": "x.Source", "password": "secret"}, [ConnectorTaskId("a b", 0)], "source")
    tasks = [TaskView(0, "RUNNING", "h:1"), TaskView(1, "FAILED", "h:1", trace="\nbroken\nline 2"), TaskView(2, "RUNNING", "h:1")]
    row = row_of(info, ConnectorStatusView("a b", StateView("RUNNING", "h:1", "1.2"), tasks, "source"), may_change=True, last_run=None)
    assert (row.dag_id, row.class_name, row.version, row.state) == ("connect.a--20b", "x.Source", "1.2", "RUNNING")
    assert row.tasks == {"RUNNING": 2, "FAILED": 1}
    assert "secret" not in repr(row)


@pytest.mark.parametrize(
    ("trace", "failure"),
    [
        ("org.apache.kafka.connect.errors.ConnectException: no such file\n\tat x", "no such file"),
        (
            "ConnectException: Tolerance\nCaused by: a.B: first\n\tat y\nCaused by: c.D$E: Field a: no number\n\tat z",
            "Field a: no number",
        ),
        ("java.lang.NullPointerException\n\tat x", "java.lang.NullPointerException"),
        ("ConnectException: It\nCaused by: java.nio.file.NoSuchFileException: /in/a.txt\n\tat y", "NoSuchFileException: /in/a.txt"),
        ("shop.Orders$Lost: 7\n\tat y", "Lost: 7"),
        ("java.lang.Error: ", "java.lang.Error: "),
        ("a.ConnectException: Tolerance exceeded in error handler: PUT by X failed", "PUT by X failed"),
        ("table orders: it is locked", "table orders: it is locked"),
        (
            "a.ConfigException: The config has 1 error(s):\nfile is missing\nTraceback (most recent call last):",
            "The config has 1 error(s): file is missing",
        ),
        ("a.B: It\nCaused by: c.D: The reason:\n\tat x", "The reason:"),
    ],
)
def test_the_reason_of_a_failure_is_the_message_of_its_last_cause(trace: str, failure: str) -> None:
    status = ConnectorStatusView("c", StateView("FAILED", "h:1", trace=trace), [], "source")
    assert health_of(status, None, None, now_ms=0) == Health(HealthWord.FAILING, failure.strip())


def test_a_connector_without_status_is_listed() -> None:
    row = row_of(ConnectorInfo("c", {}, [], "unknown"), None, may_change=False, last_run=None)
    assert (row.state, row.version, row.tasks, row.health, row.may_change) == (None, None, {}, None, False)
    assert (row.lag, row.hours, row.plan, row.has_dag) == (None, (), None, None)


def test_a_connector_without_a_dag_differs_from_one_whose_dag_is_not_known() -> None:
    info, plan = ConnectorInfo("c", {}, [], "unknown"), PlanView(None, "ada", [])
    rows = [row_of(info, None, may_change=False, last_run=None, planned=planned) for planned in ({"connect.c": plan}, {}, None)]
    assert [(row.plan, row.has_dag) for row in rows] == [(plan, True), (None, False), (None, None)]


def test_a_distance_is_a_lag_where_it_is_a_sinks() -> None:
    distances = {"sink": Distance(5), "source": Distance(7, "bytes"), "unknown": None}
    rows = [
        row_of(ConnectorInfo("c", {}, [], kind), None, may_change=False, last_run=None, distance=each) for kind, each in distances.items()
    ]
    assert [(row.lag, row.left, row.left_unit) for row in rows] == [(5, 5, "records"), (None, 7, "bytes"), (None, None, None)]


def test_a_row_is_written_anew_only_when_something_of_it_has_changed() -> None:
    rows, info, status = KnownRows(), ConnectorInfo("c", {"connector.class": "X"}, [], "sink"), shown_state("RUNNING")
    hours, fields = [1, 2], dict[str, Any](may_change=True, planned=None)

    def row(**changed: Any) -> bytes:
        given = {"info": info, "status": status, "last_run": run(3), "hours": hours, "distances": {"c": Distance(5)}, **fields, **changed}
        return rows.row(given.pop("info"), given.pop("status"), **given).json

    first = row()
    healthy = {"health": Health(HealthWord.HEALTHY), **fields}
    assert of_json(ConnectorRow, json.loads(first)) == row_of(info, status, last_run=run(3), hours=hours, distance=Distance(5), **healthy)
    assert row() is first
    plan = {"connect.c": PlanView(1, "ada", ["x"])}
    changes: list[dict[str, Any]] = [
        {"info": ConnectorInfo("c", {"connector.class": "Y"}, [], "sink")},
        {"status": shown_state("FAILED")},
        {"last_run": run(4)},
        {"distances": {"c": Distance(6)}},
        {"distances": {"c": Distance(5, "bytes")}},
        {"hours": [1, 3]},
        {"planned": {}},
        {"planned": plan},
        {"planned": {"connect.c": PlanView(1, "bob", ["x"])}},
        {"may_change": False},
        {"pace": NOTHING_DELIVERED},
    ]
    found = {row(**changed) for changed in changes}
    assert len(found) == len(changes)
    assert first not in found
    shown = row(planned=plan)
    assert row(planned={"connect.c": PlanView(1, "ada", ["x"])}) is shown  # another object that is equal


def shown_state(state: str) -> ConnectorStatusView:
    return ConnectorStatusView("c", StateView(state, "h:1"), [], "sink")


def run(records: int) -> RunView:
    return RunView("one", 1, records, 2, 1.0, 0.5, 1, 2)


def test_rows_of_deleted_connectors_are_dropped() -> None:
    rows = KnownRows()
    for number in range(1500):
        info = ConnectorInfo(f"c{number}", {}, [], "sink")
        rows.row(info, None, may_change=True, last_run=None, distances={}, hours=(), planned=None)
    rows.forget({"c1"})
    assert [name for name, _ in rows._kept] == ["c1"]


class Made:
    """A thing that is dear to make: each making waits for ``go``, and then has the next of ``outcomes``."""

    def __init__(self, *outcomes: int | Exception) -> None:
        self.outcomes, self.go, self.begun = list(outcomes), Semaphore(0), Semaphore(0)

    def __call__(self) -> int:
        self.begun.release()
        assert self.go.acquire(timeout=HANG_SECONDS)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def test_what_is_dear_is_made_behind_the_requests_and_once_at_a_time() -> None:
    clock, made = [0.0], Made(1, ValueError("away"), 3)
    value = Refreshed("a thing", made, -1, seconds=5.0, now=lambda: clock[0])

    def settled() -> None:
        """The making under way is over."""
        made.go.release()
        assert value._making.acquire(timeout=HANG_SECONDS)
        value._making.release()

    assert [value.known(), value.known()] == [-1, -1]
    assert made.begun.acquire(timeout=HANG_SECONDS)
    clock[0] = 2.0  # it takes two seconds
    settled()
    assert not made.begun.acquire(blocking=False)
    clock[0] = 41.9  # twenty times as long is rested
    assert (value.known(), made.begun.acquire(blocking=False)) == (1, False)
    for expected in (-1, 3):
        clock[0] += 50.0
        value.known()
        assert made.begun.acquire(timeout=HANG_SECONDS)
        settled()
        assert value._value == expected
    assert (value.known(), made.outcomes) == (3, [])


def test_what_runs_deliver_is_shown_while_it_is_of_now() -> None:
    environment, clock = RunEnvironment(), [1000.0]
    environment.herder.create_connector("c", CONFIG)
    environment.run("c", State.RUNNING)
    environment.runs.alive.add("c")
    herder = Herder(
        environment.settings,
        environment.runs,
        backing=environment.backing,
        task_metrics=lambda: {("c", 0): {"source-record-write-total": 7.0}},
    )
    facts = PageFacts(Calls(lambda: herder, OpenToAll()), NoRuns(), now=lambda: clock[0])
    assert wait_until(lambda: facts.progress("c")).records == 7
    environment.runs.alive.clear()
    clock[0] += 3600  # the page was not open for an hour, and the run has ended
    assert facts.progress("c") is None
