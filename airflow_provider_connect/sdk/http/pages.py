"""Pages of a REST resource: the parameters of each request, and the position of the next page. Knows no network.

The position of a page is a number or a string, as in an offset; None is the first page. A path into a body consists of names that are
separated by dots, such as ``data.items``; a name may contain dots itself. A number in a path is the index of a list entry, from 0. If a
path ends with ``?``, a missing value is null. A path of paging may also be ``header:NAME``, a header of the response.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol

from airflow_provider_connect.errors import DataException

Position = int | str
Row = dict[str, Any]
HEADER: Final = "header:"
_REQUIRED: Any = object()
_LONGEST_NUMBER: Final = 18  # digits
_NO_CURSOR: Final = ("", "0", "-1", 0, -1)  # what APIs send instead of null; 0 also equals false


@dataclass(frozen=True, slots=True)
class Page:
    """One response. ``links`` has the URLs of its header ``Link`` by relation; ``headers`` has all headers. Both keys are in lower case."""

    body: Any  # JSON
    rows: list[Row]
    links: Mapping[str, str]
    headers: Mapping[str, str] = field(default_factory=dict)

    def value_at(self, path: str, default: Any = _REQUIRED) -> Any:  # Any: JSON
        """The value at a path of paging. If it is missing, returns ``default`` if given, else raises DataException."""
        if path.startswith(HEADER):
            return value_at(dict(self.headers), path.removeprefix(HEADER).lower(), default, "the response")
        return value_at(self.body, path, default)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _MarkedPages(Pagination):
    """Pages whose last one may have a mark: false at the path ``more``, or true at the path ``done``."""

    more: str | None = None
    done: str | None = None

    def _is_last(self, page: Page) -> bool | None:
        """None: the pages have no mark."""
        if self.more is None and self.done is None:
            return None
        return (self.more is not None and not _flag_at(page, self.more)) or (self.done is not None and _flag_at(page, self.done))

    def _check_end(self, page: Page, missing: str) -> None:
        """Raises DataException if the page has no next position although its mark demands a next page."""
        if self._is_last(page) is False:
            raise DataException(f"the page has {missing}, but is not the last page by {self.more or self.done!r}")


@dataclass(frozen=True, slots=True)
class CursorPages(_MarkedPages):
    """The query parameter ``param`` gets a value of the previous response: the value at the path ``cursor``, or the value at the path
    ``last`` in the last row.

    The last page has no ``cursor`` (or an empty one, 0 or -1), has no row, or has false at the path ``more`` or true at the path ``done``.
    Give either ``cursor`` or ``last``."""

    rows_move: ClassVar[bool] = False
    param: str
    cursor: str | None = None
    last: str | None = None

    def __post_init__(self) -> None:
        if (self.cursor is None) == (self.last is None):
            raise TypeError("CursorPages needs either cursor, a path into the body, or last, a field of the last row")

    def params(self, position: Position | None) -> dict[str, Position]:
        return {} if position is None else {self.param: position}

    def following(self, position: Position | None, page: Page) -> Position | None:
        if self._is_last(page):
            return None
        if self.last is not None and page.rows:
            return _position(value_at(page.rows[-1], self.last, within="the last row"), self.last)
        found = None if self.cursor is None else page.value_at(self.cursor, None)
        if found is not None and found not in _NO_CURSOR:
            return _position(found, f"{self.cursor}")
        self._check_end(page, "no row" if self.cursor is None else f"no cursor at {self.cursor!r}")
        return None


@dataclass(frozen=True, slots=True)
class OffsetPages(_MarkedPages):
    """Pages of ``limit`` rows after an offset. The last page is empty, reaches the number at the path ``total``, or has a mark as in
    ``CursorPages``.

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
        return None if self.total is None else _total_at(page, self.total)

    def params(self, position: Position | None) -> dict[str, Position]:
        return {self.limit_param: self.limit, self.offset_param: self._first(position)}

    def following(self, position: Position | None, page: Page) -> Position | None:
        reached, total = self._first(position) + len(page.rows), self.total_of(page)
        if self._is_last(page) or (total is not None and reached >= total):
            return None
        if reached > int(position or 0):
            return reached
        self._check_end(page, "no new row")
        return None

    def _first(self, position: Position | None) -> int:
        return max(int(position or 0) - self.overlap, 0)


