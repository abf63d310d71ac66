"""What users of each role may do over REST when they mean harm: real API servers with the simple auth manager's and with FAB's users.

The matrix of routes, methods and roles stands in ``test_access``. Here are requests in hostile forms: each must be refused as its plain
form would be, and nothing of it may have been done.
"""

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
import pytest

from tests.http_client import request
from tests.integration.airflow.conftest import Airflow
from tests.integration.airflow.fab_server import MINE, FabServer
from tests.rest_routes import INTERNAL, routes
from tests.waiting import HANG_SECONDS

OTHER = "theirs"
CONFIG = {"connector.class": "FileStreamSource", "topic": "t", "file": "none", "api.token": "canary-4711-secret"}
VERBS: tuple[tuple[str, str, object], ...] = (
    ("GET", "/connectors/{}", None),
    ("GET", "/connectors/{}/config", None),
    ("GET", "/connectors/{}/status", None),
    ("GET", "/connectors/{}/tasks", None),
    ("GET", "/connectors/{}/tasks/0", None),
    ("GET", "/connectors/{}/tasks/0/status", None),
    ("GET", "/connectors/{}/topics", None),
    ("GET", "/connectors/{}/offsets", None),
    ("GET", "/connectors/{}/upgrade", None),
    ("GET", "/connectors/{}/config/history", None),
    ("GET", "/connectors/{}/offsets/history", None),
    ("POST", "/connectors/{}/config/rollback", {"revision": 1}),
    ("POST", "/connectors/{}/offsets/undo", {"to": 0}),
    ("POST", "/connectors/{}/offsets/undo", {"to": 0, "dry_run": True}),
    ("PUT", "/connectors/{}/config", CONFIG),
    ("PATCH", "/connectors/{}/config", {"batch.size": "1"}),
    ("PUT", "/connectors/{}/pause", None),
    ("PUT", "/connectors/{}/resume", None),
    ("PUT", "/connectors/{}/stop", None),
    ("POST", "/connectors/{}/restart", None),
    ("POST", "/connectors/{}/restart?includeTasks=true&onlyFailed=false", None),
    ("POST", "/connectors/{}/tasks/0/restart", None),
    ("PUT", "/connectors/{}/topics/reset", None),
    ("PATCH", "/connectors/{}/offsets", {"offsets": [{"partition": {"filename": "none"}, "offset": {"position": 1}}]}),
    ("DELETE", "/connectors/{}/offsets", None),
    ("POST", "/connectors/{}/preview", {"records": 1, "config": CONFIG}),
    ("PUT", "/connectors/{}/upgrade", {"to": "[1,)"}),
    ("DELETE", "/connectors/{}/upgrade", None),
    ("POST", "/connectors/{}/upgrade/comparison", {"to": "[1,)"}),
    ("GET", "/connectors/{}/dead-letters/replay", None),
    ("POST", "/connectors/{}/dead-letters/replay", {"dry_run": True}),
    ("POST", "/connectors/{}/dead-letters/replay", {"edits": {"0:0": {"value": "x"}}}),
    ("GET", "/connectors/{}/backfills", None),
    ("GET", "/connectors/{}/costs", None),
    ("GET", "/connectors/{}/costs?days=366", None),
    ("POST", "/connectors/{}/backfills", {"ranges": [{}], "dry_run": True}),
    ("POST", "/connectors/{}/backfills", {"ranges": [{}], "id": "a"}),
    ("GET", "/ui/connectors/{}", None),
    ("GET", "/ui/connectors/{}/lag", None),
    ("GET", "/ui/connectors/{}/lags?hours=1", None),
    ("GET", "/ui/connectors/{}/dead-letters", None),
    ("GET", "/ui/connectors/{}/replay", None),
    ("GET", "/ui/connectors/{}/backfills", None),
    ("DELETE", "/connectors/{}", None),
)
DISGUISES = (
    "{name}",
    "{name}/",
    "{name};x=1",
    "%74heirs",
    "%74%68%65%69%72%73",
    "{name}?dag_id=connect.mine",
    "{name}?connector=mine&name=mine",
)
"""Forms of the path that all name the other's connector."""


@dataclass(frozen=True, slots=True)
class RunEnvironment:
    """An API server with connectors MINE and OTHER, both STOPPED."""

    server: FabServer

    def ask(self, user: str | None, method: str, path: str, body: object = None) -> httpx.Response:
        auth = None if user is None else (user, self.server.passwords[user])
        return request(method, f"{self.server.url}{path}", json=body, auth=auth, timeout=HANG_SECONDS)

    def state(self) -> object:
        """All that could have been changed of the other's connector."""
        paths = [f"/connectors/{OTHER}{part}" for part in ("", "/status", "/offsets", "/tasks")]
        return [self.ask("admin", "GET", path).text for path in paths]


