"""The content of a text file: uncompressed, in UTF-8, without a byte-order mark. All content before a fault is read.

Knows nothing of lines and records.
"""

from __future__ import annotations

import codecs
import io
import re
from typing import Final

from airflow_provider_connect.connectors.filesystem.formats.contract import NonClosingFile
from airflow_provider_connect.connectors.text_encoding import UTF_8, encoding_name
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.expansion import check_unpacked
from airflow_provider_connect.errors import DataException

NONE: Final = "none"
_MAGIC: Final = re.compile(
    rb"(?P<gzip>\x1f\x8b\x08[\x00-\x1f])|(?P<zstd>\x28\xb5\x2f\xfd)|(?P<lz4>\x04\x22\x4d\x18)"
    rb"|(?P<bz2>BZh[1-9](?:1AY&SY|\x17rE8P\x90))|(?P<xz>\xfd7zXZ\x00)|(?P<snappy>\xff\x06\x00\x00sNaPpY)|(?P<zip>PK\x03\x04)"
)
"""The first bytes of compressed files, as far as each format fixes them."""
MAGIC_BYTES: Final = 10
_UNSUPPORTED: Final = frozenset({"xz", "snappy", "zip"})
_STEP_BYTES: Final = 256 << 10  # decompressed at a time
_SMALLER: Final = 512  # factor by which steps shrink before a fault; for each, the file is read again
_MARKS: Final = (
    (codecs.BOM_UTF8, UTF_8),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # starts like UTF-16's mark
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WITHOUT_MARK: Final = {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}
_UNREADABLE: Final = "connect.unreadable"
_SURROGATE: Final = "\udc80"  # encoded as three bytes that are not UTF-8, so that only their record is rejected


def content_encoding(given: str) -> str:
    """The name of an encoding, with the byte order of files without a mark. Raises ConfigException for an unsupported encoding."""
    name = encoding_name(given)
    return _WITHOUT_MARK.get(name, name)


def codec_of_content(head: bytes) -> str:
    """The compression of a file that begins with ``head`` (``MAGIC_BYTES`` or more), ``none`` if it has no such beginning. The result may
    be a compression that is not supported."""
    found = _MAGIC.match(head)
    return NONE if found is None else str(found.lastgroup)


def encoding_of_mark(head: bytes) -> tuple[bytes, str] | None:
    """The byte-order mark at the start of a file, and its encoding. None if there is no mark."""
    return next(((mark, name) for mark, name in _MARKS if head.startswith(mark)), None)


class Content:
    """Reads ``file`` from its start. If ``codec`` is None, the first bytes decide whether the file is compressed. If ``encoding`` is None,
    reads raw bytes. A byte-order mark takes precedence over ``encoding``.

    ``fault`` is the error of the compression. It is set when all content before the error was read. The content ends at that point. Errors
    of the store are raised. Bytes that are invalid in the encoding become bytes that are invalid UTF-8.
    """

    def __init__(self, file: NonClosingFile, codec: str | None, encoding: str | None) -> None:
        file.seek(0)
        self._stream = _Decompressor(file, codec)
        self._encoding = encoding
        self._decoder: codecs.IncrementalDecoder | None = None
        self._is_started = False

    @property
    def fault(self) -> Exception | None:
        return self._stream.fault

    def seek(self, position: int) -> None:
        """Continue at this byte. Only for uncompressed files in UTF-8."""
        self._stream.seek(position)
        self._is_started = True

    def read(self, size: int) -> bytes:
        """About ``size`` bytes; empty at the end."""
        data = self._stream.read(size)
        if not self._is_started:
            data = self._strip_mark(data)
        while self._decoder is not None:
            text = self._decoder.decode(data, final=not data and self.fault is None)
            if text or not data:
                return text.encode(UTF_8, "surrogatepass")
            data = self._stream.read(size)
        return data

    def _strip_mark(self, data: bytes) -> bytes:
        """The data after the byte-order mark. Not empty before the end, because an empty result would end the content."""
        self._is_started = True
        if self._encoding is None:
            return data
        while len(data) < len(codecs.BOM_UTF32_LE) and (more := self._stream.read(_STEP_BYTES)):
            data += more
        mark, name = encoding_of_mark(data) or (b"", self._encoding)
        if name != UTF_8:
            self._decoder = codecs.getincrementaldecoder(name)(_UNREADABLE)
        return data[len(mark) :] or (self._stream.read(_STEP_BYTES) if mark else b"")


class _Decompressor:
    def __init__(self, file: NonClosingFile, codec: str | None) -> None:
        self._file, self._codec = file, codec
        self._source = _Source(file)
        self._stream = None if codec in (None, NONE) else _stream(self._source, codec)
        self._position = self._before = 0
        self._step = _STEP_BYTES
        self.fault: Exception | None = None

    def seek(self, position: int) -> None:
        self._file.seek(position)

    def read(self, size: int) -> bytes:
        if self._codec is None:
            return self._first(size)
        if self._stream is None:
            return b"" if self.fault is not None else self._file.read(size)
        pieces, left = [], size
        while left > 0 and (piece := self._next(left)):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def _first(self, size: int) -> bytes:
        """The first read of a file whose compression is not known. Its bytes are kept, because another request to a store takes time."""
        head = self._file.read(size)
        while len(head) < MAGIC_BYTES and (more := self._file.read(MAGIC_BYTES)):
            head += more
        self._codec = codec_of_content(head)
        if self._codec == NONE:
            return head
        if self._codec in _UNSUPPORTED:
            self.fault = DataException(f"it is compressed with {self._codec}, which is not supported")
            return b""
        self._source = _Source(self._file, head=head)
        self._stream = _stream(self._source, self._codec)
        return self.read(size)

    def _next(self, size: int) -> bytes:
        if self.fault is not None or self._stream is None:
            return b""
        try:
            data = bytes(self._stream.read(min(size, self._step)))
        except (pa.ArrowException, OSError) as error:
            if self._file.error is not None:
                raise
            if self._step == 1:
                self.fault = DataException(f"it is not valid {self._codec}{self._likeness()}: {error}")
                return b""
            self._step = max(1, self._step // _SMALLER)
            self._stream = self._slow_stream()
            return self._next(size)
        self._position += len(data)
        self._before = self._source.before
        try:
            check_unpacked(self._source.position, self._position)
        except DataException as error:
            self.fault = error
            return b""
        return data

    def _likeness(self) -> str:
        """What the file begins like, if not like its compression."""
        if self._position:
            return ""
        self._file.seek(0)
        found = codec_of_content(self._file.read(MAGIC_BYTES))
        return "" if found == self._codec else f", and begins like {'an uncompressed file' if found == NONE else found}"

    def _slow_stream(self) -> pa.NativeFile:
        """A new stream at the same position. The library does not return data that it decompressed before a fault. So the file is read
        again, byte by byte near the fault. The bytes are decompressed in smaller steps, because one byte may expand to thousands."""
        self._file.seek(0)
        self._source = _Source(self._file, single_from=self._before)
        stream, left = _stream(self._source, str(self._codec)), self._position
        while left:
            left -= len(stream.read(min(left, _STEP_BYTES)))
        return stream


class _Source(io.RawIOBase):
    """Compressed bytes for the library. ``position`` is the current position, and ``before`` is the position before the last read. From
    ``single_from`` on, each read returns one byte. ``head`` was already read from the file.
    """

    def __init__(self, file: NonClosingFile, single_from: int | None = None, head: bytes = b"") -> None:
        super().__init__()
        self._file, self._single_from, self._head = file, single_from, io.BytesIO(head)
        self.position = self.before = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._single_from is not None:
            size = max(1, min(size, self._single_from - self.position))
        self.before = self.position
        data = self._head.read(size) or self._file.read(size)
        self.position += len(data)
        return data


def _stream(source: _Source, codec: str | None) -> pa.NativeFile:
    return pa.CompressedInputStream(pa.PythonFile(source, "r"), codec)


def _unreadable(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return _SURROGATE, error.end


codecs.register_error(_UNREADABLE, _unreadable)
