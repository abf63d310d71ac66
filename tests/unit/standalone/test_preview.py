"""``connect-run --preview`` of a source whose offsets lie in a file: no broker, and nothing written."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigException, ConnectException, RetriableException
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.previews import Preview, PreviewedTopic
from airflow_provider_connect.runtime.model.view_json import escaped
from airflow_provider_connect.runtime.stores.offset_file import SETTING, OffsetFile
from airflow_provider_connect.runtime.wire import offset_topic
from airflow_provider_connect.standalone.files import ConnectorFile, standalone_settings
from airflow_provider_connect.standalone.one_run import parse_arguments
from airflow_provider_connect.standalone.preview import _lines, print_preview

ROOT = Path(__file__).resolve().parents[3]
SECRET = "let me in, please"
PLUGIN = """
import json

from airflow_provider_connect.sdk import Password, RetriableException, source, transformation


@source(cursor="id", key="id", topic="orders")
def orders(token: Password, count: int = 3, cursor: int = 0):
    for number in range(cursor + 1, count + 1):
        yield [{"id": number, "item": f"tea for {token.value}"}]


@source
def broken(token: Password):
    yield [{"id": 1}]
    raise KeyError(f"no {token.value}")


@source
def absent(token: Password):
    raise RetriableException(f"no answer\\nfor {token.value}")
    yield


@source
def calls():
    print("calls a library")
    json.loads("no JSON")
    yield


@source
def late():
    raise RetriableException("not yet")
    yield


@transformation
def loud(row: dict) -> dict | None:
    return {**row, "item": row["item"].upper()} if row["id"] != 2 else None


@source(cursor="id", partitions=["eu", "us", "asia"])
def regions(token: Password, partition: str, cursor: int = 0):
    yield [{"id": number} for number in range(1, 6)]
"""


@pytest.fixture
def settings(tmp_path: Path) -> WorkerSettings:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "shop.py").write_text(PLUGIN)
    offsets = {SETTING: str(tmp_path / "offsets"), "bootstrap.servers": "127.0.0.1:1"}
    return standalone_settings({**offsets, "plugin.path": str(tmp_path / "plugins")})


def connector(function: str = "orders", **config: str) -> ConnectorFile:
    """With ``_`` for ``.`` in names of settings."""
    given = {name.replace("_", "."): value for name, value in config.items()}
    topic = {} if function == "orders" else {"topic": "orders"}
    return ConnectorFile("c", {"name": "c", "connector.class": f"shop.{function}", "token": SECRET, **topic, **given})


def readme(opening: str) -> str:
    """What the README's code block that begins with ``opening`` holds."""
    return (ROOT / "README.md").read_text(encoding="utf-8").partition(f"```{opening}\n")[2].partition("```")[0]


def shown(capsys: pytest.CaptureFixture[str]) -> tuple[str, list[Mapping[str, Any]]]:
    """What was printed: the text before the records, and the records."""
    lines = capsys.readouterr().out.splitlines()
    records = [json.loads(line) for line in lines if line.startswith("{")]
    return "\n".join(lines[: len(lines) - len(records)]), records


def test_records_are_shown_after_transformations_with_their_offsets(
    settings: WorkerSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tmp_path.rglob("*.*"))
    print_preview(connector(transforms="loud", transforms_loud_type="shop.loud"), settings, 10, Mask())
    text, records = shown(capsys)
    assert "source shop.orders 0-" in text
    assert "3 records read" in text
    assert "value: $ struct, id int64?, item string?" in text
    assert records == [
        {"topic": "orders", "offset": {"cursor": number}, "key": number, "value": {"id": number, "item": "TEA FOR LET ME IN, PLEASE"}}
        for number in (1, 3)
    ]
    assert [path for path in sorted(tmp_path.rglob("*.*")) if "__pycache__" not in path.parts] == before


