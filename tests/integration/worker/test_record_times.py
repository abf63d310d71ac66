"""Times of a source's records on a real broker: those that a record may have, none, and those that no record has."""

import time
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.sdk import Batch
from tests.integration.worker import plugins
from tests.integration.worker.environment import RunEnvironment, make_topic, read_topic

STAMPS = [None, -1, 0, 5, 1_700_000_000_000]


@pytest.fixture
def polls(monkeypatch: pytest.MonkeyPatch) -> list[list[int | None]]:
    """The times of the records of each poll."""
    left: list[list[int | None]] = []

    def poll(task: Any) -> Batch | None:
        if not left:
            return None
        stamps = left.pop(0)
        values = pa.array([str(stamp) for stamp in stamps])
        offset = {"next": task.next + len(stamps)}
        return Batch.of(
            task.topics[0], value=values, timestamp=pa.array(stamps, pa.int64()), source_partition={"p": 0}, source_offset=offset
        )

    monkeypatch.setattr(plugins.NumbersTask, "poll", poll)
    return left


def test_a_record_has_the_time_that_its_source_gives(environment: RunEnvironment, unique: str, polls: list[list[int | None]]) -> None:
    make_topic(environment.bootstrap, unique)
    polls.append([None, -1, 0, 5, 1_700_000_000_000])
    begun = time.time() * 1000
    assert environment.run(environment.numbers(unique)).state is RunState.DONE
    none, minus_one, *others = (record.timestamp for record in read_topic(environment.bootstrap, unique))
    assert min(none, minus_one) >= begun  # -1 is none, as to Kafka
    assert others == [1, 5, 1_700_000_000_000]  # the client takes 0 for none


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_time_that_no_record_has_goes_by_the_error_rules(
    environment: RunEnvironment, unique: str, polls: list[list[int | None]], guarantee: str
) -> None:
    make_topic(environment.bootstrap, unique)
    polls.append([1, -5, 0, -1, 2])
    config = environment.numbers(unique, delivery_guarantee=guarantee)
    result = environment.run(config)
    assert result.state is RunState.FAILED
    text = str(result.tasks[0].trace)
    assert f"The record for topic {unique} of source partition {{'p': 0}} has the timestamp -5: those of records are milliseconds" in text
    assert read_topic(environment.bootstrap, unique) == []
    polls.append([1, -5, 0, -1, 2])
    environment.put_config({**config, "errors.tolerance": "all"})
    assert environment.run().state is RunState.DONE
    assert [record.value for record in read_topic(environment.bootstrap, unique)] == [b"1", b"0", b"-1", b"2"]
