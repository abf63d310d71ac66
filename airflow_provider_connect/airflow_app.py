"""The app that the API server mounts: the REST server, Airflow's users, and the reconciler in a thread for as long as the server lives."""

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from airflow.utils.session import create_session
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool

from airflow_provider_connect import config_providers
from airflow_provider_connect.airflow_access import AirflowAccess
from airflow_provider_connect.airflow_launcher import AirflowLauncher
from airflow_provider_connect.airflow_mirror import MirrorLoop
from airflow_provider_connect.airflow_settings import (
    BUNDLE,
    airflow_secrets,
    connectors_bundle,
    own_option,
    worker_settings,
)
from airflow_provider_connect.dag_follower import DagFollower
from airflow_provider_connect.dag_removal import DagRemoval
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.herder.herder import Herder
from airflow_provider_connect.isolation.probe import PluginProbe
from airflow_provider_connect.reconciler import Reconciler
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.rest.loggers import Loggers
from airflow_provider_connect.server_info import ServerInfo, server_info
from airflow_provider_connect.settings import WorkerSettings
from airflow_provider_connect.status_comparison import StatusComparison
from airflow_provider_connect.stores.topic_admin import TopicAdmin
from airflow_provider_connect.worker.preview_runner import PreviewRunner

_INTERVAL_MS = 1000
_LONGEST_WAIT_SECONDS = 30.0
_SETTINGS_SECONDS = 10.0
_START_SECONDS = 30.0
_LOOK_SECONDS = 0.05
_VERB_SECONDS = 3.0
_LONGEST_REQUEST_SECONDS = 100.0
_NO_BUNDLE = (
    f'Connectors made over REST get no DAGs and never run: add {{"name": "connectors", "classpath": "{BUNDLE}", "kwargs": {{}}}} '
    "to dag_bundle_config_list in section [dag_processor]"
)

_log = logging.getLogger(__name__)


def build_app() -> FastAPI:
    """The app for one API server process. Nothing runs before the server starts it."""
    loggers = Loggers()
    loop, mirror = ReconcilerLoop(loggers), MirrorLoop()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        loop.start()
        mirror.start()
        yield
        await run_in_threadpool(mirror.stop)
        await run_in_threadpool(loop.stop)

    return create_app(herder=loop.herder, access=AirflowAccess(), info=_server_info, lifespan=lifespan, loggers=loggers)


def _server_info() -> ServerInfo:
    return server_info(worker_settings())


class Rounds:
    """What one set of worker settings asks for: a herder for all who need one, and what is done every second by whoever holds the lease."""

    def __init__(self, settings: WorkerSettings, *, holder: str) -> None:
        TopicAdmin(settings).ensure_internal_topics()
        self._probe = PluginProbe(settings, secrets=_secrets)
        previewer = PreviewRunner(settings, secrets=airflow_secrets)
        launcher, resolve = AirflowLauncher(create_session), partial(_resolved, settings)
        self.herder = Herder(settings, launcher, probe=self._probe, previewer=previewer, resolve=resolve)
        self._reconciler = Reconciler(self.herder, create_session, holder=holder, now=time.time)
        patience_seconds = settings.task_shutdown_graceful_timeout_ms / 1000 + _VERB_SECONDS
        self._comparison = StatusComparison(self.herder, create_session, patience_seconds=patience_seconds, now=time.time)
        self._removal = DagRemoval(create_session, now=time.time)
        self._holds_lease = False
        self._follower: DagFollower | None = None
        bundle = connectors_bundle()
        if bundle is None:
            _log.warning("%s", _NO_BUNDLE)
        else:
            self._follower = DagFollower(create_session, bundle, settings.schedule, now=time.time)

    def tick(self) -> None:
        """Raises what the stores and the database raise."""
        if not self._reconciler.tick():
            self._holds_lease = False
            return
        if not self._holds_lease:
            self._comparison.reset()
        self._holds_lease = True
        state = self.herder.config_state()
        if self._follower is not None:
            self._follower.tick(state)
        self._comparison.tick()
        self._removal.tick(state)

    def release(self) -> None:
        """Let another process take over at once."""
        self._reconciler.release()

    def close(self) -> None:
        """No request uses the herder any more."""
        self.herder.close()
        self._probe.close()


