"""The files of docs/rest-source.md, run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.plugins.catalog.location_reader import in_module
from airflow_provider_connect.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.sdk.http.rest_source import RestSource
from airflow_provider_connect.sdk.testing import SourceRun, run
from tests.unit.sdk.http.api import Answered, Api, Asked

PAGE = Path(__file__).resolve().parents[4] / "docs" / "rest-source.md"


@pytest.fixture
def plugins(tmp_path: Path) -> PluginCatalog:
    """The files of the page, in ``plugin.path``."""
    files = re.findall(r"^```python plugins/(\S+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    for name, text in files:
        (tmp_path / name).write_text(text)
    return PluginCatalog([str(tmp_path)])


def declared(plugins: PluginCatalog, name: str) -> RestSource:
    """The class of a file of the page, by its short name."""
    source: RestSource = plugins.find_connector(name).load()()
    return source


def ids(done: SourceRun, topic: str) -> list[Any]:
    return [record.value["id"] for record in done.records if record.topic == topic]


def test_the_first_api(api: Api, plugins: PluginCatalog) -> None:
    orders = [{"id": number} for number in range(1, 151)]

    def answer(asked: Asked) -> Any:
        assert asked.headers["authorization"] == "Bearer let-me-in"
        first = int(asked.params["offset"])
        if asked.path == "/customers":
            return {"data": [{"id": 1}], "meta": {"total": 1}}
        return orders[int(asked.params.get("from", "1")) - 1 :][first : first + int(asked.params["limit"])]

    api.answer = answer
    config = {"base.url": api.url, "topic": "shop.${resource}", "token": "let-me-in"}
    first = run(declared(plugins, "Shop"), config, tasks=2)
    assert (ids(first, "shop.orders"), ids(first, "shop.customers")) == (list(range(1, 151)), [1])
    orders += [{"id": 151}]
    assert ids(run(declared(plugins, "Shop"), config, tasks=2, offsets=first.offsets), "shop.orders") == [151]


@pytest.fixture
def styles(api: Api) -> Api:
    """Two rows for each style, on two pages."""

    answers: dict[str, Any] = {
        "/cursor": {"data": [{"id": 1}], "meta": {"next": "MTAw"}},
        "/cursor?cursor=MTAw": {"data": [{"id": 2}], "meta": {"next": None}},
        "/last": {"data": [{"id": 1}], "has_more": True},
        "/last?starting_after=1": {"data": [{"id": 2}], "has_more": False},
        "/offset?limit=100&offset=0": [{"id": 1}, {"id": 2}],
        "/offset?limit=100&offset=2": [],
        "/number?page=1&per_page=100": [{"id": 1}],
        "/number?page=2&per_page=100": [{"id": 2}],
        "/number?page=3&per_page=100": [],
        "/link": Answered([{"id": 1}], headers={"Link": f'<{api.url}/link?page=2>; rel="next"'}),
        "/link?page=2": [{"id": 2}],
        "/url": {"results": [{"id": 1}], "next": f"{api.url}/url?page=2"},
        "/url?page=2": {"results": [{"id": 2}], "next": None},
        "/single": [{"id": 1}, {"id": 2}],
    }
    api.answer = lambda asked: answers[str(asked)]
    return api


def test_each_style_of_paging(styles: Api, plugins: PluginCatalog) -> None:
    source = declared(plugins, "Styles")
    done = run(source, {"base.url": styles.url, "topic": "${resource}"}, tasks=3)
    assert {name: ids(done, name) for name in source.resources} == {name: [1, 2] for name in source.resources}


def test_children(api: Api, plugins: PluginCatalog) -> None:
    def answer(asked: Asked) -> Any:
        if asked.params["page"] == "2":
            return []
        if asked.path == "/groups/a%20b/threads":
            assert asked.params["sort"] == "updated_at"
            return [{"id": 7, "updated_at": "2026-01-01"}, {"id": 8, "updated_at": "2026-01-02"}]
        return [{"id": 1, "path": asked.path}]

    api.answer = answer
    done = run(declared(plugins, "Forum"), {"base.url": api.url, "topic": "${resource}", "group": "a b"})
    assert ids(done, "threads") == [7, 8]
    posts = [record for record in done.records if record.topic == "posts"]
    assert [(post.key["thread_id"], post.value["path"]) for post in posts] == [(7, "/threads/7/posts"), (8, "/threads/8/posts")]


@pytest.mark.parametrize(
    "line", ['Other = rest_source("Shop")', '_Shop = rest_source("_Shop")', 'Shop = other("Shop")', "Shop = rest_source(name)"]
)
def test_a_class_under_another_name_is_not_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "shop.py").write_text(f"from airflow_provider_connect.sdk import rest_source\n{line}\n")
    assert in_module(str(tmp_path / "shop.py")).plugins == []
