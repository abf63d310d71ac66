"""What the results of tasks become: inputs, outputs, and the ranges that a run has delivered."""

from typing import Any

from airflow_provider_connect.data.schema import INT32_SCHEMA, STRING_SCHEMA, TIMESTAMP_SCHEMA, Schema, decimal_schema
from airflow_provider_connect.runtime.model.lineage import MOST_FIELDS, Fields, NamedDataset, run_lineage
from airflow_provider_connect.runtime.model.run import Claim, RunResult, RunState, TaskResult

ID = {"name": "id", "type": "int64"}
TABLE: dict[str, Any] = {"namespace": "postgres://db:5432", "name": "shop.public.orders", "fields": []}


def run(*tasks: TaskResult) -> RunResult:
    return RunResult("orders", RunState.DONE, Claim(7, "t"), list(tasks))


def test_a_source_reads_tables_and_writes_topics() -> None:
    first = TaskResult(0, records=5, bytes=50, ranges={"a": {"10": [0, 5], "2": [3, 3]}}, topics={"a": [ID], "b": [ID]}, datasets=[TABLE])
    second = TaskResult(1, records=1, bytes=9, ranges={"a": {"2": [3, 5]}}, datasets=[{**TABLE, "fields": [ID]}])
    found = run_lineage(run(first, second), "SSL://k:9092,l:9092", is_source=True)
    assert found.inputs == [NamedDataset("postgres://db:5432", "shop.public.orders", [ID])]
    assert found.outputs == [NamedDataset("kafka://k:9092", "a", [ID])]
    assert found.delivery == {
        "connector": "orders",
        "kind": "source",
        "state": "done",
        "claim": "t:7",
        "records": 6,
        "bytes": 59,
        "ranges": [
            {"topic": "a", "partition": 2, "first": 3, "next": 5},
            {"topic": "a", "partition": 10, "first": 0, "next": 5},
        ],
    }


def test_a_sink_reads_topics_and_writes_tables() -> None:
    found = run_lineage(run(TaskResult(0, records=1, ranges={"a": {"0": [4, 5]}}, datasets=[TABLE])), "k:9092", is_source=False)
    assert found.inputs == [NamedDataset("kafka://k:9092", "a")]
    assert found.outputs == [NamedDataset(**TABLE)]
    assert found.delivery["kind"] == "sink"


def test_where_no_ranges_are_known_the_topics_are_named_that_were_used() -> None:
    used = TaskResult(0, records=3, topics={"a": [], "b": []})
    assert [each.name for each in run_lineage(run(used), "k:9092", is_source=True).outputs] == ["a", "b"]
    assert run_lineage(run(TaskResult(0, topics={"a": []})), "k:9092", is_source=True).outputs == []


def test_fields_have_types_in_one_word_and_structs_their_own_fields() -> None:
    inner = Schema.struct({"street": STRING_SCHEMA})
    schema = Schema.struct(
        {
            "at": TIMESTAMP_SCHEMA,
            "price": decimal_schema(2),
            "lines": Schema.array(inner),
            "counts": Schema.map(STRING_SCHEMA, INT32_SCHEMA),
        }
    )
    street = [{"name": "street", "type": "string"}]
    assert Fields(str).of(schema) == [
        {"name": "at", "type": "timestamp"},
        {"name": "price", "type": "decimal"},
        {"name": "lines", "type": "array<struct>", "fields": street},
        {"name": "counts", "type": "map<string,int32>"},
    ]
    assert Fields(str).of(STRING_SCHEMA) == Fields(str).of(None) == []


def test_secrets_are_hidden_and_what_is_too_much_is_left_out() -> None:
    fields = Fields(lambda text: text.replace("canary", "[hidden]"))
    assert fields.of({"my-canary": "canary"}) == [{"name": "my-[hidden]", "type": "[hidden]"}]
    assert len(fields.of({f"column-{number}": "int" for number in range(MOST_FIELDS + 5)})) == MOST_FIELDS - 1
    assert fields.of({"one": "int"}) == []
    assert len(fields.text("x" * 100_000)) == 1000
