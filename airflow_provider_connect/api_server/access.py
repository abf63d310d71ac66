"""Access rights by Airflow's auth manager. Users authenticate by bearer token, HTTP Basic or the UI's cookie. A user's rights on a
connector are the rights on its DAG.

Internals of Airflow 3.3.2: the auth manager, ``get_user``, ``resolve_user_from_token``, ``DagBundleModel``, ``Log``, ``Team``. This module
must not use ``requires_access_dag``, because the caller chooses the query parameter from which it takes the DAG.
"""

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
from airflow.api_fastapi.app import create_auth_manager, get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagDetails, VariableDetails
from airflow.api_fastapi.core_api.security import bearer_scheme, get_user, resolve_user_from_token
from airflow.configuration import conf
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.log import Log
from airflow.models.team import Team
from airflow.utils.session import create_session
from fastapi import HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from airflow_provider_connect.errors import ForbiddenException, UnauthorizedException
from airflow_provider_connect.hooks.airflow_settings import VARIABLE, connectors_bundle
from airflow_provider_connect.rest.access import SAFE_METHODS, Right, User, is_of_page, refuse_foreign_page
from airflow_provider_connect.rest.basic_access import decoded
from airflow_provider_connect.runtime.model.ids import DAG_ID_PREFIX, dag_id_for

_BASIC_SECONDS = 60.0
_FAB_EDIT, _FAB_DAGS = "can_edit", f"DAG:{DAG_ID_PREFIX}"

_log = logging.getLogger(__name__)
_METHODS = {Right.READ: "GET", Right.CHANGE: "PUT", Right.DELETE: "DELETE"}


class AirflowAccess:
    """The ``Access`` of the app that the API server mounts, and of ``airflow connect rest``."""

    def __init__(self) -> None:
        self._tokens = BasicTokens()

    @classmethod
    def standalone(cls) -> Self:
        """Create the Access in a process other than the API server, where Airflow has not created its auth manager yet."""
        create_auth_manager().init()
        return cls()

    async def identify(self, request: Request) -> User:
        """See ``Access``. If only the cookie authenticates a change, the change must come from a page of this server. Browsers also store
        and send passwords, so a change with a password must not come from another server's page."""
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        try:
            user = await self._user(request, scheme, credentials)
        except HTTPException as error:
            refused = UnauthorizedException if error.status_code == 401 else ForbiddenException
            raise refused(str(error.detail)) from error
        if scheme.lower() == "basic":
            refuse_foreign_page(request, [_own_address()])
        elif scheme.lower() != "bearer" and request.method not in SAFE_METHODS and not is_of_page(request, [_own_address()]):
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
        dag_id, manager = dag_id_for(connector), get_auth_manager()
        details = [DagDetails(id=dag_id, team_name=team) for team in (read_teams(dag_id) if _has_teams() else [None])]
        return all(manager.is_authorized_dag(method=_METHODS[right], user=user, details=found) for found in details)

    def may_create_some(self, user: User) -> bool:
        return bool(get_auth_manager().is_authorized_dag(method="PUT", user=user))

    def may_change_some(self, user: User) -> bool:
        if self.may_create_some(user):
            return True
        held = getattr(user, "perms", None)  # FAB's own list, because a role may have rights on future DAGs
        if held is not None:
            return any(action == _FAB_EDIT and resource.startswith(_FAB_DAGS) for action, resource in held)
        return any(dag_id.startswith(DAG_ID_PREFIX) for dag_id in get_auth_manager().get_authorized_dag_ids(user=user, method="PUT"))

    def readable(self, user: User, connectors: Iterable[str]) -> set[str]:
        return self._authorized(user, Right.READ, connectors)

    def may_read_all(self, user: User) -> bool:
        """Checks the right on a DAG that does not exist, because only a right on all DAGs covers such a DAG. With teams, checks it in each
        team."""
        dag_id, teams = dag_id_for(""), [None, *_team_names()] if _has_teams() else [None]
        details = [DagDetails(id=dag_id, team_name=team) for team in teams]
        return all(get_auth_manager().is_authorized_dag(method="GET", user=user, details=each) for each in details)

    def changeable(self, user: User, connectors: Iterable[str]) -> set[str]:
        return self._authorized(user, Right.CHANGE, connectors)

    def _authorized(self, user: User, right: Right, connectors: Iterable[str]) -> set[str]:
        if _has_teams():
            return {connector for connector in connectors if self.may(user, right, connector)}
        dag_ids = {dag_id_for(connector): connector for connector in connectors}
        allowed = get_auth_manager().filter_authorized_dag_ids(dag_ids=set(dag_ids), user=user, method=_METHODS[right])
        return {dag_ids[dag_id] for dag_id in allowed}

    def name_of(self, user: User) -> str:
        assert isinstance(user, BaseUser)  # returned by ``identify``
        return str(user.get_id())

    def author(self, user: User) -> str | None:
        assert isinstance(user, BaseUser)
        return str(user.get_name())

    def may_administer(self, user: User) -> bool:
        """Whether the user may write the Variable with the worker settings."""
        return bool(get_auth_manager().is_authorized_variable(method="PUT", user=user, details=VariableDetails(key=VARIABLE)))

    def note(self, user: User, verb: str, connector: str | None, details: Mapping[str, str]) -> None:
        """Write a row ``connect.«verb»`` for the connector's DAG, like Airflow's own API for actions on DAGs."""
        extra = {**({} if connector is None else {"connector": connector}), **details}
        dag_id, author = None if connector is None else dag_id_for(connector), self.author(user)
        entry = Log(f"connect.{verb}", owner=author, owner_display_name=author, extra=json.dumps(extra), dag_id=dag_id)
        try:
            with create_session() as session:
                session.add(entry)
        except SQLAlchemyError as error:
            _log.error("Airflow's audit log has no entry for the action of user %s: %s %s: %s", author, verb, extra, error)


