"""The form of records, as types by path."""

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.data.schema import INT64_SCHEMA, STRING_SCHEMA, Schema, decimal_schema
from airflow_provider_connect.runtime.worker.preview.fields import merge_types, schema_fields, value_fields
from airflow_provider_connect.runtime.worker.preview.sink import shares


def test_a_schema_gives_the_types_of_everything_in_it() -> None:
    line = Schema.struct({"price": decimal_schema(2)})
    schema = Schema.struct(
        {
            "id": INT64_SCHEMA,
            "note": STRING_SCHEMA.as_optional(),
            "lines": Schema.array(line),
            "tags": Schema.map(STRING_SCHEMA, INT64_SCHEMA),
        }
    )
    assert schema_fields(schema) == {
        "$": "struct", "id": "int64", "note": "string?", "lines": "array", "lines[]": "struct", "lines[].price": "Decimal(2)",
        "tags": "map<string>", "tags{}": "int64",
    }  # fmt: skip


def test_values_without_a_schema_give_theirs_together() -> None:
    values = [{"id": 1, "at": {"x": 1.5}}, {"id": "a", "at": {}}, {"id": None, "at": None, "more": [True]}]
    assert value_fields(values) == {
        "$": "object", "id": "number|string?", "at": "object?", "at.x": "number?", "more": "array?", "more[]": "boolean",
    }  # fmt: skip
    assert value_fields(["a", None]) == {"$": "string?"}
    many = {f"field {number}": number for number in range(20)}
    assert list(value_fields([many, {"more": 1, **many}])) == ["$", *many, "more"], "in the order of the fields"


def test_what_one_batch_has_and_another_has_not_may_be_missing() -> None:
    assert merge_types({"$": "object", "a": "number"}, {"$": "object", "b": "string"}) == {"$": "object", "a": "number?", "b": "string?"}
    assert merge_types({}, {"$": "string"}) == {"$": "string"}
    assert merge_types({"$": "number"}, {"$": "string?"}) == {"$": "number|string?"}


def test_partitions_share_what_is_asked_for_and_leave_the_rest_to_longer_ones() -> None:
    available = {TopicPartition("t", 0): (5, 7), TopicPartition("t", 1): (0, 100), TopicPartition("t", 2): (10, 110)}
    found = shares(available, 10)
    assert {partition.partition: span for partition, span in found.items()} == {0: (5, 7), 1: (0, 4), 2: (10, 14)}
    assert shares({TopicPartition("t", 0): (3, 4)}, 10) == {TopicPartition("t", 0): (3, 4)}
