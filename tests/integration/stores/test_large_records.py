"""Records of internal topics that the client or the topic refuses for their size: named, not retried, and in no other writer's way."""

import random
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from airflow_provider_connect.errors import RecordTooLargeException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import TaskStatus
from airflow_provider_connect.runtime.stores import config_leader
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.offset_change import OffsetChange
from airflow_provider_connect.runtime.stores.offset_store import OffsetStore
from airflow_provider_connect.runtime.stores.status_store import StatusStore, StatusWriter
from airflow_provider_connect.runtime.stores.transactional_producer import Fence, ProducerRecord
from tests.waiting import HANG_SECONDS

CONFIG = {"name": "c", "connector.class": "X"}
FILE = {"filename": "/a"}
Limit = Callable[[str, int], None]


@pytest.fixture
def limit(bootstrap: str) -> Limit:
    """Gives a topic another max.message.bytes."""

    def change(topic: str, size: int) -> None:
        entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(HANG_SECONDS)

    return change


def text_of(size: int) -> str:
    """Of that many characters, which no codec makes much smaller than half of it."""
    return random.Random(size).randbytes(size // 2).hex()


@pytest.mark.parametrize(("size", "setting"), [(2_000_000, "max.request.size"), (200_000, "max.message.bytes")])
def test_a_large_config_is_refused_by_name_and_the_next_change_is_made_at_once(
    settings: WorkerSettings, limit: Limit, size: int, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_leader, "TRANSACTION_TIMEOUT_MS", 300_000)  # one that is left open lasts longer than a change may take
    if setting == "max.message.bytes":
        limit(settings.config_topic, 100_000)
    with ConfigStore(settings) as store, ConfigStore(settings) as other:
        store.create_connector("small", CONFIG)
        with pytest.raises(RecordTooLargeException) as refused:
            store.put_connector("large", {**CONFIG, "x": text_of(size)})
        other.put_connector("small", {**CONFIG, "x": "1"})
        store.put_connector("small", {**CONFIG, "x": "2"})
        assert "large" not in other.read()
        assert other.read().connector_config("small") == {**CONFIG, "x": "2"}
    for part in (settings.config_topic, "connector-large", f"{setting}", str(size)[0]):
        assert part in refused.value.message
    assert (refused.value.status_code, refused.value.retriable) == (413, False)


@pytest.mark.parametrize(("size", "setting"), [(2_000_000, "max.request.size"), (200_000, "max.message.bytes")])
def test_a_large_offset_is_refused_by_name(settings: WorkerSettings, limit: Limit, size: int, setting: str) -> None:
    if setting == "max.message.bytes":
        limit(settings.offset_topic, 100_000)
    with OffsetStore(settings) as store:
        large = [ProducerRecord(store.topic, *record) for record in store.records("c", [(FILE, {"position": text_of(size)})])]
        small = [ProducerRecord(store.topic, *record) for record in store.records("c", [(FILE, {"position": 1})])]
        with Fence(settings).owner("c", {}) as owner, pytest.raises(RecordTooLargeException) as by_task:
            owner.write(large)
        with OffsetChange(settings, "c", {}) as change:
            change.take_over()
            with pytest.raises(RecordTooLargeException) as by_change:
                change.write(large, check=lambda: None)
        with OffsetChange(settings, "c", {}) as again:
            again.take_over()
            again.write(small, check=lambda: None)
        assert store.read("c").get(FILE) == {"position": 1}
    for refused in (by_task.value, by_change.value):
        for part in (settings.offset_topic, '["c",{"filename":"/a"}]', setting):
            assert part in refused.message
        assert not refused.retriable


def test_a_trace_is_cut_further_where_the_topic_takes_less(settings: WorkerSettings, limit: Limit) -> None:
    limit(settings.status_topic, 20_000)
    with StatusWriter(settings, Claim(1, "t")) as writer:
        writer.put_task(TaskStatus("c", 0, State.FAILED, "h:1", trace=f"first\n{text_of(2_000_000)}\nlast"))
        assert writer.flush(HANG_SECONDS)
        assert writer.metrics()["status-update-failure-total"] == 0
    with StatusStore(settings) as store:
        (status,) = store.read().tasks_of("c")
    assert status.state is State.FAILED
    assert str(status.trace).startswith("first\n")
    assert str(status.trace).endswith("\nlast")
