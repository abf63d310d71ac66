"""The states of the config and the status topic at one instant, for many threads at once."""

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
    """Both states, which are never changed. ``configs`` is at least as new: a status belongs to a connector that is known, or deleted."""

    configs: ClusterConfigState
    statuses: StatusState

    @classmethod
    def of(cls, configs: ClusterConfigState) -> Snapshot:
        """One in which no statuses are known, for those who ask for none."""
        return cls(configs, StatusState())


class SharedRead(Generic[_T]):
    """Callers that come while a read is under way share the next one: each gets what was read after it asked.

    So a hundred threads cost two reads, and none sees less than one of its own would show. ``read`` runs in one thread at a time; what it
    raises, all that share it get.
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
    """Reads both topics to their ends at each call and keeps their states in between. Nothing is opened before the first call.

    It has consumers of its own, so that no reader waits for a writer.
    """

    def __init__(self, backing: Backing) -> None:
        self._configs = backing.configs()
        self._statuses = backing.statuses()
        self._folded: StatusState | None = None
        self._last = StatusState()
        self._shared = SharedRead(self._read_both)
        self._shared_configs = SharedRead(self._configs.read)

    def read(self) -> Snapshot:
        """Everything that was written before the call. Raises what the stores raise."""
        return self._shared()

    def configs(self) -> ClusterConfigState:
        """The config topic alone, which takes half the time."""
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
    """The config topic to write to, and both topics to read."""

    configs: ConfigChanges
    reader: SnapshotReader


def config_of(state: ClusterConfigState, name: str) -> dict[str, str]:
    """The connector's raw config. Raises NotFoundException."""
    config = state.connector_config(name)
    if config is None:
        raise NotFoundException(f"Connector {name} not found")
    return config
