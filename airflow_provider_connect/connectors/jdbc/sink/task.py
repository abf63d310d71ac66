"""The task of JdbcSink: how often something is tried again, and who hears of records that cannot be written."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import ClassVar, TypeVar

from airflow_provider_connect.connectors.jdbc.database.database_errors import RefusedException
from airflow_provider_connect.connectors.jdbc.sink.database import open_store
from airflow_provider_connect.connectors.jdbc.sink.session import SinkSession
from airflow_provider_connect.connectors.jdbc.sink.settings import MAX_RETRIES, OFFSETS_TABLE, RETRY_MS, SinkSettings
from airflow_provider_connect.errors import ConnectException, RetriableException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config
from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.sdk.task import AT_MOST_ONCE, SinkTask

_Answer = TypeVar("_Answer")


class JdbcSinkTask(SinkTask):
    """Writes rows. ``put`` writes what has become enough for a statement, ``pre_commit`` the rest, and commits."""

    reads: ClassVar[frozenset[str]] = frozenset({"key"})

    def start(self, config: Config) -> None:
        context = self.context
        self._stopped = threading.Event()
        self._failures = 0
        self._most_failures: int = config[MAX_RETRIES]
        self._retry_ms: int = config[RETRY_MS]
        self._session = SinkSession(
            functools.partial(open_store, config, self.allowed_paths),
            SinkSettings.of(config),
            self._report,
            offsets_table=config[OFFSETS_TABLE],
            connector=config.originals.get("name", ""),
            claim=(context.claim, context.claim_order) if context.exactly_once else None,
            is_at_most_once=context.guarantee == AT_MOST_ONCE,
        )

    def open(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        return self._tried_again(lambda: self._session.open(partitions))

    def put(self, batch: Batch) -> None:
        try:
            self._session.put(batch)
        except RetriableException as error:
            self._count(error)
            self.context.timeout(self._retry_ms)
            raise
        if self._session.wants_commit:
            self.context.request_commit()

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self._tried_again(lambda: self._session.commit(offsets))
        self._failures = 0
        return offsets

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.pre_commit(offsets)

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self._session.close()

    def stop(self) -> None:
        """Ends what waits; the connection ends with ``close``, in the task's own thread."""
        if hasattr(self, "_stopped"):
            self._stopped.set()

    def _tried_again(self, call: Callable[[], _Answer]) -> _Answer:
        """What ``call`` answers; tried again, as often as ``max.retries`` says, where that may help."""
        while True:
            try:
                return call()
            except RetriableException as error:
                self._count(error)
                if self._stopped.wait(self._retry_ms / 1000):
                    raise

    def _count(self, error: RetriableException) -> None:
        self._failures += 1
        if self._failures > self._most_failures:
            raise ConnectException(f"Given up after {self._most_failures} tries again ({MAX_RETRIES}): {error}") from error

    def _report(self, failures: Sequence[tuple[Batch, Exception]]) -> None:
        """Hand over what cannot be written. Raises where nobody takes it."""
        reporter = self.context.errant_record_reporter
        if reporter is not None:
            reporter.report_all(failures)
            return
        for _, error in failures:
            if isinstance(error, RefusedException):  # of an earlier batch, maybe
                raise ConnectException(str(error)) from error
            raise error
