"""A run whose records fail under ``errors.tolerance=all`` ends well, as its user asked, and is shown to refuse them."""

from __future__ import annotations

import pytest

from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.batches import refusals
from airflow_provider_connect.runtime.model.run import RunState
from tests.integration.herder.conftest import RunsByHand
from tests.integration.worker.environment import RunEnvironment, make_topic, send

JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
ATTENTION = ["1 running connectors need attention: their last run left out records that failed (airflow connect top)."]


def shown(environment: RunEnvironment) -> tuple[str | None, list[str], float]:
    """Note, health, and the metric of the last run."""
    with Herder(environment.settings, RunsByHand()) as herder:
        counted = herder.task_metrics()  # has the batch log read, as the API server does each minute, and the page
        health, status = herder.health_warnings(), herder.connector_status(environment.connector)
        assert {status.connector.state, *(task.state for task in status.tasks)} == {"RUNNING"}
        skipped = sum(each["total-records-skipped"] for each in counted.values())
        assert [found.note for _, found in herder.listed() if found is not None] == [status.note]
        return status.note, health, skipped


@pytest.mark.parametrize("queue", [None, "dead"])
def test_a_sink_that_refuses_every_record_is_not_green(environment: RunEnvironment, queue: str | None) -> None:
    topic = make_topic(environment.bootstrap, f"{environment.connector}-data", 2)
    dead = {} if queue is None else {"errors.deadletterqueue.topic.name": f"{topic}-{queue}"}
    factor = {"errors.deadletterqueue.topic.replication.factor": "1"}
    config = environment.file_sink(topic, errors_tolerance="all", tasks_max="2") | JSON | dead | factor
    send(environment.bootstrap, topic, ["{", "}", "no"], partitions=2)
    result = environment.run(config)
    assert (result.state, sum(task.failed for task in result.tasks), environment.lines()) == (RunState.DONE, 3, [])
    text = "The last run delivered nothing: 3 records failed and were left out (errors.tolerance=all), the last one by VALUE_CONVERTER of "
    warning = refusals(result.tasks)
    assert warning is not None
    assert warning.startswith(text)
    assert f"{topic}-" in warning
    assert "DataException" in warning
    note, health, skipped = shown(environment)
    assert (note, health, skipped) == (warning, ATTENTION, 3.0)
    assert environment.readiness().state == "no-work"
    assert shown(environment)[0] == warning, "until a run leaves out nothing"

    send(environment.bootstrap, topic, ["{}", "{"], partitions=2)
    assert sum(task.records for task in environment.run().tasks) == 1
    note, health, _ = shown(environment)
    assert str(note).startswith("The last run left out 1 of 2 records, because they failed (errors.tolerance=all), the last one by VALUE")
    assert health == ATTENTION
    send(environment.bootstrap, topic, ["{}"], partitions=2)
    assert sum(task.records for task in environment.run().tasks) == 1
    assert shown(environment)[:2] == (None, [])


def test_a_source_whose_records_all_fail_is_not_green(environment: RunEnvironment, unique: str) -> None:
    environment.file.write_text("one\ntwo\n")
    cast = {"transforms": "cast", "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value", "transforms.cast.spec": "int32"}
    config = environment.file_source(make_topic(environment.bootstrap, unique), errors_tolerance="all") | cast
    result = environment.run(config)
    assert (result.state, [task.failed for task in result.tasks]) == (RunState.DONE, [2])
    note, health, _ = shown(environment)
    assert str(note).startswith(
        "The last run delivered nothing: 2 records failed and were left out (errors.tolerance=all), the last one by TRANS"
    )
    assert health == ATTENTION
    with environment.file.open("a") as file:
        file.write("3\n")
    assert environment.run().state is RunState.DONE
    assert shown(environment)[:2] == (None, [])


def test_an_error_is_shown_without_secrets(environment: RunEnvironment) -> None:
    topic = make_topic(environment.bootstrap, f"{environment.connector}-data")
    config = environment.file_sink(topic, errors_tolerance="all", own_password="hunter2-of-the-shop") | JSON
    send(environment.bootstrap, topic, ["hunter2-of-the-shop"])
    [task] = environment.run(config).tasks
    assert task.failed == 1
    assert "hunter2" not in task.error + str(shown(environment))
