"""Bounded runs of a Java sink: what its group has committed at the end, several tasks, a kill."""

from collections import Counter

import pytest
from confluent_kafka import Producer

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.stores.admin_connection import AdminConnection
from airflow_provider_connect.runtime.stores.group_offsets import GroupOffsets
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.worker.application.readiness import NO_WORK, check_readiness
from tests.integration.java.conftest import SINK, JavaRuns
from tests.waiting import HANG_SECONDS, wait_until

PREDICATES = "org.apache.kafka.connect.transforms.predicates"


def send(java_runs: JavaRuns, topic: str, values: list[str], *, partitions: int, transaction: str = "") -> None:
    """In turns to the partitions; in one transaction, whose markers lie behind the records, if it has a name."""
    config = {"bootstrap.servers": java_runs.settings.bootstrap_servers}
    producer = Producer({**config, "transactional.id": transaction} if transaction else config)
    if transaction:
        producer.init_transactions(HANG_SECONDS)
        producer.begin_transaction()
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % partitions)
        producer.poll(0)
    if transaction:
        producer.commit_transaction(HANG_SECONDS)
    assert producer.flush(HANG_SECONDS) == 0


def test_two_tasks_leave_the_group_empty_and_at_the_end(java_runs: JavaRuns, unique: str) -> None:
    java_runs.make_topic(unique, partitions=2)
    values = [f"value {number}" for number in range(400)]
    send(java_runs, unique, values, partitions=2, transaction=unique)
    code, output = java_runs.run(java_runs.sink(unique, unique, tasks_max="2"))
    assert code == 0, output
    assert Counter(java_runs.output.read_text().splitlines()) == Counter(values)
    connection = AdminConnection.of(java_runs.settings)
    groups, admin = GroupOffsets(java_runs.settings, connection=connection), TopicAdmin(java_runs.settings, connection=connection)
    partitions = [TopicPartition(unique, number) for number in range(2)]
    wait_until(lambda: groups.members(f"connect-{unique}") == [])
    committed = {partition: known.offset for partition, known in groups.committed(f"connect-{unique}").items()}
    assert committed == admin.end_offsets(partitions) == dict.fromkeys(partitions, 201)
    connection.close()


def test_the_next_check_finds_no_work(java_runs: JavaRuns, unique: str) -> None:
    java_runs.make_topic(unique, partitions=2)  # one of which stays empty
    send(java_runs, unique, ["one", "two"], partitions=1, transaction=unique)
    code, output = java_runs.run(java_runs.sink(unique, unique))
    assert code == 0, output
    found = check_readiness(java_runs.settings, unique, define=None, secrets_of=lambda _: {})
    assert found.state == NO_WORK, found


def test_a_sink_that_begins_at_the_end_takes_all_that_comes_after_its_first_run(java_runs: JavaRuns, unique: str) -> None:
    """The topic has records, and the group commits nothing in the first run, which has to end nevertheless."""
    java_runs.make_topic(unique)
    send(java_runs, unique, ["old", "older"], partitions=1)
    sink = java_runs.sink(unique, unique, consumer_override_auto_offset_reset="latest", batch_max_duration_ms="60000")
    code, output = java_runs.run(sink)
    assert (code, "task 0: 0 records" in output) == (0, True), output
    found = check_readiness(java_runs.settings, unique, define=None, secrets_of=lambda _: {})
    assert found.state == NO_WORK, found
    send(java_runs, unique, ["new"], partitions=1)
    code, output = java_runs.run(sink)
    assert code == 0, output
    assert java_runs.output.read_text() == "new\n"


def test_nothing_is_lost_when_a_run_is_killed(java_runs: JavaRuns, unique: str) -> None:
    java_runs.make_topic(unique)
    values = [f"value {number}" for number in range(100_000)]
    send(java_runs, unique, values, partitions=1)
    sink = java_runs.sink(unique, unique, consumer_override_max_poll_records="100")
    process = java_runs.start(sink)
    wait_until(lambda: java_runs.output.exists() and java_runs.output.stat().st_size > 0)
    process.kill()
    process.wait(HANG_SECONDS)
    code, output = java_runs.run(sink)
    assert code == 0, output
    assert set(values) <= set(java_runs.output.read_text().splitlines())


@pytest.mark.soak
def test_no_record_goes_to_an_internal_topic_or_comes_from_one(java_runs: JavaRuns, unique: str) -> None:
    internal = java_runs.settings.config_topic
    java_runs.input.write_text("{}\n")
    never = {"predicates": "never", "predicates_never_type": f"{PREDICATES}.TopicNameMatches", "predicates_never_pattern": "zzz"}
    passed_by = {"transforms_internal_predicate": "never"}
    code, output = java_runs.run(java_runs.source(f"{unique}-in", internal, **never, **passed_by))
    assert (code, java_runs.task(f"{unique}-in").state) == (75, "FAILED"), output
    assert f"{internal} is an internal topic" in (java_runs.task(f"{unique}-in").trace or "")
    assert "{}" not in java_runs.records(internal)
    data = f"{internal}-of-others"
    java_runs.make_topic(data)
    send(java_runs, data, ["a record"], partitions=1)
    code, output = java_runs.run(java_runs.config(f"{unique}-out", SINK, file=str(java_runs.output), topics_regex=f"{internal}.*"))
    assert code == 0, output
    assert java_runs.output.read_text() == "a record\n"
    assert "task 0: 1 records" in output
