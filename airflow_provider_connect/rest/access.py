"""Who may do what: what the REST server asks of whoever knows its users. Knows no users itself."""

from collections.abc import Iterable
from enum import Enum
from typing import Protocol

from starlette.requests import Request

from airflow_provider_connect.errors import ForbiddenException

User = object  # whatever an Access knows a user by


class Right(Enum):
    """What somebody wants with one connector."""

    READ = "read"
    CHANGE = "change"
    DELETE = "delete"


class Access(Protocol):
    """Asked at every request: first who it is, then whether that user may. All but ``identify`` are called from worker threads."""

    async def identify(self, request: Request) -> User:
        """The user who sent the request, who may see this server at all. Nothing is served without.

        Raises UnauthorizedException for nobody, ForbiddenException for somebody who may not, also for a state-changing request that a
        foreign web page may have sent with the user's cookie.
        """
        ...

    def may(self, user: User, right: Right, connector: str) -> bool:
        """Whether the user has the right on the connector, which need not exist."""
        ...

    def may_create_some(self, user: User) -> bool:
        """Whether the user may change or create any connector at all; asked before a config without a name is validated."""
        ...

    def readable(self, user: User, connectors: Iterable[str]) -> set[str]:
        """Those of ``connectors`` that the user may read."""
        ...

    def may_administer(self, user: User) -> bool:
        """Whether the user may change what concerns all connectors, such as log levels."""
        ...


def require(access: Access, user: User, right: Right, connector: str) -> None:
    """Raises ForbiddenException unless the user has the right."""
    if not access.may(user, right, connector):
        raise ForbiddenException(f"You may not {right.value} connector {connector}")


class OpenToAll:
    """An Access for a server that knows no users: whoever reaches its port may do everything, as with Kafka Connect's defaults."""

    async def identify(self, request: Request) -> User:
        return None

    def may(self, user: User, right: Right, connector: str) -> bool:
        return True

    def may_create_some(self, user: User) -> bool:
        return True

    def readable(self, user: User, connectors: Iterable[str]) -> set[str]:
        return set(connectors)

    def may_administer(self, user: User) -> bool:
        return True
