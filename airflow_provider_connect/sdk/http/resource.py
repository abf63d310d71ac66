"""Resources of a REST API as authors declare them, and their rows from an offset on, page by page.

A resource whose rows are sorted by a cursor yields rows; the cursor of the last row is the offset. Any other resource yields pairs of rows
and an offset. This offset has the position of the next page, or marks the read as complete after the last page.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from airflow_provider_connect.errors import ConnectException, DataException
from airflow_provider_connect.sdk.functions.cursor import NullCursor
from airflow_provider_connect.sdk.functions.overlap import Width
from airflow_provider_connect.sdk.functions.text_order import keys_of
from airflow_provider_connect.sdk.http.moves import ResumedPages, RowMoves, digest_of
from airflow_provider_connect.sdk.http.pages import Page, Pagination, Position, Row, SinglePage, rows_at
from airflow_provider_connect.sdk.http.rest_client import Answer, RefusedException, RestClient

if TYPE_CHECKING:
    from airflow_provider_connect.data.arrow import pa

log = logging.getLogger(__name__)

PARENT: Final = "parent."
PAGE, LAST = "page", "last"
"""Keys of an offset: the position of a page, and a digest of the last row that was read there. Without ``last``, no row was read there."""
PARENT_ROW, CHILD_PAGE, CHILD_LAST = "parent", "child_page", "child_last"
"""Keys for the current parent: the digest of its row, and the page and last row among its children."""
SINCE, HIGHEST, COMPLETE, REPEATS = "since", "highest", "complete", "repeats"
"""``repeats``: rows may have been missed, so the next read starts at ``since`` again."""
OFFSET_KEYS: Final = frozenset({PAGE, LAST, PARENT_ROW, CHILD_PAGE, CHILD_LAST, SINCE, HIGHEST, COMPLETE, REPEATS})
_POSITIONS: Final = frozenset({PAGE, LAST, PARENT_ROW, CHILD_PAGE, CHILD_LAST})
MOST_EMPTY_PAGES: Final = 1_000
MOST_CHECKED_PAGES: Final = 3
_FEW_PAGES: Final = 2
_EXPIRED: Final = frozenset({400, 404, 410, 422})
_PLACEHOLDER: Final = re.compile(r"\{([\w.]+)\}")
_SLICE_SECONDS: Final = 0.1
_MARK_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Incremental:
    """The query parameter ``param`` requests rows whose ``field`` is at least a value: the greatest of earlier runs, or ``start``.

    With ``is_sorted``, the API returns rows sorted by the field, oldest first, and delivery is exactly once. Otherwise delivery is at least
    once: rows with the greatest value are delivered again. ``overlap`` is that of ``@source``: the greatest distance of late rows below the
    greatest value. ``on_null_cursor`` is that of ``@source``: the treatment of rows whose ``field`` is null."""

    field: str
    param: str
    start: Position | None = None
    is_sorted: bool = True
    overlap: Width | None = None
    on_null_cursor: NullCursor = "fail"


@dataclass(frozen=True, slots=True)
class Resource:
    """The rows at one path below the base URL. ``name`` is its source partition.

    ``path`` and the strings of ``params`` (query parameters) may contain settings (``{account.id}``) and fields of the parent's row
    (``{parent.id}``). ``records`` is the path to the rows in a body (see ``pages.rows_at``); ``pages`` is the paging style. ``key`` is the
    field or fields of the record's key. ``schema`` is an Arrow schema or a dataclass of the rows; None: it is inferred. ``parent`` names
    another resource: the children are read for each of its rows. ``parent_fields`` copies fields of the parent's row, as in ``{"order_id":
    "id"}``.
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

    def rows_to_deliver(self, rows: list[Row]) -> list[Row]:
        """``rows`` without those that are skipped because their cursor is null."""
        if self.incremental is None or self.incremental.on_null_cursor != "skip":
            return rows
        kept = [row for row in rows if row.get(self.incremental.field) is not None]
        if len(kept) < len(rows):
            text = "%s: %d rows were skipped because their cursor %r is null"
            log.warning(text, self.name, len(rows) - len(kept), self.incremental.field)
        return kept

    @property
    def is_sorted(self) -> bool:
        """Whether rows are sorted by a cursor, so that delivery is exactly once."""
        return self.parent is None and self.incremental is not None and self.incremental.is_sorted

    @property
    def is_exact(self) -> bool:
        """Whether no run reads rows again that an earlier run has delivered."""
        return self.is_sorted and self.incremental is not None and self.incremental.on_null_cursor != "deliver"

    def placeholders(self) -> set[str]:
        """The names of placeholders in ``path`` and ``params``."""
        texts = [self.path, *(value for value in self.params.values() if isinstance(value, str))]
        return {name for text in texts for name in _PLACEHOLDER.findall(text)}


