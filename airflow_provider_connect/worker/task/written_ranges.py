"""Which offsets of which topics a source's run has written to: what asset events and the ledger tell. Knows nothing of records."""

from __future__ import annotations

from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.stores.topic_admin import TopicAdmin


class WrittenRanges:
    """Two looks at the ends of each topic, before its first record and after the last: no delivery report for each record.

    Other writers of the same topic lie in the range too, and so do transaction markers.
    """

    def __init__(self, admin: TopicAdmin) -> None:
        self._admin = admin
        self._before: dict[str, dict[TopicPartition, int]] = {}

    def note(self, topic: str) -> None:
        """``topic`` is about to be written to. Costs a request the first time."""
        if topic not in self._before:
            self._before[topic] = self._ends(topic)

    def begins(self, topic: str) -> None:
        """``topic`` was made a moment ago: there is nothing in it."""
        self._before[topic] = {}

    def ranges(self) -> dict[str, dict[str, list[int]]]:
        """By topic and partition, the end before and the end now, where they differ."""
        return {topic: spans for topic in sorted(self._before) if (spans := self._spans(topic))}

    def _spans(self, topic: str) -> dict[str, list[int]]:
        before = self._before[topic]
        ends = self._ends(topic)
        return {str(p.partition): [before.get(p, 0), end] for p, end in sorted(ends.items()) if end > before.get(p, 0)}

    def _ends(self, topic: str) -> dict[TopicPartition, int]:
        """None for a topic that does not exist yet."""
        count = self._admin.partitions([topic]).get(topic, 0)
        return self._admin.end_offsets([TopicPartition(topic, number) for number in range(count)], read_committed=False)
