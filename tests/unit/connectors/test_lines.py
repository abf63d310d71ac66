"""Lines cut out of bytes, against a plain reading of Connect's rule one character at a time."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.connectors.lines import as_text, split_lines


def one_by_one(piece: bytes) -> list[tuple[bytes, int]]:
    """Connect's extractLine, again and again: each line and where the next begins."""
    found, start, position = [], 0, 0
    while position < len(piece):
        if piece[position] == 10:
            found.append((piece[start:position], position + 1))
            start = position = position + 1
        elif piece[position] == 13:
            if position + 1 >= len(piece):
                break
            after = position + 2 if piece[position + 1] == 10 else position + 1
            found.append((piece[start:position], after))
            start = position = after
        else:
            position += 1
    return found


@pytest.mark.parametrize(
    ("piece", "texts", "end"),
    [
        (b"", [], 0),
        (b"no end", [], 0),
        (b"one\ntwo\n", ["one", "two"], 8),
        (b"one\r\ntwo\rthree\n", ["one", "two", "three"], 15),
        (b"one\r", [], 0),
        (b"one\n\r", ["one"], 4),
        (b"\n\n\r\r\n", ["", "", "", ""], 5),
        (b"\n\r\r", ["", ""], 2),
        ("ü🙂\nz".encode(), ["ü🙂"], 7),
        (b"a\xffb\n", ["a\ufffdb"], 4),
        (b"\xe2\n\x82\xac\n", ["\ufffd", "\ufffd\ufffd"], 5),
    ],
)
def test_lines_of_a_piece(piece: bytes, texts: list[str], end: int) -> None:
    lines = split_lines(piece)
    assert lines.text.to_pylist() == texts
    assert (int(lines.ends[-1]) if len(lines) else 0) == end
    lines.text.validate(full=True)


def test_last_line_counts_when_nothing_follows() -> None:
    assert split_lines(b"one\ntwo", is_last=True).text.to_pylist() == ["one", "two"]
    assert split_lines(b"one\r", is_last=True).text.to_pylist() == ["one"]
    assert split_lines(b"one\n", is_last=True).text.to_pylist() == ["one"]


@given(st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"x", b"yy", "é".encode()]), max_size=30).map(b"".join))
def test_lines_are_connects(piece: bytes) -> None:
    lines = split_lines(piece)
    expected = one_by_one(piece)
    assert lines.text.to_pylist() == [line.decode() for line, _ in expected]
    assert lines.ends.tolist() == [after for _, after in expected]


def test_text_is_cast_without_a_copy_where_it_can_be() -> None:
    column = pa.array([b"a", "é".encode(), None])
    assert as_text(column).buffers()[2].address == column.buffers()[2].address
    assert as_text(pa.array([b"a\xed\xa0\x80b", None])).to_pylist() == ["a\ufffdb", None]