@pytest.fixture(scope="module")
def environment(fab: FabServer) -> Iterator[RunEnvironment]:
    environment = RunEnvironment(fab)
    for name in (MINE, OTHER):
        made = environment.ask("admin", "POST", "/connectors", {"name": name, "config": CONFIG, "initial_state": "STOPPED"})
        assert made.status_code == 201, made.text
    yield environment
    for name in (MINE, OTHER):
        assert environment.ask("admin", "DELETE", f"/connectors/{name}").status_code == 204


def test_these_are_all_routes_that_name_a_connector() -> None:
    asked = [(method, path.partition("?")[0].format("{connector}").replace("/0", "/{task}")) for method, path, _ in VERBS]
    assert set(asked) == {route for route in routes() if "{connector}" in route[1]} - set(INTERNAL)


def in_disguise(path: str, disguise: str) -> str:
    """``path`` with the connector's name written otherwise; a query of the disguise comes before one of the path."""
    name, _, query = disguise.format(name=OTHER).partition("?")
    before, _, rest = path.partition("{}")
    rest, _, own = rest.partition("?")
    whole = f"{before}{name.rstrip('/')}{rest}" if rest else f"{before}{name}"
    asked = "&".join(part for part in (query, own) if part)
    return f"{whole}?{asked}" if asked else whole


@pytest.mark.timeout(900)
@pytest.mark.parametrize("disguise", DISGUISES)
def test_an_editor_of_one_connector_reaches_no_other(environment: RunEnvironment, disguise: str) -> None:
    before = environment.state()
    for method, path, body in VERBS:
        answer = environment.ask("owner", method, in_disguise(path, disguise), body)
        assert answer.status_code == 403, (method, path, answer.text)
        assert "canary" not in answer.text
    assert environment.state() == before


@pytest.mark.parametrize("user", [None, "viewer"])
def test_who_may_not_change_learns_and_changes_nothing(environment: RunEnvironment, user: str | None) -> None:
    before = environment.state()
    for method, path, body in VERBS:
        answer = environment.ask(user, method, path.format(OTHER), body)
        assert answer.status_code == 401 if user is None else answer.status_code == 403 or method == "GET", (method, path)
        assert "canary" not in answer.text
    assert environment.state() == before


@pytest.mark.parametrize("user", [None, "viewer", "owner"])
def test_a_body_reaches_no_other_connector(environment: RunEnvironment, user: str | None) -> None:
    refused = 401 if user is None else 403
    before = environment.state()
    for name in (OTHER, f" {OTHER} ", f"{OTHER}\t"):
        config = {**CONFIG, "name": name}
        assert environment.ask(user, "POST", "/connectors", {"name": name, "config": CONFIG}).status_code == refused
        assert environment.ask(user, "PUT", "/connector-plugins/FileStreamSource/config/validate", config).status_code == refused
    assert environment.ask(user, "PUT", "/connector-plugins/FileStreamSource/config/validate", CONFIG).status_code == refused
    assert environment.state() == before


@pytest.mark.parametrize("more", [{}, {"dry_run": True}], ids=str)
def test_an_editor_of_one_connector_creates_no_backfill_of_it(environment: RunEnvironment, more: dict[str, object]) -> None:
    """It is another connector, with a DAG of its own; who may create that one too gets further."""
    before = environment.ask("admin", "GET", "/connectors").json()
    asked = {"ranges": [{}], "id": "one", **more}
    refused = environment.ask("owner", "POST", f"/connectors/{MINE}/backfills", asked)
    assert (refused.status_code, refused.json()["message"]) == (403, f"You may not change connector {MINE}.backfill.one")
    assert environment.ask("user", "POST", f"/connectors/{MINE}/backfills", asked).status_code == 400, "no setting bounds this source"
    assert environment.ask("admin", "GET", "/connectors").json() == before


def test_an_editors_own_body_may_not_name_another(environment: RunEnvironment) -> None:
    before = environment.state()
    other = {**CONFIG, "name": OTHER}
    for method, path, body in (
        ("POST", "/connectors", {"name": MINE, "config": other}),
        ("PUT", f"/connectors/{MINE}/config", other),
        ("PATCH", f"/connectors/{MINE}/config", {"name": OTHER}),
        ("PATCH", f"/connectors/{MINE}/config", {"name": None}),
    ):
        assert environment.ask("owner", method, path, body).status_code == 400, (method, path)
    assert environment.state() == before


