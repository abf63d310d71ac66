"""What becomes of records that the database refuses."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from airflow_provider_connect.connectors.jdbc.database.database_errors import RefusedException
from airflow_provider_connect.connectors.jdbc.sink.records import Records, place_of
from airflow_provider_connect.connectors.jdbc.sink.writer import Refusal
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.records import TopicPartition

Report = Callable[[Sequence[tuple[Batch, Exception]]], None]


class Refusals:
    """Tells ``report`` of each refused record once, also where it is written again before the next commit. ``report`` raises where a record
    may not be left out: so the first that ever is refused is told by itself, before anything behind it is written. ``table_of`` names
    the table of a topic.
    """

    def __init__(self, report: Report, table_of: Callable[[str], str]) -> None:
        self._report = report
        self._table_of = table_of
        self._is_tolerated = False
        self._reported: set[tuple[TopicPartition, int]] = set()

    def as_far_as_known(self, refusals: Iterator[Refusal]) -> Iterator[Refusal]:
        """The refusals up to the first of which it is not known whether it is tolerated."""
        return refusals if self._is_tolerated else itertools.islice(refusals, 1)

    def tell(self, records: Records, refusals: Iterable[Refusal]) -> None:
        """Report all; what writes ``records`` may do so while it is asked for the next."""
        refusals = iter(refusals)
        while found := list(self.as_far_as_known(refusals)):
            failures: dict[tuple[TopicPartition, int], tuple[Batch, Exception]] = {}
            for index, error in found:
                record = records.record(index)
                partition, offset = place = place_of(record)
                text = f"Table {self._table_of(record.topic)} refuses the record at offset {offset} of {partition}: {error}"
                failures[place] = record, RefusedException(text)
            self._report([failure for place, failure in failures.items() if place not in self._reported])
            self._reported |= failures.keys()
            self._is_tolerated = True

    def tell_of_all(self, batch: Batch, error: DataException) -> None:
        """Report records that cannot be rows at all."""
        place = place_of(batch)
        if place not in self._reported:
            self._report([(batch, error)])
            self._reported.add(place)

    def forget(self) -> None:
        """Everything is committed, or given up: nothing comes again."""
        self._reported.clear()
