"""Bytes to lines and entries, in every encoding."""

from __future__ import annotations

import codecs

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider_connect.connectors.logs.lines import Encoding, Entries, Lines
from airflow_provider_connect.errors import ConfigException

TEXT = "\N{LATIN SMALL LETTER U WITH DIAERESIS}ber\r\n\nzwei\rdrei\nEuro \N{EURO SIGN}\n"
LINES = ["\N{LATIN SMALL LETTER U WITH DIAERESIS}ber", "", "zwei\rdrei", "Euro \N{EURO SIGN}"]


def lines_of(data: bytes, name: str, *, is_first: bool = True) -> tuple[list[str | None], list[int]]:
    encoding = Encoding.of(name).with_byte_order(data)
    ends = encoding.line_ends(data)
    return encoding.decode(data, ends, is_first=is_first).to_pylist(), ends.tolist()


@pytest.mark.parametrize("name", ["utf-8", "UTF8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "windows-1252", "iso-8859-15", "gb18030"])
def test_lines_are_those_of_the_text(name: str) -> None:
    data = TEXT.encode(name)
    lines, ends = lines_of(data, name)
    assert lines == LINES
    assert ends[-1] == len(data)
    assert data[: ends[0]].decode(name).endswith("\n")


@pytest.mark.parametrize(("mark", "name"), [(codecs.BOM_UTF16_BE, "utf-16"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF8, "utf-8")])
def test_a_byte_order_mark_decides_and_is_no_text(mark: bytes, name: str) -> None:
    inner = {codecs.BOM_UTF16_BE: "utf-16-be", codecs.BOM_UTF16_LE: "utf-16-le"}.get(mark, name)
    assert lines_of(mark + "a\nb\n".encode(inner), name) == (
        ["a", "b"],
        [len(mark) + 2 * len("a".encode(inner)), len(mark) + 4 * len("a".encode(inner))],
    )


def test_a_mark_within_a_file_is_text() -> None:
    assert lines_of(codecs.BOM_UTF8 + b"a\n", "utf-8", is_first=False)[0] == ["\ufeffa"]


@pytest.mark.parametrize(
    ("name", "data", "lines"),
    [
        ("utf-8", b"good\nb\xffd\nlast \xc3\xbc\n", ["good", None, "last \N{LATIN SMALL LETTER U WITH DIAERESIS}"]),
        ("ascii", b"good\nb\xffd\n", ["good", None]),
        ("utf-16-le", "a\n".encode("utf-16-le") + b"\x00\xd8" + "\nb\n".encode("utf-16-le"), ["a", None, "b"]),
    ],
)
def test_a_line_of_other_bytes_is_null_alone(name: str, data: bytes, lines: list[str | None]) -> None:
    assert lines_of(data, name)[0] == lines


@pytest.mark.parametrize("name", ["utf-7", "rot13", "hex", "idna", "unicode_escape", "cp037", "nothing", "utf-8\0", "zlib"])
def test_what_is_no_encoding_of_lines_is_refused(name: str) -> None:
    with pytest.raises(ConfigException, match="encoding"):
        Encoding.of(name)


def joined(texts: list[str | None], entries: Entries, *, is_final: bool) -> tuple[list[str | None], list[int]]:
    lengths = [len(text or "?") + 1 for text in texts]
    found = entries.join(Lines(pa.array(texts, pa.string()), np.cumsum(lengths)), is_final=is_final)
    return found.text.to_pylist(), found.ends.tolist()


TRACE: list[str | None] = ["1 first", " at a", " at b", "2 second", " at c"]


def test_an_entry_is_complete_with_the_next_one() -> None:
    assert joined(TRACE, Entries(r"^\d", 500, 1000), is_final=False) == (["1 first\n at a\n at b"], [20])
    assert joined(TRACE, Entries(r"^\d", 500, 1000), is_final=True) == (["1 first\n at a\n at b", "2 second\n at c"], [20, 35])


def test_lines_before_the_first_entry_are_one() -> None:
    assert joined([" at x", *TRACE], Entries(r"^\d", 500, 1000), is_final=True)[0][0] == " at x"


def test_a_long_entry_is_cut_by_lines_and_by_bytes() -> None:
    lines: list[str | None] = ["1", *(f" {number}" for number in range(9))]
    assert joined(lines, Entries(r"^\d", 4, 1000), is_final=True)[0] == ["1\n 0\n 1\n 2", " 3\n 4\n 5\n 6", " 7\n 8"]
    cut, _ = joined(lines, Entries(r"^\d", 500, 8), is_final=True)
    assert "\n".join(text or "" for text in cut) == "\n".join(text or "" for text in lines)
    assert max(len(text or "") for text in cut) <= 2 * 8


def test_an_entry_with_a_line_that_is_no_text_is_null() -> None:
    assert joined(["1 first", None, "2 second"], Entries(r"^\d", 500, 1000), is_final=True)[0] == [None, "2 second"]
