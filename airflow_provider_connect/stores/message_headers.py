"""Headers of consumed messages: the client raises where the name of one is not UTF-8, which brokers take from any producer.

A message is asked once: what the client would return the second time ends the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from confluent_kafka import Message

Headers = list[tuple[str, bytes | None]]
_UNREADABLE: Final = (SystemError, UnicodeDecodeError)


def headers_of(messages: Sequence[Message]) -> list[Headers | None] | None:
    """Of each message, empty without headers; None where the name of one is not UTF-8, and so no header of the message can be read. None
    in place of the list: no message has any."""
    found: list[object] = []
    unreadable: list[int] = []
    left = iter(messages)
    while True:
        try:
            found.extend(map(Message.headers, left))
            break
        except _UNREADABLE:
            unreadable.append(len(found))
            found.append(None)
    if not unreadable and not any(found):
        return None
    rows = cast("list[Headers | None]", [headers or [] for headers in found])
    for index in unreadable:
        rows[index] = None
    return rows
