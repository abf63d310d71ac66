"""Starting, pausing, stopping and ending connectors: target states, runs and statuses are made to agree.

The record on the config topic comes first and decides. Every method whose name is a state reached or an event may be called again for the
same connector, and does what is left to do: that is how the reconciler completes what a killed process began.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from airflow_provider_connect.errors import ConnectException, NotFoundException
from airflow_provider_connect.runtime.herder.ports import Launcher
from airflow_provider_connect.runtime.herder.snapshot import Topics
from airflow_provider_connect.runtime.herder.statuses import StatusKeeper
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.records import FencingRecord
from airflow_provider_connect.runtime.model.states import State, TargetState

_POLL_SECONDS = 0.1
_KILL_SECONDS = 10.0

_log = logging.getLogger(__name__)


class Lifecycle:
    """See the module. ``settle`` is called with a connector whose runs have ended for good; ``graceful_seconds`` is how long a run may take
    to end by itself before it is killed."""

    def __init__(
        self,
        topics: Topics,
        statuses: StatusKeeper,
        launcher: Launcher,
        *,
        settle: Callable[[str], None],
        graceful_seconds: float,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._configs, self._reader = topics
        self._statuses = statuses
        self._launcher = launcher
        self._settle = settle
        self._graceful_seconds = graceful_seconds
        self._sleep = sleep

    # ── verbs, for ``author``, where that is a user ──

    def resume(self, name: str, author: str | None = None) -> None:
        """STARTED: statuses become RUNNING at once, but for what has FAILED, and a run starts.

        A run that still lives was asked to pause: it is fenced, so that it does not report PAUSED after this.
        """
        was = self._put_target(name, TargetState.STARTED, author)
        if was is TargetState.STARTED:
            return
        self.interrupt(name)
        self.reach(name)
        self._launcher.trigger(name)

    def pause(self, name: str, author: str | None = None, *, keep_failed: bool = False) -> None:
        """PAUSED. A run in progress sees it, ends after its batch and writes its statuses itself; where none is, they are written here."""
        self._put_target(name, TargetState.PAUSED, author)
        if not self._launcher.is_running(name):
            self.reach(name, keep_failed=keep_failed)

    def stop(self, name: str, author: str | None = None) -> None:
        """STOPPED: 1 target state and an empty task set 2 a claim, which fences whatever lives 3 runs ended 4 what they left open
        or aborted is settled 5 statuses."""
        self._put_target(name, TargetState.STOPPED, author)  # 1
        self.stopped(name)

    # ── what follows from a record ──

    def created(self, name: str) -> None:
        """The connector is new: its status is that of its target state, and a run makes its tasks."""
        self.reach(name)
        if self._reader.configs().target_state(name) is TargetState.STARTED:
            self._launcher.trigger(name)

    def reconfigured(self, name: str, *, is_changed: bool) -> None:
        """A config was written. The tasks are UNASSIGNED until a run has planned and started them anew; paused and stopped ones stay so.

        One that is the same as before restarts the connector and leaves its tasks alone, as in Connect.
        """
        if self._reader.configs().target_state(name) is not TargetState.STARTED:
            return
        if is_changed:
            self.interrupt(name)
        if self.is_held_up(name):
            return
        snapshot = self._reader.read()
        was = snapshot.statuses.connector(name)
        if was is None:
            self._statuses.put_connector(snapshot, name, State.RUNNING)
        elif was.state is State.FAILED:
            self._statuses.put_connector(snapshot, name, State.UNASSIGNED)
        for task in snapshot.statuses.task_map(name) if is_changed else ():
            self._statuses.put_task(snapshot, name, task, State.UNASSIGNED)
        self._statuses.flush()
        self._launcher.trigger(name)

    def stopped(self, name: str) -> bool:
        """The target state is STOPPED: end what runs, then write the statuses. False: a run has not ended yet: call again."""
        tasks = self._reader.read().statuses.task_map(name)
        self._claim(name)  # 2
        if not self._end(name):  # 3
            _log.warning("Connector %s is stopped, but its run has not ended yet; its statuses follow when it has", name)
            return False
        self._attempt_to_settle(name)  # 4
        self.reach(name, tasks=tasks)  # 5
        return True

    def deleted(self, name: str) -> bool:
        """The connector is gone from the config topic: its runs, statuses, topics and DAG go too. False: a run has not ended yet."""
        if not self._end(name):
            _log.warning("Connector %s is deleted, but its run has not ended yet; the rest of it goes when it has", name)
            return False
        snapshot = self._reader.read()
        if name in snapshot.configs:  # created anew meanwhile
            return True
        self._statuses.remove(snapshot, name)
        self._statuses.flush()
        self._launcher.forget(name)
        return True

    # ── steps ──

    def reach(self, name: str, *, tasks: Iterable[int] | None = None, keep_failed: bool = False) -> None:
        """Write the statuses of the target state that the connector has now; nothing for one that is gone."""
        snapshot = self._reader.read()
        target = snapshot.configs.target_state(name)
        if target is TargetState.STARTED and self.is_held_up(name):
            return
        if target is not None:
            self._statuses.reach(snapshot, name, target, tasks=tasks, keep_failed=keep_failed)
            self._statuses.flush()

    def is_held_up(self, name: str) -> bool:
        """Whether no run of the connector will ever start; then its statuses have become UNASSIGNED, with the reason."""
        obstacle = self._launcher.obstacle(name)
        if obstacle is None:
            return False
        snapshot = self._reader.read()
        was = snapshot.statuses.connector(name)
        if was is None or was.trace != obstacle:
            _log.warning("Connector %s is UNASSIGNED: %s", name, obstacle)
        self._statuses.hold_up(snapshot, name, obstacle)
        self._statuses.flush()
        return True

    def interrupt(self, name: str) -> bool:
        """Fence the run that may live: it ends after its batch, with its offsets committed, and reports nothing more. False: no run
        lives."""
        if not self._launcher.is_running(name):
            return False
        self._claim(name)
        return True

    def forget_topics(self, name: str, topics: Iterable[str], author: str | None = None) -> None:
        forgotten = list(topics)
        if forgotten:
            self._statuses.forget_topics(name, forgotten, author)
            self._statuses.flush()

    def _attempt_to_settle(self, name: str) -> None:
        """A connector is STOPPED even if the broker of its offsets does not answer; a later change of them settles them first."""
        try:
            self._settle(name)
        except ConnectException as error:
            _log.warning("Connector %s is stopped, but its offsets could not be settled: %s", name, error.message)

    @staticmethod
    def claim_record(state: ClusterConfigState, name: str) -> FencingRecord:
        """The record that takes the connector over from whatever lives."""
        return FencingRecord(name, state.ids_alive(name))

    def _claim(self, name: str) -> None:
        try:
            self._configs.claim(name)
        except NotFoundException:
            _log.debug("Connector %s was deleted meanwhile", name)

    def _put_target(self, name: str, target: TargetState, author: str | None) -> TargetState | None:
        """Returns the target state before."""
        was = self._reader.configs().target_state(name)
        try:
            self._configs.put_target_state(name, target, author=author)
        except NotFoundException as error:
            raise NotFoundException(f"Unknown connector {name}") from error
        return was

    def _end(self, name: str) -> bool:
        """Let what lives end by itself for the graceful time, then end it; whatever waits to start goes as well."""
        self._wait(name, self._graceful_seconds)
        self._launcher.end(name)
        return self._wait(name, _KILL_SECONDS)

    def _wait(self, name: str, seconds: float) -> bool:
        return wait_until(lambda: not self._launcher.is_running(name), seconds, self._sleep)


def wait_until(is_reached: Callable[[], bool], seconds: float, sleep: Callable[[float], None]) -> bool:
    """Whether ``is_reached`` within the time."""
    for _ in range(round(seconds / _POLL_SECONDS)):
        if is_reached():
            return True
        sleep(_POLL_SECONDS)
    return is_reached()