def _own_address() -> str:
    """Host and port at which users reach Airflow; empty if not configured."""
    return urlsplit(conf.get("api", "base_url", fallback="") or "").netloc


def read_teams(dag_id: str) -> list[str | None]:
    """The teams of a DAG; a user needs the right in each of them. A DAG has the team of its bundle. None: the bundle has no team.

    A DAG unknown to Airflow has the team of the bundle that creates DAGs of stored connectors. Without such a bundle, the team is unknown,
    so the result has all teams.
    """
    with create_session() as session:
        bundle = session.scalar(select(DagModel.bundle_name).where(DagModel.dag_id == dag_id)) or connectors_bundle()
        if bundle is not None and session.get(DagBundleModel, bundle) is not None:
            return [DagBundleModel.get_team_name(bundle, session=session)]
        return [None, *sorted(Team.get_all_team_names(session=session))]


def _team_names() -> list[str]:
    with create_session() as session:
        return sorted(Team.get_all_team_names(session=session))


def _has_teams() -> bool:
    return bool(conf.getboolean("core", "multi_team", fallback=False))


class BasicTokens:
    """Exchanges user name and password for the auth manager's own token in this process, and keeps the token for a minute."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._tokens: dict[bytes, tuple[float, str]] = {}
        self._lock = threading.Lock()
        self._app: Any = None

    async def token(self, credentials: str) -> str:
        """Return the token for the base64 ``credentials``. Raises UnauthorizedException."""
        key = hashlib.sha256(credentials.encode()).digest()
        self._tokens = {known: kept for known, kept in self._tokens.items() if kept[0] > self._now()}
        if key not in self._tokens:
            self._tokens[key] = (self._now() + _BASIC_SECONDS, await self._exchange(*_user_and_password(credentials)))
        return self._tokens[key][1]

    async def _exchange(self, user: str, password: str) -> str:
        app = await run_in_threadpool(self._auth_app)
        if app is None:
            raise UnauthorizedException("Airflow's auth manager does not accept passwords: use a bearer token")
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://auth") as client:
            answer = await client.post("/token", json={"username": user, "password": password})
        if answer.status_code != 201:
            raise UnauthorizedException("Invalid credentials")
        return str(answer.json()["access_token"])

    def _auth_app(self) -> Any:
        """The auth manager's own app. Created once, and outside the event loop, because creating FAB's web application takes seconds."""
        with self._lock:
            if self._app is None:
                self._app = get_auth_manager().get_fastapi_app()
            return self._app


def _user_and_password(credentials: str) -> tuple[str, str]:
    user, colon, password = decoded(credentials).partition(":")
    if not colon:
        raise UnauthorizedException("The Basic credentials are not 'user:password' in base64")
    return user, password
