"""The page's bundle belongs to its sources; the rows of its list."""

import gzip
import re
from hashlib import sha256

from airflow_provider_connect.model.ids import ConnectorTaskId
from airflow_provider_connect.model.views import ConnectorInfo, ConnectorStatusView, StateView, TaskView
from airflow_provider_connect.rest.page import bundle, row_of
from tests.conftest import CHECKOUT

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


def test_a_row_counts_tasks_and_shows_the_first_line_of_a_trace_and_no_setting_but_the_class() -> None:
    info = ConnectorInfo("a b", {"connector.class": "x.Source", "password": "secret"}, [ConnectorTaskId("a b", 0)], "source")
    tasks = [TaskView(0, "RUNNING", "h:1"), TaskView(1, "FAILED", "h:1", trace="\nbroken\nline 2"), TaskView(2, "RUNNING", "h:1")]
    row = row_of(info, ConnectorStatusView("a b", StateView("RUNNING", "h:1", "1.2"), tasks, "source"), may_change=True, last_run=None)
    assert (row.dag_id, row.class_name, row.version, row.state) == ("connect.a--20b", "x.Source", "1.2", "RUNNING")
    assert (row.tasks, row.failure) == ({"RUNNING": 2, "FAILED": 1}, "broken")
    assert "secret" not in repr(row)


def test_a_connector_without_status_is_listed() -> None:
    row = row_of(ConnectorInfo("c", {}, [], "unknown"), None, may_change=False, last_run=None)
    assert (row.state, row.version, row.tasks, row.failure, row.may_change) == (None, None, {}, None, False)