def test_the_readmes_source_has_the_records_that_the_readme_shows(
    settings: WorkerSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plugins" / "shop.py").write_text(readme("python plugins/shop.py"))
    definition = ast.parse(readme("python dags/shop_items.py")).body[-1]
    assert isinstance(definition, ast.Expr)
    assert isinstance(definition.value, ast.Call)
    name, config = map(ast.literal_eval, definition.value.args)
    print_preview(ConnectorFile(name, {"name": name, **config}), settings, 10, Mask())
    assert shown(capsys)[1] == [json.loads(line) for line in readme("json").splitlines()]


def test_the_number_of_records_is_the_callers_and_secrets_are_hidden(settings: WorkerSettings, capsys: pytest.CaptureFixture[str]) -> None:
    print_preview(connector(), settings, 2, Mask())
    text, records = shown(capsys)
    assert "ended by RECORDS" in text
    assert [record["value"] for record in records] == [{"id": 1, "item": "tea for [hidden]"}, {"id": 2, "item": "tea for [hidden]"}]


def test_a_task_that_is_left_no_record_is_not_started(settings: WorkerSettings, capsys: pytest.CaptureFixture[str]) -> None:
    print_preview(connector("regions", tasks_max="3"), settings, 2, Mask())
    text, _ = shown(capsys)
    assert "task 1: 1 records, ended by RECORDS; partitions [{" in text
    assert "task 2: not started: the tasks before it have read all records of the preview" in text


def test_a_preview_continues_behind_the_committed_offset_beside_a_worker_that_has_the_file(
    settings: WorkerSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = OffsetFile(tmp_path / "offsets")
    wire = offset_topic.encode("c", {"partition": "all"}, {"cursor": 2})
    file.put({wire.key: wire.value})
    before = (tmp_path / "offsets").read_bytes()
    for _ in range(2):
        print_preview(connector(), settings, 10, Mask())
        assert [record["key"] for record in shown(capsys)[1]] == [3]
    assert (tmp_path / "offsets").read_bytes() == before
    file.close()


def test_what_a_plugin_raises_is_one_line_with_its_line_of_code_and_no_secret(settings: WorkerSettings, tmp_path: Path) -> None:
    with pytest.raises(ConnectException) as raised:
        print_preview(connector("broken"), settings, 10, Mask())
    assert raised.value.message == f"KeyError: 'no [hidden]' ({tmp_path / 'plugins' / 'shop.py'}, line 16)"
    with pytest.raises(RetriableException, match=r"^no answer for \[hidden\]$"):
        print_preview(connector("absent"), settings, 10, Mask())


@pytest.mark.parametrize(
    ("config", "records", "reported"),
    [({"count": "many"}, 10, "Invalid value many for configuration count"), ({}, 0, "give a number from 1 to 10000")],
)
def test_a_wrong_config_is_refused_as_by_a_run(settings: WorkerSettings, config: dict[str, str], records: int, reported: str) -> None:
    with pytest.raises(ConfigException, match=reported) as raised:
        print_preview(connector(**config), settings, records, Mask())
    assert "\n" not in raised.value.message


def test_dropped_records_are_counted(settings: WorkerSettings, capsys: pytest.CaptureFixture[str]) -> None:
    print_preview(connector(transforms="loud", transforms_loud_type="shop.loud"), settings, 10, Mask())
    assert "\n1 records were dropped by transformations" in shown(capsys)[0]
    print_preview(connector(), settings, 10, Mask())
    assert "dropped" not in shown(capsys)[0]


def test_the_steps_of_each_record_are_printed_behind_the_records(settings: WorkerSettings, capsys: pytest.CaptureFixture[str]) -> None:
    by_topic = {"predicates": "orders", "predicates_orders_type": "TopicNameMatches", "predicates_orders_pattern": "orders"}
    route = {"transforms_route_type": "RegexRouter", "transforms_route_regex": ".*", "transforms_route_replacement": "loud"}
    chain = {
        "transforms": "route,loud",
        "transforms_loud_type": "shop.loud",
        "transforms_loud_predicate": "orders",
        "transforms_loud_negate": "true",
    }
    print_preview(connector(**chain, **route, **by_topic), settings, 10, Mask(), with_steps=True)
    printed = capsys.readouterr().out
    records, _, steps = printed.partition("record 1 as read: ")
    assert [json.loads(line)["key"] for line in records.splitlines() if line.startswith("{")] == [1, 3]
    assert SECRET not in printed
    first, second, third = f"record 1 as read: {steps}".split("record ")[1:]
    assert '"topic": "orders"' in first.splitlines()[0]
    assert first.splitlines()[1].startswith('  route (RegexRouter): {"topic": "loud"')
    assert first.splitlines()[2].startswith("  loud (loud, predicate not orders): {")
    assert second.splitlines()[2] == "  loud (loud, predicate not orders): dropped"
    assert third.startswith("3 as read: ")
    print_preview(connector(), settings, 10, Mask(), with_steps=True)
    assert capsys.readouterr().out.endswith("no steps: there are no transformations, or no record was read\n")


def test_steps_need_a_preview() -> None:
    with pytest.raises(SystemExit):
        parse_arguments(["c.properties", "--steps"])
    assert parse_arguments(["c.properties", "--preview", "3", "--steps"]).steps


def test_the_line_of_code_is_the_connectors_and_its_prints_are_on_standard_error(
    settings: WorkerSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConnectException, match=r"^JSONDecodeError: .* \(.*shop\.py, line 28\)$"):
        print_preview(connector("calls"), settings, 10, Mask())
    assert capsys.readouterr() == ("", "calls a library\n")


def test_a_failed_poll_is_logged_with_the_task(
    settings: WorkerSettings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_connect.runtime.worker.preview.source.IDLE_SECONDS", 0.1)
    with pytest.raises(RetriableException, match="not yet"):
        print_preview(connector("late"), settings, 10, Mask())
    assert "Task c-0: poll has failed once: RetriableException: not yet" in caplog.text


@pytest.mark.parametrize(
    ("type", "value", "is_named"),
    [
        ("sink", {"$": "object", "id": "number"}, True),
        ("sink", {"$": "object|string?"}, True),
        ("sink", {"$": "struct", "id": "int64"}, False),
        ("sink", {"$": "string"}, False),
        ("source", {"$": "object"}, False),
    ],
)
def test_a_sinks_author_learns_that_objects_are_json_text_in_a_batch(type: str, value: dict[str, str], is_named: bool) -> None:
    """The records show what ``values_of`` and ``put_records`` return."""
    topic = PreviewedTopic("t", 1, 9, {}, value, [])
    preview = Preview(
        connector="c", type=type, class_name="shop.C", versions={"connector": "1"}, read=1, tasks=[], topics=[topic], records=[]
    )
    assert ("batch.value holds these objects as JSON text" in "\n".join(_lines(preview))) == is_named


def test_what_is_printed_steers_no_terminal() -> None:
    line = "record 1 as read: \x1b[2J\u202egone\nrecord 9 as read: forged é"
    assert escaped(line) == "record 1 as read: \\u001b[2J\\u202egone\\nrecord 9 as read: forged é"
