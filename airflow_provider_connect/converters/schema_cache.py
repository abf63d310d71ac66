"""A cache of results that a converter derives from schemas, limited by number and size. Knows nothing about formats.

A limit on the number alone would not be enough, because a schema may have 20,000 fields. These need megabytes of memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Final, Generic, TypeVar

from airflow_provider_connect.data.schema import Schema, count_fields

MOST_FIELDS: Final = 200_000
"""Maximum number of fields of all schemas in a cache, including inner types. A field needs 0.35 kB (measured)."""
_CHARACTERS: Final = 100  # characters of text that count as one field
Key = tuple[Any, ...]  # Any: the arguments of ``make``
Made = TypeVar("Made")


class SchemaCache(Generic[Made]):
    """Caches the results of ``make`` by its arguments: at most ``most`` results and ``MOST_FIELDS`` fields, but always the newest result.

    The size counts schemas and text in arguments and results, and the ``schema`` attribute of results. Exceptions are not cached. Several
    threads may use a cache, and may call ``make`` with the same arguments at the same time.
    """

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
        """The number of fields in the cache."""
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
    """The size of ``part`` in fields."""
    match part:
        case str() | bytes():
            return len(part) // _CHARACTERS
        case tuple():
            return sum(map(_weight, part))
        case Schema():
            return count_fields(part)
    schema = getattr(part, "schema", None)
    return count_fields(schema) if isinstance(schema, Schema) else 0
