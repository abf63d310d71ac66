"""Pages of a REST resource: the request for each, and what follows an answer. Knows no network.

The position of a page is a number or a text, which an offset can hold; None is the first page. Paths into a body are names with dots
between, ``data.items``, where a number counts a list's entries from 0.
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
    """One answer. ``links``: the URLs of its header ``Link``, by their relation."""

    body: Any  # JSON
    rows: list[Row]
    links: Mapping[str, str]


class Pagination(Protocol):
    """The style in which an API divides its rows."""

    positions_are_urls: ClassVar[bool] = False
    """Whether a position is the whole URL of a page. It has no other parameters then."""
    rows_move: ClassVar[bool] = True
    """Whether rows may move to another position when some are inserted, updated or deleted: false where a position names a row."""

    overlap: ClassVar[int] = 0
    """How many rows a page shares with the one before it, unless rows moved."""

    def total_of(self, page: Page) -> int | None:
        """How many rows, or pages, there are in all; None: it is not known."""
        return None

    def params(self, position: Position | None) -> Mapping[str, Position]:
        """The query parameters of a page."""
        raise NotImplementedError

    def following(self, position: Position | None, page: Page) -> Position | None:
        """The position of the page behind ``page``; None: it was the last one."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SinglePage(Pagination):
    """All rows in one answer."""

    def params(self, position: Position | None) -> dict[str, Position]:
        return {}

    def following(self, position: Position | None, page: Page) -> Position | None:
        return None


@dataclass(frozen=True, slots=True)
class CursorPages(Pagination):
    """The query parameter ``param`` takes a text of the answer before: the one at ``cursor``, or field ``last`` of the last row.

    The rows end without such a text, or where the boolean at ``more`` is false."""

    rows_move: ClassVar[bool] = False
    param: str
    cursor: str | None = None
    last: str | None = None
    more: str | None = None

    def __post_init__(self) -> None:
        if (self.cursor is None) == (self.last is None):
            raise TypeError("CursorPages needs one of cursor, a path into the body, and last, a field of the last row")

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
    """``limit`` rows a page, behind a number of rows. The rows end with an empty page, or at the number at ``total``.

    A page may have fewer rows than asked for: many APIs have a limit of their own. ``overlap`` rows of each page are asked for again with
    the next one: if they are not there, rows moved meanwhile."""

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
    """Pages counted from ``first`` up. They end with an empty page, or at the number of pages at ``total``."""

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
    """The header ``Link`` has the URL of the next page (RFC 8288)."""

    positions_are_urls: ClassVar[bool] = True
    relation: str = "next"

    def params(self, position: Position | None) -> dict[str, Position]:
        return {}

    def following(self, position: Position | None, page: Page) -> Position | None:
        return page.links.get(self.relation)


@dataclass(frozen=True, slots=True)
class NextUrlPages(Pagination):
    """The body has the URL of the next page, at ``path``; null, or an empty text, behind the last."""

    positions_are_urls: ClassVar[bool] = True
    path: str = "next"

    def params(self, position: Position | None) -> dict[str, Position]:
        return {}

    def following(self, position: Position | None, page: Page) -> Position | None:
        url = value_at(page.body, self.path, None)
        if url is not None and not isinstance(url, str):
            raise DataException(f"the URL of the next page, at {self.path!r}, is of type {type(url).__name__}")
        return url or None


_REQUIRED: Any = object()


def value_at(body: Any, path: str, default: Any = _REQUIRED) -> Any:  # Any: JSON
    """The value at a path; the body itself at ``""``. Raises DataException where there is none, unless there is a ``default``."""
    found = body
    for name in path.split(".") if path else ():
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        elif default is not _REQUIRED:
            return default
        else:
            has = f"; there are: {', '.join(list(found)[:20])}" if isinstance(found, dict) else f" in a {type(found).__name__}"
            raise DataException(f"the body has no {name!r}, of the path {path!r}{has}")
    return found


def rows_at(body: Any, path: str) -> list[Row]:
    """The rows at a path: a list of objects, or one object. Null has no rows, and at a path with a final ``?`` nothing has none either."""
    found = value_at(body, path.removesuffix("?"), None if path.endswith("?") else _REQUIRED)
    if found is None:
        return []
    rows = [found] if isinstance(found, dict) else found
    if not isinstance(rows, list):
        raise DataException(f"the rows, at {path!r}, are of type {type(found).__name__}, and not a list of objects")
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise DataException(f"row {number} is of type {type(row).__name__}, and not an object")
    return rows


def _number_at(body: Any, path: str) -> int:
    found = value_at(body, path)
    if isinstance(found, bool) or not isinstance(found, int):
        raise DataException(f"the total, at {path!r}, is of type {type(found).__name__}, and not a whole number")
    return found


def _position(found: Any, title: str) -> Position | None:
    if found is None or found == "" or found is False:
        return None
    if isinstance(found, bool) or not isinstance(found, int | str):
        raise DataException(f"the cursor of the next page, {title!r}, is of type {type(found).__name__}, and not a text or a whole number")
    return found
