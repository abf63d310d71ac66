import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConflictException, ConnectException, StoreTimeoutException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.stores.admin_connection import AdminConnection
from airflow_provider_connect.runtime.stores.group_offsets import GroupOffsets
from airflow_provider_connect.runtime.stores.log_consumer import CommittedOffset
from tests.waiting import HANG_SECONDS, wait_until

UNANSWERED_SECONDS, HASTY_SECONDS = 1.0, 5.0


@pytest.fixture
def at(settings: WorkerSettings) -> list[TopicPartition]:
    return [TopicPartition(settings.offset_topic, number) for number in range(3)]


def commit(settings: WorkerSettings, group: str, at: TopicPartition, offset: int, metadata: str = "") -> None:
    consumer = Consumer({"bootstrap.servers": settings.bootstrap_servers, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[KafkaPartition(*at, offset, metadata)], asynchronous=False)
    consumer.close()


def test_offsets_are_read_and_removed(settings: WorkerSettings, unique: str, at: list[TopicPartition]) -> None:
    groups = GroupOffsets(settings)
    assert groups.committed(unique) == {}
    assert groups.members(unique) == []
    commit(settings, unique, at[0], 5, "claim=12")
    commit(settings, unique, at[2], 7)
    assert groups.committed(unique, at[:1]) == {at[0]: CommittedOffset(5, "claim=12")}
    assert groups.committed(unique) == {at[0]: CommittedOffset(5, "claim=12"), at[2]: CommittedOffset(7, "")}
    groups.delete(unique)
    assert groups.committed(unique) == {}
    groups.delete(unique)


def test_a_group_whose_name_cannot_be_sent_hides_no_other(settings: WorkerSettings, unique: str, at: list[TopicPartition]) -> None:
    commit(settings, unique, at[0], 5)
    names = ["\ud800", "", "é" * 16384, unique]
    assert GroupOffsets(settings).committed_now(names) == {unique: {at[0]: CommittedOffset(5, "")}}


def test_a_cluster_that_does_not_answer_is_reported(free_port: int, unique: str, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing listens at the port. One group is refused with the reason; of many, those that cannot be read are left out."""
    server = f"127.0.0.1:{free_port}"
    connection = AdminConnection({"bootstrap.servers": server}, timeout_seconds=UNANSWERED_SECONDS)
    groups = GroupOffsets(WorkerSettings.of({"bootstrap.servers": server}), connection=connection)
    with pytest.raises(ConnectException, match=f"reading the offsets of group {unique}"):
        groups.committed(unique)
    assert groups.committed(unique, []) == {}, "nothing is asked"
    assert groups.committed_now([unique]) == {}
    assert f"The offsets of group {unique} cannot be read" in caplog.text
    assert groups.retention_seconds() is None
    groups.close()


def test_the_brokers_report_how_long_they_keep_offsets(settings: WorkerSettings) -> None:
    assert GroupOffsets(settings).retention_seconds() == 7 * 24 * 3600


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_of_a_foreign_group_are_seen(settings: WorkerSettings, unique: str, at: list[TopicPartition], protocol: str) -> None:
    groups = GroupOffsets(settings)
    consumer = Consumer(
        {"bootstrap.servers": settings.bootstrap_servers, "group.id": unique, "group.protocol": protocol, "client.id": "stranger"}
    )
    consumer.subscribe([at[0].topic])
    wait_until(lambda: consumer.poll(0.1) or consumer.assignment())
    assert [member.split()[0] for member in groups.members(unique)] == ["stranger"]
    if protocol == "classic":  # which Kafka Connect's workers use
        assert groups.workers(unique) == groups.members(unique)
    with pytest.raises(ConflictException, match=f"Group {unique} has active members"):
        groups.delete(unique)
    consumer.close()
    assert groups.members(unique) == []
    assert groups.workers(unique) == []


def test_offsets_of_an_open_transaction_are_waited_for(settings: WorkerSettings, unique: str, at: list[TopicPartition]) -> None:
    groups = GroupOffsets(settings)
    connection = AdminConnection({"bootstrap.servers": settings.bootstrap_servers}, timeout_seconds=HASTY_SECONDS)
    commit(settings, unique, at[0], 1)
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers, "transactional.id": unique})
    producer.init_transactions(HANG_SECONDS)
    producer.begin_transaction()
    consumer = Consumer({"bootstrap.servers": settings.bootstrap_servers, "group.id": unique})
    producer.send_offsets_to_transaction([KafkaPartition(*at[0], 9, "claim=3")], consumer.consumer_group_metadata())
    with pytest.raises(StoreTimeoutException, match="open transaction"):
        GroupOffsets(settings, connection=connection).committed(unique)
    assert groups.committed_now([unique]) == {}, "waits for no transaction"
    producer.commit_transaction(HANG_SECONDS)
    assert groups.committed(unique, at) == {at[0]: CommittedOffset(9, "claim=3")}
    consumer.close()
