"""Resources of a REST API as authors declare them, and the rows of one, page by page, from an offset on.

A resource whose rows are sorted by a cursor yields rows alone: the cursor of the last one is the offset. Any other resource yields pairs
of rows and an offset, which has the position of the next page, and behind the last page that the read is complete.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from airflow_provider_connect.errors import ConnectException, DataException
from airflow_provider_connect.sdk.http.pages import Page, Pagination, Position, Row, SinglePage, rows_at
from airflow_provider_connect.sdk.http.rest_client import RefusedException, RestClient

if TYPE_CHECKING:
    from airflow_provider_connect.sdk.arrow import pa

log = logging.getLogger(__name__)

PARENT: Final = "parent."
PAGE, CHILD, CHILD_PAGE = "page", "parents", "child_page"
"""Keys of an offset: the position of the next page, how many of its parents are done, and the position in the next parent's pages."""
SINCE, HIGHEST, COMPLETE = "since", "highest", "complete"
OFFSET_KEYS: Final = frozenset({PAGE, CHILD, CHILD_PAGE, SINCE, HIGHEST, COMPLETE})
MOST_EMPTY_PAGES: Final = 1_000
_EXPIRED: Final = frozenset({400, 404, 410, 422})
_PLACEHOLDER: Final = re.compile(r"\{([\w.]+)\}")
_SLICE_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Incremental:
    """The query parameter ``param`` asks for rows whose ``field`` is not below a value: the greatest of earlier runs, or ``start``.

    With ``is_sorted`` rows come sorted by the field, oldest first, which is exactly once. Rows that are not sorted are at least once: those
    with the greatest value come again."""

    field: str
    param: str
    start: Position | None = None
    is_sorted: bool = True


@dataclass(frozen=True, slots=True)
class Resource:
    """The rows of one path, below the base URL.

    ``path`` and the texts of ``params`` may have settings (``{account.id}``) and fields of the parent's row (``{parent.id}``).
    ``records``: the path to the rows in a body (see ``pages.rows_at``). ``pages``: the style of paging. ``key``: the field, or fields, of
    the record's key. ``schema``: the fields of the rows, else they are inferred. ``parent``: the resource for each of whose rows this one
    is read; ``parent_fields`` copies fields of that row: ``{"order_id": "id"}``.
    """

    name: str
    path: str
    records: str = ""
    params: Mapping[str, Position] = field(default_factory=dict)
    pages: Pagination = field(default_factory=SinglePage)
    incremental: Incremental | None = None
    key: str | Sequence[str] | None = None
    schema: pa.Schema | type | None = None
    parent: str | None = None
    parent_fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_sorted(self) -> bool:
        return self.parent is None and self.incremental is not None and self.incremental.is_sorted

    def placeholders(self) -> set[str]:
        """The names in path and parameters."""
        texts = [self.path, *(value for value in self.params.values() if isinstance(value, str))]
        return {name for text in texts for name in _PLACEHOLDER.findall(text)}


Event = tuple[list[Row], Any, Mapping[str, Any]]
"""Rows, the rows whose cursor counts (a child's: the parent's), and the offset's keys behind them; {}: the read is complete."""


