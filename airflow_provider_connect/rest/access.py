"""The rights of users: what the REST server asks of its host. Knows no users itself."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Protocol

from starlette.requests import Request

from airflow_provider_connect.errors import ForbiddenException

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
User = object  # whatever an Access knows a user by


class Right(Enum):
    """A kind of access to one connector."""

    READ = "read"
    CHANGE = "change"
    DELETE = "delete"


class Access(Protocol):
    """Asked at every request: first who it is, then whether that user may. All but ``identify`` are called from worker threads."""

    async def identify(self, request: Request) -> User:
        """The user who sent the request, who may see this server at all. Nothing is served without.

        Raises UnauthorizedException without a user, ForbiddenException for a user without rights, also for a state-changing request that a
        foreign web page may have sent with the user's cookie.
        """
        ...

    def may(self, user: User, right: Right, connector: str) -> bool:
        """Whether the user has the right on the connector, which need not exist."""
        ...

    def may_create_some(self, user: User) -> bool:
        """Whether the user may create connectors of any name; asked before a config without a name is validated."""
        ...

    def may_change_some(self, user: User) -> bool:
        """Whether the user may change or create any connector at all; asked before a body is parsed that names the connector."""
        ...

    def readable(self, user: User, connectors: Iterable[str]) -> set[str]:
        """Those of ``connectors`` that the user may read."""
        ...

    def changeable(self, user: User, connectors: Iterable[str]) -> set[str]:
        """Those of ``connectors`` that the user may change."""
        ...

    def name_of(self, user: User) -> str:
        """The same text for each request of one user, and another one for each other user."""
        ...

    def author(self, user: User) -> str | None:
        """The name by which people know the user, for the history of what was changed; None: the server knows no users."""
        ...

    def may_administer(self, user: User) -> bool:
        """Whether the user may change what concerns all connectors, such as log levels."""
        ...

    def note(self, user: User, verb: str, connector: str | None, details: Mapping[str, str]) -> None:
        """Enter into the host's audit log, where it has one, that the user has changed something. ``connector`` None: it concerns all.
        ``details`` hold no secrets. Raises nothing: the change is made already."""
        ...


def require(access: Access, user: User, right: Right, connector: str) -> None:
    """Raises ForbiddenException unless the user has the right."""
    if not access.may(user, right, connector):
        raise ForbiddenException(f"You may not {right.value} connector {connector}")


def is_of_page(request: Request, addresses: Iterable[str | None] = ()) -> bool | None:
    """Whether a browser's page of this very server, or of one of ``addresses`` (host and port), sent the request; None: no page did.

    It is the browser that writes these headers: a page cannot make them up.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site == "same-origin":
        return True
    if origin is None:
        return None if site in (None, "none") else False
    sent_by = origin.partition("://")[2]
    return bool(sent_by) and (sent_by in addresses or (site is None and sent_by == request.headers.get("host")))


def refuse_foreign_page(request: Request, addresses: Iterable[str | None] = ()) -> None:
    """A change that a page of another server has a browser send: what the browser knows, it adds, also this machine's own address.

    Raises ForbiddenException.
    """
    if request.method not in SAFE_METHODS and is_of_page(request, addresses) is False:
        raise ForbiddenException(
            "A page of another server asks for a change (Origin, Sec-Fetch-Site); access.control.allow.origin names the origins that may"
        )


class OpenToAll:
    """An Access for a server that knows no users: all who reach its port may do everything, as with Kafka Connect's defaults.

    All but foreign pages in a browser on a machine that reaches it; ``origins`` are those that may call.
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
