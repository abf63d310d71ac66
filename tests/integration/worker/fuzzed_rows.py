"""Random rows of every type of PostgreSQL, with the extreme values of each: as texts that PostgreSQL reads."""

from __future__ import annotations

import json
import random
import struct
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Make = Callable[[random.Random], str]


@dataclass(frozen=True, slots=True)
class FuzzedColumn:
    """A column of the source with some ``extremes``, one of which every third value is, and ``make`` for the others. ``target``: the type
    in the target where it is another. ``as_text``: the source sends it as text. ``shown``: what is compared of the source's value, ``{}``
    its name; ``shown_there``: of the target's, where that is another."""

    name: str
    type: str
    make: Make
    extremes: tuple[str, ...] = ()
    target: str | None = None
    as_text: bool = False
    shown: str = "{}::text"
    shown_there: str | None = None

    def value(self, chance: random.Random) -> str | None:
        drawn = chance.random()
        if drawn < 0.1:
            return None
        return chance.choice(self.extremes) if self.extremes and drawn < 0.4 else self.make(chance)


def rows(columns: tuple[FuzzedColumn, ...], count: int, seed: int) -> Iterator[list[str | None]]:
    """The same for the same seed; each begins with its number."""
    chance = random.Random(seed)
    for number in range(1, count + 1):
        yield [str(number), *(column.value(chance) for column in columns)]


def _integer(bits: int) -> tuple[Make, tuple[str, ...]]:
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return lambda chance: str(chance.randint(least, most)), (str(least), str(most), "0", "-1")


def _digits(chance: random.Random, most: int) -> str:
    return str(chance.randint(0, 10 ** chance.randint(1, most) - 1)) if most else "0"


def _decimal(before: int, behind: int) -> Make:
    def make(chance: random.Random) -> str:
        point = f".{''.join(chance.choice('0123456789') for _ in range(chance.randint(1, behind)))}" if behind else ""
        return f"{chance.choice(('', '-'))}{_digits(chance, before)}{point}"

    return make


def _double(chance: random.Random) -> str:
    while True:
        (number,) = struct.unpack("<d", chance.randbytes(8))
        if number - number == 0:
            return repr(number)


def _single(chance: random.Random) -> str:
    while True:
        (number,) = struct.unpack("<f", chance.randbytes(4))
        if number - number == 0:
            return repr(number)


_LETTERS = "abzAZ09 \t\n'\"\\,;{}[]()%$/äßéΩ漢字🙂\u00a0\u200b\ufeff\u2028\x01\x7f"


def _text(most: int) -> Make:
    return lambda chance: "".join(chance.choice(_LETTERS) for _ in range(chance.randint(0, most)))


def _word(most: int) -> Make:
    return lambda chance: "".join(chance.choice("abcXYZ019") for _ in range(chance.randint(1, most)))


def _bits(chance: random.Random, count: int) -> str:
    return "".join(chance.choice("01") for _ in range(count))


def _day(chance: random.Random) -> str:
    year, end = chance.randint(1, 9999), chance.choice(("", "", " BC"))
    return f"{min(year, 4712) if end else year:04}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}{end}"


def _clock(chance: random.Random) -> str:
    return f"{chance.randint(0, 23):02}:{chance.randint(0, 59):02}:{chance.randint(0, 59):02}.{chance.randint(0, 999):03}"


def _instant(chance: random.Random) -> str:
    day, _, end = _day(chance).partition(" ")
    return f"{day} {_clock(chance)} {end}".rstrip()


def _address(chance: random.Random) -> str:
    if chance.random() < 0.5:
        return ".".join(str(chance.randint(0, 255)) for _ in range(4))
    return ":".join(f"{chance.randint(0, 65535):x}" for _ in range(8))


def _json(chance: random.Random) -> str:
    return json.dumps({_word(5)(chance): [chance.randint(-5, 5), _text(8)(chance), None, True, {"x": chance.random()}]})