class ResourceReader:
    """Reads one resource. ``settings`` fill its placeholders."""

    def __init__(
        self,
        client: RestClient,
        resource: Resource,
        parent: Resource | None,
        settings: Mapping[str, object],
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._resource = resource
        self._parent = parent
        self._settings = settings
        self._sleep = sleep

    def sorted_rows(self, cursor: Any) -> Iterator[list[Row]]:
        """The rows from a cursor on; an empty list while the rate limit lets nothing be sent."""
        for page in self._pages(self._resource, self._since(self._resource, cursor), None, None):
            yield [] if page is None else page[0]

    def rows(self, offset: Mapping[str, Any] | None) -> Iterator[Any]:
        """Pairs of rows and the offset behind them; an empty list between them.

        A page waits for the one behind it: so the last rows bring the offset of a whole read, and empty pages need none."""
        start = {} if offset is None else dict(offset)
        since, highest = start.get(SINCE), start.get(HIGHEST, start.get(SINCE))
        held: tuple[list[Row], dict[str, Any]] | None = None
        for event in self._resumed(since, start):
            if event is not None:
                rows, counted, at = event
                highest = self._highest(highest, counted)
                after = _offset(since, highest, at)
                if not rows:
                    held = None if held is None else (held[0], after)
                else:
                    if held is not None:
                        yield held
                    held = rows, after
            yield []
        if held is not None:
            yield held
        elif PAGE in start or CHILD in start:  # nothing is left of an earlier run's read: without rows its end cannot be committed
            yield from self.rows(_offset(since, highest, {}))

    def _resumed(self, since: Any, start: Mapping[str, Any]) -> Iterator[Event | None]:
        """From a page that an earlier run has reached; from the first one if the API no longer knows that page."""
        is_first = True
        try:
            for event in self._events(since, start):
                is_first = is_first and event is None
                yield event
        except RefusedException as error:
            if not is_first or error.status not in _EXPIRED or not start.keys() & {PAGE, CHILD, CHILD_PAGE}:
                raise
            log.warning("%s: the page of the last run is gone, the read begins again: %s", self._resource.name, error)
            yield from self._events(since, {})

    def _events(self, since: Any, start: Mapping[str, Any]) -> Iterator[Event | None]:
        if self._parent is not None:
            yield from self._children(self._parent, since, start)
            return
        for page in self._pages(self._resource, self._since(self._resource, since), None, start.get(PAGE)):
            yield None if page is None else (page[0], page[0], _at(page[1]))

    def _children(self, parent: Resource, since: Any, start: Mapping[str, Any]) -> Iterator[Event | None]:
        """The rows of each parent in turn."""
        position, done, child_position = start.get(PAGE), int(start.get(CHILD, 0)), start.get(CHILD_PAGE)
        for parents in self._pages(parent, self._since(parent, since), None, position):
            if parents is None:
                yield None
                continue
            rows, following = parents
            for number, parent_row in enumerate(rows[done:], done + 1):
                copied = {name: parent_row.get(of) for name, of in self._resource.parent_fields.items()}
                for page in self._pages(self._resource, {}, parent_row, child_position):
                    if page is None:
                        yield None
                        continue
                    behind = {**_at(position), CHILD: number - 1, CHILD_PAGE: page[1]}
                    if page[1] is None:
                        behind = {**_at(position), CHILD: number} if number < len(rows) else _at(following)
                    yield [{**row, **copied} for row in page[0]], [parent_row], behind
                child_position = None
            if not rows:
                yield [], [], _at(following)
            position, done, child_position = following, 0, None

    def _pages(
        self, resource: Resource, since: Mapping[str, Position], parent_row: Row | None, position: Position | None
    ) -> Iterator[tuple[list[Row], Position | None] | None]:
        """The rows of each page, with the position of the next one; None while the rate limit lets nothing be sent.

        Raises ConnectException for pages without end: a position that comes again, the same body again, or nothing but empty pages."""
        target = self._client.target_of(self._filled(resource.path, parent_row, in_path=True))
        params = {
            name: self._filled(value, parent_row) if isinstance(value, str) else value for name, value in resource.params.items()
        } | dict(since)
        seen, digest, empty = {position}, b"", 0
        while True:
            while (seconds := self._client.wait_seconds()) > 0:
                yield None
                self._sleep(min(seconds, _SLICE_SECONDS))
            if resource.pages.positions_are_urls and position is not None:
                answer = self._client.get(str(position), {})
            else:
                answer = self._client.get(target, params | resource.pages.params(position))
            rows = rows_at(answer.body, resource.records)
            following = resource.pages.following(position, Page(answer.body, rows, answer.links))
            if following is not None and resource.pages.positions_are_urls:
                following = self._client.target_of_url(str(following), answer.url)
            empty = 0 if rows else empty + 1
            if following is not None and (following in seen or (rows and answer.digest == digest) or empty > MOST_EMPTY_PAGES):
                raise ConnectException(f"{resource.name}: pages without end: {_reason(following in seen, bool(rows))}")
            yield rows, following
            if following is None:
                return
            seen.add(following)
            position, digest = following, answer.digest

    def _since(self, resource: Resource, since: Any) -> dict[str, Position]:
        if resource.incremental is None:
            return {}
        value = resource.incremental.start if since is None else since
        return {} if value is None else {resource.incremental.param: value}

    def _highest(self, highest: Any, rows: list[Row]) -> Any:
        incremental = (self._parent or self._resource).incremental
        if incremental is None:
            return None
        for row in rows:
            value = row.get(incremental.field)
            title = f"the cursor {incremental.field!r} of a row is {value!r:.50}"
            if value is None or isinstance(value, bool | dict | list):
                raise DataException(f"{title}, and not a text or number")
            if highest is not None and isinstance(value, str) != isinstance(highest, str):
                raise DataException(f"{title}, which cannot be compared with {highest!r:.50}")
            highest = value if highest is None else max(highest, value)
        return highest

    def _filled(self, text: str, parent_row: Row | None, *, in_path: bool = False) -> str:
        def value(match: re.Match[str]) -> str:
            name = match[1]
            found = (parent_row or {}).get(name.removeprefix(PARENT)) if name.startswith(PARENT) else self._settings[name]
            if found is None or isinstance(found, dict | list) or (in_path and str(found) in ("", ".", "..")):
                raise DataException(f"{{{name}}} of {text!r} cannot be filled with {found!r:.50}")
            plain = str(found).lower() if isinstance(found, bool) else str(found)
            try:
                return quote(plain, safe="") if in_path else plain
            except UnicodeEncodeError:  # half of a surrogate pair
                raise DataException(f"{{{name}}} of {text!r} cannot be filled with {found!r:.50}") from None

        return _PLACEHOLDER.sub(value, text)


def _at(position: Position | None) -> dict[str, Any]:
    return {} if position is None else {PAGE: position}


def _offset(since: Any, highest: Any, at: Mapping[str, Any]) -> dict[str, Any]:
    """The offset of a read that goes on at ``at``, or is complete."""
    if not at:
        return {COMPLETE: True} if highest is None else {SINCE: highest}
    return {name: value for name, value in {**at, SINCE: since, HIGHEST: highest}.items() if value is not None}


def _reason(is_again: bool, has_rows: bool) -> str:
    if is_again:
        return "the position of a page comes again"
    return "the same body comes again, as if the API did not know the parameter of the page" if has_rows else "too many are empty"
