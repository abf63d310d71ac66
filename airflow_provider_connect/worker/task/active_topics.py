"""The topics that a connector uses (KIP-558), each noted once on the status topic. Knows nothing of clients or of when a record counts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from airflow_provider_connect.model.status import TopicStatus


class ActiveTopics:
    """Notes the topics of one task.

    ``known`` are those that the status topic names already for the connector; None: ``topic.tracking.enable`` is off, and nothing is ever
    noted. ``put`` writes a status without making the caller wait, ``now`` gives seconds since 1970. Told of batches, not of records.
    """

    def __init__(
        self, connector: str, task: int, known: Collection[str] | None, *, put: Callable[[TopicStatus], None], now: Callable[[], float]
    ) -> None:
        self._connector = connector
        self._task = task
        self._known = None if known is None else set(known)
        self._put = put
        self._now = now

    def note(self, topics: Iterable[str]) -> None:
        """Records of ``topics`` were converted (sinks: as they lie in Kafka) or delivered (sources: after transformations)."""
        if self._known is None:
            return
        for topic in topics:
            if topic not in self._known:
                self._known.add(topic)
                self._put(TopicStatus(topic, self._connector, self._task, int(self._now() * 1000)))
