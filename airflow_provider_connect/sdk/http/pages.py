"""Pages of a REST resource: the parameters of each request, and the position of the next page. Knows no network.

The position of a page is a number or a string, as in an offset; None is the first page. A path into a body consists of names that are
separated by dots, such as ``data.items``. A number in a path is the index of a list entry, from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from airflow_provider_connect.errors import DataException

Position = int | str
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Page:
    """One response. ``links`` has the URLs of its header ``Link`` by relation, in lower case."""

    body: Any  # JSON
    rows: list[Row]
    links: Mapping[str, str]


class Pagination(Protocol):
    """A paging style of an API. The reader of a resource calls its methods, once per page."""

    positions_are_urls: ClassVar[bool] = False
    """Whether a position is the whole URL of a page. ``params`` are then not used."""
    rows_move: ClassVar[bool] = True
    """Whether rows may move to another page when other rows are inserted, updated or deleted. False if a position identifies a row."""
    overlap: ClassVar[int] = 0
    """How many rows a page shares with the previous one, unless rows moved."""

    def total_of(self, page: Page) -> int | None:
        """The total number of rows or pages. None: unknown."""
        return None

    def params(self, position: Position | None) -> Mapping[str, Position]:
        """The query parameters of the page at ``position``."""
        raise NotImplementedError

    def following(self, position: Position | None, page: Page) -> Position | None:
        """The position of the page after ``page``. ``position`` is the position of ``page``. None: ``page`` is the last page.

        Raises DataException for a body that lacks a required value."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SinglePage(Pagination):
    """All rows are in one response."""

    def params(self, position: Position | None) -> dict[str, Position]:
        return {}

    def following(self, position: Position | None, page: Page) -> Position | None:
        return None


@dataclass(frozen=True, slots=True)
class CursorPages(Pagination):
    """The query parameter ``param`` gets a value of the previous response: the value at the path ``cursor``, or the field ``last`` of the
    last row.

    The last page has no such value, or has false at the path ``more``. Give either ``cursor`` or ``last``."""

    rows_move: ClassVar[bool] = False
    param: str
    cursor: str | None = None
    last: str | None = None
    more: str | None = None

    def __post_init__(self) -> None:
        if (self.cursor is None) == (self.last is None):
            raise TypeError("CursorPages needs either cursor, a path into the body, or last, a field of the last row")

    def params(self, position: Position | None) -> dict[str, Position]:
        return {} if position is None else {self.param: position}

    def following(self, position: Position | None, page: Page) -> Position | None:
        if self.more is not None and not value_at(page.body, self.more):
            return None
        if self.last is not None:
            return _position(page.rows[-1].get(self.last), self.last) if page.rows else None
        return _position(value_at(page.body, self.cursor or "", None), f"{self.cursor}")


@dataclass(frozen=True, slots=True)
class OffsetPages(Pagination):
    """Pages of ``limit`` rows after an offset. The last page is empty, or reaches the number at the path ``total``.

    A page may have fewer rows than requested, because many APIs have their own limit. Each page repeats ``overlap`` rows of the previous
    page. If these rows are missing, rows have moved."""

    limit: int = 100
    limit_param: str = "limit"
    offset_param: str = "offset"
    total: str | None = None
    overlap: int = 0  # type: ignore[misc]

    def __post_init__(self) -> None:
        if not 0 <= self.overlap < self.limit:
            raise TypeError(f"OffsetPages: overlap must be from 0 to less than limit, {self.limit}")

    def total_of(self, page: Page) -> int | None:
        return None if self.total is None else _number_at(page.body, self.total)

    def params(self, position: Position | None) -> dict[str, Position]:
        return {self.limit_param: self.limit, self.offset_param: self._first(position)}

    def following(self, position: Position | None, page: Page) -> Position | None:
        reached = self._first(position) + len(page.rows)
        is_last = reached <= int(position or 0) or (self.total is not None and reached >= _number_at(page.body, self.total))
        return None if is_last else reached

    def _first(self, position: Position | None) -> int:
        return max(int(position or 0) - self.overlap, 0)


