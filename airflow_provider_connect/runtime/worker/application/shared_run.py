"""A run of a shared application: it hosts every connector whose config names the application, each as a run that stays.

A verb acts on its connector alone: each member has a thread of its own, with its own claim, plan and tasks. Only the engine and the driver
process are shared.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from airflow_provider_connect.errors import ConnectException, is_transient, message_of, shorten, trace_of
from airflow_provider_connect.runtime.config.config_providers import airflow_variables
from airflow_provider_connect.runtime.config.dag_settings import application_of
from airflow_provider_connect.runtime.config.masking import Mask, config_secrets, secret_values
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.run import RunResult, RunSpec, RunState
from airflow_provider_connect.runtime.spark.secret_requests import SecretsOf
from airflow_provider_connect.runtime.stores.backing import TopicBacking
from airflow_provider_connect.runtime.stores.config_stream import ConfigStream, StreamBacking
from airflow_provider_connect.runtime.worker.application.application import Application, StartingEngine
from airflow_provider_connect.runtime.worker.application.failure_report import report_refused
from airflow_provider_connect.runtime.worker.application.handover import HANDOVER_SECONDS, InstalledPackage, Leave
from airflow_provider_connect.runtime.worker.application.remote_task import TaskRunner

_POLL_SECONDS = 0.2
_OFFER_SECONDS = 10.0  # a member that is still being planned then is not waited for
_END_SECONDS = 5.0  # for threads to end after the graceful timeout
_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 10.0, 300.0

log = logging.getLogger(__name__)


class SharedRun:
    """Hosts the members of the shared application of ``spec`` until its time is over, or until it has no members. ``start_engine`` starts
    the engine that runs the tasks of all members. ``mask`` receives the secrets of all members. With ``leave``, the members are
    handed over to the next run (``handover``)."""

    def __init__(
        self,
        spec: RunSpec,
        start_engine: Callable[[], TaskRunner],
        *,
        host: str,
        mask: Mask,
        secrets_of: SecretsOf,
        leave: Leave | None = None,
    ) -> None:
        assert spec.application is not None
        self._name = spec.application
        self._spec = spec
        self._settings = WorkerSettings.of(spec.settings, spec.secrets)
        self._engine = StartingEngine(start_engine)
        self._host = host
        self._mask = mask
        self._mask.add(spec.secrets.values())
        self._secrets_of = secrets_of
        self._leave = leave
        self._package = InstalledPackage()
        self._is_time_over = False
        self._owner = secrets.token_hex(8)
        self._members: dict[str, _Member] = {}
        self._end = threading.Event()

    @property
    def _done(self) -> RunResult:
        return RunResult(self._name, RunState.DONE)

    def request_end(self) -> None:
        """Have every task end after its current batch. Safe in a signal handler."""
        self._end.set()

    def request_handover(self) -> None:
        """Have the next run take the members over now. Safe in a signal handler."""
        self._is_time_over = True

    def run(self) -> RunResult:
        """Steps: 1 start the engine; 2 host the members, as the config topic changes; 3 hand them over; 4 end all tasks. Never raises,
        because failures are in the result. Called once."""
        try:
            self._mask.add(secret_values(self._settings.originals, self._settings.config_providers(), self._spec.secrets))
            TopicBacking(self._settings).ensure()
            self._engine.wait()  # 1
            with ConfigStream(self._settings) as stream:
                try:
                    self._host_members(stream)  # 2
                    if self._members and not self._end.is_set() and self._leave is not None:
                        self._hand_over(stream, self._leave)  # 3
                finally:
                    self._end_members()  # 4
        except Exception as error:  # (the boundary: the run's result reports it)
            text = shorten(self._mask(message_of(error)))
            log.error("Application %s ends: %s", self._name, text)  # noqa: TRY400  (masked)
            return RunResult(self._name, RunState.FAILED, error=text, retriable=is_transient(error))
        return RunResult(self._name, RunState.STOPPED) if self._end.is_set() else self._done

    def _host_members(self, stream: ConfigStream) -> None:
        until = _later(self._spec.stays_seconds)
        self._compare(stream, stream.state())
        while self._members and not self._end.is_set():
            if self._is_time_over or _left(until) <= 0 or self._package.is_replaced():
                return
            if changed := stream.poll(_POLL_SECONDS):
                state = stream.state()
                self._compare(stream, state)
                for name in changed & self._members.keys():
                    self._members[name].trigger()

    def _hand_over(self, stream: ConfigStream, leave: Leave) -> None:
        """Steps: 1 offer the members; 2 let Airflow start the next run, which claims what is not offered; 3 wait until it has them."""
        members = self._members.values()
        for member in members:
            member.offer()
        until = _later(_OFFER_SECONDS)
        while any(member.is_alive and not member.is_offered for member in members) and not self._end.is_set() and _left(until) > 0:  # 1
            stream.poll(_POLL_SECONDS)
        if not leave(self._done):  # 2
            return
        until = _later(HANDOVER_SECONDS)
        while any(member.is_alive for member in members) and not self._end.is_set() and _left(until) > 0:  # 3
            stream.poll(_POLL_SECONDS)

    def _compare(self, stream: ConfigStream, state: ClusterConfigState) -> None:
        """Start the members that are new, and end those that have left the application."""
        wanted = {name for name, config in state.connector_configs.items() if application_of(config) == self._name}
        for name in self._members.keys() - wanted:
            log.info("Connector %s has left application %s", name, self._name)
            self._members.pop(name).close()
        for name in sorted(wanted - self._members.keys()):
            log.info("Application %s hosts connector %s", self._name, name)
            member = _Member(name, self._application, stream, self._settings)
            self._members[name] = member
            member.start()

    def _application(self, name: str, stream: ConfigStream) -> Application:
        """The application of one member. Raises ConfigException for variables that cannot be resolved."""
        config = stream.state().connector_config(name) or {}
        mask = Mask(self._spec.secrets.values(), process=self._mask)
        own = self._secrets_of(name, config) if airflow_variables(config) else {}
        spec = replace(self._spec, connector=name, secrets={**self._spec.secrets, **own}, stays_seconds=math.inf, application=None)
        return Application(
            spec,
            self._engine.wait,
            host=self._host,
            on_claim=lambda _: None,
            backing=StreamBacking(self._settings, stream, name),
            mask=mask,
            owner=self._owner,
        )

    def _end_members(self) -> None:
        for member in self._members.values():
            member.close()
        until = _later(self._settings.task_shutdown_graceful_timeout_ms / 1000 + _END_SECONDS)
        for name, member in self._members.items():
            if not member.join(_left(until)):
                log.warning("Connector %s: its host is overdue", name)


class _Member:
    """Hosts one connector in a thread: runs its application, and runs it again when a verb changes the connector, or after a failure that
    may be temporary."""

    def __init__(
        self,
        name: str,
        create: Callable[[str, ConfigStream], Application],
        stream: ConfigStream,
        settings: WorkerSettings,
    ) -> None:
        self._name = name
        self._create = create
        self._stream = stream
        self._settings = settings
        self._changed = threading.Condition()
        self._is_triggered = True
        self._is_closed = False
        self._application: Application | None = None
        self._thread = threading.Thread(target=self._run, name=f"member-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def trigger(self) -> None:
        """Host the connector again, if its application has ended. A running application follows the config topic itself."""
        with self._changed:
            self._is_triggered = True
            self._changed.notify_all()

    def close(self) -> None:
        """Let the tasks end after their batch, and the thread for good. Returns immediately."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            if self._application is not None:
                self._application.request_end()

    def offer(self) -> None:
        """Offer the connector to the next run. The thread ends when that run has it, or at once if the connector is not hosted now."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            if self._application is not None:
                self._application.request_offer()

    @property
    def is_offered(self) -> bool:
        application = self._application
        return application is not None and application.is_offered

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the end after ``close``. False: the host is overdue."""
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        wait: float | None = None
        retry = _FIRST_RETRY_SECONDS
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_triggered or self._is_closed, wait)
                if self._is_closed:
                    return
                self._is_triggered = False
            result = self._host_once()
            if result.state is not RunState.FAILED:
                retry = _FIRST_RETRY_SECONDS
                wait = 0.0 if result.state is RunState.DONE else None  # DONE: with other settings, or with other secrets
                continue
            if result.claim is None and (retry > _FIRST_RETRY_SECONDS or not result.retriable):
                self._report(result.error or "")
            if result.retriable:
                log.warning("Connector %s is hosted again in %g s: %s", self._name, retry, result.error)
                wait, retry = retry, min(2 * retry, _LAST_RETRY_SECONDS)
            else:
                wait = None

    def _host_once(self) -> RunResult:
        """Host the connector until its application ends. A result without a claim: no status tells why it is not hosted."""
        try:
            application = self._create(self._name, self._stream)
            with self._changed:
                self._application = application
                if self._is_closed:
                    application.request_end()
            return application.run()
        except Exception as error:  # (variables that cannot be resolved, an application that cannot be created)
            text = self._masked(trace_of(error))
            log.warning("Connector %s cannot be hosted: %s", self._name, self._masked(message_of(error)))
            return RunResult(self._name, RunState.FAILED, error=text, retriable=is_transient(error))
        finally:
            with self._changed:
                self._application = None

    def _masked(self, text: str) -> str:
        try:
            return Mask(config_secrets(self._stream.state().connector_config(self._name) or {}))(text)
        except ConnectException as failure:
            return f"The reason is hidden, because the connector's config could not be read: {failure.message}"

    def _report(self, trace: str) -> None:
        """Write why the connector is not hosted, so that its run fails, with its alerts and retries. Called after the second failure in a
        row, or after one that will not pass."""
        try:
            report_refused(self._settings, self._name, trace)
        except ConnectException as failure:
            log.warning("Connector %s: its FAILED status could not be written: %s", self._name, failure.message)


def _later(seconds: float | None) -> float:
    return math.inf if seconds is None else time.monotonic() + seconds


def _left(until: float) -> float:
    return max(0.0, until - time.monotonic())
