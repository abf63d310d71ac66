"""Records with header names that are no text: brokers take them, and the Python client neither writes nor reads them."""

from __future__ import annotations

import ast
import ctypes
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.waiting import HANG_SECONDS

NOT_UTF_8 = b"\xff\xfe"
_TOPIC, _PARTITION, _VALUE, _FLAGS, _KEY, _HEADERS, _END = 1, 3, 4, 7, 5, 10, 0  # rd_kafka_vtype_t
_COPIED = 2


def _library() -> Any:
    """librdkafka as the client's wheel brings it."""
    found = find_spec("confluent_kafka")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parents[1] / "confluent_kafka.libs"
    (path,) = folder.glob("librdkafka*.so*")
    waiting = [each for each in folder.iterdir() if each != path]
    while waiting:  # each after those that it needs
        left = [each for each in waiting if not _is_loaded(each)]
        assert len(left) < len(waiting), left
        waiting = left
    library = ctypes.CDLL(str(path))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new"):
        getattr(library, name).restype = ctypes.c_void_p
    return library


def _is_loaded(path: Path) -> bool:
    try:
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True


def produce(bootstrap: str, topic: str, value: bytes, headers: Sequence[tuple[bytes, bytes]], *, key: bytes | None = None) -> None:
    """One record to partition 0, with header names of any bytes. In a process of its own, without the client of Python."""
    given = repr((bootstrap, topic, value, list(headers), key))
    subprocess.run([sys.executable, "-m", "tests.raw_headers", given], check=True, timeout=HANG_SECONDS)


def _produce(bootstrap: str, topic: str, value: bytes, headers: Sequence[tuple[bytes, bytes]], key: bytes | None) -> None:
    library, reason = _library(), ctypes.create_string_buffer(500)
    config = ctypes.c_void_p(library.rd_kafka_conf_new())
    assert library.rd_kafka_conf_set(config, b"bootstrap.servers", bootstrap.encode(), reason, 500) == 0, reason.value
    client = ctypes.c_void_p(library.rd_kafka_new(0, config, reason, 500))
    assert client.value, reason.value
    try:
        held = ctypes.c_void_p(library.rd_kafka_headers_new(len(headers)))
        for name, data in headers:
            assert library.rd_kafka_header_add(held, name, ctypes.c_ssize_t(len(name)), data, ctypes.c_ssize_t(len(data))) == 0
        arguments = [_TOPIC, topic.encode(), _PARTITION, ctypes.c_int(0), _VALUE, value, ctypes.c_size_t(len(value))]
        arguments += [] if key is None else [_KEY, key, ctypes.c_size_t(len(key))]
        assert library.rd_kafka_producev(client, *arguments, _FLAGS, ctypes.c_int(_COPIED), _HEADERS, held, _END) == 0
        assert library.rd_kafka_flush(client, 60_000) == 0
    finally:
        library.rd_kafka_destroy(client)


if __name__ == "__main__":
    _produce(*ast.literal_eval(sys.argv[1]))
