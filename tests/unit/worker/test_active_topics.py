"""Which topics are noted, and how often."""

from airflow_provider_connect.runtime.model.status import TopicStatus
from airflow_provider_connect.runtime.worker.task.environment import ActiveTopics


def test_topic_is_noted_once_and_a_known_one_never() -> None:
    noted: list[TopicStatus] = []
    topics = ActiveTopics("c", 2, ["old"], put=noted.append, now=lambda: 1.5)
    topics.note(["old", "new"])
    topics.note(["new"])
    topics.note([])
    assert noted == [TopicStatus("new", "c", 2, 1500)]


def test_nothing_is_noted_where_topics_are_not_tracked() -> None:
    noted: list[TopicStatus] = []
    ActiveTopics("c", 0, None, put=noted.append, now=lambda: 0.0).note(["a"])
    assert noted == []
