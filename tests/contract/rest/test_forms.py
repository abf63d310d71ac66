"""Methods, media types and paths, as a real Kafka Connect 4.3.1 answered them (asked by hand; the recordings have only some)."""

import pytest

from tests.contract.rest.scenarios import Step
from tests.contract.rest.server import Server


def ask(server: Server, method: str, path: str, **more: object) -> dict[str, object]:
    step: Step = {"method": method, "path": path, **more}
    return server.call(step)


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        (None, "", 400),
        (None, "{", 415),
        ("application/json; charset=utf-8", "{", 400),
        ("APPLICATION/JSON", "{", 400),
        ("*/*", "{}", 415),
        ("text/plain", "{}", 415),
        ("application/merge-patch+json", "{}", 415),
        ("application/x-www-form-urlencoded", "", 415),
        ("bogus", "{}", 400),
        ("", "{}", 400),
    ],
)
def test_a_body_comes_as_json(server: Server, content_type: str | None, body: str, status: int) -> None:
    answer = ask(server, "POST", "/connectors", raw=body, headers={"Content-Type": content_type})
    assert answer["status"] == status
    assert answer["content_type"] == "application/json"


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [(None, "x", 404), ("*/*", "x", 404), ("application/json", "", 404), ("application/json", "null", 404), ("text/plain", "", 415)],
)
def test_a_verb_without_a_body_takes_any_but_checks_its_content_type(
    server: Server, content_type: str | None, body: str, status: int
) -> None:
    assert ask(server, "PUT", "/connectors/nobody/pause", raw=body, headers={"Content-Type": content_type})["status"] == status


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        (None, 200),
        ("", 200),
        ("*/*", 200),
        ("application/*", 200),
        ("application/json;q=0", 200),
        ("text/html,*/*;q=0.1", 200),
        ("text/plain, application/json", 200),
        ("text/html", 406),
        ("application/xml", 406),
        ("application/vnd.api+json", 406),
        ("bogus", 406),
    ],
)
def test_an_answer_comes_as_json(server: Server, accept: str | None, status: int) -> None:
    assert ask(server, "GET", "/connectors", headers={"Accept": accept})["status"] == status
    assert ask(server, "GET", "/nowhere", headers={"Accept": accept})["status"] == 404


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/", "GET,HEAD,OPTIONS"),
        ("/connectors/", "GET,HEAD,OPTIONS,POST"),
        ("/connectors/n", "DELETE,GET,HEAD,OPTIONS"),
        ("/connectors/n/config", "GET,HEAD,OPTIONS,PATCH,PUT"),
        ("/connectors/n/tasks", "GET,HEAD,OPTIONS,POST"),
        ("/connectors/n/tasks/0/restart", "OPTIONS,POST"),
        ("/connectors/n/offsets", "DELETE,GET,HEAD,OPTIONS,PATCH"),
        ("/connectors/n/fence", "OPTIONS,PUT"),
        ("/connectors/n/topics/reset", "OPTIONS,PUT"),
        ("/connector-plugins/p/config/validate", "OPTIONS,PUT"),
        ("/admin/loggers/root", "GET,HEAD,OPTIONS,PUT"),
    ],
)
def test_options_name_the_methods(server: Server, path: str, allowed: str) -> None:
    answer = ask(server, "OPTIONS", path)
    assert (answer["status"], answer["allow"], answer["content_type"]) == (200, allowed, "application/json")
    assert "body" not in answer
    assert ask(server, "TRACE", path)["status"] == 405
    assert ask(server, "HEAD", path)["status"] == (405 if "HEAD" not in allowed else ask(server, "GET", path)["status"])


@pytest.mark.parametrize(
    "path", ["/Connectors", "/admin", "/connectors/n/tasks-config", "/connector-plugins/p", "/application.wadl", "/docs"]
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "BREW"])
def test_what_is_not_there_has_no_methods(server: Server, method: str, path: str) -> None:
    answer = ask(server, method, path)
    assert answer["status"] == 404
    assert method == "HEAD" or answer["body"] == {"error_code": 404, "message": "HTTP 404 Not Found"}


@pytest.mark.parametrize("number", ["x", "1.5", "2147483648", "-2147483649", "%20", "0x1"])
def test_a_task_is_a_number_of_32_bits(server: Server, number: str) -> None:
    assert ask(server, "GET", f"/connectors/n/tasks/{number}/status")["body"] == {"error_code": 404, "message": "HTTP 404 Not Found"}