Event = tuple[list[Row], Any, Mapping[str, Any], bool]
"""Four parts: rows; the rows whose cursor counts (for children, the parent's rows); the offset's keys after the rows ({}: the read is
complete); whether all earlier rows have been read."""


class ResourceReader:
    """Reads one resource. ``settings`` fill the placeholders."""

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
        self._total: int | None = None  # of the last page

    def sorted_rows(self, cursor: Any) -> Iterator[list[Row]]:
        """The rows from ``cursor`` on; an empty list while the rate limit blocks requests.

        As long as responses have new rows, each request asks for rows from the last value of the previous page on. The page's next position
        could skip rows, because a row that is updated in the meantime moves to the end. Positions are used for strings with a declared
        schema, because the schema may cast strings to values with another order."""
        field = self._resource.incremental.field if self._resource.incremental is not None else ""
        since, last, is_by_value = cursor, list[Row](), True
        while True:
            is_behind = not last  # whether the rows below the requested value have ended; an API that rounds the value repeats such rows
            for page in self._pages(self._resource, self._since(self._resource, since), None, None):
                if page is None:
                    yield []
                    continue
                _, rows, following = page
                new = [row for row in rows if row not in last] if last else rows
                new = new if is_behind else _from(since, new, field)
                yield new
                is_by_value, is_behind = is_by_value and bool(new), is_behind or bool(new)
                value = new[-1].get(field) if new else None
                has_order = isinstance(value, int | float) or (isinstance(value, str) and self._resource.schema is None)
                if is_by_value and has_order and following is not None and value != since:
                    since, last = value, rows
                    break
            else:
                return

    def has_rows_beyond(self, cursor: Any) -> bool | None:
        """Whether there are sorted rows after ``cursor``. None: unknown. Requests only the pages with the cursor's value, and the next
        page."""
        incremental = self._resource.incremental
        if incremental is None or (isinstance(cursor, str) and self._resource.schema is not None):  # it may change the rows' strings
            return None
        count = 0
        for page in self._pages(self._resource, self._since(self._resource, cursor), None, None):
            if page is None:
                continue  # the rate limit
            values = [row.get(incremental.field) for row in page[1]]
            if incremental.on_null_cursor == "skip":
                values = [value for value in values if value is not None]
            if any(not _is_cursor(value) or isinstance(value, str) != isinstance(cursor, str) for value in values):
                return None
            try:
                reached, *keys = keys_of([cursor, *values])
            except DataException:
                return None  # the run reports it
            if any(key > reached for key in keys):
                return True
            count += 1
            if count == MOST_CHECKED_PAGES and page[2] is not None:
                return None
        return False

    def rows(self, offset: Mapping[str, Any] | None) -> Iterator[Any]:
        """Pairs of rows and the offset after them, with empty lists between them.

        Each page is held until the next page is read. So the last rows get the offset of a complete read, and empty pages need no
        offset."""
        start = {} if offset is None else dict(offset)
        since, highest = start.get(SINCE), start.get(HIGHEST, start.get(SINCE))
        held: tuple[list[Row], dict[str, Any]] | None = None
        after: dict[str, Any] = {}
        for event in self._resumed(since, start):
            if event is not None:
                rows, counted, at, is_sure = event
                highest = self._highest(highest, counted)
                after = _offset(since, highest, at, is_sure)
                if not rows:
                    held = None if held is None else (held[0], after)
                else:
                    if held is not None:
                        yield held
                    held = rows, after
            yield []
        if held is not None:
            yield held
        elif start.keys() & _POSITIONS:  # an earlier run had read all rows, so no batch can commit the end of the read
            yield from self.rows(after)

    def _resumed(self, since: Any, start: Mapping[str, Any]) -> Iterator[Event | None]:
        """Events from the page that an earlier run reached, or from the first page if the API no longer has that page."""
        is_first = True
        try:
            for event in self._events(since, start):
                is_first = is_first and event is None
                yield event
        except RefusedException as error:
            if not is_first or error.status not in _EXPIRED or not start.keys() & _POSITIONS:
                raise
            log.warning("%s: the page of the last run no longer exists; reading starts again: %s", self._resource.name, error)
            yield from self._events(since, {})

    def _events(self, since: Any, start: Mapping[str, Any]) -> Iterator[Event | None]:
        """Events from the offset ``start``. If rows can move between pages, an offset has the last page that was read; otherwise it has the
        next page."""
        if self._parent is not None:
            yield from self._children(self._parent, since, start)
            return
        moves = self._resource.pages.rows_move and self._resource.incremental is not None
        continued = ResumedPages(start.get(LAST), is_sure=_is_sure(start, moves))
        moved = RowMoves(self._resource.name, self._resource.key, self._resource.pages.overlap)
        at: dict[str, Any] = {}
        for page in self._pages(self._resource, self._since(self._resource, since), None, start.get(PAGE)):
            if page is None:
                yield None
                continue
            position, rows, following = page
            if not moves or not at:
                at = _at(PAGE, following)
            if moves and rows:
                at = {**_at(PAGE, position), LAST: digest_of(rows[-1])}
            new = continued.new(moved.new(rows, self._total) if self._resource.pages.rows_move else rows)
            new = self._resource.rows_to_deliver(new)
            yield new, new, {} if following is None else at, continued.is_sure and not moved.may_have_missed
        moved.end()

    def _children(self, parent: Resource, since: Any, start: Mapping[str, Any]) -> Iterator[Event | None]:
        """The children of each parent, one parent after another."""
        position, last = start.get(PAGE), start.get(LAST)
        continued = ResumedPages(last, is_sure=_is_sure(start, parent.pages.rows_move))
        at = {name: start[name] for name in (PAGE, LAST) if name in start}
        for parents in self._pages(parent, self._since(parent, since), None, position):
            if parents is None:
                yield None
                continue
            position, rows, following = parents
            new = parent.rows_to_deliver(continued.new(rows))
            for number, parent_row in enumerate(new, 1):
                digest = digest_of(parent_row)
                copied = {name: parent_row.get(of) for name, of in self._resource.parent_fields.items()}
                resumed = start if start.get(PARENT_ROW) == digest else {}
                start = {}
                for page in self._child_pages(parent_row, resumed):
                    if page is None:
                        yield None
                        continue
                    children, within = page
                    if within is not None:
                        behind = {**at, PARENT_ROW: digest, **within}
                    else:
                        at = {**_at(PAGE, position), LAST: digest}
                        behind = {} if number == len(new) and following is None else at
                    yield [{**row, **copied} for row in children], [parent_row], behind, continued.is_sure
            if not new:
                yield [], [], {} if following is None else at or _at(PAGE, following), continued.is_sure

    def _child_pages(self, parent_row: Row, start: Mapping[str, Any]) -> Iterator[tuple[list[Row], dict[str, Any] | None] | None]:
        """The new rows of each page of one parent's children, and the offset's keys for these rows: None after the last page."""
        moves = self._resource.pages.rows_move
        continued = ResumedPages(start.get(CHILD_LAST), is_sure=_is_sure(start, moves, CHILD_PAGE, CHILD_LAST))
        for page in self._pages(self._resource, {}, parent_row, start.get(CHILD_PAGE)):
            if page is None:
                yield None
                continue
            position, rows, following = page
            within = {**_at(CHILD_PAGE, position), CHILD_LAST: digest_of(rows[-1])} if moves and rows else _at(CHILD_PAGE, following)
            new = continued.new(rows)
            if following is None:
                yield new, None if continued.is_sure else {}
            else:
                yield new, within
        if not continued.is_sure:
            yield from self._child_pages(parent_row, {})

    def _pages(
        self, resource: Resource, since: Mapping[str, Position], parent_row: Row | None, position: Position | None
    ) -> Iterator[tuple[Position | None, list[Row], Position | None] | None]:
        """The position of each page, its rows, and the position of the next page; None while the rate limit blocks requests.

        Raises ConnectException for endless pages: a repeated position, two pages with equal rows, or too many empty pages."""
        target = self._client.target_of(self._filled(resource.path, parent_row, in_path=True))
        params = {
            name: self._filled(value, parent_row) if isinstance(value, str) else value for name, value in resource.params.items()
        } | dict(since)
        seen, before, empty = {_mark(position)}, list[Row](), 0
        while True:
            while (seconds := self._client.wait_seconds()) > 0:
                yield None
                self._sleep(min(seconds, _SLICE_SECONDS))
            if resource.pages.positions_are_urls and position is not None:
                answer = self._client.get(str(position), {})
            else:
                answer = self._client.get(target, {**params, **resource.pages.params(position)})
            rows, following, self._total = self._parts(resource, position, answer)
            empty = 0 if rows else empty + 1
            is_again = following is not None and _mark(following) in seen
            if following is not None and (is_again or (rows and rows == before) or empty > MOST_EMPTY_PAGES):
                raise ConnectException(f"{resource.name}: endless pages: {_reason(is_again, len(seen), bool(rows))}")
            yield position, rows, following
            if following is None:
                return
            seen.add(_mark(following))
            position, before = following, rows

    def _parts(self, resource: Resource, position: Position | None, answer: Answer) -> tuple[list[Row], Position | None, int | None]:
        """The rows of a response, the position of the next page, and the total. A response without a body is the end, and so is an empty
        page that leads to itself."""
        if answer.body is None:
            return [], None, None
        rows = rows_at(answer.body, resource.records)
        page = Page(answer.body, rows, answer.links, answer.headers)
        following = resource.pages.following(position, page)
        if following is not None and resource.pages.positions_are_urls:
            following = self._client.target_of_url(str(following), answer.url)
        return rows, following if rows or following != position else None, resource.pages.total_of(page)

    def _since(self, resource: Resource, since: Any) -> dict[str, Position]:
        if resource.incremental is None:
            return {}
        value = resource.incremental.start if since is None else since
        return {} if value is None else {resource.incremental.param: value}

    def _highest(self, highest: Any, rows: list[Row]) -> Any:
        incremental = (self._parent or self._resource).incremental
        if incremental is None:
            return None
        values = [] if highest is None else [highest]
        for row in rows:
            value = row.get(incremental.field)
            title = f"the cursor {incremental.field!r} of a row is {value!r:.50}"
            if value is None and incremental.on_null_cursor == "deliver":
                continue
            if value is None:
                raise DataException(f"{title}: leave such rows out of the answer, or set on_null_cursor to 'skip' or 'deliver'")
            if not _is_cursor(value):
                raise DataException(f"{title}; it must be a string or a number")
            if values and isinstance(value, str) != isinstance(values[0], str):
                raise DataException(f"{title}, which cannot be compared with {values[0]!r:.50}")
            values.append(value)
        try:
            keys = keys_of(values)
        except DataException as error:
            raise DataException(f"the cursor {incremental.field!r}: {error}") from None
        return values[keys.index(max(keys))] if keys else None

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


