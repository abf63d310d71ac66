"""Versions of plugins and ranges of them: Maven's order and Maven's range notation, as Kafka Connect uses both (KIP-891)."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import total_ordering
from itertools import zip_longest

from airflow_provider_connect.errors import ConfigException, PluginNotFoundException, PluginVersionException
from airflow_provider_connect.runtime.model.config_limits import cut

LATEST = "latest"
UNDEFINED = "undefined"  # the version of a plugin without one; less than every version that begins with a number above zero
MAX_LENGTH = 200  # characters of a version; parts nest, so this also limits their depth

_QUALIFIERS = ("alpha", "beta", "milestone", "rc", "snapshot", "", "sp")
_OTHER_NAMES = {"cr": "rc", "ga": "", "final": "", "release": ""}
_ONE_LETTER = {"a": "alpha", "b": "beta", "m": "milestone"}


@dataclass(frozen=True, slots=True)
class _Number:
    """Digits without leading zeros. They may have any length, so they are compared as text."""

    digits: str

    @property
    def rank(self) -> tuple[int, str]:
        return len(self.digits), self.digits


@dataclass(frozen=True, slots=True)
class _Word:
    """A qualifier."""

    text: str

    @property
    def rank(self) -> tuple[int, str]:
        """The order of qualifiers: known qualifiers first, in their order, then unknown qualifiers by their text."""
        return (_QUALIFIERS.index(self.text), "") if self.text in _QUALIFIERS else (len(_QUALIFIERS), self.text)


_Part = _Number | _Word | list["_Part"]
_RELEASE = _Word("")


@total_ordering
class MavenVersion:
    """A version in Maven's order: numbers by value, ``alpha < beta < milestone < rc < snapshot < release < sp <`` other words.

    Versions of the same rank are equal, such as ``1``, ``1.0`` and ``1-ga``. Therefore a version is not hashable. Use ``text`` as a key.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise ConfigException(f"Invalid version specification: longer than {MAX_LENGTH} characters: {text[:20]}…")
        self.text = text
        self._parts = _Parser(text.lower()).parse()

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"MavenVersion({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MavenVersion) and _compare(self._parts, other._parts) == 0

    __hash__ = None  # type: ignore[assignment]  # equal versions may differ in text

    def __lt__(self, other: "MavenVersion") -> bool:
        return _compare(self._parts, other._parts) < 0


class _Parser:
    """Splits a version into parts: at full stops and hyphens, and between digits and other characters. A hyphen, and a change between
    digits and other characters, begin a nested list (``1-1`` is less than ``1.1``)."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.top: list[_Part] = []
        self.list = self.top
        self.lists = [self.top]
        self.start, self.is_number = 0, False

    def parse(self) -> list[_Part]:
        for at, char in enumerate(self.text):
            if char in ".-":
                self._end_part(at)
                self.start = at + 1
                if char == "-":
                    self._begin_list()
            elif char.isdecimal() != self.is_number:
                self._change(at)
        if self.start < len(self.text):
            self._begin_word_list()
            self._end_part(len(self.text))
        for members in reversed(self.lists):
            _normalize(members)
        return self.top

    def _change(self, at: int) -> None:
        """Called where digits begin or end, at ``at``."""
        if at > self.start:
            self._begin_word_list()
            self._end_part(at, is_before_number=not self.is_number)
            self.start = at
            self._begin_list()
        self.is_number = not self.is_number

    def _begin_word_list(self) -> None:
        """``1.0.x`` is treated as ``1.0-x``."""
        if not self.is_number and self.list:
            self._begin_list()

    def _begin_list(self) -> None:
        inner: list[_Part] = []
        self.list.append(inner)
        self.lists.append(inner)
        self.list = inner

    def _end_part(self, at: int, *, is_before_number: bool = False) -> None:
        text = self.text[self.start : at]
        if self.is_number or not text:
            self.list.append(_number(text))
        else:
            text = _ONE_LETTER.get(text, text) if is_before_number else text
            self.list.append(_Word(_OTHER_NAMES.get(text, text)))


def _number(digits: str) -> _Number:
    return _Number("".join(str(unicodedata.decimal(digit)) for digit in digits).lstrip("0"))


def _normalize(members: list[_Part]) -> None:
    """Removes the empty parts (0, ``final``, empty lists) at the end, including those before lists at the end."""
    for at in range(len(members) - 1, -1, -1):
        member = members[at]
        if member in (_Number(""), _RELEASE, []):
            del members[at]
        elif not isinstance(member, list):
            return


def _compare(left: _Part | None, right: _Part | None) -> int:
    """Less than zero: ``left`` is older. None stands for a part that a shorter version lacks."""
    if left is None:
        return 0 if right is None else -_compare(right, None)
    if right is None:
        return _compare_with_nothing(left)
    if isinstance(left, list) and isinstance(right, list):
        return _compare_lists(left, right)
    if isinstance(left, list) or isinstance(right, list) or type(left) is not type(right):
        return _kind(left) - _kind(right)
    return (left.rank > right.rank) - (left.rank < right.rank)


def _compare_with_nothing(part: _Part) -> int:
    match part:
        case _Number():
            return 1 if part.digits else 0
        case _Word():
            return (part.rank > _RELEASE.rank) - (part.rank < _RELEASE.rank)
        case _:
            return next((result for member in part if (result := _compare(member, None))), 0)


def _compare_lists(left: list[_Part], right: list[_Part]) -> int:
    return next((result for members in zip_longest(left, right) if (result := _compare(*members))), 0)


def _kind(part: _Part) -> int:
    """Words come before lists, lists before numbers: ``1-sp < 1-1 < 1.1``."""
    return 2 if isinstance(part, _Number) else 1 if isinstance(part, list) else 0


@dataclass(frozen=True, slots=True)
class Restriction:
    """An interval of versions. A bound of None means no limit."""

    lower: MavenVersion | None
    upper: MavenVersion | None
    is_lower_inclusive: bool = True
    is_upper_inclusive: bool = True

    def __contains__(self, version: MavenVersion) -> bool:
        if self.lower is not None and (version < self.lower or (version == self.lower and not self.is_lower_inclusive)):
            return False
        return self.upper is None or version < self.upper or (version == self.upper and self.is_upper_inclusive)

    def __str__(self) -> str:
        lower, upper = ("" if bound is None else str(bound) for bound in (self.lower, self.upper))
        return f"{'[' if self.is_lower_inclusive else '('}{lower},{upper}{']' if self.is_upper_inclusive else ')'}"


@dataclass(frozen=True, slots=True)
class VersionRange:
    """A union of intervals. If ``recommended`` is set, it is a preferred version, and any version is in the range."""

    restrictions: tuple[Restriction, ...]
    recommended: MavenVersion | None = None

    @classmethod
    def parse(cls, spec: str) -> "VersionRange":
        """Parses ``spec`` as Maven does. Raises ConfigException, in Maven's words, for a malformed range."""
        rest, restrictions = spec, list[Restriction]()
        while rest.startswith(("[", "(")):
            end = re.search(r"[])]", rest)
            if end is None:
                raise ConfigException(f"Unbounded range: {cut(spec)}")
            restriction = _restriction(rest[: end.end()])
            if restrictions and (upper := restrictions[-1].upper) and (restriction.lower is None or restriction.lower < upper):
                raise ConfigException(f"Ranges overlap: {cut(spec)}")
            restrictions.append(restriction)
            rest = rest[end.end() :].strip().removeprefix(",").strip()
        if not rest:
            return cls(tuple(restrictions))
        if restrictions:
            raise ConfigException(f"Only fully-qualified sets allowed in multiple set scenario: {cut(spec)}")
        return cls((Restriction(None, None),), MavenVersion(rest))

    @property
    def has_restrictions(self) -> bool:
        return self.recommended is None and bool(self.restrictions)

    def __contains__(self, version: MavenVersion) -> bool:
        return any(version in restriction for restriction in self.restrictions)

    def __str__(self) -> str:
        return ",".join(map(str, self.restrictions)) if self.recommended is None else str(self.recommended)


