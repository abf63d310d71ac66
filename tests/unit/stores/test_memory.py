from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import ConnectorStatus, TaskStatus, TopicStatus
from airflow_provider_connect.runtime.stores.memory import MemoryStatusStore


def test_statuses_can_be_read_at_once() -> None:
    store = MemoryStatusStore()
    store.put_connector(ConnectorStatus("c", State.RUNNING, "w:1"))
    store.put_task(TaskStatus("c", 0, State.FAILED, "w:1", trace="boom"))
    store.put_topic(TopicStatus("t", "c", 0, 1))
    state = store.read()
    assert state.connector("c") == ConnectorStatus("c", State.RUNNING, "w:1")
    task = state.task("c", 0)
    assert task is not None
    assert task.trace == "boom"
    assert state.topics_of("c") == ["t"]
    store.delete_topic("c", "t")
    store.delete_task("c", 0)
    store.delete_connector("c")
    state = store.read()
    assert (state.connector("c"), state.tasks_of("c"), state.topics_of("c")) == (None, [], [])
