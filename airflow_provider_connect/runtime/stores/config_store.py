"""Reads the config topic as a state, and changes it by compare-and-set.

A change is one transaction under Connect's own leader id, ``connect-cluster-«group.id»``. Steps: 1 take over the id (once; the producer is
kept); 2 read to the end; 3 decide; 4 write and commit; 5 read the written records. If another writer took over the id between steps 2 and
4, we are fenced and start again, so every decision is based on the newest state. The takeover also ends the open transaction of a dead
writer, which would block every reader. A commit returns before its marker is on the topic. The broker makes the next owner of the id wait
for the marker. With step 5, this store also waits for the marker, before its own next change and before the next reader.

A broker that restarts may lose the marker of a transaction (Kafka 4.3 skips it while the only replica's broker is fenced). The records of
the transaction, and all records after them, then stay hidden. Therefore, if a transaction is still open at step 2, another transaction ends
it, and is aborted. The writer of the open transaction has not completed step 5, and writes again.
"""

import logging
import threading
import time
from collections.abc import Collection
from random import Random

from airflow_provider_connect.errors import ConnectException, RecordTooLargeException, StoreTimeoutException
from airflow_provider_connect.runtime.config.client_settings import ClientKind, internal_client_config
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState, ConfigLog
from airflow_provider_connect.runtime.model.config_snapshot import ConfigSnapshot
from airflow_provider_connect.runtime.model.records import ConfigRecord, Unreadable
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.stores.backoff import Backoff
from airflow_provider_connect.runtime.stores.config_changes import ConfigChanges, Decide
from airflow_provider_connect.runtime.stores.config_follower import TopicConfigFollower
from airflow_provider_connect.runtime.stores.config_leader import ConfigLeader, NotWrittenException
from airflow_provider_connect.runtime.stores.decoders import decode_config
from airflow_provider_connect.runtime.stores.log_consumer import LogTruncatedException
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.stores.topic_reader import TopicReader

_CONTENTION = Backoff(initial_ms=10, max_ms=500, multiplier=1.5, jitter=0.9)
_CALL_SECONDS = 10.0
_POLL_SECONDS = 0.001
_MARKER_SECONDS = 10.0
_STAGE = "writing to the config topic"
_FAILED = "Failed to write to config topic; this may be due to a transient error and the request can be safely retried"

_log = logging.getLogger(__name__)


