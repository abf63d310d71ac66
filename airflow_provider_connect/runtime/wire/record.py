"""A record as bytes, the claim and author in its headers, and checks of decoded values."""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.runtime.model.config_limits import MOST_TASKS
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.wire.compact_json import JsonValue

CLAIM_HEADER = "claim"
AUTHOR_HEADER = "author"
OWNER_HEADER = "owner"
SUCCESSOR_HEADER = "successor"
_LONGEST_AUTHOR = 250  # characters
_LONGEST_OWNER = 64

Kind = TypeVar("Kind", dict[str, JsonValue], str, int)
_KINDS: dict[type, str] = {
    dict: "a map",
    list: "a list",
    str: "text",
    bool: "a boolean",
    int: "an integer",
    float: "a fraction",
    type(None): "null",
}

Headers = Iterable[tuple[str, bytes | None]]


class WireRecord(NamedTuple):
    """The key, value and headers for a producer. ``value`` None: a tombstone."""

    key: bytes
    value: bytes | None
    headers: list[tuple[str, bytes]] = []  # noqa: RUF012  (a default of a NamedTuple; no code appends)


def claim_headers(claim: Claim | None) -> list[tuple[str, bytes]]:
    """The headers of a record that the holder of ``claim`` writes. Empty without a claim."""
    return [] if claim is None else [(CLAIM_HEADER, str(claim).encode())]


def claim_of(headers: Headers | None) -> Claim | None:
    """The claim in the headers. None: there is no claim, for example in records of a real worker. Raises DataException for a malformed
    claim."""
    values = [value for name, value in headers or () if name == CLAIM_HEADER]
    if not values:
        return None
    try:
        return Claim.parse((values[-1] or b"").decode())
    except ValueError:
        raise DataException(f"header {CLAIM_HEADER} is not a claim: {values[-1]!r}") from None


def author_headers(author: str | None) -> list[tuple[str, bytes]]:
    """The header of a record that a user requested. Empty if no user is known."""
    return [(AUTHOR_HEADER, author[:_LONGEST_AUTHOR].encode(errors="replace"))] if author else []


def author_of(headers: Headers | None) -> str | None:
    """The user who requested the record. None: unknown. Never raises, because other programs may have written the header."""
    values = [value for name, value in headers or () if name == AUTHOR_HEADER and value]
    return values[-1].decode(errors="replace")[:_LONGEST_AUTHOR] if values and values[-1] else None


def owner_headers(owner: str | None) -> list[tuple[str, bytes]]:
    """The header of a claim that a run makes. Empty for a claim that a verb makes."""
    return [] if owner is None else [(OWNER_HEADER, owner[:_LONGEST_OWNER].encode(errors="replace"))]


def owner_of(headers: Headers | None) -> str | None:
    """The run that made the claim. None: a verb or a real worker made it. Never raises, because other programs may have written the
    header."""
    values = [value for name, value in headers or () if name == OWNER_HEADER and value]
    return values[-1].decode(errors="replace")[:_LONGEST_OWNER] if values and values[-1] else None


def successor_headers(successor: str | None) -> list[tuple[str, bytes]]:
    """The header of a handover. None without a handover."""
    return [] if successor is None else [(SUCCESSOR_HEADER, successor[:_LONGEST_OWNER].encode(errors="replace"))]


def successor_of(headers: Headers | None) -> str | None:
    """The run to which a connector is handed over. Empty: to the first that asks. None: no handover. Never raises, as ``owner_of``."""
    values = [value for name, value in headers or () if name == SUCCESSOR_HEADER and value is not None]
    return values[-1].decode(errors="replace")[:_LONGEST_OWNER] if values else None


def key_text(key: bytes | None) -> str:
    """The key as text. Raises DataException for a record without a key, or with a key that is not UTF-8."""
    if key is None:
        raise DataException("record has no key")
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise DataException("key is not UTF-8") from None


def key_in_message(key: bytes | None) -> str:
    """The key for a message, truncated to 200 bytes."""
    return "record" if key is None else key[:200].decode(errors="backslashreplace")


# Checks of decoded JSON values. ``name`` is the value's name in the DataException for a value of another type.


def map_of(value: JsonValue, name: str) -> dict[str, JsonValue]:
    return _checked(value, dict, name)


def text_of(value: JsonValue, name: str) -> str:
    return _checked(value, str, name)


def optional_text_of(value: JsonValue, name: str) -> str | None:
    return None if value is None else text_of(value, name)


def integer_of(value: JsonValue, name: str) -> int:
    return _checked(value, int, name)


def number_of(value: JsonValue, name: str) -> float:
    return value if isinstance(value, float) else float(integer_of(value, name))


def count_of(value: JsonValue, name: str) -> int:
    """A number of tasks. It may be at most ``MOST_TASKS``, because readers count up to the number."""
    count = integer_of(value, name)
    if not 0 <= count <= MOST_TASKS:
        raise DataException(f"{name} must be between 0 and {MOST_TASKS}, is {count}")
    return count


def _checked(value: JsonValue, kind: type[Kind], name: str) -> Kind:
    if isinstance(value, kind) and not isinstance(value, bool):
        return value
    raise DataException(f"{name} must be {_KINDS[kind]}, is {_KINDS[type(value)]}")
