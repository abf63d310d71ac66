"""The SQL mirror in Airflow's database: the part of the API server that fills it, queries for the page, and its rebuild."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from airflow.utils.session import create_session
from sqlalchemy.exc import SQLAlchemyError

from airflow_provider_connect.api_server.attempts import failed_runs, newest_attempts
from airflow_provider_connect.api_server.dags import plans
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.hooks.airflow_settings import own_option
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.snapshot import SharedRead
from airflow_provider_connect.runtime.model.page import LAG_SPANS, AttemptView, FailedRun, LagHistory, PlanView, RunView
from airflow_provider_connect.runtime.sql_mirror.config_rows import Hide
from airflow_provider_connect.runtime.sql_mirror.follower import MirrorFollower
from airflow_provider_connect.runtime.sql_mirror.follower import rebuild as rebuild_rows
from airflow_provider_connect.runtime.sql_mirror.lag_rows import lag_history
from airflow_provider_connect.runtime.sql_mirror.queries import (
    KeptRead,
    RunMetrics,
    forget_history,
    last_runs,
    records_by_hour,
    run_metrics,
)
from airflow_provider_connect.runtime.sql_mirror.recorded_history import RecordedHistory

POLL_SECONDS = 1.0
_STANDBY_SECONDS = 5.0
_FORGET_SECONDS = 3600.0
_DAY_SECONDS = 86400.0
_MOST_RUNS = 200

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


def rebuild(*, keep_history: bool = True) -> None:
    """Empty the mirror. A running API server fills it again from the topics within seconds.

    For a process that may use Airflow's database, such as a command. ``keep_history`` is that of ``sql_mirror.follower.rebuild``.
    """
    with create_session() as session:
        rebuild_rows(session, keep_history=keep_history)


class MirroredRuns:
    """Runs for the page, from the mirror. Any API server may fill the mirror. Empty if the mirror's tables are missing. Plans are from
    Airflow's own tables. Safe to share between threads. Concurrent calls share one query.
    """

    def __init__(self) -> None:
        kept: KeptRead[Mapping[str, RunView]] = KeptRead(lambda session: {found.connector: _view(found) for found in last_runs(session)})
        unknown: Mapping[str, RunView] = {}
        self._last = SharedRead(lambda: _query(kept, unknown))
        self._plans = SharedRead(lambda: [_plans(None)])

    def last(self) -> Mapping[str, RunView]:
        return self._last()

    def by_hour(self) -> Mapping[str, Sequence[int]]:
        with create_session() as session:
            return records_by_hour(session, now_ms=int(time.time() * 1000))

    def planned(self, dag_id: str | None = None) -> Mapping[str, PlanView] | None:
        return _plans(dag_id) if dag_id is not None else self._plans()[0]

    def attempts(self, connector: str) -> Sequence[AttemptView]:
        try:
            with create_session() as session:
                return newest_attempts(session, connector)
        except SQLAlchemyError as error:
            _log.warning("The attempts of runs cannot be read: %s", error)
            return ()

    def failed(self, connector: str) -> Sequence[FailedRun]:
        try:
            with create_session() as session:
                return failed_runs(session, connector)
        except SQLAlchemyError as error:
            _log.warning("The failed runs cannot be read: %s", error)
            return ()

    def lags(self, connector: str, *, hours: int) -> LagHistory:
        unknown = LagHistory(0, LAG_SPANS[hours] * 1000)
        return _query(lambda session: lag_history(session, connector, hours=hours, now_ms=int(time.time() * 1000)), unknown)

    def of(self, connector: str) -> Sequence[RunView]:
        unknown: list[RunMetrics] = []
        return [_view(found) for found in _query(lambda session: run_metrics(session, connector, limit=_MOST_RUNS), unknown)]


def _plans(dag_id: str | None) -> Mapping[str, PlanView] | None:
    try:
        with create_session() as session:
            return plans(session, dag_id)
    except SQLAlchemyError as error:
        _log.warning("The plans of DAGs cannot be read: %s", error)
        return None


def _query(query: Callable[[Any], _T], unknown: _T) -> _T:
    try:
        with create_session() as session:
            return query(session)
    except SQLAlchemyError as error:
        _log.warning("The SQL mirror cannot be read: %s", error)
        return unknown


def _view(run: RunMetrics) -> RunView:
    return RunView(run.run, run.tasks, run.records, run.bytes, run.seconds, run.cpu_seconds, run.first_ms, run.last_ms, run.failed)


def recorded_history() -> RecordedHistory:
    """The history of connectors, for processes that may use Airflow's database."""
    return RecordedHistory(create_session)


class Mirror:
    """Carries out the steps of a follower of the topics, and replaces the follower when ``settings`` returns new settings. ``hide`` hides
    secrets of configs. ``holder`` names this process."""

    def __init__(self, settings: Callable[[], WorkerSettings | None], *, holder: str, hide: Hide) -> None:
        self._settings, self._holder, self._hide = settings, holder, hide
        self._follower: MirrorFollower | None = None
        self._used: WorkerSettings | None = None
        self._forget_due = 0.0

    def step(self) -> float | None:
        """Apply new records, after waiting up to ``POLL_SECONDS``. Returns the seconds until the next step; None: no settings yet."""
        settings = self._settings()
        if settings is None:
            return None
        if settings is not self._used:
            self.close()
            sessions: Any = create_session  # Any: the follower needs only that it yields ORM sessions
            self._follower = MirrorFollower(settings, sessions, holder=self._holder, now=time.time, hide=self._hide)
            self._used = settings
        assert self._follower is not None
        if not self._follower.step(POLL_SECONDS):
            return _STANDBY_SECONDS
        if time.monotonic() >= self._forget_due:
            self._forget()
        return 0.0

    def close(self) -> None:
        """Release the mirror to another process."""
        follower, self._follower, self._used = self._follower, None, None
        if follower is not None:
            follower.close()

    def _forget(self) -> None:
        """Once an hour, delete history that is older than the option ``mirror_history_days`` allows."""
        self._forget_due = time.monotonic() + _FORGET_SECONDS
        try:
            days = history_days(own_option("mirror_history_days"))
        except ConfigException as error:
            _log.warning("History is not deleted: %s", error.message)
            return
        if days is not None:
            with create_session() as session:
                if forget_history(session, before_ms=int((time.time() - days * _DAY_SECONDS) * 1000)):
                    self._forget_due = 0.0  # continue with the rest after the follower's next step


def history_days(text: str | None) -> float | None:
    """The number of days for which history is kept; None: no limit. Raises ConfigException."""
    if text is None:
        return None
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 < days < float("inf"):
        raise ConfigException.of("mirror_history_days", text, "give a number of days above 0")
    return days
