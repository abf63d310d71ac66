"""Lines of container logs, as container runtimes of Kubernetes (CRI) and Docker write them: lines joined from their parts. Knows nothing of
files.

Runtimes divide lines of more than 16 KiB. A CRI line is ``TIME STREAM TAGS TEXT``, with the tag ``P`` for each part but the last, and ``F``
for the last part. A Docker line is a JSON object, whose ``log`` ends with a line feed only in the last part. The parts of ``stdout`` and
``stderr`` may alternate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_connect.connectors.logs.lines import Encoding, Lines, cut_entries
from airflow_provider_connect.data.arrow import np, pa, pc, pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

CRI: Final = "cri"
DOCKER: Final = "docker"
PATTERN: Final = r"^(?P<time>\S+) (?P<stream>stdout|stderr) [FP](?::\S*)?(?: (?P<log>(?s:.*)))?$"
"""A joined line, of both kinds."""
STREAMS: Final = ("stdout", "stderr")
_OTHER: Final = " "  # before lines that are not of this format: ``PATTERN`` does not match then
_SPACE, _LINE_FEED = ord(" "), ord("\n")
_MANY: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class _Parts:
    """Each line as a part: what is before its text, its text (both binary or both string), its stream (-1: another format), and whether
    the text continues in the next part of the stream."""

    heads: pa.Array
    texts: pa.Array
    streams: NDArray[np.int64]
    is_partial: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ContainerLines:
    """Lines in the ``format`` cri or docker. After about ``max_bytes``, a joined line is continued in another one."""

    format: str
    max_bytes: int

    def join(self, data: bytes, ends: NDArray[np.int64], encoding: Encoding, *, is_first: bool, is_final: bool) -> Lines:
        """The joined lines, up to the last position at which no line is incomplete. ``PATTERN`` matches the text of a line unless the line
        is not of the format. ``ends`` are the positions after the lines in ``data``. With ``is_final``, incomplete lines are complete.

        Lines are in the order of their ends. If another stream has parts between the parts of a line, the lines cannot be separated by a
        position: all but the last have the same position as the last one. Unreadable lines come first among them, with the position
        before them, because an error separates the lines before it from the lines after it."""
        if self.format == CRI and b" P " not in data and b" P:" not in data:
            return Lines(encoding.decode(data, ends, is_first=is_first), ends)
        if self.format == CRI:
            parts = _cri_parts(data[: int(ends[-1])], ends)
        else:
            parts = _docker_parts(encoding.decode(data, ends, is_first=is_first))
            if not parts.is_partial.any():
                return Lines(_concatenated(parts.heads, parts.texts), ends)
        return self._joined(parts, ends, encoding, is_final=is_final)

    def _joined(self, parts: _Parts, ends: NDArray[np.int64], encoding: Encoding, *, is_final: bool) -> Lines:
        lengths = np.diff(ends, prepend=0)
        last = np.arange(len(ends))  # for each part, the last part of its line
        is_between = np.zeros(len(ends), np.bool_)  # whether a line is incomplete after the part
        for stream in np.unique(parts.streams[parts.streams >= 0]):
            rows = np.flatnonzero(parts.streams == stream)
            partial = parts.is_partial[rows]
            starts = cut_entries(np.append(True, ~partial[:-1]), np.cumsum(lengths[rows]) - lengths[rows], _MANY, self.max_bytes)
            closes = np.append(starts[1:], is_final or not partial[-1])
            last[rows] = np.append(rows[closes], len(ends))[np.cumsum(starts) - 1]  # beyond the end for an incomplete line
            before = np.searchsorted(rows, np.arange(len(ends)), side="right") - 1
            is_between |= (before >= 0) & ~closes[before]
        safe = np.flatnonzero(~is_between)
        if not len(safe):
            return Lines(pa.array([], pa.string()), ends[:0])
        order = np.argsort(last, kind="stable")
        order = order[last[order] <= safe[-1]]
        rows, counts = np.unique(last[order], return_counts=True)
        bounds = np.append(0, np.cumsum(counts))
        listed = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), parts.texts.take(pa.array(order)))
        texts = pc.binary_join(listed, pa.scalar("" if pa.types.is_string(parts.texts.type) else b"", parts.texts.type))
        joined = _concatenated(parts.heads.take(pa.array(order[bounds[:-1]])), texts)
        text = _decoded(joined, encoding) if pa.types.is_binary(joined.type) else joined
        return self._in_groups(text, rows, np.add.reduceat(lengths[order], bounds[:-1]), safe=safe, ends=ends)

    def _in_groups(
        self, text: pa.Array, rows: NDArray[np.int64], sizes: NDArray[np.int64], *, safe: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> Lines:
        """Lines, with unreadable ones first in their group: the lines up to a ``safe`` row. ``rows`` are the last rows of the lines."""
        is_good = pl.Series(text).str.contains(PATTERN).fill_null(value=False).to_numpy() & (sizes <= 2 * self.max_bytes)
        groups = np.searchsorted(safe, rows)
        order = np.lexsort((rows, is_good, groups))
        groups, is_good = groups[order], is_good[order]
        limits = np.append(0, ends[safe])
        is_last = np.append(groups[1:] != groups[:-1], True)
        positions = np.where(is_good | is_last, limits[groups + 1], limits[groups])
        return Lines(text.take(pa.array(order)), positions, sizes[order])


def _cri_parts(data: bytes, ends: NDArray[np.int64]) -> _Parts:
    """Bytes, because a runtime divides lines within characters."""
    if not data.endswith(b"\n"):
        data += b"\n"
        ends = np.append(ends[:-1], len(data))
    codes = np.frombuffer(data, np.uint8)
    begins, stops = np.append(0, ends[:-1]), ends - 1
    spaces = np.append(np.flatnonzero(codes == _SPACE), [len(data)] * 3)
    first = np.searchsorted(spaces, begins)
    after_time, after_stream, after_tags = (np.minimum(spaces[first + number], stops) for number in range(3))
    streams = np.select([_have(codes, after_time, f" {name} ".encode()) for name in STREAMS], range(len(STREAMS)), -1)
    is_tag = np.isin(_codes_at(codes, after_stream + 2), (_SPACE, _LINE_FEED, ord(":")))
    is_partial = _have(codes, after_stream, b" P") & is_tag
    streams[~(is_partial | (_have(codes, after_stream, b" F") & is_tag))] = -1
    contents = np.where(streams >= 0, np.minimum(after_tags + 1, stops), begins)
    offsets = np.append(np.column_stack([begins, contents, stops]).ravel(), len(data)).astype(np.int32)
    buffers: list[Any] = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    cells = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)  # of each line: what is before the text, the text, the line feed
    firsts = np.arange(0, len(cells), 3)
    heads = pc.if_else(pa.array(streams >= 0), cells.take(pa.array(firsts)), pa.scalar(_OTHER.encode(), pa.binary()))
    return _Parts(heads, cells.take(pa.array(firsts + 1)), streams, is_partial & (streams >= 0))


def _have(codes: NDArray[np.uint8], at: NDArray[np.int64], word: bytes) -> NDArray[np.bool_]:
    """Whether the word is at each of these positions."""
    found: NDArray[np.bool_] = np.logical_and.reduce([_codes_at(codes, at + number) == code for number, code in enumerate(word)])
    return found


def _codes_at(codes: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.uint8]:
    return codes[np.minimum(at, len(codes) - 1)]


def _docker_parts(lines: pa.Array) -> _Parts:
    text = pl.Series("line", lines)
    columns = pl.DataFrame({"line": text, **{name: text.str.json_path_match(f"$.{name}") for name in ("log", "stream", "time")}})
    is_known = pl.col("stream").is_in(STREAMS) & pl.col("log").is_not_null() & pl.col("time").str.contains(r"^\S+$")
    found = columns.with_columns(is_known=is_known.fill_null(value=False)).select(
        head=pl.when("is_known").then(pl.concat_str("time", pl.lit(" "), "stream", pl.lit(" F "))).otherwise(pl.lit(_OTHER)),
        text=pl.when("is_known").then(pl.col("log").str.strip_suffix("\r\n").str.strip_suffix("\n")).otherwise("line"),
        stream=pl.when("is_known").then(pl.col("stream").replace_strict(STREAMS, range(len(STREAMS)), default=-1)).otherwise(-1),
        is_partial=pl.col("is_known") & ~pl.col("log").str.ends_with("\n").fill_null(value=False),
    )
    heads, texts = (found[name].to_arrow().cast(pa.string()) for name in ("head", "text"))
    return _Parts(heads, texts, found["stream"].cast(pl.Int64).to_numpy(), found["is_partial"].to_numpy())


def _concatenated(heads: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(heads, texts, "" if pa.types.is_string(texts.type) else b"")


def _decoded(column: pa.Array, encoding: Encoding) -> pa.Array:
    """Bytes without line feeds as text. Null for bytes that are invalid."""
    ended = pc.binary_join_element_wise(column, b"\n", b"")
    offsets = np.frombuffer(ended.buffers()[1], np.int32, len(ended) + 1)
    return encoding.decode(ended.buffers()[2].to_pybytes()[offsets[0] : offsets[-1]], offsets[1:] - offsets[0], is_first=False)
