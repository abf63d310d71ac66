"""Streams of text files, compressed or not, split at separators. Knows nothing of the texts between separators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

from airflow_provider_connect.connectors.filesystem.formats.content import MAGIC_BYTES, NONE, Content, codec_of_content
from airflow_provider_connect.connectors.filesystem.formats.contract import (
    CHUNK_BYTES,
    CountingFile,
    NonClosingFile,
    Split,
    unreadable_error,
)
from airflow_provider_connect.connectors.lines import MAX_LINE_BYTES
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.errors import DataException

EXTENSIONS: Final = {NONE: "", "gzip": ".gz", "zstd": ".zst", "lz4": ".lz4", "bz2": ".bz2"}
"""The codecs of text files with their file extensions."""


class TextWriter:
    """Writes texts, each followed by a separator, and compresses them."""

    def __init__(self, file: BinaryIO, codec: str, separator: bytes) -> None:
        self._file = CountingFile(file)
        self._separator = separator
        self.stream = self._file if codec == NONE else pa.CompressedOutputStream(self._file, codec)

    @property
    def bytes_written(self) -> int:
        return self._file.count

    def write_texts(self, texts: pa.Array) -> None:
        """Write texts (string or binary, no nulls)."""
        if not len(texts):
            return
        joined = pc.binary_join(pa.LargeListArray.from_arrays([0, len(texts)], texts), pa.scalar(self._separator, texts.type))
        self.stream.write(joined[0].as_buffer())
        self.stream.write(self._separator)

    def close(self) -> None:
        if self.stream is not self._file:
            self.stream.close()


def byte_splits(file: BinaryIO, size: int, wanted_bytes: int, codec: str | None) -> list[Split]:
    """Byte ranges. A compressed file has one range, because it can only be read from its start. For ``codec``, see ``Content``."""
    if codec is None:
        file.seek(0)
        codec = codec_of_content(file.read(MAGIC_BYTES))
    if codec != NONE or not size:
        return [Split(0, size)]
    return [Split(begin, min(begin + wanted_bytes, size)) for begin in range(0, size, wanted_bytes)]


def read_texts(
    file: NonClosingFile, codec: str | None, separator: bytes, split: Split | None, encoding: str | None = None
) -> Iterator[pa.Array | DataException]:
    """The texts between separators, as binary columns. A text after the last separator counts only if it is not empty. If a file is damaged
    from some position on, yields the texts before it, then a DataException. For ``codec`` and ``encoding``, see ``Content``.

    A split contains the texts that start in it. The end of a text of the previous split is skipped, and the split's last text is read to
    its end. The separator of splits must be one byte. A text of more than ``MAX_LINE_BYTES`` becomes a DataException.
    """
    is_whole = split is None or codec not in (None, NONE)
    begin, end = (0, None) if split is None or is_whole else (split.begin, split.end)
    base = max(begin - 1, 0)  # a text that starts at ``begin`` has a separator before it
    stream = Content(file, codec if is_whole else NONE, encoding)
    if base:
        stream.seek(base)
    is_passing, rest = begin > 0, b""
    long: int | None = None  # start of an overlong record that is being skipped
    while chunk := stream.read(CHUNK_BYTES):
        data = rest + chunk
        if is_passing:
            at = data.find(separator) + len(separator)
            if at < len(separator):
                base, rest = base + len(data), b""
                continue
            if long is not None:
                yield _length_error(long, base + at - len(separator))
            data, base, is_passing, long = data[at:], base + at, False, None
        if end is not None and base >= end:
            return
        stop = -1 if end is None else data.find(separator, max(end - 1 - base, 0))
        cut = data.rfind(separator) if stop < 0 else stop
        if cut >= 0:
            yield pc.split_pattern(pa.array([data[:cut]], pa.large_binary()), separator).flatten().cast(pa.binary())
            if stop >= 0:
                return
            data, base = data[cut + len(separator) :], base + cut + len(separator)
        if len(data) > MAX_LINE_BYTES:
            data, base, is_passing, long = b"", base + len(data), True, base
        rest = data
    if long is not None:
        yield _length_error(long, base)
    if stream.fault is not None:
        yield unreadable_error(file, stream.fault)
    elif rest:
        yield pa.array([rest], pa.binary())


def _length_error(begin: int, end: int) -> DataException:
    reason = "Split it, or skip it with errors.tolerance=all"
    return DataException(f"The record at byte {begin} has {end - begin} bytes, and records of up to {MAX_LINE_BYTES} are read. {reason}")
