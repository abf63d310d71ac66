"""Finds connectors without a successful run, and sinks that lag behind their topics, for longer than their configs allow.

Airflow has deadlines only for runs that it has created, not for runs that never happen. Sent notices are kept in memory, so a notice may be
repeated after a restart of the process. Knows nothing of threads, leases and notifiers.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from airflow_provider_connect.api_server.dags import Sessions
from airflow_provider_connect.api_server.runs import first_queued, last_successes
from airflow_provider_connect.dag_files.deadlines import LAGGING, SILENT
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.dag_settings import DEADLINE, ON_DEADLINE, DagSettings, dag_settings
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.model.states import TargetState

FORGOTTEN_SECONDS = 120.0
"""After this time without a tick, another process may have watched, so the state is dropped."""
_OVERLAP_SECONDS = 60.0  # a run that ends now may be committed a little later
_LAG = "records-lag"
_NEVER = datetime.fromtimestamp(0, UTC)


class WatchedHerder(Protocol):
    """The part of the herder that the watch needs."""

    def config_state(self) -> ClusterConfigState:
        """The connectors that exist, with their target states, as of now."""
        ...

    def task_metrics(self) -> Mapping[tuple[str, int], Mapping[str, float]]:
        """Read the batch log to its end. ``sink_lags`` needs the positions from it."""
        ...

    def sink_lags(self, names: Collection[str]) -> dict[str, dict[str, float]]:
        """``records-lag`` of each sink among ``names`` whose positions are known."""
        ...


@dataclass(frozen=True, slots=True)
class MissedDeadline:
    """A missed deadline: the content of the notice. ``state`` is ``SILENT`` or ``LAGGING``."""

    connector: str
    names: tuple[str, ...]
    state: str
    error: str


@dataclass(slots=True)
class Episode:
    """A condition that may last. It causes one notice each time it begins."""

    since: float | None = None
    is_notified: bool = False

    def is_due(self, since: float | None, *, now: float, longest_seconds: float) -> bool:
        """Whether a notice is due now; it then counts as sent. If ``since`` is None, the condition is not met."""
        if since != self.since:
            self.since, self.is_notified = since, False
        if since is None or self.is_notified or now - since < longest_seconds:
            return False
        self.is_notified = True
        return True


@dataclass(slots=True)
class _Running:
    """A connector with target state STARTED. ``started`` is its known start."""

    started: float
    succeeded: float = 0.0
    silence: Episode = field(default_factory=Episode)
    lag: Episode = field(default_factory=Episode)


class DeadlineWatch:
    """``send`` is called for each missed deadline and raises no exception. ``now`` is in seconds since 1970."""

    def __init__(
        self, control: WatchedHerder, sessions: Sessions, *, send: Callable[[MissedDeadline], None], now: Callable[[], float]
    ) -> None:
        self._control, self._sessions, self._send, self._now = control, sessions, send, now
        self._running: dict[str, _Running] = {}
        self._resting: set[str] = set()  # connectors seen paused or stopped, to notice when they resume
        self._checked_at = float("-inf")

    def tick(self) -> None:
        """Called at intervals by the process with the lease. Raises the errors of the stores and the database."""
        now = self._now()
        if now - self._checked_at > FORGOTTEN_SECONDS:
            self._running.clear()
            self._resting.clear()
        state = self._control.config_state()
        limits = _limits(state)
        resting = {name for name in limits if state.target_state(name) is not TargetState.STARTED}
        started = {name: settings for name, settings in limits.items() if name not in resting}
        self._update_running(started, now)
        self._resting, self._checked_at = resting, now
        for name, settings in started.items():
            self._check_silence(name, settings, now)
        self._check_lags(started, now)

    def _update_running(self, started: Mapping[str, DagSettings], now: float) -> None:
        """Update ``_running``. Takes one database query for all connectors, and two for each new connector."""
        self._running = {name: running for name, running in self._running.items() if name in started}
        silent = {name for name, settings in started.items() if settings.longest_silence_seconds is not None}
        with self._sessions() as session:
            recent = datetime.fromtimestamp(max(self._checked_at - _OVERLAP_SECONDS, 0), UTC)
            for name, ended in _by_connector(last_successes(session, map(dag_id_for, silent & self._running.keys()), recent), silent):
                self._running[name].succeeded = max(self._running[name].succeeded, ended)
            new = started.keys() - self._running.keys()
            self._running |= {name: _Running(now) for name in new}
            for name, ended in _by_connector(last_successes(session, map(dag_id_for, silent & new), _NEVER), silent):
                self._running[name].succeeded = ended
            for name in (silent & new) - self._resting:  # the connector was running before this process watched
                queued = first_queued(session, dag_id_for(name), datetime.fromtimestamp(self._running[name].succeeded, UTC))
                self._running[name].started = now if queued is None else queued.timestamp()

    def _check_silence(self, name: str, settings: DagSettings, now: float) -> None:
        longest, running = settings.longest_silence_seconds, self._running[name]
        if longest is None or not running.silence.is_due(max(running.started, running.succeeded), now=now, longest_seconds=longest):
            return
        last = f"The last one ended at {_format_time(running.succeeded)}." if running.succeeded else "No run has ever succeeded."
        error = f"No run of connector {name} has succeeded for {longest:g}s (airflow.deadline.silence). {last}"
        self._send(MissedDeadline(name, settings.on_deadline, SILENT, error))

    def _check_lags(self, started: Mapping[str, DagSettings], now: float) -> None:
        """A sink with an unknown lag keeps its previous state."""
        limits = {name: settings.most_lag for name, settings in started.items() if settings.most_lag is not None}
        if not limits:
            return
        self._control.task_metrics()
        lags = self._control.sink_lags(limits.keys())
        for name, most in limits.items():
            if name not in lags:
                continue
            settings, episode, lag = started[name], self._running[name].lag, lags[name][_LAG]
            since = None if lag <= most else now if episode.since is None else episode.since
            if episode.is_due(since, now=now, longest_seconds=settings.longest_lag_seconds):
                error = (
                    f"Connector {name} is {lag:.0f} records behind its topics, and has been more than {most} (airflow.deadline.lag) behind "
                    f"for {settings.longest_lag_seconds:g}s (airflow.deadline.lag.duration)."
                )
                self._send(MissedDeadline(name, settings.on_deadline, LAGGING, error))


def _limits(state: ClusterConfigState) -> dict[str, DagSettings]:
    """The deadlines that are watched here, by connector. A config that another worker accepted may be invalid, and is then left out."""
    found = {}
    for name, config in state.connector_configs.items():
        if ON_DEADLINE not in config:
            continue
        keys = {key: value for key, value in config.items() if key == ON_DEADLINE or key.startswith(DEADLINE)}
        try:
            settings = dag_settings(name, keys)
        except ConfigException:
            continue
        if settings.longest_silence_seconds is not None or settings.most_lag is not None:
            found[name] = settings
    return found


def _by_connector(ended: Mapping[str, datetime], names: Collection[str]) -> list[tuple[str, float]]:
    dags = {dag_id_for(name): name for name in names}
    return [(dags[dag_id], at.timestamp()) for dag_id, at in ended.items()]


def _format_time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
