"""``--wait``: follow the run that a command starts until it succeeds or fails.

The run is read from this Airflow's database. A run that stays has no end, and a server has no runs, so the command then waits only for the
start.
"""

import math
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol

from airflow.utils.session import create_session
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from airflow_provider_connect.api_server.runs import ConnectorRun, last_begun_run, run_after
from airflow_provider_connect.cli.connection import Verbs
from airflow_provider_connect.cli.overview import Line, Overview
from airflow_provider_connect.cli.printing import visible
from airflow_provider_connect.client.conditions import ConnectorReaches, FailureTimeout, ReplayEnds
from airflow_provider_connect.client.conversation import is_outage
from airflow_provider_connect.errors import BadRequestException, ConnectException, NotFoundException, short_trace
from airflow_provider_connect.runtime.config.dag_settings import CONTINUOUS, SCHEDULE, application_of
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.herder.snapshot import Snapshot
from airflow_provider_connect.runtime.herder.views import status_view
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.views import ConnectorStatusView, StateView, TaskView

_PAUSE_SECONDS: Final = 1.0
_TRACE_SECONDS: Final = 15.0
"""How long to wait for the trace of a failed run: for a killed process, the API server writes the trace. FAILED may also last this long
before Airflow retries."""
_SHOWN: Final = 100
_AWAITED: Final = "waits for Airflow to start its run"
_IN_PROGRESS: Final = "its run is in progress"

Show = Callable[[str, Line | None], None]
"""Shows a text and the connector's line."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The observed state. ``is_well`` is None until the end."""

    text: str
    is_well: bool | None = None


class Followed(Protocol):
    """The subject of a wait."""

    def seen(self) -> Seen:
        """The current state. Raises ConnectException."""
        ...


