"""What a converter has made of schemas and keeps, bounded by their number and by their size. Knows no format.

A count alone bounds nothing: a schema may have one field or 20,000, which take megabytes in memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Final, Generic, TypeVar

from airflow_provider_connect.data.schema import Schema, count_fields

MOST_FIELDS: Final = 200_000
"""Of all schemas that one cache keeps, with those of the types in them. Measured: 0.35 kB each."""
_CHARACTERS: Final = 100  # of the text that a schema is found by, or made to, that weigh as much as a field
Key = tuple[Any, ...]  # Any: whatever ``make`` takes
Made = TypeVar("Made")


class SchemaCache(Generic[Made]):
    """``make``, whose last results are kept by its arguments: of ``most`` calls, and with ``MOST_FIELDS`` together, but the newest always.

    Schemas and texts count, of the arguments and of the result, and the ``schema`` of a result that has one. What ``make`` raises is not
    kept. May be called from several threads; each may make what another is making."""

    def __init__(self, make: Callable[..., Made], most: int) -> None:
        self._make = make
        self._most = most
        self._kept: OrderedDict[Key, tuple[Made, int]] = OrderedDict()
        self._fields = 0
        self._lock = Lock()

    def __call__(self, *arguments: Any) -> Made:
        with self._lock:
            found = self._kept.get(arguments)
            if found is not None:
                self._kept.move_to_end(arguments)
                return found[0]
        made = self._make(*arguments)
        with self._lock:
            self._keep(arguments, made)
        return made

    @property
    def fields(self) -> int:
        """Of all that is kept."""
        return self._fields

    def _keep(self, arguments: Key, made: Made) -> None:
        _, replaced = self._kept.pop(arguments, (made, 0))
        weight = 1 + _weight((*arguments, made))
        self._kept[arguments] = made, weight
        self._fields += weight - replaced
        while len(self._kept) > 1 and (len(self._kept) > self._most or self._fields > MOST_FIELDS):
            _, (_, dropped) = self._kept.popitem(last=False)
            self._fields -= dropped


def _weight(part: object) -> int:
    """In fields."""
    match part:
        case str() | bytes():
            return len(part) // _CHARACTERS
        case tuple():
            return sum(map(_weight, part))
        case Schema():
            return count_fields(part)
    schema = getattr(part, "schema", None)
    return count_fields(schema) if isinstance(schema, Schema) else 0
