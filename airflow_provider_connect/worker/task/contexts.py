"""What connectors and tasks see of the framework: the contexts that ``sdk`` promises them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from typing import Any

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.model.connector_settings import Guarantee
from airflow_provider_connect.model.run import Claim
from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.sdk.task import ErrantRecordReporter, TransactionContext
from airflow_provider_connect.stores.backing import Backing
from airflow_provider_connect.stores.offset_location import OffsetLocation
from airflow_provider_connect.stores.offset_store import SourceOffsets
from airflow_provider_connect.stores.topic_log import OpenTransactionException

log = logging.getLogger(__name__)


class PlanningContext:
    """A connector's context while the planner asks it for task configs. Offsets are read, in ``location``, when first asked for; unless
    they are given. ``take_over`` ends a transaction that hides some of them, since its owner was killed or is about to be fenced."""

    def __init__(self, backing: Backing, name: str, *, offsets: SourceOffsets | None = None) -> None:
        self.name = name
        self.location: OffsetLocation | None = None
        self.take_over: Callable[[], None] = lambda: None
        self._backing = backing
        self._offsets = offsets

    def offset(self, partition: Mapping[str, object]) -> dict[str, Any] | None:
        if self._offsets is None:
            try:
                self._offsets = self._read(settle_seconds=0.0)
            except OpenTransactionException:
                self.take_over()
                self._offsets = self._read()
        return self._offsets.get(partition)

    def _read(self, settle_seconds: float | None = None) -> SourceOffsets:
        assert self.location is not None  # the planner knows it before it starts the connector
        with closing(self._backing.offsets(self.location, settle_seconds=settle_seconds)) as store:
            return store.read(self.name)

    def request_task_reconfiguration(self) -> None:
        """Every run plans anew: the next one will see what changed."""
        log.info("Connector %s asked for new task configs; the next run makes them", self.name)

    def raise_error(self, error: Exception) -> None:
        raise ConnectException(f"Connector {self.name} raised an error: {error}") from error


class TaskSourceContext:
    """A source task's context. Offsets are those read after the task's transactional id was taken over."""

    def __init__(
        self,
        config: Mapping[str, str],
        claim: Claim,
        offsets: SourceOffsets,
        stopping: Callable[[], bool],
        transaction_context: TransactionContext | None = None,
    ) -> None:
        self.config = config
        self.claim = str(claim)
        self.transaction_context = transaction_context
        self._offsets = offsets
        self._stopping = stopping

    def offset(self, partition: Mapping[str, object], default: dict[str, Any] | None = None) -> dict[str, Any]:
        found = self._offsets.get(partition)
        return found if found is not None else default if default is not None else {}

    def offsets(self, partitions: Iterable[Mapping[str, object]]) -> list[dict[str, Any] | None]:
        return [self._offsets.get(partition) for partition in partitions]

    def stopping(self) -> bool:
        return self._stopping()


class TaskSinkContext:
    """A sink task's context. What the task asks for is noted here, and done by the loop after the call returns."""

    def __init__(self, config: Mapping[str, str], claim: Claim, *, guarantee: Guarantee) -> None:
        self.config = config
        self.claim = str(claim)
        self.claim_order = claim.offset
        self.guarantee = str(guarantee)
        self.exactly_once = guarantee == Guarantee.EXACTLY_ONCE
        self.moved_by_others = False
        self.errant_record_reporter: ErrantRecordReporter | None = None
        self.assignment: Collection[TopicPartition] = ()
        self._rewinds: dict[TopicPartition, int] = {}
        self._pauses: set[TopicPartition] = set()
        self._retry_ms: int | None = None
        self._commit_wanted = False

    def offset(self, partition: TopicPartition, offset: int) -> None:
        self._rewinds[partition] = offset

    def timeout(self, timeout_ms: int) -> None:
        self._retry_ms = timeout_ms

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._pauses |= set(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._pauses -= set(partitions)

    def request_commit(self) -> None:
        self._commit_wanted = True

    @property
    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(self._pauses)

    def take_rewinds(self) -> dict[TopicPartition, int]:
        """Where the task wants to read again since this was last asked."""
        rewinds, self._rewinds = self._rewinds, {}
        return rewinds

    def take_retry_ms(self) -> int | None:
        """How long the task wants to be left alone after its RetriableException; asked once for each."""
        retry, self._retry_ms = self._retry_ms, None
        return retry

    def take_commit_wanted(self) -> bool:
        wanted, self._commit_wanted = self._commit_wanted, False
        return wanted
