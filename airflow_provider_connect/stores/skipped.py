"""Records that a reader could not use: counted, and each reason logged once, so that one bad record never stops or floods anything."""

import logging

from airflow_provider_connect.model.records import Unreadable

_MOST_REASONS = 100
_log = logging.getLogger(__name__)


class SkippedRecords:
    """Those of one reader of one topic. ``count`` is how many there were; one that is looked at again counts once."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._reasons: set[str] = set()
        self._places: set[tuple[int, int]] = set()
        self.count = 0

    def note(self, reason: str, record: object, *, partition: int = 0, offset: int) -> None:
        """Takes note of why a record was skipped; an empty ``reason``: it was not."""
        if not reason or (partition, offset) in self._places:
            return
        self._places.add((partition, offset))
        self.count += 1
        if reason in self._reasons or len(self._reasons) >= _MOST_REASONS:
            return
        self._reasons.add(reason)
        level = logging.WARNING if isinstance(record, Unreadable) else logging.DEBUG  # what is readable and void is no news
        _log.log(level, "Skipping a record of topic %s, partition %d, offset %d: %s", self._topic, partition, offset, reason)
