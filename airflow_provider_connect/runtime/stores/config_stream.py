"""Follows the config topic for all connectors of a process, with one consumer. Each connector gets a store and followers that share it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.config.client_settings import ClientKind, internal_client_config
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState, connector_of
from airflow_provider_connect.runtime.model.config_snapshot import ConfigSnapshot
from airflow_provider_connect.runtime.model.log_levels import apply_levels
from airflow_provider_connect.runtime.model.records import ConfigRecord, LoggerRecord, Unreadable
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.stores.backing import TopicBacking
from airflow_provider_connect.runtime.stores.config_changes import ConfigChanges, Decide
from airflow_provider_connect.runtime.stores.config_follower import Change, ConfigFollower, connectors_of_verbs, gravest_change, has_changed
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.decoders import decode_config
from airflow_provider_connect.runtime.stores.log_consumer import Closing
from airflow_provider_connect.runtime.stores.topic_reader import TopicTail

_KEPT = 2000  # records, for followers that begin at an earlier claim

Record = ConfigRecord | Unreadable


class ConfigStream(Closing):
    """``poll`` is for one thread, which calls it again and again. The other methods are safe to share between threads.

    Raises TopicMissingException, StoreTimeoutException when it is created.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        self._store = ConfigStore(settings)
        try:
            self._kept_from = self._store.read().offset
        except BaseException:
            self._store.close()
            raise
        self._lock = threading.Lock()
        self._kept = deque[Record]()
        self._followers: list[_StreamFollower] = []
        config = internal_client_config(settings, ClientKind.CONSUMER, "configs")
        self._tail = TopicTail[Record](config, {TopicPartition(settings.config_topic, 0): self._kept_from}, decode_config)

    def state(self) -> ClusterConfigState:
        """The state with all records that were committed before the call."""
        return self._store.read()

    def configs(self, connector: str) -> ConfigChanges:
        """The store for one connector. The stream must be open as long as the store is used."""
        return _SharedConfigs(self, self._store, connector)

    def poll(self, timeout_seconds: float) -> Collection[str]:
        """Read the records since the last call, and notify the followers. Returns the connectors that verbs have changed
        (``connectors_of_verbs``).

        Raises LogTruncatedException when the topic was recreated.
        """
        records = self._tail.poll(timeout_seconds)
        if not records:
            return ()
        apply_levels(record for record in records if isinstance(record, LoggerRecord))
        with self._lock:
            self._kept.extend(records)
            while len(self._kept) > _KEPT:
                self._kept_from = self._kept.popleft().offset + 1
            for follower in self._followers:
                follower.add(records)
        return connectors_of_verbs(records)

    def follow(self, connector: str, claim: Claim) -> ConfigFollower:
        """See ``ConfigChanges.follow``."""
        follower = _StreamFollower(connector, claim, self._remove)
        with self._lock:
            self._followers.append(follower)
            follower.add(self._kept)
            if claim.offset + 1 < self._kept_from:
                follower.note_gap()
        return follower

    def _remove(self, follower: _StreamFollower) -> None:
        with self._lock:
            self._followers.remove(follower)

    def close(self) -> None:
        self._tail.close()
        self._store.close()


class _StreamFollower(ConfigFollower):
    """Has the records that the stream has read since the claim. ``note_gap``: it may have missed some, so its first answer is True."""

    def __init__(self, connector: str, claim: Claim, on_close: Callable[[_StreamFollower], None]) -> None:
        self._connector = connector
        self._claim = claim
        self._on_close = on_close
        self._changed = threading.Condition()
        self._records: list[Record] = []
        self._has_gap = False

    def add(self, records: Iterable[Record]) -> None:
        """Called by the stream with all new records. The stream may have been slower than the claim's own process."""
        own = [record for record in records if record.offset > self._claim.offset and connector_of(record) == self._connector]
        if own:
            with self._changed:
                self._records += own
                self._changed.notify_all()

    def note_gap(self) -> None:
        self._has_gap = True

    def _new(self, timeout_seconds: float) -> list[Record]:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._records), timeout_seconds)
            records, self._records = self._records, []
        return records

    def poll(self, timeout_seconds: float = 0.0) -> Change | None:
        return gravest_change(self._new(timeout_seconds), self._connector, self._claim)

    def has_changed(self, owner: str, timeout_seconds: float = 0.0) -> bool:
        if self._has_gap:
            self._has_gap = False
            return True
        return has_changed(self._new(timeout_seconds), self._connector, owner)

    def close(self) -> None:
        self._on_close(self)


class _SharedConfigs(ConfigChanges):
    """One connector's part of a store that the stream owns."""

    def __init__(self, stream: ConfigStream, store: ConfigStore, connector: str) -> None:
        self._stream = stream
        self._store = store
        self._connector = connector

    def read(self, timeout_seconds: float | None = None) -> ClusterConfigState:
        return self._store.read(timeout_seconds)

    def snapshot(self) -> ConfigSnapshot | None:
        return self._store.snapshot(self._connector)

    def follow(self, connector: str, claim: Claim) -> ConfigFollower:
        return self._stream.follow(connector, claim)

    def change(self, decide: Decide) -> list[int]:
        return self._store.change(decide)

    def topic_id(self) -> str:
        return self._store.topic_id()

    def close(self) -> None:
        """Does nothing: the stream closes the store."""


class StreamBacking(TopicBacking):
    """Keeps the state of ``connector`` on the topics, with the stream's clients of the config topic."""

    def __init__(self, settings: WorkerSettings, stream: ConfigStream, connector: str) -> None:
        super().__init__(settings, only=connector)
        self._stream = stream
        self._connector = connector

    def configs(self) -> ConfigChanges:
        return self._stream.configs(self._connector)
