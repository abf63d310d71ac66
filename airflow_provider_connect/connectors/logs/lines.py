"""The lines in a piece of a log file as Arrow columns: encodings, line ends, multi-line entries. Knows nothing of files and topics.

A line ends with a line feed. A carriage return before the line feed is part of the line end.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_connect.connectors.text_encoding import WIDE_ENCODINGS, encoding_name
from airflow_provider_connect.data.arrow import np, pa, pc, pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MARK: Final = "\N{ZERO WIDTH NO-BREAK SPACE}"


@dataclass(slots=True)
class Lines:
    """Lines of a piece. ``text`` is null if bytes are invalid in the encoding. ``ends`` are the byte positions after each line. ``sizes``
    are the bytes of each line, if its end does not show them."""

    text: pa.Array
    ends: NDArray[np.int64]
    sizes: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.ends)


@dataclass(frozen=True, slots=True)
class Encoding:
    """A text encoding. ``width`` is the number of bytes of a line feed."""

    name: str
    width: int = 1

    @classmethod
    def of(cls, given: str) -> Encoding:
        """The encoding with this name. Raises ConfigException for an unsupported encoding."""
        name = encoding_name(given)
        return cls(name, WIDE_ENCODINGS.get(name, 1))

    def with_byte_order(self, head: bytes) -> Encoding:
        """This encoding with the byte order of a file, according to its first bytes. Little-endian without a byte-order mark."""
        if self.name not in ("utf-16", "utf-32"):
            return self
        is_big = head.startswith(codecs.BOM_UTF16_BE) if self.width == 2 else head.startswith(codecs.BOM_UTF32_BE)
        return Encoding(f"{self.name}-{'be' if is_big else 'le'}", self.width)

    def line_ends(self, data: bytes) -> NDArray[np.int64]:
        """The byte positions after each complete line."""
        if self.width == 1:
            return np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
        order = ">" if self.name.endswith("be") else "<"
        units = np.frombuffer(data, f"{order}u{self.width}", count=len(data) // self.width)
        return (np.flatnonzero(units == ord("\n")) + 1) * self.width

    def decode(self, data: bytes, ends: NDArray[np.int64], *, is_first: bool) -> pa.Array:
        """The text of each line that ends at ``ends``. Null if the line's bytes are invalid. ``is_first``: the file starts here, possibly
        with a byte-order mark."""
        whole = data[: int(ends[-1])]
        try:
            text = whole if self.name == "utf-8" else whole.decode(self.name).encode()
            begin = len(_MARK.encode()) if is_first and text.startswith(_MARK.encode()) else 0
            has_returns = b"\r" in text and b"\r\n" in text  # searching for one byte is ten times faster than for two
            is_plain = self.name == "utf-8" and not begin and text.endswith(b"\n") and not has_returns
            return _column(text, begin, ends - 1 if is_plain else None)
        except (UnicodeError, pa.ArrowInvalid):
            return pa.array(self._decode_lines(whole, ends, is_first=is_first), pa.string())

    def _decode_lines(self, data: bytes, ends: NDArray[np.int64], *, is_first: bool) -> list[str | None]:
        lines: list[str | None] = []
        begin = 0
        for end in ends.tolist():
            try:
                text = data[begin:end].decode(self.name)
                text = text.removeprefix(_MARK) if is_first and begin == 0 else text
                lines.append(text[:-1].removesuffix("\r") if text.endswith("\n") else text)
            except UnicodeError:
                lines.append(None)
            begin = end
        return lines


def _column(text: bytes, begin: int, ends: NDArray[np.int64] | None) -> pa.Array:
    """The lines of UTF-8 text as a string column. The last line may have no line end. ``ends`` are the positions of line feeds, if known.
    Raises ArrowInvalid for invalid UTF-8."""
    if ends is None:
        text = text.replace(b"\r\n", b"\n")[begin:]
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
        if not text.endswith(b"\n"):
            ends = np.append(ends, len(text))
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends - np.arange(len(ends))  # without the line feeds before each end
    data = text.replace(b"\n", b"")
    buffers: list[Any] = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    if data.isascii():
        return pa.Array.from_buffers(pa.string(), len(ends), buffers)
    return pa.Array.from_buffers(pa.binary(), len(ends), buffers).cast(pa.string())


@dataclass(frozen=True, slots=True)
class Entries:
    """Multi-line entries. Each line that matches ``start``, a polars pattern, starts an entry. An entry of more than ``max_lines`` or
    ``max_bytes`` is split."""

    start: str
    max_lines: int
    max_bytes: int

    def join(self, lines: Lines, *, is_final: bool) -> Lines:
        """The complete entries. The last entry is complete only if ``is_final``. An entry with an invalid line is null."""
        begins = pl.Series(lines.text).str.contains(self.start).fill_null(value=False).to_numpy().copy()
        begins[:1] = True
        begins = cut_entries(begins, np.concatenate(([0], lines.ends[:-1])), self.max_lines, self.max_bytes)
        firsts = np.flatnonzero(begins)
        bounds = np.append(firsts, len(lines))
        if not is_final:
            bounds = bounds[:-1]
        listed = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), lines.text.slice(0, int(bounds[-1])))
        return Lines(pc.binary_join(listed, "\n"), lines.ends[bounds[1:] - 1])


def cut_entries(begins: NDArray[np.bool_], offsets: NDArray[np.int64], max_lines: int, max_bytes: int) -> NDArray[np.bool_]:
    """``begins``: whether a line begins an entry. Also begin an entry after each ``max_lines`` lines of an entry, and each time that the
    entry's bytes pass a multiple of ``max_bytes``. ``offsets`` are the bytes before each line."""
    rows = np.arange(len(begins))
    first = np.maximum.accumulate(np.where(begins, rows, 0))
    share: NDArray[np.int64] = np.maximum((rows - first) // max_lines, (offsets - offsets[first]) // max_bytes)
    more: NDArray[np.bool_] = begins | ((share != np.append(0, share[:-1])) & (share > 0))
    return more