HOSTILE_NAMES = (
    "..",
    "%2e%2e",
    f"{MINE}/../{OTHER}",
    f"{MINE}%2f..%2f{OTHER}",
    f"{MINE}%2F%2e%2e%2F{OTHER}",
    f"{MINE}%252f..%252f{OTHER}",
    "%2574heirs",
    f"{MINE}%00{OTHER}",
    f"{MINE}%0a{OTHER}",
    f"{MINE}%5c..%5c{OTHER}",
    "ｍｉｎｅ",
    "m\N{CYRILLIC SMALL LETTER BYELORUSSIAN-UKRAINIAN I}ne",
    "mine%E2%80%8B",
    "mine%CC%81",
    "MINE",
    "connect.mine",
    "mine.",
    "--6dine",
    "*",
    "%",
    "mine%c0%af",
)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_name_that_resembles_ones_own_is_another(environment: RunEnvironment, name: str) -> None:
    for method, path, body in (("GET", "/config", None), ("PUT", "/config", CONFIG), ("DELETE", "", None), ("GET", "/status", None)):
        target = f"/connectors/{name}{path}".encode().decode("latin-1")
        answer = raw(environment, "owner", method, target, body)
        assert answer.status in (400, 403, 404), (method, path, answer.status)
        assert "canary" not in answer.text
    assert sorted(environment.ask("admin", "GET", "/connectors").json()) == sorted([MINE, OTHER])


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    text: str


def raw(environment: RunEnvironment, user: str, method: str, target: str, body: object) -> Answer:
    """A request whose target is sent as it is, which no client's library would do."""
    url = urlsplit(environment.server.url)
    token = httpx.BasicAuth(user, environment.server.passwords[user])._auth_header
    data = b"" if body is None else json.dumps(body).encode()
    kind = "" if body is None else "Content-Type: application/json\r\n"
    head = (
        f"{method} {url.path}{target} HTTP/1.1\r\nHost: {url.netloc}\r\nAuthorization: {token}\r\n{kind}"
        f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection((url.hostname, url.port or 80), timeout=HANG_SECONDS) as connection:
        connection.sendall(head.encode("latin-1") + data)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    return Answer(int(answer.split(b" ", 2)[1]), answer.decode(errors="replace"))


def test_lists_hold_what_a_user_may_read(environment: RunEnvironment) -> None:
    for path in (
        "/connectors",
        "/connectors?expand=info",
        "/connectors?expand=status&expand=info",
        "/connectors?expand=x",
        "/workers",
        "/metrics",
    ):
        for query in ("", "dag_id=connect.theirs", "dag_id=~", "user=admin"):
            asked = f"{path}{'&' if '?' in path else '?'}{query}"
            shown = environment.ask("owner", "GET", asked)
            assert shown.status_code == 200, asked
            assert OTHER not in shown.text, asked
            assert "canary" not in shown.text + environment.ask("admin", "GET", asked).text, asked


def test_only_who_may_administer_sets_log_levels(environment: RunEnvironment) -> None:
    for scope in ("", "?scope=cluster", "?scope=worker", "?dag_id=connect.mine"):
        for user, status in ((None, 401), ("viewer", 403), ("owner", 403)):
            answer = environment.ask(user, "PUT", f"/admin/loggers/no.such.logger{scope}", {"level": "DEBUG"})
            assert answer.status_code == status, (user, scope)
    assert "no.such.logger" not in environment.ask("admin", "GET", "/admin/loggers").json()


LEVEL = ("PUT", "/admin/loggers/no.such.logger.of.roles", {"level": "INFO"})


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("role", "may_change", "may_administer"), [("viewer", False, False), ("user", True, False), ("op", True, True)])
def test_fabs_own_roles_have_their_rights_and_see_no_secret(
    environment: RunEnvironment, role: str, may_change: bool, may_administer: bool
) -> None:
    """Every verb on another user's connector, the one that deletes it last."""
    name = f"of-{role}"
    made = environment.ask("admin", "POST", "/connectors", {"name": name, "config": CONFIG, "initial_state": "STOPPED"})
    assert made.status_code == 201, made.text
    before = environment.state()
    for method, path, body in VERBS:
        answer = environment.ask(role, method, path.format(name), body)
        is_refused = answer.status_code in (401, 403)
        assert is_refused == (method != "GET" and not may_change), (method, path, answer.status_code, answer.text)
        assert "canary" not in answer.text
    assert (environment.ask("admin", "GET", f"/connectors/{name}").status_code == 404) == may_change, "DELETE was the last"
    environment.ask("admin", "DELETE", f"/connectors/{name}")
    for path in ("/connectors?expand=info&expand=status", "/metrics", "/workers", "/admin/loggers", "/connector-plugins"):
        answer = environment.ask(role, "GET", path)
        assert (answer.status_code, "canary" in answer.text) == (200, False), path
    assert environment.ask(role, *LEVEL).status_code == (200 if may_administer else 403)
    assert environment.state() == before


