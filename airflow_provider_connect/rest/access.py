"""The rights of users, a protocol that the REST server's host implements. Knows no users itself."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Protocol

from starlette.requests import Request

from airflow_provider_connect.errors import ForbiddenException

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
User = object  # an Access chooses the type


class Right(Enum):
    """A kind of access to one connector."""

    READ = "read"
    CHANGE = "change"
    DELETE = "delete"


class Access(Protocol):
    """Identifies and authorizes the user of every request. All methods except ``identify`` are called from worker threads."""

    async def identify(self, request: Request) -> User:
        """The user who sent the request. No route is served without this call.

        Raises UnauthorizedException if the request names no user, and ForbiddenException for a user who may not use this server. A change
        that a foreign web page may have sent with the user's cookie also raises ForbiddenException.
        """
        ...

    def may(self, user: User, right: Right, connector: str) -> bool:
        """Whether the user has the right on the connector, which need not exist."""
        ...

    def may_create_some(self, user: User) -> bool:
        """Whether the user may create connectors of any name; called before a config without a name is validated."""
        ...

    def may_change_some(self, user: User) -> bool:
        """Whether the user may change or create at least one connector; called before a body that names the connector is parsed."""
        ...

    def readable(self, user: User, connectors: Iterable[str]) -> set[str]:
        """The connectors that the user may read."""
        ...

    def may_read_all(self, user: User) -> bool:
        """Whether the user may read every connector, including future ones."""
        ...

    def changeable(self, user: User, connectors: Iterable[str]) -> set[str]:
        """The connectors that the user may change."""
        ...

    def name_of(self, user: User) -> str:
        """A text that identifies the user: the same for each request, different for each user."""
        ...

    def author(self, user: User) -> str | None:
        """The user's display name, for the history of changes; None: the server has no users."""
        ...

    def may_administer(self, user: User) -> bool:
        """Whether the user may change settings of all connectors, such as log levels."""
        ...

    def note(self, user: User, verb: str, connector: str | None, details: Mapping[str, str]) -> None:
        """Write the user's change to the host's audit log, if the host has an audit log. If ``connector`` is None, the change concerns all
        connectors. ``details`` have no secrets. Must not raise, because the change is already complete."""
        ...


def require(access: Access, user: User, right: Right, connector: str) -> None:
    """Raise ForbiddenException unless the user has the right."""
    if not access.may(user, right, connector):
        raise ForbiddenException(f"You may not {right.value} connector {connector}")


def is_of_page(request: Request, addresses: Iterable[str | None] = ()) -> bool | None:
    """Whether a page of this server, or of one of ``addresses`` (host and port), sent the request. None: no page sent it.

    Checks headers that the browser sets and a page cannot forge.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site == "same-origin":
        return True
    if origin is None:
        return None if site in (None, "none") else False
    sent_by = origin.partition("://")[2]
    return bool(sent_by) and (sent_by in addresses or (site is None and sent_by == request.headers.get("host")))


def refuse_foreign_page(request: Request, addresses: Iterable[str | None] = ()) -> None:
    """Raise ForbiddenException for a change that another server's page sends. The browser would add the user's credentials to the change,
    or send the change to an address that only this machine can reach."""
    if request.method not in SAFE_METHODS and is_of_page(request, addresses) is False:
        raise ForbiddenException(
            "A page of another server requests a change (Origin, Sec-Fetch-Site); access.control.allow.origin names the allowed origins"
        )


class OpenToAll:
    """An Access without users: every client that reaches the port may do everything, as with Kafka Connect's defaults.

    Web pages of other servers may change nothing, unless they are from ``origins``.
    """

    def __init__(self, origins: Iterable[str] = ()) -> None:
        origins = tuple(origins)
        self._is_open_to_pages = "*" in origins
        self._pages = {origin.partition("://")[2] for origin in origins}

    async def identify(self, request: Request) -> User:
        if not self._is_open_to_pages:
            refuse_foreign_page(request, self._pages)
        return None

    def may(self, user: User, right: Right, connector: str) -> bool:
        return True

    def may_create_some(self, user: User) -> bool:
        return True

    def may_change_some(self, user: User) -> bool:
        return True

    def readable(self, user: User, connectors: Iterable[str]) -> set[str]:
        return set(connectors)

    def may_read_all(self, user: User) -> bool:
        return True

    def changeable(self, user: User, connectors: Iterable[str]) -> set[str]:
        return set(connectors)

    def name_of(self, user: User) -> str:
        return "" if user is None else str(user)

    def author(self, user: User) -> str | None:
        return None if user is None else str(user)

    def may_administer(self, user: User) -> bool:
        return True

    def note(self, user: User, verb: str, connector: str | None, details: Mapping[str, str]) -> None:
        """There is no audit log."""
