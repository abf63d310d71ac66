"""Who may do what over REST: every route, without a user, for each role of both auth managers, and with FAB for a user with one DAG."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.airflow_home import run_python
from tests.http_client import request
from tests.integration.airflow.conftest import Airflow
from tests.integration.airflow.fab_server import MINE, FabServer
from tests.rest_routes import INTERNAL, routes
from tests.waiting import HANG_SECONDS, wait_until

OTHER = "somebody's"
ROLES = ("viewer", "user", "op", "admin")
CHANGED_BY_ALL = "/admin/loggers/{logger}"
BODIES: Mapping[str, object] = {
    "/connectors": {"name": "", "config": {"connector.class": "NoSuchClass"}},
    "/connectors/{connector}/config": {"connector.class": "NoSuchClass"},
    "/connectors/{connector}/offsets": {"offsets": [{"partition": {}, "offset": None}]},
    "/connectors/{connector}/config/rollback": {"revision": 1},
    "/connectors/{connector}/offsets/undo": {"to": 0},
    "/connectors/{connector}/backfills": {"ranges": 0},
    "/connectors/{connector}/dead-letters/replay": {"offsets": 0},
    "/connectors/{connector}/upgrade": {"to": "[9999,)"},
    "/connectors/{connector}/upgrade/comparison": {"to": "[9999,)"},
    "/connector-plugins/{plugin}/config/validate": {"connector.class": "NoSuchClass"},
    "/admin/loggers/{logger}": {"level": "LOUD"},
}


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str

    @property
    def is_read(self) -> bool:
        return self.method == "GET"

    @property
    def is_internal(self) -> bool:
        return (self.method, self.path) in INTERNAL

    @property
    def administers(self) -> bool:
        """Whether it changes what concerns all connectors."""
        return self.path == CHANGED_BY_ALL and not self.is_read

    @property
    def names_a_connector(self) -> bool:
        return "{connector}" in self.path or (self.method, self.path) == ("POST", "/connectors") or self.path.endswith("/validate")

    def request(self, connector: str) -> tuple[str, str, Any]:
        """Method, path and body; nothing that is asked for is possible, so that only rights can be in the way of a 4xx of another kind."""
        names = {"{connector}": connector.replace("'", "%27"), "{task}": "0", "{plugin}": "NoSuchClass", "{logger}": "no.such.logger"}
        path = self.path
        for placeholder, name in names.items():
            path = path.replace(placeholder, name)
        body = BODIES.get(self.path)
        if isinstance(body, dict) and self.path == "/connectors":
            body = {**body, "name": connector}
        if isinstance(body, dict) and self.path.endswith("/validate"):
            body = {**body, "name": connector}
        return self.method, path, None if self.is_read else body


ALL = [Route(method, path) for method, path in routes()]
NO_JSON = {"content": b"{not json", "headers": {"Content-Type": "application/json"}}
"""A body that no route takes: who may not ask gets no word about it."""


def document_of(url: str, auth: tuple[str, str]) -> Any:
    return request("GET", f"{url}/openapi.json", auth=auth, timeout=HANG_SECONDS).json()


def status(url: str, route: Route, connector: str, **how: Any) -> int:
    method, path, body = route.request(connector)
    return request(method, f"{url}{path}", **({} if "content" in how else {"json": body}), **how).status_code


@pytest.fixture(scope="module")
def passwords(airflow: Airflow) -> dict[str, str]:
    """Those of the simple auth manager, by user."""
    found = json.loads((airflow.stack.folder / "airflow" / "home" / "passwords.json").read_text())
    return {role: str(found[role]) for role in ROLES}


def assert_rights(route: Route, found: Mapping[str, int]) -> None:
    """By ``found``, the statuses without a user and for each role of which users have rights on all DAGs."""
    assert found["anonymous"] == 401, (route, found)
    assert (found["viewer"] == 403) is not route.is_read or route.is_internal, (route, found)
    assert (found["user"] == 403) is route.administers, (route, found)
    assert {found["op"], found["admin"]}.isdisjoint((401, 403, 500)), (route, found)


def statuses(url: str, route: Route, passwords: Mapping[str, str], **how: Any) -> dict[str, int]:
    users: dict[str, Any] = {"anonymous": {}, **{role: {"auth": (role, passwords[role])} for role in ROLES}}
    return {user: status(url, route, OTHER, **auth, **how) for user, auth in users.items()}


@pytest.mark.timeout(600)
def test_each_role_of_the_simple_auth_manager_has_its_rights_on_every_route(airflow: Airflow, passwords: dict[str, str]) -> None:
    url = f"{airflow.url}/connect"
    for route in ALL:
        assert_rights(route, statuses(url, route, passwords))
    assert_that_bodies_come_after_rights(url, passwords)


def assert_that_bodies_come_after_rights(url: str, passwords: Mapping[str, str]) -> None:
    described = document_of(url, ("admin", passwords["admin"]))["paths"]
    with_body = [route for route in ALL if "requestBody" in described.get(route.path, {}).get(route.method.lower(), {})]
    assert len(with_body) > 10
    for route in with_body:
        found = statuses(url, route, passwords, **NO_JSON)
        may = 403 if route.administers else 400
        assert found == {"anonymous": 401, "viewer": 403, "user": may, "op": 400, "admin": 400}, route


@pytest.mark.soak  # roles of FAB without each route: test_attacks
@pytest.mark.timeout(600)
def test_with_fab_each_role_and_a_user_with_one_dag_have_their_rights_on_every_route(fab: FabServer) -> None:
    owner = {"auth": ("owner", fab.passwords["owner"])}
    for route in ALL:
        assert_rights(route, statuses(fab.url, route, fab.passwords))
        if route.is_internal:
            continue
        others, own = status(fab.url, route, OTHER, **owner), status(fab.url, route, MINE, **owner)
        assert (others == 403) is (route.names_a_connector or route.administers), (route, others)
        assert (own == 403) is route.administers, (route, own)
    assert_that_bodies_come_after_rights(fab.url, fab.passwords)


@pytest.mark.soak
def test_doctor_names_fabs_roles_that_do_not_see_the_page(fab: FabServer) -> None:
    """``/health`` names them too, and the line that doctor prints corrects that."""
    auth = ("admin", fab.passwords["admin"])
    wait_until(
        lambda: "User and Viewer do not see Connect's page" in request("GET", f"{fab.url}/health", auth=auth, timeout=HANG_SECONDS).text,
        "/health",
    )
    before, fix, after = json.loads(run_python(fab.environment, "-c", _DOCTOR).splitlines()[-1])
    assert before == "Users of FAB's User and Viewer do not see Connect's page in Airflow's UI: these roles lack 'can read on Plugins'"
    assert fix == "airflow roles add-perms User Viewer -a can_read -r Plugins"
    assert after == "FAB's roles Viewer and User see Connect's page in Airflow's UI"


_DOCTOR = """
import json
from airflow.cli.cli_parser import get_parser
from airflow_provider_connect.api_server.cluster_checks import page_findings
from airflow_provider_connect.cli.settings import use_database
use_database()
(before,) = page_findings()
arguments = get_parser().parse_args(before.fix.split()[1:])
arguments.func(arguments)
(after,) = page_findings()
print(json.dumps([before.text, before.fix, after.text]))
"""


def test_a_right_on_a_dag_named_in_the_query_opens_nothing(fab: FabServer) -> None:
    answer = request(
        "PUT", f"{fab.url}/connectors/{OTHER}/pause?dag_id=connect.mine", auth=("owner", fab.passwords["owner"]), timeout=HANG_SECONDS
    )
    assert answer.status_code == 403


@pytest.mark.parametrize("path", ["/", "/nowhere", "/connectors//x", "/connectors/%zz", "/openapi.json", "/docs", "/metrics"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"])
def test_no_client_learns_what_there_is_without_authentication(airflow: Airflow, method: str, path: str) -> None:
    answer = request(method, f"{airflow.url}/connect{path}", timeout=HANG_SECONDS)
    assert answer.status_code == 401
    if method != "HEAD":
        assert answer.json() == {"error_code": 401, "message": "Not authenticated"} or method != "GET"
    assert answer.headers["WWW-Authenticate"].startswith("Basic")


CROSS_SITE = [
    {},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none"},
    {"Referer": "https://evil.example/"},
]


@pytest.mark.parametrize("headers", CROSS_SITE, ids=str)
def test_another_sites_page_changes_nothing_with_the_cookie_of_the_ui(airflow: Airflow, headers: dict[str, str]) -> None:
    token = airflow.client.headers["Authorization"].removeprefix("Bearer ")
    for method, path in (
        ("PUT", "/connectors/x/pause"),
        ("POST", "/connectors"),
        ("DELETE", "/connectors/x"),
        ("PATCH", "/connectors/x/offsets"),
    ):
        answer = request(method, f"{airflow.url}/connect{path}", cookies={"_token": token}, headers=headers, timeout=HANG_SECONDS)
        assert answer.status_code == 403, (method, path)


def test_a_page_of_the_same_server_may_use_the_cookie(airflow: Airflow) -> None:
    token = airflow.client.headers["Authorization"].removeprefix("Bearer ")
    for headers in ({"Sec-Fetch-Site": "same-origin"}, {"Origin": airflow.url}):
        answer = request(
            "PUT", f"{airflow.url}/connect/connectors/nobody/pause", cookies={"_token": token}, headers=headers, timeout=HANG_SECONDS
        )
        assert answer.json() == {"error_code": 404, "message": "Unknown connector nobody"}


def test_the_list_holds_what_the_user_may_read(fab: FabServer) -> None:
    admin, owner = (httpx.Client(base_url=fab.url, auth=(user, fab.passwords[user]), timeout=HANG_SECONDS) for user in ("admin", "owner"))
    config = {"connector.class": "FileStreamSource", "topic": "t", "file": "/tmp/none", "api.token": "secret-value"}
    for name in (MINE, OTHER):
        created = admin.post("/connectors", json={"name": name, "config": config, "initial_state": "STOPPED"})
        assert created.status_code == 201, created.text
        assert created.json()["config"]["api.token"] == "[hidden]"
    assert sorted(admin.get("/connectors").json()) == sorted([MINE, OTHER])
    assert owner.get("/connectors").json() == [MINE]
    assert list(owner.get("/connectors?expand=info&expand=status").json()) == [MINE]
    pages = [client.get("/ui/connectors").json() for client in (admin, owner)]
    assert [[row["name"] for row in page["connectors"]] for page in pages] == [sorted([MINE, OTHER]), [MINE]]
    assert [page["may_read_all"] for page in pages] == [True, False]
    assert "secret-value" not in admin.get("/connectors?expand=info").text + admin.get(f"/connectors/{MINE}/config").text

    shown = owner.get(f"/connectors/{MINE}/config").json()
    assert owner.put(f"/connectors/{MINE}/config", json={**shown, "batch.size": "5"}).status_code == 200
    assert owner.put(f"/connectors/{OTHER}/config", json=shown).status_code == 403
    assert owner.delete(f"/connectors/{MINE}").status_code == 204
    assert admin.delete(f"/connectors/{OTHER}").status_code == 204