class Waiting:
    """A wait. Create it before the change, so that earlier runs do not count, and call ``finish`` after the change."""

    def __init__(
        self,
        verbs: Verbs,
        name: str,
        timeout: float | None,
        *,
        is_new: bool,
        followed: Followed | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Without ``followed``, waits for a run on this Airflow, or for the connector's start on a server. Raises BadRequestException."""
        check_timeout(timeout)
        if followed is None and not isinstance(verbs, Herder) and not is_new:
            raise BadRequestException("--wait follows a run in this Airflow's database: give it without --url and --conn-id")
        self._name, self._timeout, self._overview, self._sleep = name, timeout, Overview(verbs), sleep
        self._followed = followed or (FollowedRun(verbs, name) if isinstance(verbs, Herder) else FollowedStart(verbs, name))

    def finish(self) -> None:
        """``follow``, and print the result."""
        print(visible(self.follow()))

    def follow(self) -> str:
        """Wait for success, and return the last text. Raises ConnectException with the cause of a failure, and after the timeout. Exits
        with code 130 if the user interrupts the wait."""
        try:
            with _status_line(self._name) as show:
                return self._await(show)
        except KeyboardInterrupt:
            self._end_wait()

    def _await(self, show: Show) -> str:
        ends = math.inf if self._timeout is None else time.monotonic() + self._timeout
        while True:
            seen = self._seen()
            if seen.is_well:
                return seen.text
            if seen.is_well is not None:
                raise ConnectException(seen.text)
            show(seen.text, self._line())
            if time.monotonic() >= ends:
                raise ConnectException(f"Not ended within {self._timeout:g} s; it continues. Connector {self._name}: {seen.text}")
            self._sleep(min(_PAUSE_SECONDS, max(ends - time.monotonic(), 0.0)))

    def _seen(self) -> Seen:
        try:
            return self._followed.seen()
        except ConnectException as error:
            if not is_outage(error):
                raise
            return Seen(f"no answer: {error.message}")

    def _line(self) -> Line | None:
        try:
            return self._overview.lines([self._name])[0]
        except ConnectException:  # the next read may succeed
            return None

    def _end_wait(self) -> NoReturn:
        print(visible(f"Connector {self._name} continues without this command"), file=sys.stderr)
        sys.exit(130)


def check_timeout(seconds: float | None) -> None:
    """Raise BadRequestException for an invalid timeout. None: no timeout."""
    if seconds is not None and not 0 < seconds < math.inf:
        raise BadRequestException(f"--timeout is a number of seconds above 0, not {seconds:g}")


class FollowedRun:
    """The first run of a connector that begins after this object was created."""

    def __init__(self, herder: Herder, name: str) -> None:
        self._herder, self._name = herder, name
        with create_session() as session:
            self._after = last_begun_run(session, name)
        self._claim = herder.config_state().claims.get(name)
        self._before = failures_of(_status(herder, name))
        self._failed_at: float | None = None

    def seen(self) -> Seen:
        with create_session() as session:
            run = run_after(session, self._name, self._after)
        if self._name not in self._herder.connectors():
            raise NotFoundException(f"Connector {self._name} was deleted meanwhile")
        status = _status(self._herder, self._name)
        if staying := self._staying():
            return staying
        if run is None:
            return before_run(self._name, status, self._before)
        if run.state == "failed" and self._failed_at is None:
            self._failed_at = time.monotonic()
        is_late = self._failed_at is not None and time.monotonic() - self._failed_at > _TRACE_SECONDS
        return of_run(self._name, run, failures_of(status), self._before, is_late=is_late)

    def _staying(self) -> Seen | None:
        snapshot = self._herder.snapshot()
        config = snapshot.configs.connector_config(self._name) or {}
        stays = config.get(SCHEDULE) == CONTINUOUS or application_of(config) is not None
        return of_staying_run(self._name, snapshot, self._claim) if stays else None


def before_run(name: str, status: ConnectorStatusView | None, failed_before: list[str]) -> Seen:
    """The state before the run exists. ``failed_before`` has the failures before the change, from ``failures_of``."""
    if status is None:
        return Seen(_AWAITED)
    connector = status.connector
    if connector.state in ("PAUSED", "STOPPED"):
        return Seen(f"Connector {name} is {connector.state}, and has no run", is_well=False)
    if connector.trace and (connector.state == "UNASSIGNED" or failures_of(status) not in ([], failed_before)):
        return Seen(f"Connector {name} is {connector.state}: {short_trace(connector.trace)}", is_well=False)
    return Seen(_AWAITED)


def of_run(name: str, run: ConnectorRun, failures: list[str], failed_before: list[str], *, is_late: bool) -> Seen:
    """The state of the run. ``is_late``: the run has failed, and its trace is no longer expected."""
    if run.state == "success":
        return Seen(f"Run {run.run_id} of connector {name} has succeeded", is_well=True)
    if run.state == "failed":
        if not failures and not is_late:
            return Seen("its run has failed")
        cause = "\n".join(failures) or _in_the_log(name)
        return Seen(f"Run {run.run_id} of connector {name} has failed: {cause}", is_well=False)
    if run.state == "running" and failures not in ([], failed_before):
        # the failure is reported before Airflow decides on a retry
        return Seen(f"a try of its run has failed, and Airflow retries it unless it was the last: {failures[0]}")
    return Seen(_IN_PROGRESS if run.state == "running" else "its run is queued")


def of_staying_run(name: str, snapshot: Snapshot, claim_before: Claim | None) -> Seen | None:
    """The state of a connector whose run stays. None: no run has claimed it since ``claim_before``.

    Only statuses under the newest claim count, because a verb writes RUNNING before a run has started the tasks. The same run may continue
    under a new claim, so Airflow may have no new run.
    """
    configs, connector = snapshot.configs, snapshot.statuses.connector(name)
    claim = configs.claims.get(name)
    if claim == claim_before or name not in configs.owners or connector is None or connector.claim != claim:
        return None
    tasks = [task for task in snapshot.statuses.tasks_of(name) if task.claim == claim]
    view = status_view(connector, tasks, "")
    verdict = ConnectorReaches(name, ["RUNNING"]).evaluate(view)
    if verdict.has_failed:
        cause = "\n".join(failures_of(view)) or _in_the_log(name)
        return Seen(f"Connector {name} is FAILED: {cause}", is_well=False)
    is_complete = {task.task for task in tasks}.issuperset(configs.tasks(name))
    if verdict.is_met and not verdict.is_early and is_complete:
        return Seen(f"{verdict.text}, in a run that stays", is_well=True)
    return Seen(_IN_PROGRESS)


def _in_the_log(name: str) -> str:
    return f"the reason is in its log: airflow connect logs {shlex.quote(name)}"


class FollowedStart:
    """A new connector on a server, until it and all its tasks are RUNNING."""

    def __init__(self, verbs: Any, name: str) -> None:  # of a client or a hook
        self._verbs, self._condition = verbs, ConnectorReaches(name, ["RUNNING"])

    def seen(self) -> Seen:
        status = _status(self._verbs, self._condition.connector)
        verdict = self._condition.evaluate(status)
        if verdict.has_failed:
            cause = "\n".join(failures_of(status)) or "the server has no trace of it"
            return Seen(f"Connector {self._condition.connector} is FAILED: {cause}", is_well=False)
        return Seen(verdict.text, is_well=True if verdict.is_met and not verdict.is_early else None)


class FollowedReplay:
    """Follows a replay of dead-letter records until all requested records are written, or the replay fails."""

    def __init__(self, verbs: Verbs, sink: str, replay: str) -> None:
        self._verbs, self._condition, self._failure_timeout = verbs, ReplayEnds(sink, replay), FailureTimeout(_TRACE_SECONDS)

    def seen(self) -> Seen:
        verdict = self._condition.evaluate(self._verbs.dead_letter_replay(self._condition.connector))
        return Seen(verdict.text, verdict.is_met if self._failure_timeout.ends_wait(verdict) else None)


def _status(verbs: Verbs, name: str) -> ConnectorStatusView | None:
    try:
        return verbs.connector_status(name)
    except NotFoundException:
        return None


def failures_of(status: ConnectorStatusView | None) -> list[str]:
    """The distinct failures of the connector and its tasks."""
    if status is None:
        return []
    instances: list[StateView | TaskView] = [status.connector, *status.tasks]
    traces = [each.trace for each in instances if each.state == "FAILED"]
    return list(dict.fromkeys(short_trace(trace) for trace in traces if trace))


@contextmanager
def _status_line(name: str) -> Iterator[Show]:
    """A line on standard error that is redrawn. Without a terminal, each new text is a new line."""
    console = Console(file=sys.stderr, highlight=False, emoji=False)
    if not console.is_terminal:
        last = ""

        def print_new(text: str, _: Line | None) -> None:
            nonlocal last
            if text != last:
                print(visible(f"{name}: {text}"), file=sys.stderr, flush=True)
            last = text

        yield print_new
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(20), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(visible(name), total=None)

        def draw(text: str, line: Line | None) -> None:
            total, done = _distance(line)
            described = visible(" ".join(f"{name}: {text}{_numbers(line)}".split()))
            progress.update(task, description=described[:_SHOWN], total=total, completed=done)

        yield draw


def _distance(line: Line | None) -> tuple[float | None, float]:
    """The number of records from the beginning of the run to the end (None: unknown), and the number of delivered records."""
    if line is None or line.progress is None or line.row.lag is None:
        return None, 0.0
    done = line.records or 0
    return float(done + line.row.lag), float(done)


def _numbers(line: Line | None) -> str:
    if line is None or line.progress is None or line.records is None:
        return ""
    rate = "" if line.rate is None else f", {line.rate:,.0f} records/s"
    return f", {line.records:,} records{rate}"