class ConfigStore(ConfigChanges):
    """See the module. Safe to share between threads. Nothing is opened before the first use.

    ``timeout_seconds`` limits each call. ``known`` is the state that another process has read. If the topic is still the same, only later
    records are read. ``only``: the state contains only that connector.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        timeout_seconds: float = 30.0,
        known: ConfigSnapshot | None = None,
        only: str | None = None,
    ) -> None:
        self._settings = settings
        self._known = known
        self._only = only
        self._timeout_seconds = timeout_seconds
        self._random = Random()
        self._lock = threading.RLock()
        self._admin = TopicAdmin(settings)
        config = internal_client_config(settings, ClientKind.CONSUMER, "configs")
        self._reader = TopicReader[ConfigRecord | Unreadable](settings.config_topic, config, decode_config)
        self._is_open = False  # the reader, with the topic's id and the start position
        self._leader: ConfigLeader | None = None
        self._fold = ConfigLog(only=only)
        self.skipped = self._reader.skipped

    def read(self, timeout_seconds: float | None = None) -> ClusterConfigState:
        """The state at the topic's end, with all records committed before the call. Raises TopicMissingException, StoreTimeoutException."""
        with self._lock:
            self._read(timeout_seconds or self._timeout_seconds)
            return self._fold.state.copy()

    def snapshot(self, only: str | None = None) -> ConfigSnapshot | None:
        """See ConfigChanges. ``only``: the snapshot contains only that connector."""
        only = only or self._only
        with self._lock:
            if not self._fold.topic_id:
                return None
            return ConfigSnapshot.of(self._fold, None if only is None else [only])

    def topic_id(self) -> str:
        with self._lock:
            if not self._fold.topic_id:
                self._fold.topic_id = self._admin.topic_id(self._settings.config_topic)
            return self._fold.topic_id

    def change(self, decide: Decide) -> list[int]:
        """See ConfigChanges. If ``decide`` raises, nothing is written and the exception propagates.

        Raises StoreTimeoutException if the change was not committed in time. Then the change has no effect, unless the broker was lost
        between the commit and the check of its outcome.
        """
        with self._lock:
            return self._changed(decide, time.monotonic() + self._timeout_seconds)

    def _changed(self, decide: Decide, deadline: float) -> list[int]:
        uncertain: list[int] = []  # offsets of an attempt whose commit may have succeeded
        attempt = 0
        while True:
            try:
                leader = self._owner(deadline)  # 1
                seen = self._read(_left(deadline), uncertain)  # 2
                if uncertain and uncertain[-1] in seen:
                    return uncertain
                self._end_hidden(leader, deadline)
                uncertain = []
                records = decide(self._fold.state.copy())  # 3
                if not records:
                    return []
                offsets = leader.write(list(records), min(_CALL_SECONDS, _left(deadline)))  # 4
                self._read_past(offsets, min(deadline, time.monotonic() + _MARKER_SECONDS))  # 5
                return offsets
            except RecordTooLargeException:
                self._drop_leader()
                raise
            except NotWrittenException as error:
                self._drop_leader()
                uncertain = error.uncertain or uncertain
                if not error.is_transient:
                    raise ConnectException(f"{_FAILED}: {error}") from error
                if time.monotonic() > deadline:
                    raise StoreTimeoutException(f"{_FAILED}: {error}", stage=_STAGE) from error
            time.sleep(_CONTENTION.delay_ms(attempt, self._random) / 1000)
            attempt += 1

    def _end_hidden(self, leader: ConfigLeader, deadline: float) -> None:
        """Ends a transaction that hides records, and reads to the end. Raises NotWrittenException, StoreTimeoutException."""
        if not self._reader.hides_records:
            return
        leader.end_open_transaction(min(_CALL_SECONDS, _left(deadline)))  # raises if fenced by another writer
        _log.warning("Config topic %s had a transaction without its marker; it was aborted", self._settings.config_topic)
        limit = min(deadline, time.monotonic() + _MARKER_SECONDS)
        while self._reader.hides_records:
            if time.monotonic() > limit:
                raise NotWrittenException("an open transaction of another client hides records", is_transient=True)
            time.sleep(_POLL_SECONDS)
            self._read(_left(deadline))

    def _read_past(self, offsets: list[int], deadline: float) -> None:
        """Reads to the end, which must be after ``offsets``. Raises NotWrittenException."""
        while True:
            try:
                self._read(_left(deadline))
            except StoreTimeoutException as error:
                if self._fold.state.offset <= offsets[-1]:
                    raise NotWrittenException(str(error), is_transient=True, uncertain=offsets) from error
            if self._fold.state.offset > offsets[-1]:
                return
            if time.monotonic() > deadline:
                raise NotWrittenException("the marker of the transaction is not on the topic", is_transient=True, uncertain=offsets)
            time.sleep(_POLL_SECONDS)

    def _owner(self, deadline: float) -> ConfigLeader:
        """The leader, after it has taken over the id. Waits longer for a broker that has answered before."""
        if self._leader is None:
            leader = ConfigLeader(self._settings)
            leader.take_over(_left(deadline) if self._is_open else _CALL_SECONDS)
            self._leader = leader
        return self._leader

    def _drop_leader(self) -> None:
        if self._leader is not None:
            self._leader.close()
        self._leader = None

    def _read(self, timeout_seconds: float, awaited: Collection[int] = ()) -> set[int]:
        """Applies the records up to the topic's end. Returns the ``awaited`` offsets among them. Records that were read before a timeout
        stay applied."""
        seen: set[int] = set()

        def apply(record: ConfigRecord | Unreadable) -> str:
            if record.offset in awaited:
                seen.add(record.offset)
            return self._fold.apply(record)

        try:
            self._open(timeout_seconds)
            self._reader.read(apply, timeout_seconds)
        except LogTruncatedException:
            _log.warning("Config topic %s was recreated; reading it from its beginning", self._settings.config_topic)
            self._close_reader()
            self._fold, self._known = ConfigLog(only=self._only), None
            seen.clear()
            self._open(timeout_seconds)
            self._reader.read(apply, timeout_seconds)
        return seen

    def _open(self, timeout_seconds: float) -> None:
        """Finds where to start reading. Meanwhile requests the topic's id, which is part of each claim."""
        if self._is_open:
            return
        topic = self._settings.config_topic
        later = self._admin.describe_later([topic])[topic]
        try:
            self._reader.partitions(min(timeout_seconds, _CALL_SECONDS))
            topic_id = self._admin.described_id(topic, later)
        except ConnectException:
            self._close_reader()
            raise
        if self._known is not None and self._known.topic_id == topic_id:
            self._fold = self._known.log(self._only)
            self._reader.start_at({0: self._known.offset})
        self._fold.topic_id = topic_id
        self._is_open = True

    def _close_reader(self) -> None:
        self._reader.close()
        self._is_open = False

    def follow(self, connector: str, claim: Claim) -> TopicConfigFollower:
        return TopicConfigFollower(self._settings, connector, claim)

    def close(self) -> None:
        with self._lock:
            self._drop_leader()
            self._close_reader()
            self._admin.close()


def _left(deadline: float) -> float:
    return max(1.0, deadline - time.monotonic())
