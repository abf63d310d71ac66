import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.runtime.wire import java_map

# java.util.HashMap of two entries, as Kafka Connect 4.3.1's FileOffsetBackingStore wrote it
_KEY, _VALUE = b'["c",{"filename":"a"}]', b'{"position":5}'
WRITTEN_BY_JAVA = bytes.fromhex(
    "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f724900097468726573686f6c6478703f40"
    "00000000000c77080000001000000001757200025b42acf317f8060854e00200007870"
) + struct.pack(">i", len(_KEY)) + _KEY + bytes.fromhex("7571007e0002") + struct.pack(">i", len(_VALUE)) + _VALUE + b"x"  # fmt: skip


def test_reads_and_writes_what_java_writes() -> None:
    assert java_map.decode(WRITTEN_BY_JAVA) == {_KEY: _VALUE}
    assert java_map.encode({_KEY: _VALUE}) == WRITTEN_BY_JAVA


@given(st.dictionaries(st.binary(max_size=20), st.none() | st.binary(max_size=300), max_size=40))
def test_what_is_written_can_be_read(entries: dict[bytes, bytes | None]) -> None:
    assert java_map.decode(java_map.encode(entries)) == entries


def test_an_array_that_occurs_twice_is_a_reference() -> None:
    twice = WRITTEN_BY_JAVA.replace(bytes.fromhex("7571007e0002") + struct.pack(">i", len(_VALUE)) + _VALUE, bytes.fromhex("71007e0003"))
    assert java_map.decode(twice) == {_KEY: _KEY}


@given(st.integers(0, len(WRITTEN_BY_JAVA) - 1))
def test_a_stream_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(DataException):
        java_map.decode(WRITTEN_BY_JAVA[:length])


@given(st.binary(max_size=200))
def test_anything_else_is_refused(stream: bytes) -> None:
    with pytest.raises(DataException):
        java_map.decode(stream)


@given(st.integers(0, len(WRITTEN_BY_JAVA) - 1), st.integers(0, 255))
def test_a_changed_byte_gives_a_map_or_is_refused(at: int, byte: int) -> None:
    changed = bytearray(WRITTEN_BY_JAVA)
    changed[at] = byte
    try:
        java_map.decode(bytes(changed))
    except DataException:
        return
