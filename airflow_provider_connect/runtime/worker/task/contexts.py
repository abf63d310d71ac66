"""The contexts that ``sdk`` promises to the tasks of sources and sinks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.config.client_settings import client_config
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.connector_settings import Guarantee
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.stores.offset_store import SourceOffsets
from airflow_provider_connect.runtime.worker.delivery.kafka_ranges import KafkaRanges
from airflow_provider_connect.runtime.worker.delivery.librdkafka import Librdkafka
from airflow_provider_connect.runtime.worker.delivery.raw_batch import RawBatch
from airflow_provider_connect.runtime.worker.errors.tolerance import Tolerance
from airflow_provider_connect.runtime.worker.pipeline.sink_pipeline import SinkPipeline
from airflow_provider_connect.runtime.worker.pipeline.stages import Converters
from airflow_provider_connect.runtime.worker.task.after_commit import AfterCommit
from airflow_provider_connect.runtime.worker.task.checked_connector import CheckedConnector
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch
from airflow_provider_connect.sdk.task import ErrantRecordReporter, RangeReader, TransactionContext


@dataclass(frozen=True, slots=True)
class WorkersKafka:
    """Access of source tasks to the worker's cluster: a consumer's settings, and the connector's converters."""

    checked: CheckedConnector
    settings: WorkerSettings
    converters: Converters
    errors: Tolerance
    library: Librdkafka | None = None

    def consumer_config(self) -> Mapping[str, Any]:
        name = self.checked.name
        config = client_config(
            self.settings, "consumer", self.checked.settings.overrides["consumer"], client_id=f"connector-consumer-{name}"
        )
        forced = {
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }  # if the beginning of a range is deleted, reading starts at the first remaining record
        return {"group.id": f"connect-{name}", **config, **forced}

    def decode(self, batch: Batch) -> list[Batch]:
        assert isinstance(batch, KafkaBatch)
        raw = RawBatch(
            batch.topic_partition,
            batch.first_offset or 0,
            batch.next_offset or 0,
            value=batch.value,
            key=batch.key,
            headers=batch.headers,
            timestamp=batch.timestamp,
            timestamp_type=batch.timestamp_type,
            offsets=batch.kafka_offset,
        )
        return [piece for piece in SinkPipeline(self.converters, (), self.errors).batches(raw) if piece.num_records]


class TaskSourceContext:
    """A source task's context. Its offsets were read after the task's transactional id was taken over."""

    def __init__(
        self,
        config: Mapping[str, str],
        claim: Claim,
        offsets: SourceOffsets,
        stopping: Callable[[], bool],
        transaction_context: TransactionContext | None = None,
        *,
        kafka: WorkersKafka | None = None,
        after_commit: AfterCommit | None = None,
        note_lost: Callable[[int], None] = lambda _: None,
        is_preview: bool = False,
    ) -> None:
        self.config = config
        self.claim = str(claim)
        self.note_lost = note_lost
        self.is_preview = is_preview
        self._kafka = kafka
        self.after_commit = (after_commit or AfterCommit()).add
        self.transaction_context = transaction_context
        self.stopping = stopping
        self._offsets = offsets

    def offset(self, partition: Mapping[str, object], default: dict[str, Any] | None = None) -> dict[str, Any] | Any:
        found = self._offsets.get(partition)
        return default if found is None else found

    def offsets(self, partitions: Iterable[Mapping[str, object]]) -> list[dict[str, Any] | None]:
        return [self._offsets.get(partition) for partition in partitions]

    def read_ranges(self, client_config: Mapping[str, Any] | None, ranges: Mapping[TopicPartition, tuple[int, int]]) -> RangeReader:
        config = self._workers().consumer_config() if client_config is None else client_config
        library = None if self._kafka is None else self._kafka.library
        return KafkaRanges(config, ranges, library=library, on_lost=self.note_lost)

    def decode(self, batch: Batch) -> list[Batch]:
        return self._workers().decode(batch)

    def _workers(self) -> WorkersKafka:
        if self._kafka is None:
            raise ConnectException("This task was given no access to the worker's cluster")
        return self._kafka


class TaskSinkContext:
    """A sink task's context. The loop applies the task's requests after the task's call returns."""

    def __init__(
        self,
        config: Mapping[str, str],
        claim: Claim,
        *,
        guarantee: Guarantee,
        assignment: Collection[TopicPartition] = (),
        topic_ids: Mapping[str, str] = MappingProxyType({}),
        has_external_commits: bool = False,
        stays: bool = False,
        errant_record_reporter: ErrantRecordReporter | None = None,
    ) -> None:
        self.config = config
        self.claim = str(claim)
        self.claim_epoch = claim.offset
        self.guarantee = str(guarantee)
        self.exactly_once = guarantee == Guarantee.EXACTLY_ONCE
        self.assignment = assignment
        self.topic_ids = topic_ids
        self.has_external_commits = has_external_commits
        self.stays = stays
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
        """The rewinds requested since the last call."""
        rewinds, self._rewinds = self._rewinds, {}
        return rewinds

    def take_retry_ms(self) -> int | None:
        """The requested wait after the task's RetriableException. Each request is returned once."""
        retry, self._retry_ms = self._retry_ms, None
        return retry

    def take_commit_wanted(self) -> bool:
        wanted, self._commit_wanted = self._commit_wanted, False
        return wanted
