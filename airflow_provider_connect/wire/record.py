"""A record as its bytes stand on a topic, and the header by which ours carry the claim of their writer."""

from collections.abc import Iterable
from typing import NamedTuple

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.model.run import Claim

CLAIM_HEADER = "claim"

Headers = Iterable[tuple[str, bytes | None]]


class WireRecord(NamedTuple):
    """What is handed to a producer. ``value`` None: a tombstone."""

    key: bytes
    value: bytes | None
    headers: list[tuple[str, bytes]] = []  # noqa: RUF012  (a default of a NamedTuple; nobody appends)


def claim_headers(claim: Claim | None) -> list[tuple[str, bytes]]:
    """The headers of a record that the holder of ``claim`` writes; none without a claim."""
    return [] if claim is None else [(CLAIM_HEADER, str(claim).encode())]


def claim_of(headers: Headers | None) -> Claim | None:
    """The claim that the headers carry; None: they carry none, as a real worker's. Raises DataException for one that cannot be read."""
    values = [value for name, value in headers or () if name == CLAIM_HEADER]
    if not values:
        return None
    try:
        return Claim.parse((values[-1] or b"").decode())
    except ValueError:
        raise DataException(f"header {CLAIM_HEADER} is no claim: {values[-1]!r}") from None


def key_text(key: bytes | None) -> str:
    """The key as text. Raises DataException where there is none."""
    if key is None:
        raise DataException("record has no key")
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise DataException("key is not UTF-8") from None


def shown(key: bytes | None) -> str:
    """The key as a message shows it."""
    return "record" if key is None else key[:200].decode(errors="backslashreplace")