@dataclass(frozen=True, slots=True)
class NumberedPages(_MarkedPages):
    """Pages numbered from ``first``. The last page is empty, has the number of pages at the path ``total``, or has a mark as in
    ``CursorPages``. If the pages have marks, an empty page is not the end."""

    param: str = "page"
    first: int = 1
    size: int | None = None
    size_param: str = "per_page"
    total: str | None = None

    def total_of(self, page: Page) -> int | None:
        return None if self.total is None else _total_at(page, self.total)

    def params(self, position: Position | None) -> dict[str, Position]:
        sized: dict[str, Position] = {} if self.size is None else {self.size_param: self.size}
        return {self.param: self.first if position is None else position, **sized}

    def following(self, position: Position | None, page: Page) -> Position | None:
        number, total = self.first if position is None else int(position), self.total_of(page)
        is_last = self._is_last(page)
        is_reached = total is not None and number - self.first + 1 >= total
        return None if is_last or is_reached or (is_last is None and not page.rows) else number + 1


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
class NextUrlPages(_MarkedPages):
    """The body has the URL of the next page at ``path``, as a string or as an object with ``href``. The URL may be relative: to the URL at
    the path ``base``, otherwise to the URL of the request.

    On the last page the URL is null, empty, false or missing, or the page has a mark as in ``CursorPages``."""

    positions_are_urls: ClassVar[bool] = True
    path: str = "next"
    base: str | None = None

    def params(self, position: Position | None) -> dict[str, Position]:
        return {}

    def following(self, position: Position | None, page: Page) -> Position | None:
        if self._is_last(page):
            return None
        link = page.value_at(self.path, None)
        url = link.get("href") if isinstance(link, dict) else link
        if url is None or url is False or url == "":
            self._check_end(page, f"no URL at {self.path!r}")
            return None
        if not isinstance(url, str):
            raise DataException(f"the URL of the next page at {self.path!r} must be a string, got {type(url).__name__}")
        return url if self.base is None or "://" in url else f"{page.value_at(self.base)}/{url.lstrip('/')}"


def value_at(body: Any, path: str, default: Any = _REQUIRED, within: str = "the body") -> Any:  # Any: JSON
    """The value at ``path``; the body itself for ``""``. If it is missing, returns ``default`` if given, else raises DataException.

    The longest name that exists is used: ``@odata.nextLink`` is one name if the body has it. ``within`` names the body in messages."""
    if path.endswith("?"):
        path, default = path.removesuffix("?"), None
    found, rest = body, path
    while rest:
        name = rest if isinstance(found, dict) else rest.partition(".")[0]
        while isinstance(found, dict) and name not in found and "." in name:
            name = name.rpartition(".")[0]
        rest = rest[len(name) + 1 :]
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        elif default is not _REQUIRED:
            return default
        else:
            has = f"; it has: {', '.join(list(found)[:20])}" if isinstance(found, dict) else f" in a {type(found).__name__}"
            raise DataException(f"{within} has no {name!r} for the path {path!r}{has}")
    return found


def rows_at(body: Any, path: str) -> list[Row]:
    """The rows at ``path``: a list of objects, or one object. Null means no rows.

    Raises DataException for other values."""
    found = value_at(body, path)
    if found is None:
        return []
    rows = [found] if isinstance(found, dict) else found
    if not isinstance(rows, list):
        raise DataException(f"the rows at {path!r} must be a list of objects, got {type(found).__name__}")
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise DataException(f"row {number} must be an object, got {type(row).__name__}")
    return rows


def _total_at(page: Page, path: str) -> int | None:
    """A number, also in quotes or after the slash of a header ``Content-Range``. None: the API does not know it (null, negative, ``*``)."""
    found = page.value_at(path)
    text = found.rpartition("/")[2].strip() if isinstance(found, str) else ""
    if text.isascii() and text.removeprefix("-").isdecimal() and len(text) <= _LONGEST_NUMBER:
        found = int(text)
    if found is None or text == "*":
        return None
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    if isinstance(found, bool) or not isinstance(found, int):
        raise DataException(f"the total at {path!r} must be an integer, got {type(found).__name__}")
    return found if found >= 0 else None


def _flag_at(page: Page, path: str) -> bool:
    """A boolean, also as 0 or 1 or in quotes. Null is false."""
    found = page.value_at(path)
    text = found.lower() if isinstance(found, str) else found
    if text in (True, "true", "1"):
        return True
    if text is None or text in (False, "false", "0", ""):
        return False
    raise DataException(f"the value at {path!r} must be true or false, got {type(found).__name__}")


def _position(found: Any, title: str) -> Position:
    if isinstance(found, bool) or not isinstance(found, int | str):
        raise DataException(f"the cursor of the next page, {title!r}, must be a string or an integer, got {type(found).__name__}")
    return found
