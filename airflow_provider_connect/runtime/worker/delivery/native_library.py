"""The librdkafka that confluent-kafka has loaded, called by its C functions on a client that confluent-kafka has created.

It trusts that a client's Python object begins with the pointer to its client, the layout of ``rd_kafka_message_t``, and that of the
``rd_kafka_msg_t`` of which a consumed one is the beginning; and that ``rd_kafka_conf`` returns the configuration in use. All of it was
checked for the releases in ``KNOWN``; with any other there is no native access, and the caller uses Python.
"""

from __future__ import annotations

import ctypes
import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

import confluent_kafka
import numpy as np
from confluent_kafka import Consumer, Producer

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
_P, _I, _TEXT, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t
_Functions = dict[str, tuple[Any, list[Any] | None]]  # by name: result and arguments. Any: ctypes' types
_WAITING: _Functions = {  # called without the interpreter's lock
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
_QUICK: _Functions = {  # called often, with the interpreter's lock: another thread keeps it for 5 ms once it is given up
    "rd_kafka_produceva": (_P, None),  # a pointer, bytes, an int: to declare them doubles the time of the call
    "rd_kafka_message_destroy": (None, [_P]),
    "rd_kafka_topic_name": (_TEXT, [_P]),
    "rd_kafka_queue_get_partition": (_P, [_P, _TEXT, ctypes.c_int32]),
    "rd_kafka_queue_forward": (None, [_P, _P]),
    "rd_kafka_queue_destroy": (None, [_P]),
    "rd_kafka_consume_batch_queue": (ctypes.c_ssize_t, [_P, _I, _P, _SIZE]),  # without a time-out
}


class NativeLibrary:
    """``waiting`` holds functions that may wait, ``quick`` those that are called for each record and never wait."""

    def __init__(self, path: Path) -> None:
        self.waiting, self.quick = ctypes.CDLL(str(path)), ctypes.PyDLL(str(path))
        for library, functions in ((self.waiting, _WAITING), (self.quick, _QUICK)):
            for name, (result, arguments) in functions.items():
                function = getattr(library, name)
                function.restype, function.argtypes = result, arguments


@cache
def native_library() -> NativeLibrary | None:
    """None where this release of confluent-kafka or this machine is not known, or librdkafka comes from elsewhere."""
    if not str(confluent_kafka.version()).startswith(KNOWN) or ctypes.sizeof(ctypes.c_void_p) != 8 or sysconfig.get_config_var("Py_DEBUG"):
        return None
    found = sorted((Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs").glob("librdkafka*.so*"))
    return NativeLibrary(found[0]) if len(found) == 1 else None


def client_of(client: Producer | Consumer) -> int:
    """The ``rd_kafka_t *`` that stands right behind the Python object's head."""
    return int(ctypes.c_void_p.from_address(id(client) + object.__basicsize__).value or 0)
