"""A ``HashMap<byte[], byte[]>`` in Java's serialization. Kafka Connect's standalone worker stores offsets in a file with this content.

Reads and writes only this type, in the form that Java 8 to 25 write. Refuses any other content.
"""

import struct
from collections.abc import Iterator, Mapping

from airflow_provider_connect.errors import DataException

_HEADER = b"\xac\xed\x00\x05"
_OBJECT, _ARRAY, _CLASS, _REFERENCE, _NULL, _BLOCK, _END = b"s", b"u", b"r", b"q", b"p", b"w", b"x"
_MAP_CLASS = b"\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16\x60\xd1\x03\x00\x02F\x00\nloadFactorI\x00\tthreshold" + _END + _NULL
_BYTES_CLASS = b"\x00\x02[B\xac\xf3\x17\xf8\x06\x08\x54\xe0\x02\x00\x00" + _END + _NULL
_LOAD_FACTOR = 0.75
_FIRST_HANDLE = 0x7E0000
_BYTES_HANDLE = _FIRST_HANDLE + 2  # the map's class and the map itself come first


def encode(entries: Mapping[bytes, bytes | None]) -> bytes:
    """The stream that ``ObjectInputStream.readObject`` reads as a HashMap."""
    capacity = 16
    while capacity * _LOAD_FACTOR < len(entries):
        capacity *= 2
    stream = bytearray(_HEADER + _OBJECT + _CLASS + _MAP_CLASS)
    stream += struct.pack(">fi", _LOAD_FACTOR, int(capacity * _LOAD_FACTOR))
    stream += _BLOCK + struct.pack(">bii", 8, capacity, len(entries))
    class_tag = _CLASS + _BYTES_CLASS
    for part in (part for entry in entries.items() for part in entry):
        if part is None:
            stream += _NULL
        else:
            stream += _ARRAY + class_tag + struct.pack(">i", len(part)) + part
            class_tag = _REFERENCE + struct.pack(">i", _BYTES_HANDLE)
    return bytes(stream + _END)


def decode(stream: bytes) -> dict[bytes, bytes | None]:
    """The map's entries, without a null key. Raises DataException unless the stream is exactly one complete map."""
    try:
        return dict(_entries(_Reader(stream)))
    except (struct.error, IndexError) as error:
        raise DataException(f"the stream ends after {len(stream)} bytes, in the middle of the map") from error


class _Reader:
    def __init__(self, stream: bytes) -> None:
        self._stream = stream
        self._at = 0
        self._objects: list[bytes | None] = [None, None]  # by handle: the map's class, the map, then each element that was read

    def expect(self, wanted: bytes, what: str) -> None:
        if self.take(len(wanted)) != wanted:
            raise DataException(f"byte {self._at - len(wanted)} of the stream is not {what}")

    def take(self, count: int) -> bytes:
        taken = self._stream[self._at : self._at + count]
        if count < 0 or len(taken) < count:
            raise IndexError
        self._at += count
        return taken

    def number(self) -> int:
        return int(struct.unpack(">i", self.take(4))[0])

    def bytes_or_null(self) -> bytes | None:
        """The next element: an array of bytes, a reference to an earlier array, or null."""
        tag = self.take(1)
        if tag == _NULL:
            return None
        if tag == _REFERENCE:
            return self._objects[self.number() - _FIRST_HANDLE]
        if tag != _ARRAY:
            raise DataException(f"byte {self._at - 1} of the stream is not an array of bytes")
        self._bytes_class()
        array = self.take(self.number())
        self._objects.append(array)
        return array

    def _bytes_class(self) -> None:
        if self.take(1) == _CLASS:
            self.expect(_BYTES_CLASS, "the class of byte arrays")
            self._objects.append(None)
        elif self.number() != _BYTES_HANDLE:
            raise DataException(f"byte {self._at - 4} of the stream is not the class of byte arrays")


def _entries(reader: _Reader) -> Iterator[tuple[bytes, bytes | None]]:
    reader.expect(_HEADER, "the header of Java's serialization")
    reader.expect(_OBJECT + _CLASS + _MAP_CLASS, "a java.util.HashMap")
    reader.take(8)  # load factor and threshold, which Java recomputes
    reader.expect(_BLOCK + b"\x08", "the size of the map")
    reader.take(4)
    for _ in range(reader.number()):
        key, value = reader.bytes_or_null(), reader.bytes_or_null()
        if key is not None:
            yield key, value
    reader.expect(_END, "the end of the map")