@pytest.mark.parametrize("user", ["user", "op"])
def test_who_may_edit_all_connectors_has_no_secret_sent_elsewhere_and_reaches_no_internal_topic(
    environment: RunEnvironment, user: str
) -> None:
    before = environment.state()
    shown = environment.ask(user, "GET", f"/connectors/{OTHER}/config").json()
    assert shown["api.token"] == "[hidden]"
    for change, reason in (
        ({"connector.class": "FileStreamSink", "topics": "t"}, "give the secret again"),
        ({"rest.url": "https://evil.example"}, "give the secret again"),
        ({"database.dbname": "shop?PGHOST=evil.example&PGPORT=5432"}, "give the secret again"),
        ({"topic": "configs-fab"}, "configs-fab"),
        ({"note": "${airflow:shop:password}"}, "config.providers.airflow"),
    ):
        answer = environment.ask(user, "PATCH", f"/connectors/{OTHER}/config", change)
        assert (answer.status_code, reason in answer.text) == (400, True), (change, answer.text)
        assert "canary" not in answer.text
    assert environment.state() == before


def test_a_right_is_checked_before_the_body(environment: RunEnvironment) -> None:
    """A body that no route accepts, from a user without the right: no word of what is wrong with it."""
    for user, status in ((None, 401), ("viewer", 403), ("owner", 403)):
        auth = None if user is None else (user, environment.server.passwords[user])
        for method, path in (
            ("PUT", f"/connectors/{OTHER}/config"),
            ("PATCH", f"/connectors/{OTHER}/config"),
            ("PATCH", f"/connectors/{OTHER}/offsets"),
            ("POST", f"/connectors/{OTHER}/preview"),
            ("PUT", f"/connectors/{OTHER}/upgrade"),
            ("PUT", "/admin/loggers/root"),
            *((("POST", "/connectors"), ("PUT", "/connector-plugins/x/config/validate")) if user != "owner" else ()),
        ):
            answer = request(
                method,
                f"{environment.server.url}{path}",
                content=b"{not json",
                headers={"Content-Type": "application/json"},
                auth=auth,
                timeout=HANG_SECONDS,
            )
            assert answer.status_code == status, (user, method, path, answer.text)
            assert "JSON" not in answer.text


@pytest.mark.parametrize("scheme", ["Basic", "Bearer", "basic", "Negotiate", "Digest"])
@pytest.mark.parametrize(
    "credentials",
    ["", "AAAA", "bm8gY29sb24=", "Og==", "YWRtaW46", "YWRtaW46YWRtaW4=", "ÿ", "a.b.c", "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0."],
)
def test_made_up_credentials_open_nothing(airflow: Airflow, scheme: str, credentials: str) -> None:
    headers = {"Authorization": f"{scheme} {credentials}".rstrip().encode("latin-1")}
    answer = request("GET", f"{airflow.url}/connect/connectors", headers=headers, timeout=HANG_SECONDS)
    assert answer.status_code in (401, 403)
    assert set(answer.json()) == {"error_code", "message"}


def test_airflows_own_roles_have_their_rights(airflow: Airflow) -> None:
    """The simple auth manager's four roles: who may see, who may change, who may set log levels."""
    passwords = json.loads((airflow.stack.folder / "airflow" / "home" / "passwords.json").read_text())
    url = f"{airflow.url}/connect"
    expected = {"viewer": (200, 403, 403, 403), "user": (200, 404, 404, 403), "op": (200, 404, 404, 200), "admin": (200, 404, 404, 200)}
    assert expected.keys() <= passwords.keys()
    for user, statuses in expected.items():
        auth = (user, passwords[user])
        answers = (
            request("GET", f"{url}/connectors", auth=auth, timeout=HANG_SECONDS),
            request("PUT", f"{url}/connectors/nobody/pause", auth=auth, timeout=HANG_SECONDS),
            request("DELETE", f"{url}/connectors/nobody", auth=auth, timeout=HANG_SECONDS),
            request("PUT", f"{url}/admin/loggers/no.such.logger", json={"level": "INFO"}, auth=auth, timeout=HANG_SECONDS),
        )
        assert tuple(answer.status_code for answer in answers) == statuses, user
