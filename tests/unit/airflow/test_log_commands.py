"""``airflow connect logs``: how records of Airflow's logs are printed, and which application runs a task."""

from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.models.dagrun import DagRun
from sqlalchemy import update

from airflow_provider_connect.api_server.run_logs import Attempt, _strip_sources, last_run, last_unskipped_run
from airflow_provider_connect.cli.logs import Heads, head_of, lines_of
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.model.ids import has_task, tasks_label
from tests.unit.airflow.staying_runs import StayingRuns

RUN = Attempt("run", -1, 1)
AT = datetime(2026, 1, 2, 3, 4, 5, 678900, UTC)


def printed(mask: Mask | None = None, **record: Any) -> list[str]:
    return [line for _, line in lines_of([(RUN, record)], mask or Mask())]


def test_a_record_has_its_time_level_logger_and_facts() -> None:
    when = AT.astimezone().isoformat(sep=" ", timespec="milliseconds")
    assert printed(timestamp=AT, level="info", logger="a.b", event="done", records=7, filename="x.py", lineno=3) == [
        f"{when} INFO a.b: done records=7"
    ]
    assert printed(timestamp=None, event="no time") == ["-: no time"]


def test_the_lines_of_an_error_are_below_its_record_and_indented() -> None:
    frames = [{"filename": "task.py", "lineno": 4, "name": "poll"}]
    detail = [{"exc_type": "ValueError", "exc_value": "bad\nvalue", "exc_notes": [], "frames": frames}, "no mapping"]
    assert printed(level="error", event="it failed", error_detail=detail) == [
        "- ERROR: it failed",
        '    File "task.py", line 4, in poll',
        "    ValueError: bad",
        "    value",
    ]


@pytest.mark.parametrize("text", ["\x1b[2J", "\x9b2J", "\u202e", "a\rb", "\x08", "\x00", "\ud800"])
def test_no_text_steers_the_terminal(text: str) -> None:
    attempt = Attempt(f"run{text}", 0, 1, f"orders{text} 0-1")
    lines = [*printed(level=text, logger=text, event=text, fact=text), *printed(event=f"x\n{text}")]
    head = next(iter(Heads().put([(attempt, "line")])))
    assert all(line.isprintable() for line in [*lines, head.strip()])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\u2028", "\x0b", "\x85"])
def test_no_text_resembles_a_head_or_another_record(end: str) -> None:
    first, *others = printed(event=f"one{end}==> run, try 1 <==")
    assert first.startswith("-: one")
    assert all(line.startswith("    ") for line in others)


def test_secrets_are_hidden_in_every_part_of_a_record() -> None:
    detail = [{"exc_type": "E", "exc_value": "geheim", "frames": []}]
    lines = printed(Mask({"geheim"}), event="a geheim", fact={"in": "geheim"}, logger="geheim", error_detail=detail)
    assert not any("geheim" in line for line in lines)
    assert lines[0] == "- [hidden]: a [hidden] fact={'in': '[hidden]'}"


def test_a_head_comes_where_lines_of_another_attempt_were_between() -> None:
    other, heads = Attempt("run", 1, 2, "orders 4-7"), Heads()
    assert list(heads.put([(RUN, "a"), (RUN, "b"), (other, "c")])) == [
        "\n==> run, try 1 <==",
        "a",
        "b",
        f"\n==> {head_of(other)} <==",
        "c",
    ]
    assert list(heads.put([(other, "d"), (RUN, "e")])) == ["d", "\n==> run, try 1 <==", "e"]
    assert head_of(other) == "run[1] orders 4-7, try 2"


def test_the_sources_of_a_log_are_shown_where_it_is_empty_alone() -> None:
    sources = [{"timestamp": None, "event": text} for text in ("::group::Log message source details", "no host", "::endgroup::")]
    line = {"timestamp": AT, "event": "line"}
    assert list(_strip_sources(iter([*sources, line]))) == [line]
    assert list(_strip_sources(iter(sources))) == [{"event": "Nothing is logged: no host"}]
    assert list(_strip_sources(iter([line, line]))) == [line, line]
    assert list(_strip_sources(iter([]))) == []


@pytest.mark.parametrize(
    ("connector", "tasks"), [("orders", [0, 1, 2, 5]), ("orders 3-4, 9", [7]), ("o" * 300, [0, 1023]), ("with, 4", [])]
)
def test_a_label_names_the_tasks_of_its_application(connector: str, tasks: list[int]) -> None:
    label = tasks_label(connector, tasks)
    assert [task for task in range(1100) if has_task(label, connector, task)] == tasks


@pytest.mark.parametrize(
    ("states", "found"),
    [(["success", "failed", "skipped", "skipped"], "r1"), (["failed", "running"], "r1"), (["skipped"], None), ([], None)],
)
def test_a_run_that_was_skipped_hides_no_failure(states: list[str], found: str | None) -> None:
    runs = StayingRuns()
    for number, state in enumerate(states):
        runs.run("orders", f"r{number}", state)
    with runs.sessions() as session:
        session.execute(update(DagRun).values(start_date=AT))
        assert last_unskipped_run(session, "orders") == found
        if states:
            assert last_run(session, "orders") == f"r{len(states) - 1}"
    runs.engine.dispose()
