from airflow_provider_connect.runtime.model.offsets import OffsetRecord
from airflow_provider_connect.runtime.stores.offset_store import Offset, Partition, SourceOffsets
from airflow_provider_connect.runtime.wire import offset_topic


def offsets_of(connector: str, *pairs: tuple[Partition, Offset]) -> SourceOffsets:
    wires = (offset_topic.encode(connector, partition, offset) for partition, offset in pairs)
    decoded = (offset_topic.decode(wire.key, wire.value) for wire in wires)
    return SourceOffsets(connector, {record.key: record for record in decoded if isinstance(record, OffsetRecord)})


def test_source_offsets_are_found_by_the_bytes_of_their_key() -> None:
    offsets = offsets_of("c", ({"b": "2", "a": "1"}, {"position": 3}))
    assert offsets.get({"b": "2", "a": "1"}) == {"position": 3}
    assert offsets.get({"a": "1", "b": "2"}) is None
    assert offsets.get({"a": "9"}) is None
    assert offsets.partitions() == [{"b": "2", "a": "1"}]
    assert offsets.spellings([{"a": "1", "b": "2"}, {"a": "1"}]) == [[{"b": "2", "a": "1"}], []]


def test_as_many_partitions_as_a_request_holds_are_found() -> None:
    """A MiB of JSON; with a comparison of each with each this would take minutes."""
    partitions = [{"filename": f"/data/{number}"} for number in range(10_000)]
    offsets = offsets_of("c", *((partition, {"position": 1}) for partition in partitions))
    assert offsets.spellings(reversed(partitions)) == [[partition] for partition in reversed(partitions)]


def test_source_offsets_that_were_altered_over_rest_are_found_in_any_order() -> None:
    """They are kept in Java's order, whatever order their connector gives."""
    assert offsets_of("c", ({"a": "1", "b": "2"}, {"position": 3})).get({"b": "2", "a": "1"}) == {"position": 3}


def test_offsets_of_the_connectors_own_topic_go_first() -> None:
    own = offsets_of("c", ({"a": "1"}, {"n": 5}))
    both = own.over(offsets_of("c", ({"a": "1"}, {"n": 1}), ({"a": "2"}, {"n": 2})))
    assert [both.get({"a": name}) for name in "12"] == [{"n": 5}, {"n": 2}]
