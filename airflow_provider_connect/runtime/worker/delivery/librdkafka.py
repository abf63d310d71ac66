"""Calls confluent-kafka's librdkafka by its C functions, through ctypes, on clients that confluent-kafka has created, and reads their
memory.

This module relies on these facts. A client's Python object begins with the pointer to its client. ``rd_kafka_message_t`` has the layout of
``MESSAGE``. A consumed message is the beginning of an ``rd_kafka_msg_t``, whose layout is also known. ``rd_kafka_conf`` returns the
configuration in use. All of these facts were checked for the releases in ``KNOWN``. With any other release, or with
``librdkafka.direct.access.enable=false``, records go through confluent-kafka's API. Pass only addresses that librdkafka returned: any other
ends the process.
"""

from __future__ import annotations

import ctypes
import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import confluent_kafka
import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Producer

KNOWN = ("2.16.",)
MESSAGE = np.dtype(  # rd_kafka_message_t of librdkafka 1.0 to 2.x on 64-bit machines
    [
        ("err", "i4"),
        ("_pad1", "i4"),
        ("rkt", "u8"),
        ("partition", "i4"),
        ("_pad2", "i4"),
        ("payload", "u8"),
        ("len", "u8"),
        ("key", "u8"),
        ("key_len", "u8"),
        ("offset", "i8"),
        ("private", "u8"),
    ]
)
_WINDOW_BITS = 30  # bits of an address within one of Arrow's buffers, whose offsets have 31 bits
_INLINE = 12  # bytes that a view itself holds
_FIRST_WORD, _FIRST_BYTE = 8, 1  # the first address of the arrays over all memory: at address zero, there can be no array
_ADDRESS_BITS = 48
_EMPTY = ctypes.create_string_buffer(1)
EMPTY_ADDRESS = ctypes.addressof(_EMPTY)  # the address of an empty value: a null pointer would make it a tombstone
Words = np.ndarray[Any, np.dtype[np.uint64]]
_P, _I, _TEXT, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t
_Functions = dict[str, tuple[Any, list[Any] | None]]  # by name: result and arguments. Any: types of ctypes
_WAITING: _Functions = {  # called without holding the interpreter's lock
    "rd_kafka_topic_new": (_P, [_P, _TEXT, _P]),
    "rd_kafka_topic_destroy": (None, [_P]),
    "rd_kafka_produce_batch": (_I, [_P, ctypes.c_int32, _I, _P, _I]),
    "rd_kafka_queue_get_main": (_P, [_P]),
    "rd_kafka_queue_poll": (_P, [_P, _I]),
    "rd_kafka_queue_destroy": (None, [_P]),
    "rd_kafka_event_type": (_I, [_P]),
    "rd_kafka_event_error": (_I, [_P]),
    "rd_kafka_event_destroy": (None, [_P]),
    "rd_kafka_queue_new": (_P, [_P]),
    "rd_kafka_consume_batch_queue": (ctypes.c_ssize_t, [_P, _I, _P, _SIZE]),
    "rd_kafka_last_error": (_I, []),
    "rd_kafka_conf": (_P, [_P]),
    "rd_kafka_conf_set_error_cb": (None, [_P, _P]),
    "rd_kafka_fatal_error": (_I, [_P, _TEXT, _SIZE]),
    "rd_kafka_error_code": (_I, [_P]),
    "rd_kafka_error_destroy": (None, [_P]),
}
_QUICK: _Functions = {  # called often, without releasing the interpreter's lock: another thread would then keep it for 5 ms
    "rd_kafka_produceva": (_P, None),  # arguments are a pointer, bytes, an int: declaring them doubles the time
    "rd_kafka_message_destroy": (None, [_P]),
    "rd_kafka_topic_name": (_TEXT, [_P]),
    "rd_kafka_queue_get_partition": (_P, [_P, _TEXT, ctypes.c_int32]),
    "rd_kafka_queue_forward": (None, [_P, _P]),
    "rd_kafka_queue_destroy": (None, [_P]),
    "rd_kafka_consume_batch_queue": (ctypes.c_ssize_t, [_P, _I, _P, _SIZE]),  # called without a timeout
}