@dataclass(frozen=True, slots=True)
class NumberedPages(Pagination):
    """Pages numbered from ``first``. The last page is empty, or has the number of pages at the path ``total``."""

    param: str = "page"
    first: int = 1
    size: int | None = None
    size_param: str = "per_page"
    total: str | None = None

    def total_of(self, page: Page) -> int | None:
        return None if self.total is None else _number_at(page.body, self.total)

    def params(self, position: Position | None) -> dict[str, Position]:
        sized: dict[str, Position] = {} if self.size is None else {self.size_param: self.size}
        return {self.param: self.first if position is None else position, **sized}

    def following(self, position: Position | None, page: Page) -> Position | None:
        number = self.first if position is None else int(position)
        is_last = not page.rows or (self.total is not None and number - self.first + 1 >= _number_at(page.body, self.total))
        return None if is_last else number + 1


@dataclass(frozen=True, slots=True)
class LinkedPages(Pagination):
    """The header ``Link`` has the URL of the next page, under ``relation`` (RFC 8288)."""

    positions_are_urls: ClassVar[bool] = True
    relation: str = "next"

    def params(self, position: Position | None) -> dict[str, Position]:
        return {}

    def following(self, position: Position | None, page: Page) -> Position | None:
        return page.links.get(self.relation.lower())


@dataclass(frozen=True, slots=True)
class NextUrlPages(Pagination):
    """The body has the URL of the next page at ``path``. The URL is null, empty or missing on the last page."""

    positions_are_urls: ClassVar[bool] = True
    path: str = "next"

    def params(self, position: Position | None) -> dict[str, Position]:
        return {}

    def following(self, position: Position | None, page: Page) -> Position | None:
        url = value_at(page.body, self.path, None)
        if url is not None and not isinstance(url, str):
            raise DataException(f"the URL of the next page at {self.path!r} must be a string, got {type(url).__name__}")
        return url or None


_REQUIRED: Any = object()
_LONGEST_NUMBER = 18  # digits


def value_at(body: Any, path: str, default: Any = _REQUIRED) -> Any:  # Any: JSON
    """The value at ``path``; the body itself for ``""``. If it is missing, returns ``default`` if given, else raises DataException."""
    found = body
    for name in path.split(".") if path else ():
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        elif default is not _REQUIRED:
            return default
        else:
            has = f"; it has: {', '.join(list(found)[:20])}" if isinstance(found, dict) else f" in a {type(found).__name__}"
            raise DataException(f"the body has no {name!r} for the path {path!r}{has}")
    return found


def rows_at(body: Any, path: str) -> list[Row]:
    """The rows at ``path``: a list of objects, or one object. Null means no rows. If the path ends with ``?``, a missing value also means
    no rows.

    Raises DataException for other values."""
    found = value_at(body, path.removesuffix("?"), None if path.endswith("?") else _REQUIRED)
    if found is None:
        return []
    rows = [found] if isinstance(found, dict) else found
    if not isinstance(rows, list):
        raise DataException(f"the rows at {path!r} must be a list of objects, got {type(found).__name__}")
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise DataException(f"row {number} must be an object, got {type(row).__name__}")
    return rows


def _number_at(body: Any, path: str) -> int:
    """Also a number in quotes, which some APIs send."""
    found = value_at(body, path)
    if isinstance(found, str) and found.isascii() and found.isdecimal() and len(found) <= _LONGEST_NUMBER:
        return int(found)
    if isinstance(found, bool) or not isinstance(found, int):
        raise DataException(f"the total at {path!r} must be an integer, got {type(found).__name__}")
    return found


def _position(found: Any, title: str) -> Position | None:
    if found is None or found == "" or found is False:
        return None
    if isinstance(found, bool) or not isinstance(found, int | str):
        raise DataException(f"the cursor of the next page, {title!r}, must be a string or an integer, got {type(found).__name__}")
    return found
