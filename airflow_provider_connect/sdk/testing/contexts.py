"""In-memory contexts of connectors and tasks, for the suites and for an author's own tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from airflow_provider_connect.data.records import SinkRecord, TopicPartition
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.task import ErrantRecordReporter, RangeReader, TransactionContext

Offsets = dict[str, dict[str, Any]]  # by the JSON text of the source partition; Any: the task's own JSON


def partition_key(partition: Mapping[str, object] | None) -> str:
    """A source partition as text that identifies it: the key of ``Offsets``."""
    return json.dumps(partition, sort_keys=True)


class MemoryConnectorContext:
    """A connector's context. It counts requests in ``reconfigurations`` and keeps errors in ``errors``."""

    def __init__(self, name: str = "suite", offsets: Offsets | None = None) -> None:
        self.name = name
        self.is_preview = False
        self.offsets = offsets or {}
        self.reconfigurations = 0
        self.errors: list[Exception] = []

    def offset(self, partition: Mapping[str, object]) -> dict[str, Any] | None:
        return self.offsets.get(partition_key(partition))

    def request_task_reconfiguration(self) -> None:
        self.reconfigurations += 1

    def raise_error(self, error: Exception) -> None:
        self.errors.append(error)


class MemorySourceContext:
    """A source task's context, with committed offsets in a dict. Set ``stop_requested`` to end the run. ``calls_after_commit`` are those
    that the task has requested. ``lost`` is the sum of ``note_lost``."""

    def __init__(self, config: Mapping[str, str], offsets: Offsets | None = None) -> None:
        self.config = config
        self.claim = "suite:1"
        self.is_preview = False
        self.transaction_context: TransactionContext | None = None
        self.committed = offsets or {}
        self.stop_requested = threading.Event()
        self.calls_after_commit: list[Callable[[], None]] = []
        self.lost = 0

    def offset(self, partition: Mapping[str, object], default: dict[str, Any] | None = None) -> dict[str, Any] | Any:
        return self.committed.get(partition_key(partition), default)

    def offsets(self, partitions: Iterable[Mapping[str, object]]) -> list[dict[str, Any] | None]:
        return [self.committed.get(partition_key(partition)) for partition in partitions]

    def read_ranges(self, client_config: Mapping[str, Any] | None, ranges: Mapping[TopicPartition, tuple[int, int]]) -> RangeReader:
        raise NotImplementedError("MemorySourceContext has no Kafka client: override this method in a test with a broker")

    def decode(self, batch: Batch) -> list[Batch]:
        raise NotImplementedError("MemorySourceContext has no converters: override this method in a test that needs them")

    def after_commit(self, call: Callable[[], None]) -> None:
        self.calls_after_commit.append(call)

    def note_lost(self, records: int) -> None:
        self.lost += records

    def stopping(self) -> bool:
        return self.stop_requested.is_set()


class FakeReporter:
    """A sink task's ``errant_record_reporter``. ``reported`` has a pair of record and exception for each reported record, in order.

    Without ``tolerates_all`` it raises ConnectException, as the framework does with ``errors.tolerance=none``.
    """

    def __init__(self, *, tolerates_all: bool = True) -> None:
        self.tolerates_all = tolerates_all
        self.reported: list[tuple[SinkRecord, Exception]] = []

    @property
    def offsets(self) -> list[int]:
        """The Kafka offsets of the reported records."""
        return [record.kafka_offset for record, _ in self.reported]

    def report(self, records: SinkRecord | Batch, error: Exception) -> None:
        self.reported += [(record, error) for record in ([records] if isinstance(records, SinkRecord) else records.sink_records())]
        if not self.tolerates_all:
            raise ConnectException(f"errors.tolerance is none, and a record was refused: {error}") from error

    def report_all(self, failures: Iterable[tuple[SinkRecord | Batch, Exception]]) -> None:
        for records, error in failures:
            self.report(records, error)


class MemorySinkContext:
    """A sink task's context. It keeps the task's requests in ``rewinds``, ``paused``, ``timeouts_ms`` and ``commit_requests``."""

    def __init__(
        self,
        config: Mapping[str, str],
        assignment: Collection[TopicPartition],
        *,
        claim_epoch: int = 1,
        exactly_once: bool = False,
        guarantee: str | None = None,
        errant_record_reporter: ErrantRecordReporter | None = None,
        scope: str = "suite",
        topic_ids: Mapping[str, str] | None = None,
        stays: bool = False,
    ) -> None:
        """If ``guarantee`` is None, the flag ``exactly_once`` selects ``exactly_once`` or ``at_least_once``. ``scope`` represents the
        Connect cluster. If ``topic_ids`` is None, each topic has an id."""
        self.config = config
        self.topic_ids = {p.topic: f"id-of-{p.topic}" for p in assignment} if topic_ids is None else topic_ids
        self.assignment = assignment
        self.claim_epoch = claim_epoch
        self.claim = f"{scope}:{claim_epoch}"
        self.guarantee = guarantee or ("exactly_once" if exactly_once else "at_least_once")
        self.exactly_once = self.guarantee == "exactly_once"
        self.has_external_commits = False
        self.stays = stays
        self.errant_record_reporter = errant_record_reporter
        self.rewinds: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.timeouts_ms: list[int] = []
        self.commit_requests = 0
        self.is_ending = True  # any commit may be the last

    def offset(self, partition: TopicPartition, offset: int) -> None:
        self.rewinds[partition] = offset

    def timeout(self, timeout_ms: int) -> None:
        self.timeouts_ms.append(timeout_ms)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self.paused |= set(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self.paused -= set(partitions)

    def request_commit(self) -> None:
        self.commit_requests += 1

    def stopping(self) -> bool:
        return self.is_ending