def _restriction(spec: str) -> Restriction:
    """One interval with its brackets."""
    is_lower_inclusive, is_upper_inclusive = spec.startswith("["), spec.endswith("]")
    lower, comma, upper = (part.strip() for part in spec[1:-1].strip().partition(","))
    if not comma:
        if not (is_lower_inclusive and is_upper_inclusive):
            raise ConfigException(f"Single version must be surrounded by []: {cut(spec)}")
        return Restriction(MavenVersion(lower), MavenVersion(lower))
    bounds = [MavenVersion(bound) if bound else None for bound in (lower, upper)]
    restriction = Restriction(bounds[0], bounds[1], is_lower_inclusive, is_upper_inclusive)
    if (
        bounds[0] is not None
        and bounds[1] is not None
        and (bounds[1] < bounds[0] or (bounds[0] == bounds[1] and bounds[0] not in restriction))
    ):
        raise ConfigException(f"Range defies version ordering: {cut(spec)}")
    return restriction


def requirement(spec: str | None) -> VersionRange | None:
    """The versions that a ``….plugin.version`` setting allows. None means the latest version (the setting is unset, or is ``latest``).

    A bare version is a hard requirement. Raises ConfigException for a malformed range.
    """
    if spec is None or spec == LATEST:
        return None
    wanted = VersionRange.parse(spec.strip())
    return wanted if wanted.has_restrictions else VersionRange.parse(f"[{spec.strip()}]")


def oldest_first(versions: Iterable[str]) -> list[str]:
    """The versions in Maven's order. Versions of equal rank keep their order."""
    return [version.text for version in sorted(map(MavenVersion, versions))]


def choose_version(plugin: str, installed: Sequence[str], spec: str | None) -> str:
    """The newest installed version of ``plugin`` that satisfies ``spec``. Of several versions with equal rank, the last is returned.

    Raises ConfigException for a malformed ``spec``, PluginVersionException if no installed version satisfies it, and
    PluginNotFoundException if no version is installed.
    """
    wanted = requirement(spec)
    if not installed:
        raise PluginNotFoundException(plugin)
    versions = oldest_first(installed)
    chosen = next((version for version in reversed(versions) if wanted is None or MavenVersion(version) in wanted), None)
    if chosen is None:
        raise PluginVersionException(
            f"Plugin {plugin} not found that matches the version range {wanted}, available versions: [{', '.join(versions)}]",
            versions=versions,
        )
    return chosen
