"""Who may do what, by Airflow's auth manager: users by bearer token, by HTTP Basic or by the UI's cookie; rights on a connector are those
on its DAG.

Never Airflow's ``requires_access_dag``: that one takes the DAG from a query parameter that the caller chooses.
"""

import hashlib
import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

import httpx
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagDetails, VariableDetails
from airflow.api_fastapi.core_api.security import bearer_scheme, get_user, resolve_user_from_token
from airflow.configuration import conf
from airflow.models.dag import DagModel
from fastapi import HTTPException, Request
from fastapi.concurrency import run_in_threadpool

from airflow_provider_connect.airflow_settings import VARIABLE
from airflow_provider_connect.errors import ConfigException, ForbiddenException, UnauthorizedException
from airflow_provider_connect.model.ids import DAG_ID_PREFIX, dag_id_for
from airflow_provider_connect.rest.access import Right, User
from airflow_provider_connect.rest.basic_access import decoded

_BASIC_SECONDS = 60.0
_METHODS = {Right.READ: "GET", Right.CHANGE: "PUT", Right.DELETE: "DELETE"}
_SAFE = ("GET", "HEAD", "OPTIONS")


class AirflowAccess:
    """The ``Access`` of the app that the API server mounts."""

    def __init__(self) -> None:
        self._tokens = BasicTokens()

    async def identify(self, request: Request) -> User:
        """See ``Access``. A change asked for with the cookie alone must come from a page of this very server."""
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        try:
            user = await self._user(request, scheme, credentials)
        except HTTPException as error:
            refused = UnauthorizedException if error.status_code == 401 else ForbiddenException
            raise refused(str(error.detail)) from error
        if scheme.lower() not in ("basic", "bearer") and request.method not in _SAFE and not _is_of_own_page(request):
            raise ForbiddenException(
                "A change that is asked for with the cookie of Airflow's UI must come from a page of the same server (Origin, "
                "Sec-Fetch-Site); other clients send a bearer token or Basic credentials"
            )
        if not await run_in_threadpool(get_auth_manager().is_authorized_view, access_view=AccessView.WEBSITE, user=user):
            raise ForbiddenException("Forbidden")
        return user

    async def _user(self, request: Request, scheme: str, credentials: str) -> User:
        if scheme.lower() == "basic":
            return await resolve_user_from_token(await self._tokens.token(credentials.strip()))
        return await get_user(request, None, await bearer_scheme(request))

    def may(self, user: User, right: Right, connector: str) -> bool:
        return bool(get_auth_manager().is_authorized_dag(method=_METHODS[right], user=user, details=_details(connector)))

    def may_create_some(self, user: User) -> bool:
        return bool(get_auth_manager().is_authorized_dag(method="PUT", user=user))

    def readable(self, user: User, connectors: Iterable[str]) -> set[str]:
        if _has_teams():
            return {connector for connector in connectors if self.may(user, Right.READ, connector)}
        dag_ids = {_dag_id(connector): connector for connector in connectors}
        allowed = get_auth_manager().filter_authorized_dag_ids(dag_ids=set(dag_ids), user=user, method="GET")
        return {dag_ids[dag_id] for dag_id in allowed}

    def may_administer(self, user: User) -> bool:
        """Those who may write the Variable with the worker's settings."""
        return bool(get_auth_manager().is_authorized_variable(method="PUT", user=user, details=VariableDetails(key=VARIABLE)))


def _is_of_own_page(request: Request) -> bool:
    """What the browser says of the page that asks; a page cannot make these headers up."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = urlsplit(request.headers.get("origin", "")).netloc
    own = {request.headers.get("host"), urlsplit(conf.get("api", "base_url", fallback="") or "").netloc}
    return bool(origin) and origin in own


def _details(connector: str) -> DagDetails:
    dag_id = _dag_id(connector)
    return DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id) if _has_teams() else None)


def _dag_id(connector: str) -> str:
    """The DAG's id; for a name that is too long to have a DAG, what the id would be."""
    try:
        return dag_id_for(connector)
    except ConfigException:
        return DAG_ID_PREFIX + connector


def _has_teams() -> bool:
    return bool(conf.getboolean("core", "multi_team", fallback=False))


class BasicTokens:
    """Exchanges user name and password for the auth manager's own token, in this process, and keeps it for a minute."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._tokens: dict[bytes, tuple[float, str]] = {}

    async def token(self, credentials: str) -> str:
        """The token of the user whom the base64 ``credentials`` name. Raises UnauthorizedException."""
        key = hashlib.sha256(credentials.encode()).digest()
        self._tokens = {known: kept for known, kept in self._tokens.items() if kept[0] > self._now()}
        if key not in self._tokens:
            self._tokens[key] = (self._now() + _BASIC_SECONDS, await _exchanged(*_user_and_password(credentials)))
        return self._tokens[key][1]


def _user_and_password(credentials: str) -> tuple[str, str]:
    user, colon, password = decoded(credentials).partition(":")
    if not colon:
        raise UnauthorizedException("The Basic credentials are not 'user:password' in base64")
    return user, password


async def _exchanged(user: str, password: str) -> str:
    app: Any = get_auth_manager().get_fastapi_app()
    if app is None:
        raise UnauthorizedException("Airflow's auth manager takes no passwords: use a bearer token")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://auth") as client:
        answer = await client.post("/token", json={"username": user, "password": password})
    if answer.status_code != 201:
        raise UnauthorizedException("Invalid credentials")
    return str(answer.json()["access_token"])
