"""What a task reports for lineage: whatever an author's code does, no run fails by it."""

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from airflow_provider_connect.data.schema import STRING_SCHEMA, Schema
from airflow_provider_connect.runtime.worker.task.lineage import task_datasets, topic_fields
from airflow_provider_connect.sdk import Config, Dataset, SourceTask


class Reader(SourceTask):
    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer = answer

    def start(self, config: Config) -> None: ...

    def datasets(self) -> Iterable[Dataset]:
        found: Iterable[Dataset] = self.answer()
        return found


def reported(answer: Callable[[], Any]) -> list[dict[str, Any]]:
    return task_datasets("orders-0", Reader(answer), lambda text: text.replace("canary", "[hidden]"))


def test_datasets_are_json_without_secrets() -> None:
    schema = Schema.struct({"id": STRING_SCHEMA})
    assert reported(lambda: [Dataset("s3://canary", "orders", schema), Dataset("file", ""), Dataset("", "orders")]) == [
        {"namespace": "s3://[hidden]", "name": "orders", "fields": [{"name": "id", "type": "string"}]}
    ]


def raising(error: BaseException) -> Callable[[], Any]:
    def answer() -> Any:
        raise error

    return answer


@pytest.mark.parametrize(
    "answer",
    [raising(ValueError("canary")), raising(SystemExit(3)), lambda: None, lambda: [7], lambda: [Dataset("file", "a", object())]],  # type: ignore[arg-type]
    ids=["raises", "ends the process", "none", "no datasets", "no schema"],
)
def test_what_goes_wrong_is_logged_and_nothing_is_reported(answer: Callable[[], Any], caplog: pytest.LogCaptureFixture) -> None:
    assert reported(answer) == []
    assert "Task orders-0: what it has read or written is not known to lineage" in caplog.text
    assert "canary" not in caplog.text


def test_no_answer_is_endless() -> None:
    assert len(reported(lambda: (Dataset("file", str(number)) for number in itertools.count()))) == 1000


def test_a_task_knows_nothing_unless_it_defines_so() -> None:
    assert list(SourceTask().datasets()) == []


def test_a_schema_of_any_depth_fails_nothing() -> None:
    deep = STRING_SCHEMA
    for _ in range(400):
        deep = Schema.array(deep)
    found = topic_fields({"orders": Schema.struct({"deep": deep})}, str)
    assert [field["name"] for field in found["orders"]] in ([], ["deep"])
