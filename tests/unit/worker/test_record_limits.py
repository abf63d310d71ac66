"""How large a record may be: the client's limit and the topic's, with what each counts."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pytest

from airflow_provider_connect.errors import DataException, StoreException
from airflow_provider_connect.runtime.worker.delivery.encoded_batch import EncodedBatch
from airflow_provider_connect.runtime.worker.delivery.record_limits import CLIENT_KEY, TOPIC_KEY, RecordLimits, size_of, sizes_of
from airflow_provider_connect.runtime.worker.delivery.refused_records import remove_refused
from airflow_provider_connect.runtime.worker.errors.failures import Failure

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def limits(topic_bytes: int | None, *, codec: str = "none", of_topic: str = "producer", client: int = 1_000_000) -> RecordLimits:
    def configs(topics: Iterable[str]) -> Mapping[str, Mapping[str, str | None]]:
        if topic_bytes is None:
            raise StoreException("not allowed")
        return {topic: {TOPIC_KEY: str(topic_bytes), "compression.type": of_topic} for topic in topics}

    return RecordLimits({"message.max.bytes": str(client), "batch.size": "1000000", "compression.type": codec}, configs)


def batch(*values: bytes | None, **more: pa.Array) -> EncodedBatch:
    return EncodedBatch("t", len(values), pa.array(values, pa.binary()), **more)


NOISE = random.Random(1).randbytes(5000)
BLANKS = b" " * 5000


@pytest.mark.parametrize(
    ("known", "left_out"),
    [
        (limits(1000), [1, 2]),
        (limits(1000, codec="lz4"), [1]),
        (limits(1000, codec="gzip"), [1]),
        (limits(1000, codec="snappy"), [1]),
        (limits(1000, codec="lz4", of_topic="uncompressed"), [1, 2]),  # the broker unpacks it
        (limits(1000, of_topic="zstd"), [1]),
        (limits(None), []),
        (limits(None, client=5035), [1, 2]),
        (limits(None, client=5036), []),
        (limits(900_000, client=5036), []),
    ],
)
def test_records_that_client_or_topic_refuses_are_found(known: RecordLimits, left_out: list[int]) -> None:
    assert [excess.index for excess in known.excesses(batch(b"a", NOISE, BLANKS, None, b""))] == left_out


def test_key_value_and_headers_count() -> None:
    rows = [[], [("abc", b"x" * 100)], None, [("abc", None), ("é", b"")]]
    headers = pa.array([row and [{"key": k, "value": v} for k, v in row] for row in rows], HEADERS)
    given = batch(b"12345", None, b"", b"1", key=pa.array([b"k", b"kk", None, b""]), headers=headers)
    assert sizes_of(given).tolist() == [6, 2 + 106, 0, 1 + 5 + 4]  # as librdkafka counts headers
    assert sizes_of(given.slice(1, 3)).tolist() == [108, 0, 10]
    assert size_of(b"kk", None, [("abc", b"x" * 100)]) == 108


def test_a_record_with_large_headers_is_found() -> None:
    headers = pa.array([[], [{"key": "h", "value": b"x" * 2000}]], HEADERS)
    assert [excess.index for excess in limits(1000).excesses(batch(b"a", b"b", headers=headers))] == [1]


def test_a_topic_that_takes_less_than_a_batch_gets_pieces_that_fit() -> None:
    given = batch(*(b"x" * length for length in (100, 200, 700, 5000, 1, 1, 1)))
    assert [piece.num_records for piece in limits(1000).groups(given) or ()] == [2, 1, 1, 3]
    assert limits(1_000_000).groups(given) is None
    assert limits(None).groups(given) is None


def test_what_is_too_large_is_left_out_with_its_size_key_and_setting() -> None:
    failures = list[Failure]()
    given = batch(b"a", NOISE, b"b", key=pa.array([b"k1", b"secret", b"k3"]))
    pieces = remove_refused(given, limits(1000).excesses(given), {"file": "f"}, failures.append)
    assert [piece.value.to_pylist() for piece in pieces if piece.value is not None] == [[b"a"], [b"b"]]
    [failure] = failures
    assert isinstance(failure.error, DataException)
    named = "The record for topic t of source partition {'file': 'f'}, with a key of 6 bytes and SHA-256 2bb80d537b1da3e3…, is too large: "
    assert named in str(failure.error)
    assert f"and topic t takes 1000. Raise {TOPIC_KEY} of the topic" in str(failure.error)
    assert "secret" not in str(failure.error)
    [excess] = limits(None, client=4000).excesses(given)
    assert (excess.size, excess.limit, excess.setting) == (5042, 4000, CLIENT_KEY)