def _secrets(config: Mapping[str, str | None]) -> Mapping[str, str]:
    return airflow_secrets({key: text for key, text in config.items() if text is not None})


def _resolved(settings: WorkerSettings, config: Mapping[str, str]) -> Mapping[str, str]:
    return config_providers.resolve(config, settings.config_providers(config["name"]), airflow_secrets(config))


class ReconcilerLoop:
    """Calls a reconciler every second in a thread of its own, and makes a new one when the settings change.

    ``loggers`` are told what was asked of all processes.
    """

    def __init__(self, loggers: Loggers) -> None:
        self._loggers = loggers
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connect-reconciler", daemon=True)
        self._trouble: str | None = None
        self._rounds: Rounds | None = None
        self._former: list[tuple[float, Rounds]] = []
        self._values: Mapping[str, str] | None = None
        self._settings_due = 0.0
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread and let another process take over."""
        self._stopping.set()
        self._thread.join(timeout=5)

    def herder(self) -> Herder:
        """The herder of this process; called from many threads, and waits while it is being made.

        Raises ConnectException with what keeps it from being made.
        """
        until = time.monotonic() + _START_SECONDS
        while (rounds := self._rounds) is None:
            if self._trouble is not None or time.monotonic() > until:
                raise ConnectException(self._trouble or "The internal topics are still being looked for")
            time.sleep(_LOOK_SECONDS)
        return rounds.herder

    def _run(self) -> None:
        wait = interval = self._interval_seconds()
        while not self._stopping.wait(wait):
            wrong = self._attempt(self._tick)
            if wrong != self._trouble:
                if wrong:
                    _log.warning("Paused flags and target states cannot be compared: %s", wrong)
                else:
                    _log.info("Paused flags and target states are compared again")
            self._trouble = wrong
            wait = min(wait * 2, _LONGEST_WAIT_SECONDS) if wrong else interval
        self._attempt(self._close)

    @staticmethod
    def _interval_seconds() -> float:
        text = own_option("reconcile_interval_ms") or str(_INTERVAL_MS)
        try:
            return max(int(text), 100) / 1000
        except ValueError:
            _log.warning("%s", ConfigException.of("reconcile_interval_ms", text, "give a whole number of milliseconds").message)
            return _INTERVAL_MS / 1000

    @staticmethod
    def _attempt(action: Callable[[], None]) -> str | None:
        """What went wrong. The boundary of the thread: one bad tick, of whatever kind, must not end it."""
        try:
            action()
        except ConnectException as error:
            return error.message
        except Exception as error:
            _log.debug("The reconciler failed", exc_info=True)
            return f"{type(error).__name__}: {error}"
        return None

    def _tick(self) -> None:
        if self._rounds is None or time.monotonic() >= self._settings_due:
            self._renew()
        if self._rounds is not None:
            self._loggers.follow(self._rounds.herder.config_state())
            self._rounds.tick()

    def _renew(self) -> None:
        """Take up settings that have changed; the Variable, the Connection and secrets can, at any time. Wrong ones change nothing."""
        settings = worker_settings()
        if settings.values != self._values:
            former, self._rounds = self._rounds, Rounds(settings, holder=self._holder)
            self._values = settings.values
            if former is not None:
                self._former.append((time.monotonic() + _LONGEST_REQUEST_SECONDS, former))
        self._settings_due = time.monotonic() + _SETTINGS_SECONDS
        self._close_former(time.monotonic())

    def _close_former(self, now: float) -> None:
        """Close the herders that no request can be using any more."""
        for moment, rounds in [pair for pair in self._former if pair[0] <= now]:
            self._former.remove((moment, rounds))
            rounds.close()

    def _close(self) -> None:
        rounds, self._rounds = self._rounds, None
        self._close_former(float("inf"))
        if rounds is not None:
            rounds.release()
            rounds.close()
