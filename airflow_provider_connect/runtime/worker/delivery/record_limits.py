"""The largest record that a client may write to a topic, by the client's limit and by the topic's. Knows nothing of tasks or errors.

A client refuses a record by the size of its key, value and headers. A broker refuses a batch by its size as sent, compressed or not. So if
a record may fit into the topic's limit only when it is compressed, it is compressed here to check. Few records need this check.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.worker.delivery.encoded_batch import EncodedBatch

log = logging.getLogger(__name__)
CLIENT_KEY: Final = "producer.override.max.request.size"
TOPIC_KEY: Final = "max.message.bytes"
_CLIENT_BYTES: Final = 1_000_000  # librdkafka's default
_BATCH_BYTES: Final = 1_000_000  # also librdkafka's default
_BATCH_HEAD: Final = 61  # bytes of a batch before its records (format v2)
RECORD_HEAD: Final = 36  # at most, as librdkafka counts: the lengths of record, key and value, attributes, two deltas, headers
_LONGER_BY_ONE: Final = [1 << bits for bits in (6, 13, 20, 27)]  # lengths from which the length itself takes one byte more
_AGAIN_SECONDS: Final = 30.0  # after this time, a topic's limit is read again when a record exceeds it
Sizes = np.ndarray[Any, np.dtype[np.int64]]
HeaderRow = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Excess:
    """A record whose ``size`` in bytes exceeds the ``limit`` of ``setting``. ``index`` is its index in the batch."""

    index: int
    size: int
    limit: int
    setting: str

    def text(self, topic: str) -> str:
        whose = "the producer" if self.setting == CLIENT_KEY else f"topic {topic}"
        raised = (
            self.setting if self.setting == CLIENT_KEY else f"{self.setting} of the topic, whose default is the brokers' message.max.bytes"
        )
        return f"is too large: it has {self.size} bytes with its overhead, and {whose} takes {self.limit}. Raise {raised}"


@dataclass(frozen=True, slots=True)
class _TopicLimit:
    """``codec``: the compression after which the broker measures. None: no compression. ``asked`` is the time of the request, on the
    clock."""

    bytes: int
    codec: str | None
    asked: float


class RecordLimits:
    """The limits of one producer in each topic that it writes to. ``client`` has its librdkafka settings. ``configs`` describes topics. If
    the client may not describe a topic, or the topic does not exist yet, only the client's own limit is known. Not thread-safe."""

    def __init__(
        self,
        client: Mapping[str, Any],
        configs: Callable[[Iterable[str]], Mapping[str, Mapping[str, str | None]]],
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client_bytes = int(client.get("message.max.bytes", _CLIENT_BYTES))
        self._batch_bytes = min(int(client.get("batch.size", _BATCH_BYTES)), self._client_bytes)
        self._codec = _codec(client.get("compression.type", client.get("compression.codec", "none")))
        self._configs = configs
        self._now = now
        self._topics: dict[str, _TopicLimit | None] = {}

    def excesses(self, batch: EncodedBatch) -> list[Excess]:
        """The records of the batch that would be refused, in order."""
        limit = self._limit(batch.topic)
        least = min(self._client_bytes, self._client_bytes if limit is None else limit.bytes - _BATCH_HEAD) - RECORD_HEAD
        if batch.headers is None and batch.num_bytes <= least:
            return []
        sizes = sizes_of(batch)
        large = np.flatnonzero(sizes > least).tolist()
        if large and limit is not None and self._now() - limit.asked > _AGAIN_SECONDS:
            del self._topics[batch.topic]
            limit = self._limit(batch.topic)
        found = (self._excess(batch.slice(index, 1), index, int(sizes[index]), limit) for index in large)
        return [excess for excess in found if excess is not None]

    def groups(self, batch: EncodedBatch) -> Iterator[EncodedBatch] | None:
        """The batch in pieces, each of which fits into one batch of the topic. None: any batch of the client fits. This is the default."""
        most = self.batch_room(batch.topic)
        return None if most is None else _pieces(batch, most)

    def batch_room(self, topic: str) -> int | None:
        """How many bytes the records of one batch may have, including ``RECORD_HEAD`` for each record. None: any batch of the client fits.
        This is the default."""
        limit = self._limit(topic)
        return None if limit is None or limit.bytes >= self._batch_bytes else limit.bytes - _BATCH_HEAD

    def room(self, topic: str) -> int | None:
        """The size of key, value and headers that the topic certainly accepts, as counted by ``size_of``. None: not known."""
        limit = self._limit(topic)
        return None if limit is None else min(self._client_bytes, limit.bytes - _BATCH_HEAD) - RECORD_HEAD

    def topic_bytes(self, topic: str) -> int | None:
        """The topic's own limit for a batch as sent. None: not known."""
        limit = self._limit(topic)
        return None if limit is None else limit.bytes

    def _excess(self, record: EncodedBatch, index: int, size: int, limit: _TopicLimit | None) -> Excess | None:
        if size + RECORD_HEAD > self._client_bytes:
            return Excess(index, size + RECORD_HEAD, self._client_bytes, CLIENT_KEY)
        if limit is None:
            return None
        content = b"".join(part for part in _contents(record) if part)
        sent = _record_bytes(record, size)
        if limit.codec is not None:
            sent = min(sent, len(_compressed(content, limit.codec)) + _record_bytes(record, 0))
        return Excess(index, sent + _BATCH_HEAD, limit.bytes, TOPIC_KEY) if sent + _BATCH_HEAD > limit.bytes else None

    def _limit(self, topic: str) -> _TopicLimit | None:
        if topic not in self._topics:
            try:
                found = self._configs([topic])[topic]
            except ConnectException as error:
                log.debug("How large a record of topic %s may be is not known: %s", topic, error)
                return None  # requested again: the topic may be about to be created
            size, named = found.get(TOPIC_KEY), found.get("compression.type") or "producer"
            codec = self._codec if named == "producer" else _codec(named)
            self._topics[topic] = None if size is None else _TopicLimit(int(size), codec, self._now())
        return self._topics[topic]


def size_of(key: bytes | None, value: bytes | None, headers: HeaderRow) -> int:
    """The size of a record in bytes, as ``sizes_of`` counts it."""
    return (
        len(key or b"")
        + len(value or b"")
        + sum(len(part or b"") + _varint(len(part or b"")) for name, value in headers for part in (name.encode(), value))
    )


def sizes_of(batch: EncodedBatch) -> Sizes:
    """The size of key, value and headers of each record, in bytes."""
    sizes = np.zeros(batch.num_records, np.int64)
    for column in (batch.key, batch.value):
        if column is not None:
            sizes += pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    if batch.headers is not None:
        flat = batch.headers.flatten()
        each = np.zeros(len(flat), np.int64)
        for name in ("key", "value"):
            lengths = pc.fill_null(pc.binary_length(pc.struct_field(flat, name)), 0).to_numpy(zero_copy_only=False)
            each += lengths + np.searchsorted(_LONGER_BY_ONE, lengths, side="right") + 1
        ends = np.concatenate([[0], np.cumsum(each)])
        counts = pc.fill_null(pc.list_value_length(batch.headers), 0).to_numpy(zero_copy_only=False)
        edges = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        sizes += ends[edges[1:]] - ends[edges[:-1]]
    return sizes


def _pieces(batch: EncodedBatch, most: int) -> Iterator[EncodedBatch]:
    ends = np.cumsum(sizes_of(batch) + RECORD_HEAD)
    start, before = 0, 0
    while start < batch.num_records:
        end = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield batch.slice(start, end - start)
        start, before = end, int(ends[end - 1])


def _record_bytes(record: EncodedBatch, size: int) -> int:
    """The size of a record in a batch of its own: ``size``, its length, attributes, two deltas, and the lengths of its parts."""
    lengths = [0 if column is None else len(column[0].as_py() or b"") for column in (record.key, record.value)]
    body = size + 3 + sum(map(_varint, lengths)) + 1
    return body + _varint(body)


def _varint(number: int) -> int:
    return max(1, -(-(2 * number).bit_length() // 7))


def _contents(record: EncodedBatch) -> Iterator[bytes | None]:
    for column in (record.key, record.value):
        if column is not None:
            yield column[0].as_py()
    if record.headers is not None:
        for header in record.headers[0].as_py() or ():
            yield header["key"].encode()
            yield header["value"]


def _codec(name: object) -> str | None:
    """The codec as Arrow names it. Kafka's topics and librdkafka's clients use the same names, except those for no codec."""
    text = str(name).lower()
    return None if text in {"none", "uncompressed"} else text


def _compressed(content: bytes, codec: str) -> bytes:
    found = pa.Codec(codec).compress(content, asbytes=True)
    assert isinstance(found, bytes)
    return found
