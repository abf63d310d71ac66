"""Credentials of a REST API: their settings, and the headers and parameters that they add to each request. Knows no network.

An author declares an ``Authentication``. From a config it creates ``Credentials``, which belong to one client.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Protocol
from urllib.parse import quote, quote_plus

from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.sdk.config_def import Config, ConfigKey, Importance, NonEmptyString, Password, Type

EARLY_SECONDS: Final = 30.0
"""A token is renewed this long before it expires."""
_NO_EXPIRY_SECONDS: Final = 3600.0
_LONGEST_SECONDS: Final = 1e9
HIDDEN: Final = "[hidden]"

TokenRequest = Callable[[str, Mapping[str, str], Mapping[str, str]], Any]
"""Posts a form with headers to a URL and returns the response's body as JSON."""


class Credentials:
    """Headers and query parameters of each request. In this class they are constant. No message contains ``secrets``."""

    def __init__(
        self, *, headers: Mapping[str, str] | None = None, params: Mapping[str, str] | None = None, secrets: tuple[str, ...] = ()
    ) -> None:
        self.params = dict(params or {})
        self.secrets = secrets
        self._headers = dict(headers or {})

    def headers(self, request_token: TokenRequest) -> Mapping[str, str]:
        """The headers of the next request. May request a token from another server. Called before each request."""
        return self._headers

    def renew(self) -> bool:
        """Called after the API refused the credentials (401). Returns whether the next request will have other credentials."""
        return False

    def mask(self, text: str) -> str:
        """``text`` with the secrets replaced, in every form in which a URL, a header or a body may contain them."""
        forms = {form for secret in self.secrets for form in _forms(secret)}
        for form in sorted(forms, key=len, reverse=True):
            text = text.replace(form, HIDDEN)
        return text


class Authentication(Protocol):
    """The authentication scheme of an API, and its settings."""

    config_keys: ClassVar[tuple[ConfigKey, ...]]

    def credentials(self, config: Config) -> Credentials:
        """The credentials of ``config``. Called once per task. Raises ConfigException for values that a request cannot contain."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class BasicAuth(Authentication):
    """HTTP Basic authentication, with the settings ``username`` and ``password``."""

    config_keys = (
        ConfigKey("username", Type.STRING, validator=NonEmptyString(), importance=Importance.HIGH, doc="The user of the API."),
        ConfigKey("password", Type.PASSWORD, importance=Importance.HIGH, doc="The user's password."),
    )

    def credentials(self, config: Config) -> Credentials:
        encoded, password = _basic(config["username"], config["password"].value), config["password"].value
        return Credentials(headers={"Authorization": f"Basic {encoded}"}, secrets=(encoded, password))


@dataclass(frozen=True, slots=True)
class BearerAuth(Authentication):
    """A bearer token in the header ``Authorization``, from the setting ``token``."""

    config_keys = (ConfigKey("token", Type.PASSWORD, importance=Importance.HIGH, doc="The API's token."),)

    def credentials(self, config: Config) -> Credentials:
        token = _header_text(config, "token")
        return Credentials(headers={"Authorization": f"Bearer {token}"}, secrets=(token,))


@dataclass(frozen=True, slots=True)
class ApiKeyAuth(Authentication):
    """An API key in the header or query parameter ``name``, from the setting ``api.key``."""

    name: str = "X-API-Key"
    location: Literal["header", "query"] = "header"
    config_keys = (ConfigKey("api.key", Type.PASSWORD, importance=Importance.HIGH, doc="The API's key."),)

    def credentials(self, config: Config) -> Credentials:
        if self.location == "query":
            key = config["api.key"].value
            return Credentials(params={self.name: key}, secrets=(key,))
        key = _header_text(config, "api.key")
        return Credentials(headers={self.name: key}, secrets=(key,))


@dataclass(frozen=True, slots=True)
class ClientCredentialsAuth(Authentication):
    """OAuth 2.0 client credentials (RFC 6749, 4.4): the settings ``client.id`` and ``client.secret`` obtain a token from ``token_url``.

    Both settings are sent in the header, or with ``in_body`` in the form. The token is renewed shortly before it expires, and once after a
    401."""

    token_url: str
    scope: str | None = None
    in_body: bool = False
    config_keys = (
        ConfigKey("client.id", Type.STRING, validator=NonEmptyString(), importance=Importance.HIGH, doc="The API's client."),
        ConfigKey("client.secret", Type.PASSWORD, importance=Importance.HIGH, doc="The client's secret."),
    )

    def credentials(self, config: Config) -> Credentials:
        return TokenCredentials(self, config["client.id"], config["client.secret"])


class TokenCredentials(Credentials):
    """A token that is requested when a request needs it."""

    def __init__(
        self, declared: ClientCredentialsAuth, client_id: str, client_secret: Password, now: Callable[[], float] = time.monotonic
    ) -> None:
        # id and secret are encoded as in a form before they are joined (RFC 6749, 2.3.1)
        self._basic = _basic(quote_plus(client_id), quote_plus(client_secret.value))
        self._lasting = (client_secret.value, self._basic)
        super().__init__(secrets=self._lasting)
        self._declared = declared
        self._form = {"grant_type": "client_credentials"} | ({"scope": declared.scope} if declared.scope else {})
        if declared.in_body:
            self._form |= {"client_id": client_id, "client_secret": client_secret.value}
        self._now = now
        self._renew_at = 0.0

    def headers(self, request_token: TokenRequest) -> Mapping[str, str]:
        if not self._headers or self._now() >= self._renew_at:
            sent = {} if self._declared.in_body else {"Authorization": f"Basic {self._basic}"}
            answer = request_token(self._declared.token_url, self._form, sent)
            token = answer.get("access_token") if isinstance(answer, dict) else None
            if not isinstance(token, str) or not _fits_header(token):
                raise ConnectException("The response of the token URL has no access_token that is valid in a header")
            seconds = answer.get("expires_in")
            if isinstance(seconds, str) and seconds.isdecimal():
                seconds = float(seconds)
            lasts = float(min(seconds, _LONGEST_SECONDS)) if isinstance(seconds, int | float) else _NO_EXPIRY_SECONDS
            self.secrets = (*self._lasting, *self.secrets[len(self._lasting) :][-1:], token)  # a late response may contain an old token
            self._headers = {"Authorization": f"Bearer {token}"}
            self._renew_at = self._now() + max(lasts - EARLY_SECONDS, lasts / 2)
        return self._headers

    def renew(self) -> bool:
        self._headers = {}
        return True


def _basic(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def _header_text(config: Config, name: str) -> str:
    text: str = config[name].value
    if not _fits_header(text):
        raise ConfigException.of(name, HIDDEN, "a header value must be visible ASCII characters, at least one")
    return text


def _fits_header(text: str) -> bool:
    return bool(text) and all("!" <= character <= "~" for character in text)


def _forms(secret: str) -> set[str]:
    return {secret, quote(secret), quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1]} - {""}