def _mark(position: Position | None) -> object:
    """A short form of a position, to recognise it: there may be thousands of positions with megabytes each."""
    is_long = isinstance(position, str) and len(position) > _MARK_BYTES
    return hashlib.blake2b(str(position).encode("utf-8", "surrogatepass"), digest_size=_MARK_BYTES).digest() if is_long else position


def _at(key: str, position: Position | None) -> dict[str, Any]:
    return {} if position is None else {key: position}


def _offset(since: Any, highest: Any, at: Mapping[str, Any], is_sure: bool) -> dict[str, Any]:
    """The offset of a read that continues at ``at``, or is complete if ``at`` is empty."""
    if not at:
        reached = highest if is_sure else since
        return {COMPLETE: True} if reached is None else {SINCE: reached}
    found = {**at, SINCE: since, HIGHEST: highest, REPEATS: None if is_sure or highest is None else True}
    return {name: value for name, value in found.items() if value is not None}


def _is_sure(start: Mapping[str, Any], moves: bool, page: str = PAGE, last: str = LAST) -> bool:
    """Whether a read that continues at ``start`` has missed no row, provided that its last row is found again."""
    return REPEATS not in start and (not moves or page not in start or last in start)


def _is_cursor(value: Any) -> bool:
    return value is not None and not isinstance(value, bool | dict | list)


def _from(since: Any, rows: list[Row], field: str) -> list[Row]:
    """The rows from the first row whose value is not below ``since``, and rows without a value. A value of another kind counts as not below
    ``since``."""
    known = [row for row in rows if row.get(field) is not None]
    try:
        start, *keys = keys_of([since, *(row[field] for row in known)])
    except DataException:
        return rows  # the check of their order reports it

    def is_below(key: Any) -> bool:
        return any(isinstance(key, kind) and isinstance(start, kind) for kind in (int | float | Decimal, str)) and bool(key < start)

    below = {id(row) for row in known[: len(list(takewhile(is_below, keys)))]}
    return [row for row in rows if id(row) not in below]


def _reason(is_again: bool, count: int, has_rows: bool) -> str:
    """The reason why the pages are endless. ``count`` is the number of pages read."""
    if is_again:
        return "the position of a page is repeated"
    if not has_rows:
        return "too many are empty"
    if count <= _FEW_PAGES:
        return "the same rows are repeated; perhaps the API does not know the page parameter"
    return "each page after the last repeats its rows: set where the pages end (total=), or write a paging style that detects it"
