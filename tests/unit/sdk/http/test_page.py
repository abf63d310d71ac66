"""The files of docs/rest-source.md and docs/rest-source-examples.md, run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.plugins.catalog.location_reader import in_module
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.sdk.http.rest_source import RestSource
from airflow_provider_connect.sdk.testing import SourceRun, run
from tests.unit.sdk.http.api import Answered, Api, Asked

DOCS = Path(__file__).resolve().parents[4] / "docs"
TEXT = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("rest-source.md", "rest-source-examples.md"))


@pytest.fixture
def plugins(tmp_path: Path) -> PluginCatalog:
    """The files of the pages, in ``plugin.path``."""
    files = re.findall(r"^```python plugins/(\S+)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
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


def test_a_style_and_credentials_of_ones_own(api: Api, plugins: PluginCatalog) -> None:
    rows = [{"id": number} for number in range(250)]

    def answer(asked: Asked) -> Any:
        if (asked.headers["x-app-id"], asked.headers["x-app-key"]) != ("me", "let-me-in"):
            return Answered(f"no such key: {asked.headers['x-app-key']}", 403)
        first, last = map(int, asked.params["range"].split("-"))
        return rows[first : last + 1]

    api.answer = answer
    config = {"base.url": api.url, "topic": "rows", "app.id": "me", "app.key": "let-me-in"}
    assert ids(run(declared(plugins, "Ranges"), config), "rows") == list(range(250))
    assert [asked.params["range"] for asked in api.asked] == ["0-99", "100-199", "200-299"]
    with pytest.raises(ConnectException, match=r"no such key: \[hidden\]"):
        run(declared(plugins, "Ranges"), {**config, "app.key": "another-key"})


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


def test_github(api: Api, plugins: PluginCatalog) -> None:
    first = {"id": 1, "number": 1347, "title": "Broken", "user": {"login": "ada"}, "updated_at": "2026-01-01T10:00:00Z", "milestone": None}
    second = {**first, "id": 2, "number": 1348, "updated_at": "2026-01-01T10:00:05Z"}

    def answer(asked: Asked) -> Any:
        assert (asked.headers["authorization"], asked.headers["accept"]) == ("Bearer gh", "application/vnd.github+json")
        if asked.path == "/repos/octo/hello/issues" and "since" in asked.params:
            return [second]
        if asked.path == "/repos/octo/hello/issues":
            assert asked.params == {"state": "all", "sort": "updated", "direction": "desc", "per_page": "100"}
            following = f"{api.url}/repositories/1296269/issues?state=all&per_page=100&after=Y3Vyc29y&page=2"
            return Answered([second], headers={"Link": f'<{following}>; rel="next"'})
        if asked.path == "/repositories/1296269/issues":
            return Answered([first], headers={"Link": f'<{api.url}/repositories/1296269/issues?page=1>; rel="prev"'})
        return [{"id": int(asked.path.split("/")[5]), "body": "Me as well", "user": {"login": "bob"}}]

    api.answer = answer
    config = {"base.url": api.url, "topic": "github.${resource}", "token": "gh", "owner": "octo", "repo": "hello"}
    done = run(declared(plugins, "GitHubIssues"), config, tasks=2)
    assert (ids(done, "github.issues"), ids(done, "github.comments")) == ([2, 1], [1348, 1347])
    again = run(declared(plugins, "GitHubIssues"), config, tasks=2, offsets=done.offsets)
    assert (ids(again, "github.issues"), ids(again, "github.comments")) == ([2], [1348])
    assert {asked.params["since"] for asked in api.asked if "since" in asked.params} == {"2026-01-01T10:00:05Z"}


def test_stripe(api: Api, plugins: PluginCatalog) -> None:
    charges: list[dict[str, Any]] = [{"id": f"ch_{n}", "amount": 1099, "created": 1_679_090_500 + n} for n in (4, 3, 2, 1)]

    def answer(asked: Asked) -> Any:
        assert asked.headers["authorization"] == "Bearer sk_test"
        after, since = asked.params.get("starting_after"), int(asked.params.get("created[gte]", "0"))
        found = [charge for charge in charges if charge["created"] >= since and (after is None or charge["id"] < after)]
        return {"object": "list", "url": "/v1/charges", "has_more": len(found) > 2, "data": found[:2]}

    api.answer = answer
    config = {"base.url": f"{api.url}/v1", "topic": "charges", "token": "sk_test"}
    done = run(declared(plugins, "StripeCharges"), config)
    assert ids(done, "charges") == ["ch_4", "ch_3", "ch_2", "ch_1"]
    charges.insert(0, {**charges[0], "id": "ch_5"})  # in the same second
    assert ids(run(declared(plugins, "StripeCharges"), config, offsets=done.offsets), "charges") == ["ch_5", "ch_4"]


def test_hubspot(api: Api, plugins: PluginCatalog) -> None:
    def contact(id: str) -> dict[str, Any]:
        return {"id": id, "properties": {"email": f"{id}@example.com"}, "updatedAt": "2026-01-01T10:00:00.000Z", "archived": False}

    def answer(asked: Asked) -> Any:
        assert asked.path == "/crm/v3/objects/contacts"
        if asked.params.get("after") == "NTI1Cg==":
            return {"results": [contact("525")]}
        return {"results": [contact("512")], "paging": {"next": {"after": "NTI1Cg==", "link": f"{api.url}?after=NTI1Cg%3D%3D"}}}

    api.answer = answer
    config = {"base.url": api.url, "topic": "contacts", "token": "pat"}
    for _ in range(2):
        assert ids(run(declared(plugins, "HubSpotContacts"), config), "contacts") == ["512", "525"]


@pytest.mark.parametrize(
    "line", ['Other = rest_source("Shop")', '_Shop = rest_source("_Shop")', 'Shop = other("Shop")', "Shop = rest_source(name)"]
)
def test_a_class_under_another_name_is_not_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "shop.py").write_text(f"from airflow_provider_connect.sdk import rest_source\n{line}\n")
    assert in_module(str(tmp_path / "shop.py")).plugins == []
