"""The table of verbs is whole: routes, clients, hooks, herder and command line have each verb, and no other."""

import ast
import inspect
from pathlib import Path
from typing import Any, cast

import pytest
from airflow.sdk import BaseHook
from fastapi import APIRouter

from airflow_provider_connect.client.calls import call
from airflow_provider_connect.client.rest_client import AsyncConnectClient, ConnectClient
from airflow_provider_connect.client.verbs import AsyncConnectVerbs, ConnectVerbs
from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.hooks.connect import AsyncConnectHook, ConnectHook
from airflow_provider_connect.rest.access import OpenToAll
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.rest.routes import add_route, remaining_routes
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.backfill_request import BackfillRequest
from airflow_provider_connect.runtime.model.replays import ReplayRequest
from airflow_provider_connect.runtime.model.verbs import VERBS, argument_of

CLI = Path(__file__).resolve().parents[2] / "airflow_provider_connect" / "cli"
BESIDE_THE_TABLE = {("get", "/metrics")}
OF_CLIENTS = {"expanded", "statuses"}  # the verb ``connectors`` with a parameter
OF_SERVERS = {"server_info", "health", "loggers", "logger", "set_logger_level", "task"}  # the herder is no server
NOT_COMMANDS = {"server_info", "health", "logger", "task", "task_status"}
READ_BY_METHODS = {"expand", "scope"}
"""Query parameters for which the methods have other arguments."""
BESIDE_VERBS = {"expanded", "get_settings", "server_info", "settings", "sink_lag"}
"""What commands ask of hooks and herders besides."""


def document(**given: Any) -> Any:
    return create_app(herder=cast(Any, None), access=OpenToAll(), info=cast(Any, None), **given).openapi()["paths"]


def test_every_verb_has_a_route_and_every_route_a_verb() -> None:
    routes = {(method, path) for path, methods in document().items() for method in methods}
    assert routes == {(verb.method.lower(), verb.path) for verb in VERBS.values()} | BESIDE_THE_TABLE


def test_the_document_has_the_tables_statuses() -> None:
    paths = document()
    for verb in VERBS.values():
        responses = paths[verb.path][verb.method.lower()]["responses"]
        assert {code for code in responses if code.isdigit()} == {str(status) for status in (verb.status, *verb.also)}


def test_verbs_of_an_admin_can_be_served_elsewhere() -> None:
    assert set(document()) - set(document(has_admin=False)) == {verb.path for verb in VERBS.values() if verb.is_admin}


@pytest.mark.parametrize("kind", [ConnectClient, AsyncConnectClient, ConnectHook, AsyncConnectHook])
def test_clients_and_hooks_have_every_verb(kind: type) -> None:
    methods = {name for name, method in inspect.getmembers(kind) if hasattr(method, "call")}
    taken = {"logger"} if issubclass(kind, BaseHook) else set()  # Airflow's hooks have a method of that name
    assert methods == (set(VERBS) | OF_CLIENTS) - taken


@pytest.mark.parametrize("kind", [ConnectVerbs, AsyncConnectVerbs])
def test_a_method_asks_for_the_verb_of_its_name(kind: type) -> None:
    arguments = {"name": "c", "plugin": "p", "task": 1, "config": {}, "patch": {}, "changes": [], "to": "2", "level": "INFO", "revision": 1}
    arguments |= {"asked": ReplayRequest(), "request": BackfillRequest([], {}, "one")}
    for name in VERBS:
        method: Any = getattr(kind, name)
        needed = [each.name for each in inspect.signature(method).parameters.values() if each.default is each.empty][1:]
        assert method.call(**{each: arguments[each] for each in needed}).verb is VERBS[name]


@pytest.mark.parametrize("kind", [ConnectVerbs, Herder])
def test_methods_take_the_query_parameters_of_the_table(kind: type) -> None:
    for verb in VERBS.values():
        wanted = {argument_of(name) for name in verb.query} - READ_BY_METHODS
        if wanted and callable(getattr(kind, verb.name, None)):
            assert wanted <= set(inspect.signature(getattr(kind, verb.name)).parameters), verb.name


