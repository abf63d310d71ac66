"""Records that a reader could not use: counted, and each reason logged once, so that bad records never stop or flood anything."""

import logging

from airflow_provider_connect.model.records import Unreadable

_MOST_REASONS = 100
_log = logging.getLogger(__name__)


class SkippedRecords:
    """Those of one reader of one topic. Takes as much memory for a million records as for a hundred."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._reasons: set[str] = set()
        self.count = 0

    def note(self, reason: str, record: object, *, partition: int = 0, offset: int) -> None:
        """Count a record that was skipped. An empty ``reason``: it was not."""
        if not reason:
            return
        self.count += 1
        if reason in self._reasons or len(self._reasons) >= _MOST_REASONS:
            return
        self._reasons.add(reason)
        level = logging.WARNING if isinstance(record, Unreadable) else logging.DEBUG  # a readable record without effect is no news
        _log.log(level, "Skipping a record of topic %s, partition %d, offset %d: %s", self._topic, partition, offset, reason)
