"""Starts, pauses, stops and deletes connectors: makes runs and statuses agree with target states.

The record on the config topic is written first and decides. The methods named after a state or an event (``created``, ``stopped``, …) may
be called again for the same connector. They then do what remains. In this way the reconciler completes what a killed process began.
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
    """See the module. ``repair_offsets`` is called for a connector that is STOPPED and whose runs have ended. ``graceful_seconds`` is how
    long a run may take to end by itself before it is killed."""

    def __init__(
        self,
        topics: Topics,
        statuses: StatusKeeper,
        launcher: Launcher,
        *,
        repair_offsets: Callable[[str], None],
        graceful_seconds: float,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._configs, self._reader = topics
        self._statuses = statuses
        self._launcher = launcher
        self._repair_offsets = repair_offsets
        self._graceful_seconds = graceful_seconds
        self._sleep = sleep

    # ── verbs, for ``author``, where that is a user ──

    def resume(self, name: str, author: str | None = None) -> None:
        """Set the target state STARTED. Statuses become RUNNING immediately, except FAILED ones, and a run starts.

        A run that is still alive was asked to pause. It is fenced, so that it does not report PAUSED afterwards.
        """
        was = self._put_target(name, TargetState.STARTED, author)
        if was is TargetState.STARTED:
            return
        self.interrupt(name)
        self.reach(name)
        self._launcher.trigger(name)

    def pause(self, name: str, author: str | None = None, *, keep_failed: bool = False) -> None:
        """Set the target state PAUSED. A run in progress ends after its batch, and writes its statuses itself. If there is no run, this
        method writes the statuses."""
        self._put_target(name, TargetState.PAUSED, author)
        if not self._launcher.is_running(name):
            self.reach(name, keep_failed=keep_failed)

    def stop(self, name: str, author: str | None = None) -> None:
        """Set the target state STOPPED. Steps: 1 write the target state and an empty task set; 2 write a claim, which fences living runs; 3
        end the runs; 4 repair the offsets that the runs left open or aborted; 5 write the statuses."""
        self._put_target(name, TargetState.STOPPED, author)  # 1
        self.stopped(name)

    # ── effects of a record ──

    def created(self, name: str) -> None:
        """Called for a new connector: write the status of its target state and start a run, which plans its tasks."""
        self.reach(name)
        if self._reader.configs().target_state(name) is TargetState.STARTED:
            self._launcher.trigger(name)

    def reconfigured(self, name: str, *, is_changed: bool) -> None:
        """Called after a config was written. The tasks become UNASSIGNED until a run has planned and started them again. Paused and stopped
        connectors keep their statuses. As in Connect, an unchanged config restarts the connector but not its tasks."""
        if self._reader.configs().target_state(name) is not TargetState.STARTED:
            return
        if is_changed:
            self.interrupt(name)
        if self.report_obstacle(name):
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
        """The target state is STOPPED: end the runs, then write the statuses. Returns False if a run has not ended yet. Then call again."""
        tasks = self._reader.read().statuses.task_map(name)
        self._claim(name)  # 2
        if not self._end(name):  # 3
            _log.warning("Connector %s is stopped, but its run has not ended yet; its statuses follow when it has", name)
            return False
        self._attempt_offset_repair(name)  # 4
        self.reach(name, tasks=tasks)  # 5
        return True

    def deleted(self, name: str) -> bool:
        """The connector was deleted from the config topic: remove its runs, statuses, topics and DAG. False: a run has not ended yet."""
        if not self._end(name):
            _log.warning("Connector %s is deleted, but its run has not ended yet; the rest is removed when it has", name)
            return False
        snapshot = self._reader.read()
        if name in snapshot.configs:  # recreated meanwhile
            return True
        self._statuses.remove(snapshot, name)
        self._statuses.flush()
        self._launcher.forget(name)
        return True

    # ── steps ──

    def reach(self, name: str, *, tasks: Iterable[int] | None = None, keep_failed: bool = False) -> None:
        """Write the statuses of the connector's current target state. Writes nothing for a deleted connector."""
        snapshot = self._reader.read()
        target = snapshot.configs.target_state(name)
        if target is TargetState.STARTED and self.report_obstacle(name):
            return
        if target is not None:
            self._statuses.reach(snapshot, name, target, tasks=tasks, keep_failed=keep_failed)
            self._statuses.flush()

    def report_obstacle(self, name: str) -> bool:
        """If no run of the connector can ever start, write UNASSIGNED with the reason and return True."""
        obstacle = self._launcher.obstacle(name)
        if obstacle is None:
            return False
        self._statuses.put_obstacle(self._reader.read(), name, obstacle)
        return True

    def interrupt(self, name: str) -> bool:
        """Fence a living run. It ends after its batch, commits its offsets, and reports nothing more. False: no run is alive."""
        if not self._launcher.is_running(name):
            return False
        self._claim(name)
        return True

    def forget_topics(self, name: str, topics: Iterable[str], author: str | None = None) -> None:
        forgotten = list(topics)
        if forgotten:
            self._statuses.forget_topics(name, forgotten, author)
            self._statuses.flush()

    def _attempt_offset_repair(self, name: str) -> None:
        """Repair the offsets if possible. A connector becomes STOPPED even if the broker of its offsets does not answer. Then a later
        change of the offsets repairs them first."""
        try:
            self._repair_offsets(name)
        except ConnectException as error:
            _log.warning("Connector %s is stopped, but its offsets could not be repaired: %s", name, error.message)

    @staticmethod
    def claim_record(state: ClusterConfigState, name: str) -> FencingRecord:
        """The record that fences every living run of the connector."""
        return FencingRecord(name, state.ids_alive(name))

    def _claim(self, name: str) -> None:
        try:
            self._configs.claim(name)
        except NotFoundException:
            _log.debug("Connector %s was deleted meanwhile", name)

    def _put_target(self, name: str, target: TargetState, author: str | None) -> TargetState | None:
        """Returns the previous target state."""
        was = self._reader.configs().target_state(name)
        try:
            self._configs.put_target_state(name, target, author=author)
        except NotFoundException as error:
            raise NotFoundException(f"Unknown connector {name}") from error
        return was

    def _end(self, name: str) -> bool:
        """Let living runs end by themselves within the graceful time. Then end them and queued runs."""
        self._wait(name, self._graceful_seconds)
        self._launcher.end(name)
        return self._wait(name, _KILL_SECONDS)

    def _wait(self, name: str, seconds: float) -> bool:
        return wait_until(lambda: not self._launcher.is_running(name), seconds, self._sleep)


def wait_until(is_reached: Callable[[], bool], seconds: float, sleep: Callable[[float], None]) -> bool:
    """Poll ``is_reached`` for up to ``seconds``. Returns its last result."""
    for _ in range(round(seconds / _POLL_SECONDS)):
        if is_reached():
            return True
        sleep(_POLL_SECONDS)
    return is_reached()
