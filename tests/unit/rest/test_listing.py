"""The bytes of a list, made once for what stays the same."""

import json
from collections.abc import Mapping
from typing import Any

from airflow_provider_connect.rest.connectors import Listing
from airflow_provider_connect.rest.secrets import Secrets
from airflow_provider_connect.runtime.model.views import ConfigKeyView, ConnectorInfo, ConnectorStatusView, StateView, TaskView


def info(name: str) -> ConnectorInfo:
    return ConnectorInfo(name, {"name": name, "password": "x"}, [], "source")


def status(name: str, state: str = "RUNNING") -> ConnectorStatusView:
    return ConnectorStatusView(name, StateView(state, "h:1"), [TaskView(0, state, "h:1", trace="broken")], "source")


def test_parts_stand_in_the_order_that_was_asked_for_and_secrets_are_hidden() -> None:
    listing = Listing(Secrets(lambda plugin, version: []))
    views: Mapping[str, Any] = {'a "b"': {"status": status("a"), "info": info("a")}, "c": {"status": status("c")}}
    found = json.loads(listing.body(views, ["info", "bogus", "status", "info"], existing=views))
    assert list(found) == ['a "b"', "c"]
    assert list(found['a "b"']) == ["info", "status"]
    assert found['a "b"']["info"]["config"]["password"] == "[hidden]"
    assert found["c"]["status"]["tasks"] == [{"id": 0, "state": "RUNNING", "worker_id": "h:1", "trace": "broken"}]
    assert json.loads(listing.body({"a": {}}, ["bogus"], existing={"a"})) == {"a": {}}
    assert listing.body({}, ["info"], existing=()) == b"{}"


def test_a_view_that_is_another_object_is_written_anew() -> None:
    listing = Listing(Secrets(lambda plugin, version: []))
    first = listing.body({"a": {"status": status("a")}}, ["status"], existing={"a"})
    assert listing.body({"a": {"status": status("a", "FAILED")}}, ["status"], existing={"a"}) != first


def test_a_new_status_does_not_ask_the_plugin_again() -> None:
    asked: list[str] = []
    now = iter(range(0, 10_000, 100))

    def definitions(plugin: str, version: str | None) -> list[ConfigKeyView]:
        asked.append(plugin)
        return []

    listing, shown = Listing(Secrets(definitions, lambda: next(now))), ConnectorInfo("a", {"connector.class": "X"}, [], "source")
    listing.body({"a": {"info": shown, "status": status("a")}}, ["info", "status"], existing={"a"})
    before = len(asked)
    listing.body({"a": {"info": shown, "status": status("a", "FAILED")}}, ["info", "status"], existing={"a"})
    assert (before > 0, len(asked)) == (True, before)


def test_nothing_is_kept_of_connectors_that_are_gone() -> None:
    """Each may have had a config of a megabyte."""
    listing = Listing(Secrets(lambda plugin, version: []))
    for number in range(50):
        view: Mapping[str, Any] = {f"c{number}": {"info": info("a"), "status": status("a")}}
        for parts in (["info"], ["status"], ["info", "status"], ["status", "info"]):
            listing.body(view, parts, existing=view.keys())
    assert (len(listing._infos), len(listing._entries)) == (1, 4)


def test_a_user_who_reads_few_leaves_the_bytes_of_the_others() -> None:
    listing = Listing(Secrets(lambda plugin, version: []))
    views: Mapping[str, Any] = {name: {"info": info(name)} for name in "abc"}
    listing.body(views, ["info"], existing=views)
    listing.body({"a": views["a"]}, ["info"], existing=views)
    assert set(listing._infos) == {"a", "b", "c"}
