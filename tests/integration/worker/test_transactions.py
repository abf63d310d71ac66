"""Where an exactly-once source's transactions end: by interval, or where its task asks; and what holds when it is killed in between."""

from __future__ import annotations

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep
from tests.integration.herder.killed_change import KillPoint
from tests.integration.worker.environment import RunEnvironment, make_topic, read_topic, values_of
from tests.integration.worker.killed_run import run_and_kill


def numbers(*spans: tuple[int, int]) -> list[str]:
    return [f"0-{number}" for first, last in spans for number in range(first, last + 1)]


def test_task_commits_and_aborts_within_its_batches(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    config = environment.transactions(unique, until="50", size="10", commit_after="4,24,34", abort_after="14")
    result = environment.run(config)
    assert (result.state, result.error) == (RunState.DONE, None)
    assert values_of(environment.bootstrap, unique) == numbers((0, 4), (15, 34))
    written = [(record.value or b"").decode() for record in read_topic(environment.bootstrap, unique, read_committed=False)]
    assert set(numbers((35, 49))) <= set(written), "written, and not committed"
    assert environment.offsets().get({"task": 0}) == {"next": 35}
    assert result.tasks[0].records == 25
    assert result.tasks[0].metrics["transaction-size-max"] == 10
    assert sum(entry.records for entry in environment.batch_log()) == 25

    environment.put_config(environment.transactions(unique, until="50", size="10", commit_after="49"))
    assert environment.run().tasks[0].records == 15
    assert values_of(environment.bootstrap, unique) == numbers((0, 4), (15, 49))


@pytest.mark.parametrize(
    "kill_point",
    [
        KillPoint(CommitStep.ABORT_TRANSACTION, "before"),
        KillPoint(CommitStep.ABORT_TRANSACTION, "after"),
        KillPoint(CommitStep.WRITE_OFFSETS, "after", 2),
        KillPoint(CommitStep.COMMIT_TRANSACTION, "after", 2),
    ],
    ids=str,
)
def test_killed_between_the_steps_of_an_abort(environment: RunEnvironment, unique: str, kill_point: KillPoint) -> None:
    """What was aborted stays away and what was committed comes once, whichever step was the last."""
    make_topic(environment.bootstrap, unique)
    config = environment.transactions(unique, until="40", size="10", commit_after="4,24,39", abort_after="14")
    run_and_kill(environment, config, kill_point)
    assert environment.run(config).state is RunState.DONE
    assert values_of(environment.bootstrap, unique) == numbers((0, 4), (15, 39))
    assert environment.offsets().get({"task": 0}) == {"next": 40}


def test_limits_of_a_run_wait_for_the_end_of_a_transaction(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    config = environment.transactions(unique, until="100", size="10", commit_after="39,99", batch_max_records="10")
    assert [environment.run(config).tasks[0].records for _ in range(2)] == [40, 60]
    assert values_of(environment.bootstrap, unique) == numbers((0, 99))


def test_polls_within_an_interval_share_a_transaction(environment: RunEnvironment, unique: str) -> None:
    """Which an interval longer than the run has make one of all, and none at all one of each."""
    make_topic(environment.bootstrap, unique)
    make_topic(environment.bootstrap, f"{unique}-each")
    config = environment.numbers(unique, until="100", size="10", transaction_boundary="interval", transaction_boundary_interval_ms="60000")
    assert environment.run(config).tasks[0].metrics["transaction-size-min"] == 100
    other = RunEnvironment(environment.properties | {"offset.flush.interval.ms": "0"}, f"each-{unique}", environment.folder)
    config = other.numbers(f"{unique}-each", until="100", size="10", transaction_boundary="INTERVAL")
    assert other.run(config).tasks[0].metrics["transaction-size-max"] == 10
    assert values_of(environment.bootstrap, unique) == values_of(environment.bootstrap, f"{unique}-each") == numbers((0, 99))


@pytest.mark.parametrize("side", ["before", "after"])
def test_killed_at_a_commit_by_interval(environment: RunEnvironment, unique: str, side: str) -> None:
    make_topic(environment.bootstrap, unique)
    by_interval = {"transaction_boundary": "interval", "transaction_boundary_interval_ms": "40"}
    config = environment.numbers(unique, until="200", size="10", poll_ms="10", **by_interval)
    run_and_kill(environment, config, KillPoint(CommitStep.COMMIT_TRANSACTION, side, 2))
    assert environment.run(config).state is RunState.DONE
    assert values_of(environment.bootstrap, unique) == numbers((0, 199))


def test_boundaries_of_a_connector_that_has_none_are_refused(environment: RunEnvironment, unique: str) -> None:
    config = environment.numbers(unique, transaction_boundary="connector")
    text = "The connector does not support connector-defined transaction boundaries with the given configuration."
    with pytest.raises(ConfigException, match=text):
        environment.readiness(config)
    assert text in str(environment.run(config).error)


def test_without_exactly_once_a_task_has_no_transactions(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    config = environment.transactions(unique, until="20", size="10", abort_after="9", delivery_guarantee="at_least_once")
    assert environment.run(config).state is RunState.DONE
    assert values_of(environment.bootstrap, unique) == numbers((0, 19))


def test_records_for_the_own_offsets_topic_are_refused(environment: RunEnvironment, unique: str) -> None:
    result = environment.run(environment.numbers(f"own-{unique}", offsets_storage_topic=f"own-{unique}"))
    assert result.state is RunState.FAILED
    assert "Source tasks may not produce to their own offsets topics when exactly-once support is enabled" in str(result.tasks[0].trace)
