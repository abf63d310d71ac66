"""One request to a Connect server as a value, with the function that reads the answer. Knows no HTTP library and no server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.runtime.model.verbs import VERBS, Verb
from airflow_provider_connect.runtime.model.view_json import of_json

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer. ``body`` is the parsed JSON, or None; ``text`` is a body that is not JSON."""

    status: int
    body: Any = None  # any JSON value
    text: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request. ``path`` is below the server's base URL, with encoded names. ``body`` is JSON; None: no body. ``read`` raises KeyError,
    TypeError, ValueError or AttributeError for an answer whose shape is not the verb's."""

    verb: Verb
    path: str
    read: Callable[[Answer], T]
    query: Sequence[tuple[str, str]] = ()
    body: Any = None  # any JSON value


def call(verb: str, *names: object, body: Any = None, read: Callable[[Answer], Any] | None = None, **query: object) -> Call[Any]:
    """The call of a verb. ``names`` are the names in its path. ``query`` has its query parameters by argument; None leaves one out. Without
    ``read``, the answer is the value that the verb's type describes."""
    found = VERBS[verb]

    def answer_of_verb(answer: Answer) -> Any:
        return None if found.answer is None else of_json(found.answer, answer.body)

    return Call(found, _path(found, names), read or answer_of_verb, found.query_of(query), body)


def _path(verb: Verb, names: Sequence[object]) -> str:
    """The verb's path with each name as one segment. Raises BadRequestException for a name that would change the path."""
    head, *parts = verb.path.split("{")
    for name, (kind, _, rest) in zip(names, (part.partition("}") for part in parts), strict=True):
        if name is None or str(name) in ("", ".", ".."):
            raise BadRequestException(f"{name!r} is not a valid name of a {kind}: give one with letters or digits")
        head += quote(str(name), safe="") + rest
    return head
