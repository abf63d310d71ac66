"""The states of the config and the status topic at one instant, shared by many threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from airflow_provider_connect.errors import NotFoundException
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.status import StatusState
from airflow_provider_connect.runtime.stores.backing import Backing
from airflow_provider_connect.runtime.stores.config_changes import ConfigChanges

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Both states, which are never modified. ``configs`` is at least as new as the statuses, so a status belongs to a known or a deleted
    connector."""

    configs: ClusterConfigState
    statuses: StatusState

    @classmethod
    def of(cls, configs: ClusterConfigState) -> Snapshot:
        """A snapshot without statuses, for callers that do not need them."""
        return cls(configs, StatusState())


class SharedRead(Generic[_T]):
    """Callers that arrive during a read share the next read. So each caller gets a read that began after its call.

    So a hundred threads cost two reads, and each sees the result that a read of its own would give. ``read`` runs in one thread at a time.
    All callers that share a read get its exception.
    """

    def __init__(self, read: Callable[[], _T]) -> None:
        self._read = read
        self._changed = threading.Condition()
        self._started = self._finished = 0
        self._outcome: _T | None = None
        self._error: BaseException | None = None

    def __call__(self) -> _T:
        with self._changed:
            wanted = self._started + 1
            self._changed.wait_for(lambda: self._finished >= wanted or self._started == self._finished)
            if self._finished >= wanted:
                return self._answer()
            self._started += 1
        try:
            outcome, error = self._read(), None
        except BaseException as raised:  # (raised again below, in every thread that waits for it)
            outcome, error = None, raised
        with self._changed:
            self._finished = self._started
            self._outcome, self._error = outcome, error
            self._changed.notify_all()
            return self._answer()

    def _answer(self) -> _T:
        if self._error is not None:
            raise self._error
        assert self._outcome is not None
        return self._outcome


class SnapshotReader:
    """Reads both topics to their ends at each call, and keeps their states between calls. Opens nothing before the first call.

    It has its own consumers, so that readers do not wait for writers.
    """

    def __init__(self, backing: Backing) -> None:
        self._configs = backing.configs()
        self._statuses = backing.statuses()
        self._folded: StatusState | None = None
        self._last = StatusState()
        self._shared = SharedRead(self._read_both)
        self._shared_configs = SharedRead(self._configs.read)

    def read(self) -> Snapshot:
        """Everything that was written before the call. Raises the exceptions of the stores."""
        return self._shared()

    def configs(self) -> ClusterConfigState:
        """Only the state of the config topic. Reading it takes half the time."""
        return self._shared_configs()

    def _read_both(self) -> Snapshot:
        statuses = self._statuses.read()
        if self._folded is not statuses or self._last.version != statuses.version:
            self._folded, self._last = statuses, statuses.copy()
        return Snapshot(self._shared_configs(), self._last)

    def close(self) -> None:
        self._configs.close()
        self._statuses.close()


class Topics(NamedTuple):
    """The writer of the config topic, and the reader of both topics."""

    configs: ConfigChanges
    reader: SnapshotReader


def config_of(state: ClusterConfigState, name: str) -> dict[str, str]:
    """The connector's raw config. Raises NotFoundException."""
    config = state.connector_config(name)
    if config is None:
        raise NotFoundException(f"Connector {name} not found")
    return config
