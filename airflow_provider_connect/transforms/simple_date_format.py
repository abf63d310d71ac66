"""``java.text.SimpleDateFormat`` in UTC and English: patterns, formatting and parsing of instants.

Instants are int64 milliseconds since 1970. Patterns with the letters for weeks (``Y w W F``) are refused. Parsing is lenient and ignores
text after the last field.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.transforms.timestamps import DAY_MS, date_of, days_column, days_of, floored, is_gregorian

MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LETTERS: Final = frozenset("GyMLdDEuaHkKhmsSzZX")
_JAVAS_LETTERS: Final = _LETTERS | frozenset("YwWF")


@dataclass(frozen=True, slots=True)
class Element:
    """A field (``letter``, repeated ``count`` times), or literal text if ``letter`` is empty."""

    letter: str
    count: int
    text: str = ""

    @property
    def is_numeric(self) -> bool:
        """Whether the field is written as digits."""
        return (self.letter in _NUMBERS or self.letter in _OF_DAY) and (self.letter not in "ML" or self.count <= 2)


def parse_pattern(pattern: str) -> Iterator[Element]:
    """The elements of a pattern. Raises ValueError for unsupported letters and for an unterminated quote."""
    at = 0
    while at < len(pattern):
        letter, start = pattern[at], at
        if letter == "'":
            text, at = _quoted(pattern, at + 1)
            yield Element("", 0, text)
        elif letter.isascii() and letter.isalpha():
            while at < len(pattern) and pattern[at] == letter:
                at += 1
            if letter not in _LETTERS:
                known = letter in _JAVAS_LETTERS
                raise ValueError(f"Pattern character '{letter}' is not supported" if known else f"Illegal pattern character '{letter}'")
            yield Element(letter, at - start)
        else:
            at += 1
            yield Element("", 0, letter)


def _quoted(pattern: str, at: int) -> tuple[str, int]:
    """The text after the quote, and the index of its end. Two quotes represent one quote, inside and outside quoted text."""
    if pattern[at : at + 1] == "'":
        return "'", at + 1
    text = ""
    while at < len(pattern):
        if pattern[at] != "'":
            text, at = text + pattern[at], at + 1
        elif pattern[at + 1 : at + 2] == "'":
            text, at = text + "'", at + 2
        else:
            return text, at + 1
    raise ValueError("Unterminated quote")


_MOST_LETTERS: Final = 1000  # each record pads the field to as many digits as there are letters


class SimpleDateFormat:
    """A pattern. The constructor raises ValueError if the pattern is invalid."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > _MOST_LETTERS:
            raise ValueError(f"{len(pattern)} characters; the limit is {_MOST_LETTERS}")
        self.pattern = pattern
        self.elements = tuple(parse_pattern(pattern))

    def format(self, milliseconds: int) -> str:
        """The text of one instant."""
        days, of_day = divmod(milliseconds, DAY_MS)
        return "".join(_element_text(element, days, of_day) for element in self.elements)

    def format_column(self, milliseconds: pa.Array) -> pa.Array:
        """The texts of instants; null stays null."""
        if milliseconds.null_count == len(milliseconds):
            return pa.nulls(len(milliseconds), pa.string())
        if not is_gregorian(milliseconds):
            return pa.array([None if value is None else self.format(value) for value in milliseconds.to_pylist()], pa.string())
        pieces = list(_Fields(milliseconds).texts(self.elements))
        if all(isinstance(piece, str) for piece in pieces):
            pieces.append(pc.if_else(milliseconds.is_valid(), "", pa.scalar(None, pa.string())))
        return pc.binary_join_element_wise(*pieces, "")


_OF_DAY: Final = {  # unit in ms, modulus, number that is written for 0
    "H": (3_600_000, 24, None),
    "k": (3_600_000, 24, 24),
    "K": (3_600_000, 12, None),
    "h": (3_600_000, 12, 12),
    "m": (60_000, 60, None),
    "s": (1000, 60, None),
    "S": (1, 1000, None),
}
_NUMBERS: Final[dict[str, Callable[[int], int]]] = {
    "y": lambda days: _year_of_era(date_of(days).year),
    "M": lambda days: date_of(days).month,
    "L": lambda days: date_of(days).month,
    "d": lambda days: date_of(days).day,
    "D": lambda days: days - days_of(date_of(days).year, 1, 1) + 1,
    "u": lambda days: (days + 3) % 7 + 1,
}


def _of_day(letter: str, milliseconds: int) -> int:
    unit, modulus, zero = _OF_DAY[letter]
    return milliseconds // unit % modulus or zero or 0


def _year_of_era(year: int) -> int:
    return year if year > 0 else 1 - year


def _element_text(element: Element, days: int, of_day: int) -> str:
    letter, count = element.letter, element.count
    if not letter:
        return element.text
    if letter == "G":
        return "AD" if date_of(days).year > 0 else "BC"
    if letter == "a":
        return "AM" if of_day < DAY_MS // 2 else "PM"
    if letter == "E" or (letter in "ML" and count > 2):
        names, index = (WEEKDAYS, (days + 3) % 7) if letter == "E" else (MONTHS, date_of(days).month - 1)
        return names[index] if count > 3 else names[index][:3]
    if letter in "zZX":
        return _ZONES[letter] if count < 4 or letter != "z" else "Coordinated Universal Time"
    number = _of_day(letter, of_day) if letter in _OF_DAY else _NUMBERS[letter](days)
    return f"{number % 100:02d}" if letter == "y" and count == 2 else f"{number:0{count}d}"