_DAYS = ("infinity", "-infinity", "4714-11-24 BC", "0001-01-01", "0001-12-31 BC", "9999-12-31", "10000-01-01", "1582-10-10", "1970-01-01")
_INSTANTS = (
    *("infinity", "-infinity", "4714-11-24 00:00:00 BC", "0001-01-01 00:00:00", "0001-12-31 23:59:59.999 BC", "9999-12-31 23:59:59.999"),
    *("10000-01-01 00:00:00", "294246-12-31 23:59:59.999", "294247-01-10 04:00:54.775", "294247-01-10 04:00:54.776"),
    *("294276-12-31 23:59:59.999", "1969-12-31 23:59:59.999", "1970-01-01 00:00:00", "2000-02-29 12:00:00"),
)
_FLOATS = ("0", "1.7976931348623157e308", "-1.7976931348623157e308", "5e-324", "2.2250738585072014e-308", "0.1", "1e22", "123456789.123")
_SINGLES = ("0", "3.4028235e38", "-3.4028235e38", "1e-45", "1.1754944e-38", "0.1", "16777217")
_ODD_FLOATS = ("NaN", "Infinity", "-Infinity", "-0")
_VALUE = "trim_scale({})::text"

COLUMNS = (
    FuzzedColumn("small", "smallint", *_integer(16)),
    FuzzedColumn("whole", "int", *_integer(32)),
    FuzzedColumn("large", "bigint", *_integer(64)),
    FuzzedColumn("flag", "boolean", lambda chance: chance.choice(("true", "false"))),
    FuzzedColumn("single", "real", _single, _SINGLES),
    FuzzedColumn("double", "float8", _double, _FLOATS),
    FuzzedColumn("odd_single", "real", _single, (*_SINGLES, *_ODD_FLOATS), as_text=True),
    FuzzedColumn("odd_double", "float8", _double, (*_FLOATS, *_ODD_FLOATS), as_text=True),
    FuzzedColumn(
        "free", "numeric", _decimal(40, 18), ("9" * 58, "-" + "9" * 58 + "." + "9" * 18, "0." + "0" * 17 + "1", "0"), shown=_VALUE
    ),
    FuzzedColumn("odd", "numeric", _decimal(80, 60), ("NaN", "Infinity", "-Infinity", "1e-1000", "1e1000", "9" * 500), as_text=True),
    FuzzedColumn("price", "numeric(12,2)", _decimal(10, 2), ("9999999999.99", "-9999999999.99", "0.01")),
    FuzzedColumn("wide", "numeric(38,10)", _decimal(28, 10), ("9" * 28 + "." + "9" * 10, "-" + "9" * 28)),
    FuzzedColumn("widest", "numeric(76,40)", _decimal(36, 40), ("9" * 36 + "." + "9" * 40, "-" + "9" * 36)),
    FuzzedColumn("longest", "numeric(200,100)", _decimal(100, 100), ("9" * 100 + "." + "9" * 100, "NaN"), as_text=True),
    FuzzedColumn("tiny", "numeric(3,5)", lambda chance: f"0.00{chance.randint(0, 999):03}", ("0.00999", "-0.00001")),
    FuzzedColumn("rounded", "numeric(5,-2)", lambda chance: str(chance.randint(-99999, 99999) * 100), ("9999900", "-9999900", "0")),
    FuzzedColumn("words", "text", _text(40), ("", " ", "\\N", "null", "NaN", "infinity", "x" * 5000, "\U0010ffff")),
    FuzzedColumn("short", "varchar(20)", _text(20), ("", "x" * 20, "🙂" * 20)),
    FuzzedColumn("padded", "char(6)", _word(6), ("", "a", "a  b", "      ")),
    FuzzedColumn("letter", '"char"', lambda chance: chance.choice("az09~"), (" ",)),
    FuzzedColumn("called", "name", _word(60), ("x" * 63,)),
    FuzzedColumn("number", "oid", lambda chance: str(chance.randrange(2**32)), ("0", "4294967295")),
    FuzzedColumn("key", "uuid", lambda chance: str(uuid.UUID(int=chance.getrandbits(128))), (str(uuid.UUID(int=0)), "F" * 32)),
    FuzzedColumn("document", "json", _json, ("null", "[]", "1e400", '{"a": 1, "a": 2}', '"\\u0041"')),
    FuzzedColumn("parsed", "jsonb", _json, ("null", "{}", "12345678901234567890.5", '"\\ud83d\\ude42"')),
    FuzzedColumn("data", "bytea", lambda chance: f"\\x{chance.randbytes(chance.randint(0, 30)).hex()}", ("\\x", "\\x00", "\\xff00")),
    FuzzedColumn("day", "date", _day, (*_DAYS, "5874897-12-31")),
    FuzzedColumn("clock", "time(3)", _clock, ("00:00:00", "24:00:00", "23:59:59.999")),
    FuzzedColumn("local", "timestamp(3)", _instant, _INSTANTS),
    FuzzedColumn("instant", "timestamptz(3)", _instant, _INSTANTS),
    FuzzedColumn("exact", "timestamptz", _instant, (*_INSTANTS, "2000-01-01 00:00:00.000001"), as_text=True),
    FuzzedColumn("zoned", "timetz", lambda chance: f"{_clock(chance)}+0{chance.randint(0, 9)}", ("24:00:00-15:59", "00:00:00+15:59")),
    FuzzedColumn(
        "span",
        "interval",
        lambda chance: f"{chance.randint(-999, 999)} mons {chance.randint(-999, 999)} days {chance.randint(-(10**12), 10**12)} us",
        ("178000000 years", "-178000000 years", "0", "infinity", "-infinity"),
    ),
    FuzzedColumn(
        "many", "int[]", lambda chance: f"{{{chance.randint(0, 9)},NULL,{chance.randint(-9, 0)}}}", ("{}", "{{1,2},{3,4}}", "[0:1]={1,2}")
    ),
    FuzzedColumn(
        "texts", "text[]", lambda chance: json.dumps([_word(5)(chance)]).replace("[", "{").replace("]", "}"), ("{}", '{"",NULL,"a,\\"b"}')
    ),
    FuzzedColumn("host", "inet", _address, ("0.0.0.0/0", "::", "255.255.255.255")),
    FuzzedColumn("net", "cidr", lambda chance: f"10.{chance.randint(0, 255)}.0.0/16", ("::/0", "0.0.0.0/0")),
    FuzzedColumn("card", "macaddr", lambda chance: chance.randbytes(6).hex(), ("ff:ff:ff:ff:ff:ff",)),
    FuzzedColumn("spot", "point", lambda chance: f"({_double(chance)},{chance.random()})", ("(NaN,Infinity)", "(-0,0)")),
    FuzzedColumn("mask", "bit(5)", lambda chance: _bits(chance, 5), ("00000", "11111")),
    FuzzedColumn("bits", "varbit", lambda chance: _bits(chance, chance.randint(0, 70)), ("",)),
    FuzzedColumn("range", "int8range", lambda chance: f"[{chance.randint(-9, 0)},{chance.randint(1, 9)})", ("empty", "(,)")),
    FuzzedColumn(
        "cash", "money", lambda chance: f"{chance.randint(-(10**12), 10**12)}.{chance.randint(0, 99):02}", ("92233720368547758.07",)
    ),
    FuzzedColumn("mood", "mood", lambda chance: chance.choice(("sad", "ok", "it's fine")), ()),
    FuzzedColumn("limited", "limited", lambda chance: str(chance.randint(0, 100)), ("0", "100")),
)
"""Sources and targets have the same types: nothing may be refused."""

PICKY = (
    FuzzedColumn("narrow", "text", _word(8), ("", "abc", "123456789"), target="varchar(8)"),
    FuzzedColumn(
        "begins",
        "date",
        _day,
        (*_DAYS, "5874897-12-31", "294277-01-01"),
        target="timestamp",
        shown="{}::timestamp::text",
        shown_there="{}::text",
    ),
    FuzzedColumn("less", "bigint", _integer(32)[0], (str(2**31 - 1), str(-(2**31)), str(2**31), "0"), target="int"),
    FuzzedColumn("fits", "numeric", _decimal(8, 2), ("0", "99999999.99", "100000000"), target="numeric(10,2)", shown=_VALUE),
    FuzzedColumn("named", "text", lambda chance: chance.choice(("sad", "ok")), ("it's fine", "ok", "Sad"), target="mood"),
    FuzzedColumn(
        "moment",
        "text",
        _instant,
        ("infinity", "-infinity", "yesterday maybe", "epoch"),
        target="timestamptz",
        shown="{}::timestamptz::text",
        shown_there="{}::text",
    ),
)
"""The target refuses some values: those become dead-letter records. ``shown`` is asked for rows only that the target has taken."""
