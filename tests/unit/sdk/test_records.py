"""Headers and single records."""

import pickle

import pytest

from airflow_provider_connect.data.records import Header, Headers, SinkRecord, SourceRecord, TopicPartition
from airflow_provider_connect.data.schema import STRING_SCHEMA
from airflow_provider_connect.errors import DataException


def keys_and_values(headers: Headers) -> list[tuple[str, object]]:
    return [(header.key, header.value) for header in headers]


def three() -> Headers:
    return Headers([Header("a", 1), Header("b", 2), Header("a", 3)])


def test_headers_are_an_ordered_multimap() -> None:
    headers = three().add("c", "x", STRING_SCHEMA)
    assert keys_and_values(headers) == [("a", 1), ("b", 2), ("a", 3), ("c", "x")]
    assert [header.value for header in headers.all_with_name("a")] == [1, 3]
    assert headers.last_with_name("a") == Header("a", 3)
    assert headers.last_with_name("z") is None
    assert len(headers) == 4


def test_headers_can_be_changed() -> None:
    assert keys_and_values(three().remove("a")) == [("b", 2)]
    assert keys_and_values(three().retain_latest()) == [("b", 2), ("a", 3)]
    assert keys_and_values(three().retain_latest("b")) == [("a", 1), ("b", 2), ("a", 3)]
    assert keys_and_values(three().retain_latest("a")) == [("b", 2), ("a", 3)]
    assert len(three().clear()) == 0
    doubled = three().apply(lambda header: Header(header.key, header.value * 2), "a")
    assert keys_and_values(doubled) == [("a", 2), ("b", 2), ("a", 6)]
    assert keys_and_values(three().apply(lambda header: None if header.key == "a" else header)) == [("b", 2)]


def test_header_key_must_be_text() -> None:
    with pytest.raises(DataException, match="Header key must be text, got None"):
        Headers().add(None, 1)  # type: ignore[arg-type]


def test_duplicate_is_independent() -> None:
    headers = three()
    copy = headers.duplicate()
    assert copy == headers
    copy.add("d", 4)
    assert len(headers) == 3
    assert copy != headers
    assert headers != 5


def test_headers_from_the_topic_are_decoded_when_read() -> None:
    decoded: list[str] = []

    def decode(key: str, data: bytes | None) -> Header:
        decoded.append(key)
        return Header(key, data and data.decode())

    wire: list[tuple[str, bytes | None]] = [("a", b"1"), ("b", None)]
    headers = Headers.of_wire(wire, decode)
    assert len(headers) == 2
    assert headers.duplicate() == headers
    assert headers.wire() == wire
    assert not decoded
    assert headers.last_with_name("a") == Header("a", "1")
    assert headers.wire() == wire  # reading changes nothing
    assert repr(headers) == "Headers([Header(key='a', value='1', schema=None), Header(key='b', value=None, schema=None)])"
    headers.add("c", "2")
    assert headers.wire() is None
    assert keys_and_values(headers) == [("a", "1"), ("b", None), ("c", "2")]
    assert decoded == ["a", "b"]


def test_header_handed_out_cannot_be_changed_behind_the_back_of_its_bytes() -> None:
    headers = Headers.of_wire([("a", b"1")], Header)
    for header in headers:
        with pytest.raises(AttributeError):
            header.value = b"2"  # type: ignore[misc]
    assert headers.wire() == [("a", b"1")]
    headers.apply(lambda header: Header(header.key, b"2"))
    assert headers.wire() is None
    assert keys_and_values(headers) == [("a", b"2")]


def test_no_headers_on_the_topic_are_no_headers() -> None:
    assert Headers.of_wire([], Header) == Headers()


def test_source_record_is_copied_with_changes() -> None:
    record = SourceRecord({"f": 1}, {"n": 1}, "t", "v", "k", headers=three(), timestamp=5)
    changed = record.replace(topic="u", value="w")
    assert (changed.topic, changed.value, changed.key, changed.source_offset) == ("u", "w", "k", {"n": 1})
    changed.headers.add("new", 1)
    assert len(record.headers) == 3
    assert record.replace(headers=Headers()).headers == Headers()


def test_sink_record_remembers_where_it_lies() -> None:
    record = SinkRecord("t", 2, 10, "k", "v")
    moved = record.replace(topic="u", kafka_partition=5).replace(topic="w")
    assert (moved.topic, moved.kafka_partition, moved.kafka_offset) == ("w", 5, 10)
    assert moved.topic_partition == TopicPartition("t", 2)
    assert (moved.original_topic, moved.original_kafka_partition) == ("t", 2)


def test_timestamps() -> None:
    assert SourceRecord(None, None, "t", timestamp=-1).timestamp is None
    assert SinkRecord("t", 0, 0, timestamp=0).timestamp == 0
    with pytest.raises(DataException, match=r"^Invalid record timestamp -2$"):
        SourceRecord(None, None, "t", timestamp=-2)


def test_topic_partition_orders_prints_and_travels() -> None:
    partitions = [TopicPartition("b", 0), TopicPartition("a", 2), TopicPartition("a", 1)]
    assert [str(partition) for partition in sorted(partitions)] == ["a-1", "a-2", "b-0"]
    assert pickle.loads(pickle.dumps(partitions[0])) == partitions[0]
