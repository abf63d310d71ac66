"""The contexts that ``sdk`` promises the tasks of sources and sinks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from airflow_provider_connect.model.connector_settings import Guarantee
from airflow_provider_connect.model.run import Claim
from airflow_provider_connect.sdk.old_names import keeping_old_attributes
from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.sdk.task import ErrantRecordReporter, RangeReader, TransactionContext
from airflow_provider_connect.stores.offset_store import SourceOffsets
from airflow_provider_connect.worker.delivery.kafka_ranges import KafkaRanges


class TaskSourceContext:
    """A source task's context. Offsets are those read after the task's transactional id was taken over."""

    def __init__(
        self,
        config: Mapping[str, str],
        claim: Claim,
        offsets: SourceOffsets,
        stopping: Callable[[], bool],
        transaction_context: TransactionContext | None = None,
        *,
        is_preview: bool = False,
    ) -> None:
        self.config = config
        self.claim = str(claim)
        self.is_preview = is_preview
        self.transaction_context = transaction_context
        self.stopping = stopping
        self._offsets = offsets

    def offset(self, partition: Mapping[str, object], default: dict[str, Any] | None = None) -> dict[str, Any] | Any:
        found = self._offsets.get(partition)
        return default if found is None else found

    def offsets(self, partitions: Iterable[Mapping[str, object]]) -> list[dict[str, Any] | None]:
        return [self._offsets.get(partition) for partition in partitions]

    def read_ranges(self, client_config: Mapping[str, Any], ranges: Mapping[TopicPartition, tuple[int, int]]) -> RangeReader:
        return KafkaRanges(client_config, ranges)


@keeping_old_attributes
class TaskSinkContext:
    """A sink task's context. The loop carries out what the task asks for after the task's call returns."""

    def __init__(
        self,
        config: Mapping[str, str],
        claim: Claim,
        *,
        guarantee: Guarantee,
        assignment: Collection[TopicPartition] = (),
        has_external_commits: bool = False,
        errant_record_reporter: ErrantRecordReporter | None = None,
    ) -> None:
        self.config = config
        self.claim = str(claim)
        self.claim_epoch = claim.offset
        self.guarantee = str(guarantee)
        self.exactly_once = guarantee == Guarantee.EXACTLY_ONCE
        self.assignment = assignment
        self.has_external_commits = has_external_commits
        self.errant_record_reporter = errant_record_reporter
        self._rewinds: dict[TopicPartition, int] = {}
        self._pauses: set[TopicPartition] = set()
        self._retry_ms: int | None = None
        self._commit_wanted = False
        self.is_ending = False

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

    def stopping(self) -> bool:
        return self.is_ending

    @property
    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(self._pauses)

    def take_rewinds(self) -> dict[TopicPartition, int]:
        """The offsets from which to read again, since the last call."""
        rewinds, self._rewinds = self._rewinds, {}
        return rewinds

    def take_retry_ms(self) -> int | None:
        """How long to wait after the task's RetriableException; called once for each."""
        retry, self._retry_ms = self._retry_ms, None
        return retry

    def take_commit_wanted(self) -> bool:
        wanted, self._commit_wanted = self._commit_wanted, False
        return wanted