def test_a_task_number_may_have_a_sign(server: Server) -> None:
    assert ask(server, "GET", "/connectors/n/tasks/+7/status")["body"] == {"error_code": 404, "message": "No status found for task n-7"}
    assert ask(server, "GET", "/connectors/n/tasks/-1/status")["body"] == {"error_code": 404, "message": "No status found for task n--1"}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("//connectors", 400),
        ("/connectors/%2e%2e", 400),
        ("/connectors/../connectors", 404),
        ("/connectors/%zz", 400),
        ("/connectors/%ff", 400),
    ],
)
def test_an_ambiguous_path_is_refused_as_json(server: Server, path: str, status: int) -> None:
    answer = ask(server, "GET", path)
    assert (answer["status"], answer["content_type"]) == (status, "application/json")


def test_matrix_parameters_are_dropped(server: Server) -> None:
    assert ask(server, "GET", "/connectors;x=1")["status"] == 200
    assert ask(server, "GET", "/connectors/a;b/config")["body"] == {"error_code": 404, "message": "Connector a not found"}


def test_a_patch_finds_the_connector_before_it_checks_an_empty_body(server: Server) -> None:
    for body in ("", "null"):
        answer = ask(server, "PATCH", "/connectors/nobody/config", raw=body)
        assert answer["body"] == {"error_code": 404, "message": "Connector nobody not found"}
    assert ask(server, "PATCH", "/connectors/nobody/config", raw="[]")["status"] == 400


@pytest.mark.parametrize("query", ["", "?connectorsOnly=", "?connectorsOnly", "?connectorsOnly=TRUE"])
def test_only_connectors_are_listed_unless_all_are_asked_for(server: Server, query: str) -> None:
    plugins = ask(server, "GET", f"/connector-plugins{query}")["body"]
    assert isinstance(plugins, list)
    assert {plugin["type"] for plugin in plugins} == {"sink", "source"}


NAMES = {
    "a/b": "a%2Fb",
    "a\\b": "a%5Cb",
    "a%20b": "a%2520b",
    "a{b}": "a%7Bb%7D",
    "a;b": "a%3Bb",
    "a'b\"c": "a%27b%22c",
    "a|b^c`d": "a%7Cb%5Ec%60d",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_connector_of_any_name_is_reached_by_its_encoded_name(server: Server, name: str) -> None:
    config = {"connector.class": "FileStreamSource", "topic": "t", "file": "/tmp/none"}
    created = ask(server, "POST", "/connectors", json={"name": name, "config": config, "initial_state": "STOPPED"})
    assert created["status"] == 201, created
    path = f"/connectors/{NAMES[name]}"
    assert ask(server, "GET", f"{path}/config")["body"] == {**config, "name": name}
    assert ask(server, "GET", f"{path}/tasks/0")["body"] == {"error_code": 404, "message": f"Unknown task: {name}-0"}
    assert ask(server, "DELETE", path)["status"] == 204
    assert ask(server, "GET", path)["body"] == {"error_code": 404, "message": f"Connector {name} not found"}


def test_secrets_are_hidden_wherever_a_config_is_shown_and_kept_when_it_comes_back(server: Server) -> None:
    config = {"connector.class": "FileStreamSource", "topic": "t", "file": "/tmp/none", "my.password": "hunter2", "a.token": "${file:/x:y}"}
    created = ask(server, "POST", "/connectors", json={"name": "secretive", "config": config, "initial_state": "STOPPED"})
    shown = ask(server, "GET", "/connectors/secretive/config")["body"]
    assert isinstance(shown, dict)
    assert (shown["my.password"], shown["a.token"]) == ("[hidden]", "${file:/x:y}")
    for change in ({**shown, "batch.size": "7"}, {**shown, "my.password": "hunter3"}):
        assert ask(server, "PUT", "/connectors/secretive/config", json=change)["status"] == 200
    again = ask(server, "PATCH", "/connectors/secretive/config", json={"my.password": "[hidden]"})
    listed = [ask(server, "GET", path) for path in ("/connectors?expand=info", "/connectors/secretive", "/connectors/secretive/tasks")]
    assert "hunter" not in repr([created, shown, again, *listed])
    copied = ask(server, "POST", "/connectors", json={"name": "copy", "config": {**shown, "name": "copy"}})
    assert copied["status"] == 400
    assert "my.password" in str(copied["body"])
    assert ask(server, "DELETE", "/connectors/secretive")["status"] == 204