_PRINTED: Final = tuple(parse_pattern("yyyy-MM-dd HH:mm:ss.SSS"))
"""The format in which Arrow prints timestamps in milliseconds."""
_PRINTED_AT: Final = tuple(sum(element.count or len(element.text) for element in _PRINTED[:end]) for end in range(len(_PRINTED) + 1))


def _printed_alike(elements: Sequence[Element]) -> tuple[int, int]:
    """The longest prefix of ``elements`` that is part of ``_PRINTED``. Returns the prefix's start in ``_PRINTED`` and its length.

    The length is 0 unless the first element is a field of ``_PRINTED``."""
    if not elements or not elements[0].letter or elements[0] not in _PRINTED:
        return 0, 0
    first = _PRINTED.index(elements[0])
    count = 1
    while count < len(elements) and first + count < len(_PRINTED) and elements[count] == _PRINTED[first + count]:
        count += 1
    return first, count


_ZONES: Final = {"z": "UTC", "Z": "+0000", "X": "Z"}


class _Fields:
    """Formats the elements for a column of instants, which must be Gregorian."""

    def __init__(self, milliseconds: pa.Array) -> None:
        days = floored(milliseconds, DAY_MS)
        self._milliseconds = milliseconds
        self._day, self._of_day = days.cast(pa.int32()).cast(pa.date32()), pc.subtract(milliseconds, pc.multiply(days, DAY_MS))
        self._printed: pa.Array | None = None

    def texts(self, elements: Sequence[Element]) -> Iterator[pa.Array | str]:
        """The texts of the elements in order. Consecutive elements that Arrow prints in the same way have one text."""
        at = 0
        while at < len(elements):
            first, count = _printed_alike(elements[at:])
            if count:
                yield self._slice(_PRINTED_AT[first], _PRINTED_AT[first + count])
            else:
                yield self._text(elements[at])
            at += count or 1

    def _slice(self, start: int, end: int) -> pa.Array:
        if self._printed is None:
            self._printed = self._milliseconds.cast(pa.timestamp("ms")).cast(pa.string()).cast(pa.binary())
        return pc.binary_slice(self._printed, start, end).cast(pa.string())

    def _text(self, element: Element) -> pa.Array | str:
        letter, count = element.letter, element.count
        if not letter or letter in "zZXG":
            return _element_text(element, 0, 0)
        if letter == "a":
            return pc.if_else(pc.less(self._of_day, DAY_MS // 2), "AM", "PM")
        if letter == "E" or (letter in "ML" and count > 2):
            names = pa.array([name if count > 3 else name[:3] for name in (WEEKDAYS if letter == "E" else MONTHS)])
            return names.take(pc.day_of_week(self._day) if letter == "E" else pc.subtract(pc.month(self._day), 1))
        number = self._number(letter)
        if letter == "y" and count == 2:
            number = pc.subtract(number, pc.multiply(pc.divide(number, 100), 100))
        return pc.utf8_lpad(number.cast(pa.string()), count, "0")

    def _number(self, letter: str) -> pa.Array:
        if letter in _OF_DAY:
            unit, modulus, zero = _OF_DAY[letter]
            number = pc.divide(self._of_day, unit)
            number = pc.subtract(number, pc.multiply(pc.divide(number, modulus), modulus))
            return number if zero is None else pc.if_else(pc.equal(number, 0), zero, number)
        if letter == "u":
            return pc.add(pc.day_of_week(self._day), 1)
        return {"y": pc.year, "M": pc.month, "L": pc.month, "d": pc.day, "D": pc.day_of_year}[letter](self._day)


_DIGITS: Final = re.compile(r"-?\d+")
_ZONE: Final = re.compile(r"(?:GMT|UTC)?([+-])(\d\d?):?(\d\d)|(GMT|UTC|UT|Z)", re.IGNORECASE)
_ISO_ZONE: Final = re.compile(r"([+-])(\d\d)(?::?(\d\d))?|(Z)")
_SHORT_YEAR: Final = "yy"
_MOST_MS: Final = 1 << 63
_UNITS: Final = {"H": 3_600_000, "m": 60_000, "s": 1000, "S": 1}


class SimpleDateParser:
    """Parses text by a pattern. Two-digit years are in the century that starts 80 years before ``today``."""

    def __init__(self, format: SimpleDateFormat, today: datetime.date) -> None:
        self.pattern = format.pattern
        self._elements = format.elements
        self._century = today.year - 80
        self._century_start = days_of(self._century, today.month, today.day) * DAY_MS
        self._plain = _plain_pattern(format.elements)

    def parse(self, text: str) -> int:
        """The instant in ms. Raises ValueError if the text does not match, or the instant exceeds 64 bits."""
        found: dict[str, int] = {}
        at = 0
        for index, element in enumerate(self._elements):
            if not element.letter:
                if not text.startswith(element.text, at):
                    raise ValueError(text)
                at += len(element.text)
                continue
            is_followed = index + 1 < len(self._elements) and self._elements[index + 1].is_numeric
            at = self._read(element, text, at, is_followed, found)
        instant = _instant(found)
        if _SHORT_YEAR in found and instant < self._century_start:
            instant = _instant({**found, "y": found["y"] + 100})
        if not -_MOST_MS <= instant < _MOST_MS:
            raise ValueError(text)
        return instant

    def parse_plain(self, texts: pa.Array) -> pa.Array | None:
        """The instants (int64) of a column of texts, if each text has exactly as many digits as the pattern has letters. Null stays null.

        Returns None if the column has any other text. ``parse`` may still be able to read such a text."""
        if self._plain is not None and pc.all(pc.match_substring_regex(texts, self._plain)).as_py():
            fields = pc.extract_regex(texts, self._plain)
            instants = _instants({field.name: pc.struct_field(fields, field.name).cast(pa.int64()) for field in fields.type}, texts)
            if is_gregorian(instants):
                return instants
        return None

    def _read(self, element: Element, text: str, at: int, is_followed: bool, found: dict[str, int]) -> int:
        """Read one field, and blanks before it, into ``found``. Returns the index after the field."""
        start = at
        while text[at : at + 1] in (" ", "\t"):
            at += 1
        letter = "M" if element.letter == "L" else element.letter
        if element.is_numeric:
            end = start + element.count if is_followed else len(text)
            match = _DIGITS.match(text, at, end)
            if match is None or end > len(text):
                raise ValueError(text)
            found[letter] = int(match[0])
            if letter == "y" and element.count <= 2 and len(match[0]) == 2 and match[0].isdigit():
                found[letter] += self._century // 100 * 100 + (100 if found[letter] < self._century % 100 else 0)
                found[_SHORT_YEAR] = 1
            return match.end()
        if letter in "zZX":
            match = (_ISO_ZONE if letter == "X" else _ZONE).match(text, at)
            if match is None:
                raise ValueError(text)
            minutes = 0 if match[1] is None else int(match[2]) * 60 + int(match[3] or 0)
            found["z"] = -minutes if match[1] == "-" else minutes
            return match.end()
        found[letter], at = _name(_NAMES[letter], text, at)
        return at


_NAMES: Final = {"M": MONTHS, "E": WEEKDAYS, "a": ("AM", "PM"), "G": ("BC", "AD")}


def _name(names: tuple[str, ...], text: str, at: int) -> tuple[int, int]:
    """The number (from 1) of the long or short name at ``at``, and the index after it. Raises ValueError if there is no name."""
    rest = text[at:].lower()
    for index, name in enumerate(names):
        for form in (name, name[:3]):
            if rest.startswith(form.lower()):
                return index + 1, at + len(form)
    raise ValueError(text)


def _instant(found: dict[str, int]) -> int:
    year = found.get("y", 1970)
    if found.get("G") == 1:
        year = 1 - year
    is_by_day_of_year = "D" in found and "d" not in found
    days = days_of(year, 1, found["D"]) if is_by_day_of_year else days_of(year, found.get("M", 1), found.get("d", 1))
    hour = found.get("H", 0 if found.get("k") == 24 else found.get("k", 0))
    if "H" not in found and "k" not in found:
        half = found.get("h", found.get("K", 0))
        hour = (0 if half == 12 and "h" in found else half) + (12 if found.get("a") == 2 else 0)
    return days * DAY_MS + hour * 3_600_000 + sum(found.get(letter, 0) * _UNITS[letter] for letter in "msS") - found.get("z", 0) * 60_000


def _plain_pattern(elements: tuple[Element, ...]) -> str | None:
    """A regular expression for texts with exactly as many digits as the pattern has letters. None if not all fields are numbers."""
    letters = [element.letter for element in elements if element.letter]
    if not set(letters) <= set("yMdHmsS") or len(set(letters)) < len(letters):
        return None
    pieces = []
    for element in elements:
        if element.letter and (not element.is_numeric or (element.letter == "y" and element.count < 4)):
            return None
        digits = f"(?P<{element.letter}>[0-9]{{{element.count}}})"
        pieces.append(digits if element.letter else "".join(_escaped(character) for character in element.text))
    return f"^{''.join(pieces)}$" if letters else None


def _escaped(character: str) -> str:
    return character if character.isalnum() or not character.isascii() else f"\\x{ord(character):02x}"


def _instants(found: dict[str, pa.Array], texts: pa.Array) -> pa.Array:
    """The instants of dates, whose parts are int64 columns by letter."""
    one = pc.if_else(texts.is_valid(), pa.scalar(1, pa.int64()), pa.scalar(None, pa.int64()))
    days = days_column(found.get("y", pc.multiply(one, 1970)), found.get("M", one), found.get("d", one))
    total = pc.multiply(days, DAY_MS)
    for letter, unit in _UNITS.items():
        if letter in found:
            total = pc.add(total, pc.multiply(found[letter], unit))
    return total