class Librdkafka:
    """``waiting`` holds functions that may wait. ``quick`` holds those that are called for each record and never wait."""

    def __init__(self, path: Path) -> None:
        self.waiting, self.quick = ctypes.CDLL(str(path)), ctypes.PyDLL(str(path))
        for library, functions in ((self.waiting, _WAITING), (self.quick, _QUICK)):
            for name, (result, arguments) in functions.items():
                function = getattr(library, name)
                function.restype, function.argtypes = result, arguments

    def fatal_error(self, client: int) -> KafkaError | None:
        """The error that ended the client for good, if any."""
        text = ctypes.create_string_buffer(512)
        code = self.waiting.rd_kafka_fatal_error(client, text, len(text))
        return KafkaError(code, text.value.decode(errors="replace")) if code else None

    def listen(self, client: int, on_error: OnError) -> None:
        """Call ``on_error`` for each error of the client, instead of confluent-kafka's callback."""
        _listeners[client] = on_error
        self.waiting.rd_kafka_conf_set_error_cb(self.waiting.rd_kafka_conf(client), _ON_ERROR)

    def end_listening(self, client: int) -> None:
        """Stop calling ``on_error``."""
        _listeners.pop(client, None)


OnError = Callable[[KafkaError], None]
_listeners: dict[int, OnError] = {}  # by client: librdkafka's callbacks are C functions, without an object


def _report(client: int, code: int, reason: bytes | None, _: object) -> None:
    listener = _listeners.get(client)
    if listener is not None:
        listener(KafkaError(code, (reason or b"").decode(errors="replace")))


_ON_ERROR = ctypes.CFUNCTYPE(None, _P, _I, _TEXT, _P)(_report)  # never freed, because closing a client calls it too


@cache
def load_librdkafka() -> Librdkafka | None:
    """None if confluent-kafka's release is not in ``KNOWN``, or this is not its wheel for a 64-bit machine."""
    if not str(confluent_kafka.version()).startswith(KNOWN) or ctypes.sizeof(ctypes.c_void_p) != 8 or sysconfig.get_config_var("Py_DEBUG"):
        return None
    found = sorted((Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs").glob("librdkafka*.so*"))
    return Librdkafka(found[0]) if len(found) == 1 else None


def pointer(address: int) -> ctypes.c_void_p:
    """An argument for functions whose arguments are not declared."""
    return ctypes.c_void_p(address)


def client_of(client: Producer | Consumer) -> int:
    """The ``rd_kafka_t *``, which follows the header of the Python object."""
    return int(ctypes.c_void_p.from_address(id(client) + object.__basicsize__).value or 0)


def words_at(addresses: Words, count: int) -> Words:
    """``count`` 64-bit words at each address: (addresses, words). Addresses are multiples of 8."""
    first = ((addresses - np.uint64(_FIRST_WORD)) >> np.uint64(3)).astype(np.int64)
    found: Words = _all_words()[first[:, None] + np.arange(count)]
    return found


def text_at(address: int, size: int) -> str:
    """The text at this address. Characters that are not UTF-8 are replaced."""
    return ctypes.string_at(address, size).decode(errors="replace") if address else ""


def binary_at(addresses: Words, sizes: Words) -> pa.Array:
    """A binary column with the bytes at each address, null for address zero. ``sizes`` are below 1 GiB."""
    is_null = addresses == 0
    views = np.zeros((len(addresses), 4), np.int32)  # Arrow's binary views: size, prefix or bytes, buffer or bytes, offset or bytes
    windows = addresses >> np.uint64(_WINDOW_BITS)
    used = windows[:1]
    if (windows != used).any():  # rare: sorting them costs half as much as everything else
        used, views[:, 2] = np.unique(windows, return_inverse=True)
    views[:, 3] = addresses & np.uint64((1 << _WINDOW_BITS) - 1)
    short = np.flatnonzero(sizes <= _INLINE)
    if len(short):
        views[short, 1:] = _short_bytes(addresses[short], sizes[short])
    views[:, 0] = sizes
    buffers = [pa.foreign_buffer(window << _WINDOW_BITS, (2 << _WINDOW_BITS) - 1) for window in used.tolist()]
    validity = pa.array(~is_null).buffers()[1] if is_null.any() else None
    return pa.Array.from_buffers(pa.binary_view(), len(addresses), [validity, pa.py_buffer(views), *buffers]).cast(pa.binary())


def _short_bytes(addresses: Words, sizes: Words) -> np.ndarray[Any, np.dtype[np.int32]]:
    """The bytes, padded with zeros. No byte after a record's is read: the memory of the record may end there."""
    columns = np.arange(_INLINE)
    found = np.zeros((len(addresses), _INLINE), np.uint8)
    wanted = columns < sizes.astype(np.int64)[:, None]
    positions = (addresses.astype(np.int64) - _FIRST_BYTE)[:, None] + columns
    found[wanted] = _all_bytes()[positions[wanted]]
    return found.view(np.int32)


@cache
def _all_words() -> Words:
    return np.ctypeslib.as_array((ctypes.c_uint64 * (1 << (_ADDRESS_BITS - 3))).from_address(_FIRST_WORD))


@cache
def _all_bytes() -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.ctypeslib.as_array((ctypes.c_uint8 * (1 << _ADDRESS_BITS)).from_address(_FIRST_BYTE))
