"""Task sets that grow and shrink: what is published, what is fenced, and in which order."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException, Producer

from airflow_provider_connect.runtime.config.client_settings import client_config
from airflow_provider_connect.runtime.model.ids import transactional_id
from airflow_provider_connect.runtime.model.run import Claim, RunState
from airflow_provider_connect.runtime.wire import config_topic
from tests.integration.worker.environment import RunEnvironment, make_topic, send
from tests.integration.worker.test_runs import text
from tests.waiting import HANG_SECONDS


def owners(environment: RunEnvironment, tasks: range) -> list[Producer]:
    """Producers that own the tasks' transactional ids and have a transaction open, as a run has that hangs."""
    producers = []
    for task in tasks:
        config = client_config(
            environment.settings, "producer", transactional_id=transactional_id(environment.settings.group_id, environment.connector, task)
        )
        producer = Producer({**config, "logger": None, "log_level": 0, "error_cb": lambda _: None})
        producer.init_transactions(HANG_SECONDS)
        producer.begin_transaction()
        producers.append(producer)
    return producers


def is_fenced(producer: Producer, topic: str) -> bool:
    try:
        producer.produce(topic, b"from a zombie")
        producer.flush(HANG_SECONDS)
        producer.commit_transaction(HANG_SECONDS)
    except (KafkaException, SystemError):
        return True
    return False


def config_records(environment: RunEnvironment, first: int) -> list[str]:
    """Keys of the config topic from offset ``first`` on, with the number that a commit or fencing record holds."""
    found = []
    for record in environment.config_log():
        if record.offset < first:
            continue
        decoded = config_topic.decode(record.key, record.value, record.headers, offset=record.offset)
        number = getattr(decoded, "count", getattr(decoded, "tasks", ""))
        claimed = " by its claim" if getattr(decoded, "claim", None) else ""
        found.append(f"{(record.key or b'').decode().replace(environment.connector, 'c')} {number}{claimed}".strip())
    return found


def test_task_set_of_file_sink_grows_and_shrinks(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique, 3)
    zombies_topic = make_topic(environment.bootstrap, f"{unique}-zombies")
    sent: list[str] = []
    claims: list[Claim] = []
    for tasks, alive_before in ((1, 0), (3, 1), (1, 3)):
        new = text(300, len(sent))
        send(environment.bootstrap, unique, new, partitions=3)
        sent += new
        config = environment.file_sink(unique, tasks_max=str(tasks))
        environment.put_config(config) if tasks > 1 or sent != new else None
        zombies = owners(environment, range(alive_before))
        first = environment.configs().offset if claims else 0
        result = environment.run(config)
        assert (result.state, result.error) == (RunState.DONE, None)
        assert [task.task for task in result.tasks] == list(range(tasks))
        assert sum(task.records for task in result.tasks) == 300
        assert [is_fenced(zombie, zombies_topic) for zombie in zombies] == [True] * alive_before
        state = environment.configs()
        assert (state.tasks(environment.connector), state.fencing_counts[environment.connector]) == (list(range(tasks)), tasks)
        assert state.claims[environment.connector] == result.claim
        assert sorted(environment.states()) == list(range(tasks))
        claims.append(result.claim)
        written = config_records(environment, first)
        print(f"{alive_before} → {tasks}: {written}")
        of_tasks = [f"task-c-{number}" for number in range(tasks)]
        expected = [f"tasks-fencing-c {alive_before}", *of_tasks, f"commit-c {tasks}", f"tasks-fencing-c {tasks} by its claim"]
        assert written[-len(expected) :] == expected
    assert sorted(environment.lines()) == sorted(sent)
    assert claims == sorted(claims, key=lambda claim: claim.offset)
    assert not [record for record in environment.status_log() if record.key is None]


def test_nothing_is_published_when_nothing_changed(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique, 3)
    config = environment.file_sink(unique, tasks_max="3")
    environment.run(config)
    end = environment.configs().offset
    environment.run(config)
    assert config_records(environment, end) == ["tasks-fencing-c 3"]


def test_partitions_that_move_lose_and_double_nothing(environment: RunEnvironment, unique: str) -> None:
    """Each of the tasks has left its part in the file when the set changes between two runs of an exactly-once sink."""
    make_topic(environment.bootstrap, unique, 5)
    sent: list[str] = []
    for tasks in (2, 5, 3, 1, 4):
        new = text(500, len(sent))
        send(environment.bootstrap, unique, new, partitions=5)
        sent += new
        config = environment.file_sink(unique, tasks_max=str(tasks), delivery_guarantee="exactly_once")
        if environment.runs:
            environment.put_config(config)
        assert environment.run(config).state is RunState.DONE
    assert sorted(environment.lines()) == sorted(sent)


def test_plan_of_an_older_claim_changes_nothing(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, text(10))
    config = environment.file_sink(unique)
    older = environment.run(config).claim
    send(environment.bootstrap, unique, text(10, 10))
    newer = environment.run(config).claim
    assert older is not None
    assert newer is not None
    assert older < newer
    send(environment.bootstrap, unique, text(10, 20))
    end = environment.configs().offset
    assert environment.run(config, claim=older).state is RunState.SKIPPED
    assert environment.configs().offset == end
    assert environment.lines() == text(20)


@pytest.mark.parametrize("kind", ["source", "sink"])
def test_run_is_ended_by_a_newer_claim(environment: RunEnvironment, unique: str, kind: str) -> None:
    """The run that came later has all; the earlier one ends without a word and without a failure."""
    make_topic(environment.bootstrap, unique)
    if kind == "source":
        config = environment.numbers(unique, until="400", size="10", poll_ms="50")
    else:
        send(environment.bootstrap, unique, text(30_000))
        config = environment.slow_sink(unique, put_ms="1500")
    earlier = environment.start(config)
    later = None
    while later is None or later.claim is None:
        later = environment.run(config) if environment.states() == {0: "RUNNING"} else None
    first = earlier.wait()
    assert first.claim is not None
    assert first.claim < later.claim
    assert (first.state, later.state) == (RunState.STOPPED, RunState.DONE)
    assert environment.states() == {0: "RUNNING"}
    status = environment.statuses().task(environment.connector, 0)
    assert status is not None
    assert status.claim == later.claim
    if kind == "source":
        assert environment.offsets().get({"task": 0}) == {"next": 400}
