"""The page for Prometheus over a real broker: the lag of sinks, the last delivery, and all that docs/grafana asks for."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.rest.server import rest_server
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.stores.admin_connection import server_info
from tests.integration.worker.environment import RunEnvironment, make_topic, send
from tests.promql import named
from tests.waiting import HANG_SECONDS, wait_until

GRAFANA = Path(__file__).resolve().parents[3] / "docs" / "grafana"


def page_of(herder: Herder) -> str:
    """What GET /metrics answers."""
    with rest_server({}, herder=lambda: herder, info=lambda: server_info(herder.settings), port=0) as running:
        return httpx.get(f"{running.url}/metrics", timeout=HANG_SECONDS).raise_for_status().text


def value(page: str, metric: str, labels: str) -> float | None:
    found = re.search(rf"^{re.escape(metric)}\{{{re.escape(labels)}\}} (\S+)$", page, re.MULTILINE)
    return None if found is None else float(found[1])


def lag(page: str, connector: str, suffix: str = "") -> float | None:
    return value(page, f"kafka_connect_connector_metrics_records_lag{suffix}", f'connector="{connector}"')


def test_a_sink_has_a_lag_and_all_that_grafana_asks_for_is_there(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    """A source beside it has none. A topic that the config no longer names does not count, and neither does one that is gone."""
    source = RunEnvironment(environment.properties, f"source-{unique}", environment.folder)
    source.file.write_text("one\n")
    began = int(time.time() * 1000)
    source.run(source.file_source(f"{unique}-lines"))
    one, two = f"{unique}-1", f"{unique}-2"
    for topic in (one, two):
        make_topic(environment.bootstrap, topic, 2)
        send(environment.bootstrap, topic, ["a", "b"], partitions=2)
    sink = environment.connector
    environment.run(environment.file_sink(f"{one},{two}"))
    page = page_of(herder)
    assert (lag(page, sink), lag(page, sink, "_max"), lag(page, source.connector)) == (0, 0, None)
    send(environment.bootstrap, one, ["c", "d", "e"], partitions=2)
    send(environment.bootstrap, two, ["c"], partitions=2)
    page = page_of(herder)
    assert (lag(page, sink), lag(page, sink, "_max")) == (4, 2)
    delivered = value(page, "kafka_connect_connector_task_metrics_last_delivery_timestamp", f'connector="{source.connector}",task="0"')
    assert delivered is not None
    assert began <= delivered <= time.time() * 1000
    assert [wrong for name, expression in expressions() for wrong in unknown(name, expression, page)] == []
    environment.put_config(environment.file_sink(one))
    assert lag(page_of(herder), sink) == 3
    admin = AdminClient({"bootstrap.servers": environment.bootstrap})
    admin.delete_topics([one])[one].result(HANG_SECONDS)
    wait_until(lambda: lag(page_of(herder), sink) is None)


def expressions() -> Iterator[tuple[str, str]]:
    """Each expression of the dashboard and the rules, with where it is; Grafana's variables have values."""
    board = json.loads((GRAFANA / "connect-dashboard.json").read_text())
    for panel in board["panels"]:
        yield from ((panel["title"], target["expr"].replace("$__rate_interval", "5m")) for target in panel["targets"])
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]).groups()  # type: ignore[union-attr]
            yield variable["name"], f"sum by ({label}) ({metric})"
    for group in yaml.safe_load((GRAFANA / "connect-rules.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
            labels = re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"]))
            (metric, *_), *_ = named(rule["expr"])
            yield f"annotations of {rule['alert']}", f"sum by ({', '.join(labels)}) ({metric})"


def unknown(where: str, expression: str, page: str) -> list[str]:
    """What the expression names and the page does not have."""
    samples: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^([a-z_]+)(?:\{(.*)\})? \S+$", page, re.MULTILINE):
        samples.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    *metrics, (_, grouped) = named(expression)
    wrong = [f"{where}: {metric}{{{', '.join(sorted(labels))}}}" for metric, labels in metrics if not labels <= samples.get(metric, set())]
    wrong += [f"{where}: {metric}" for metric, _ in metrics if metric not in samples]
    of_all = {label for metric, _ in metrics for label in samples.get(metric, ())}
    return wrong + [f"{where}: by {label}" for label in sorted(grouped - of_all)]


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ('sum by (a) (rate(m{a=~"x"}[5m])) > 1e', ["x: e"]),
        ('m{b="1"}', ["x: m{b}"]),
        ("sum by (c) (m)", ["x: by c"]),
        ("time() - max by (a) (m) / 1000 > 3 unless on (a) n", ["x: n"]),
        ('count(m{a="}(by "}) or vector(0)', []),
    ],
)
def test_an_expression_that_asks_for_something_else_is_found(expression: str, wrong: list[str]) -> None:
    assert unknown("x", expression, 'm{a="1"} 1\n') == wrong


@pytest.mark.parametrize("expression", ["sum(m", "m)", "m # 1"])
def test_what_is_not_an_expression_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=re.escape(expression)):
        named(expression)


def test_the_dashboard_is_complete() -> None:
    board = json.loads((GRAFANA / "connect-dashboard.json").read_text())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"]) == 12
    cells = [
        (x, y)
        for panel in board["panels"]
        for at in (panel["gridPos"],)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells)), "no panel lies over another"
    assert max(x for x, _ in cells) < 24
    assert all(target["datasource"]["uid"] == "${datasource}" for panel in board["panels"] for target in panel["targets"])
