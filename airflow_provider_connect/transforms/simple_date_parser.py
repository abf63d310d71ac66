"""Text read as ``SimpleDateFormat.parse`` reads it in UTC: leniently, and without minding what comes behind the last field."""

from __future__ import annotations

import datetime
import re
from typing import Final

from airflow_provider_connect.sdk.arrow import pa, pc
from airflow_provider_connect.transforms.java_calendar import DAY_MS, days_column, days_of, is_gregorian
from airflow_provider_connect.transforms.simple_date_format import MONTHS, WEEKDAYS, Element, SimpleDateFormat

_DIGITS: Final = re.compile(r"-?\d+")
_ZONE: Final = re.compile(r"(?:GMT|UTC)?([+-])(\d\d?):?(\d\d)|(GMT|UTC|UT|Z)", re.IGNORECASE)
_ISO_ZONE: Final = re.compile(r"([+-])(\d\d)(?::?(\d\d))?|(Z)")
_SHORT_YEAR: Final = "yy"
_UNITS: Final = {"H": 3_600_000, "m": 60_000, "s": 1000, "S": 1}


class SimpleDateParser:
    """Reads texts by one pattern. Years with two digits lie within the hundred that begin 80 years before ``today``."""

    def __init__(self, format: SimpleDateFormat, today: datetime.date) -> None:
        self.pattern = format.pattern
        self._elements = format.elements
        self._century = today.year - 80
        self._century_start = days_of(self._century, today.month, today.day) * DAY_MS
        self._plain = _plain_pattern(format.elements)

    def parse(self, text: str) -> int:
        """The moment in ms. Raises ValueError if the text does not match."""
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
        moment = _moment(found)
        is_too_early = _SHORT_YEAR in found and moment < self._century_start
        return _moment({**found, "y": found["y"] + 100}) if is_too_early else moment

    def parse_plain(self, texts: pa.Array) -> pa.Array | None:
        """The moments of texts, int64, where each has just the digits that the pattern has letters; null stays null.

        None if one has not: it may still be a text that ``parse`` reads."""
        if self._plain is not None and pc.all(pc.match_substring_regex(texts, self._plain)).as_py():
            fields = pc.extract_regex(texts, self._plain)
            moments = _moments({field.name: pc.struct_field(fields, field.name).cast(pa.int64()) for field in fields.type}, texts)
            if is_gregorian(moments):
                return moments
        return None

    def _read(self, element: Element, text: str, at: int, is_followed: bool, found: dict[str, int]) -> int:
        """Read one field into ``found``, and blanks before it; returns where it ends."""
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
    """Which of the names stands at ``at``, long or short, from 1 on; and where it ends."""
    rest = text[at:].lower()
    for index, name in enumerate(names):
        for form in (name, name[:3]):
            if rest.startswith(form.lower()):
                return index + 1, at + len(form)
    raise ValueError(text)


def _moment(found: dict[str, int]) -> int:
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
    """An expression for texts that have just as many digits as the pattern has letters; None if there are other fields than numbers."""
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


def _moments(found: dict[str, pa.Array], texts: pa.Array) -> pa.Array:
    """The moments of int64 columns by letter."""
    one = pc.if_else(texts.is_valid(), pa.scalar(1, pa.int64()), pa.scalar(None, pa.int64()))
    days = days_column(found.get("y", pc.multiply(one, 1970)), found.get("M", one), found.get("d", one))
    total = pc.multiply(days, DAY_MS)
    for letter, unit in _UNITS.items():
        if letter in found:
            total = pc.add(total, pc.multiply(found[letter], unit))
    return total