def test_clients_have_the_defaults_of_the_table() -> None:
    for verb in VERBS.values():
        taken = inspect.signature(getattr(ConnectVerbs, verb.name)).parameters
        for name, parameter in verb.query.items():
            if (argument := argument_of(name)) not in READ_BY_METHODS:
                assert taken[argument].default == parameter.default, (verb.name, name)


def test_the_herder_has_the_defaults_of_the_table() -> None:
    for verb in VERBS.values():
        taken = inspect.signature(getattr(Herder, verb.name)).parameters if hasattr(Herder, verb.name) else {}
        for name, parameter in verb.query.items():
            if (argument := argument_of(name)) in taken and taken[argument].default is not inspect.Parameter.empty:
                assert taken[argument].default == parameter.default, (verb.name, name)


def test_query_parameters_are_read_as_they_are_sent() -> None:
    verb = VERBS["restart_connector"]
    for arguments in ({"include_tasks": True, "only_failed": False}, {"include_tasks": False, "only_failed": True}):
        sent = verb.query_of(arguments)
        assert verb.arguments({name: [text] for name, text in sent}) == arguments
    assert VERBS["config_history"].query_of({"limit": 5, "before": None}) == [("limit", "5")]
    assert VERBS["config_history"].arguments({}) == {"limit": 50, "before": None}
    assert VERBS["connectors"].query_of({"expand": ["info", "status"]}) == [("expand", "info"), ("expand", "status")]
    with pytest.raises(TypeError, match="restart_connector has the query parameters"):
        verb.query_of({"tasks": True})


@pytest.mark.parametrize(
    ("verb", "name", "text", "message"),
    [
        ("config_history", "limit", "0", "'limit' must be a number from 1 to 1000, not 0"),
        ("config_history", "limit", "x", "'limit' must be a number from 1 to 1000, not x"),
        ("config_history", "before", "-1", "'before' must be a whole number, not -1"),
        ("costs", "days", "367", "'days' must be a number from 1 to 366, not 367"),
        ("costs", "days", "\u0661", "'days' must be a number from 1 to 366"),
    ],
)
def test_wrong_numbers_in_a_query_are_refused(verb: str, name: str, text: str, message: str) -> None:
    with pytest.raises(BadRequestException, match=message):
        VERBS[verb].arguments({name: [text]})


def test_an_empty_query_parameter_counts_as_not_given() -> None:
    assert VERBS["config_history"].arguments({"limit": [""]}) == {"limit": 50, "before": None}
    assert VERBS["plugins"].arguments({"connectorsOnly": [""]}) == {"connectors_only": True}
    assert VERBS["plugins"].arguments({"connectorsOnly": ["yes"]}) == {"connectors_only": False}


def test_only_routes_that_are_written_out_are_for_admins_or_change_more_than_one_connector() -> None:
    with pytest.raises(TypeError, match="loggers is for admins: write its route out"):
        add_route(APIRouter(), "loggers")
    with pytest.raises(TypeError, match="create_connector changes no single connector: write its route out"):
        remaining_routes([])


def test_the_herder_carries_out_every_verb_of_connectors_and_plugins() -> None:
    assert {name for name in VERBS if not callable(getattr(Herder, name, None))} == OF_SERVERS


def test_the_command_line_has_every_verb() -> None:
    called: set[str] = set()
    for file in CLI.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "verbs":
                called.add(node.attr)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_change":
                called.add(ast.literal_eval(node.args[0]))
    assert called - BESIDE_VERBS == set(VERBS) - NOT_COMMANDS


def test_names_are_segments_of_the_path() -> None:
    assert call("task_status", "a/b", 3).path == "/connectors/a%2Fb/tasks/3/status"
    assert call("server_info").path == "/"
