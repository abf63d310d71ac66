"""Who may call the mounted app: a user of Airflow's auth manager, by bearer token, by the UI's cookie, or by HTTP Basic."""

import base64
import binascii
import hashlib
import time
from collections.abc import Callable
from typing import Any

import httpx
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import bearer_scheme, get_user, resolve_user_from_token
from fastapi import HTTPException, Request

_BASIC_SECONDS = 60.0
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="Kafka Connect"'}


class BasicTokens:
    """Exchanges user name and password for the auth manager's own token, in this process, and keeps it for a minute."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._tokens: dict[bytes, tuple[float, str]] = {}

    async def token(self, credentials: str) -> str:
        """The token of the user whom the base64 ``credentials`` name. Raises HTTPException 401."""
        key = hashlib.sha256(credentials.encode()).digest()
        self._tokens = {known: kept for known, kept in self._tokens.items() if kept[0] > self._now()}
        if key not in self._tokens:
            self._tokens[key] = (self._now() + _BASIC_SECONDS, await _exchanged(*_decoded(credentials)))
        return self._tokens[key][1]


def _decoded(credentials: str) -> tuple[str, str]:
    try:
        user, colon, password = base64.b64decode(credentials, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        user = colon = password = ""
    if not colon:
        raise HTTPException(401, "The Basic credentials are not 'user:password' in base64", headers=_CHALLENGE)
    return user, password


async def _exchanged(user: str, password: str) -> str:
    app = get_auth_manager().get_fastapi_app()
    if app is None:
        raise HTTPException(401, "Airflow's auth manager takes no passwords: use a bearer token", headers=_CHALLENGE)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://auth") as client:
        answer = await client.post("/token", json={"username": user, "password": password})
    if answer.status_code != 201:
        raise HTTPException(401, "Invalid credentials", headers=_CHALLENGE)
    return str(answer.json()["access_token"])


def authorize_user(tokens: BasicTokens) -> Callable[[Request], Any]:
    """A FastAPI dependency: the request's user, who must be allowed to see Airflow at all. 401 for nobody, 403 for somebody else.

    Not Airflow's ``requires_access_dag``: that one takes the DAG from a query parameter that the caller chooses.
    """

    async def authorized(request: Request) -> Any:
        user = await _user(request, tokens)
        if not get_auth_manager().is_authorized_view(access_view=AccessView.WEBSITE, user=user):
            raise HTTPException(403, "Forbidden")
        return user

    return authorized


async def _user(request: Request, tokens: BasicTokens) -> Any:
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        return await resolve_user_from_token(await tokens.token(credentials.strip()))
    try:
        return await get_user(request, None, await bearer_scheme(request))
    except HTTPException as error:
        raise HTTPException(error.status_code, error.detail, headers=_CHALLENGE if error.status_code == 401 else None) from error
