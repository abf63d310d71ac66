"""The lines in a piece of a text file as an Arrow column. Only handles bytes; knows nothing of files and topics.

A line ends with ``\\n``, ``\\r\\n`` or ``\\r``. No Python object is created per line. numpy finds the line ends. The bytes without line
ends become the data of an Arrow string array.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_connect.data.arrow import np, pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_LINE_BYTES: Final = 32 << 20
"""Maximum size of a line, or of another record of a text file. Brokers' usual limits are below a tenth of this size."""
LINE_FEED: Final = 10
CARRIAGE_RETURN: Final = 13
_ENCODED_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}".encode()


@dataclass(frozen=True, slots=True)
class Lines:
    """The complete lines of a piece: their text (Arrow string), and for each line, the number of bytes from the start of the piece to the
    line's end."""

    text: pa.Array
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)


def split_lines(piece: bytes, *, is_last: bool = False) -> Lines:
    """The complete lines of ``piece``. With ``is_last``, no byte follows, and the text after the last line end is also a line.

    A ``\\r`` as the last byte does not complete a line, because ``\\n`` may be the next byte.
    """
    ends, nexts = _terminators(piece, is_last=is_last)
    return Lines(_text(piece, ends, nexts), nexts)


def _terminators(piece: bytes, *, is_last: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The end of each line, and the start of the next line."""
    codes = np.frombuffer(piece, np.uint8)
    if b"\r" in piece:
        ends, nexts = _mixed_terminators(codes, is_last=is_last)
    else:
        ends = np.flatnonzero(codes == LINE_FEED)
        nexts = ends + 1
    begin = int(nexts[-1]) if len(nexts) else 0
    if is_last and begin < len(piece):
        ends, nexts = np.append(ends, len(piece)), np.append(nexts, len(piece))
    return ends, nexts


def _mixed_terminators(codes: NDArray[np.uint8], *, is_last: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    is_return, is_feed = codes == CARRIAGE_RETURN, codes == LINE_FEED
    starts_pair, ends_pair = np.zeros(len(codes), bool), np.zeros(len(codes), bool)
    starts_pair[:-1] = is_return[:-1] & is_feed[1:]
    ends_pair[1:] = starts_pair[:-1]
    if not is_last:
        is_return[-1:] = False
    ends = np.flatnonzero((is_return | is_feed) & ~ends_pair)
    return ends, ends + 1 + starts_pair[ends]


def _text(piece: bytes, ends: NDArray[np.int64], nexts: NDArray[np.int64]) -> pa.Array:
    """The bytes between line ends as a string array."""
    count = len(ends)
    if count == 0:
        return pa.array([], type=pa.string())
    lengths = ends.copy()
    lengths[1:] -= nexts[:-1]
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    whole = piece[: int(nexts[-1])]
    # every \r and \n up to here is part of a line end
    data = whole.replace(b"\n", b"") if b"\r" not in whole else whole.replace(b"\r", b"").replace(b"\n", b"")
    buffers: list[Any] = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    if data.isascii():
        return pa.Array.from_buffers(pa.string(), count, buffers)
    return as_text(pa.Array.from_buffers(pa.binary(), count, buffers))


def as_text(column: pa.Array) -> pa.Array:
    """A binary column as strings. Invalid UTF-8 is read as in Java, with a replacement character for each malformed sequence."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if value is None else decode(value) for value in column.to_pylist()], type=pa.string())


def decode(value: bytes) -> str:
    """Decode UTF-8 as Java does. Python differs in one case: Java treats an encoded surrogate as one malformed sequence, Python as
    three."""
    return _ENCODED_SURROGATE.sub(_REPLACEMENT, value).decode("utf-8", "replace")
