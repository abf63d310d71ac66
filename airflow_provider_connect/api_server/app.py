"""The app that the API server mounts: the REST server, Airflow's users, and the reconciler in a thread for as long as the server lives."""

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from functools import partial

from airflow.utils.session import create_session
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool

from airflow_provider_connect.api_server.access import AirflowAccess
from airflow_provider_connect.api_server.backing import airflow_backing
from airflow_provider_connect.api_server.dag_follower import DagFollower
from airflow_provider_connect.api_server.dag_removal import DagRemoval
from airflow_provider_connect.api_server.launcher import NO_BUNDLE, AirflowLauncher
from airflow_provider_connect.api_server.mirror_thread import MirrorLoop
from airflow_provider_connect.api_server.reconciler import Reconciler
from airflow_provider_connect.api_server.status_comparison import StatusComparison
from airflow_provider_connect.config import config_providers
from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.dag_files.dag_checks import dag_check
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.herder.herder import Herder
from airflow_provider_connect.hooks.airflow_settings import (
    airflow_secrets,
    connectors_bundle,
    own_option,
    settings_now,
    worker_settings,
)
from airflow_provider_connect.model.views import ServerView
from airflow_provider_connect.plugins.validation.probe import PluginProbe
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.rest.loggers import Loggers
from airflow_provider_connect.rest.secrets import Secrets
from airflow_provider_connect.stores.server_info import server_info
from airflow_provider_connect.stores.topic_admin import TopicAdmin
from airflow_provider_connect.worker.preview.runner import PreviewRunner

_INTERVAL_MS = 1000
_LONGEST_WAIT_SECONDS = 30.0
_SETTINGS_SECONDS = 10.0
_START_SECONDS = 30.0
_LOOK_SECONDS = 0.05
_VERB_SECONDS = 3.0
_LONGEST_REQUEST_SECONDS = 100.0

_log = logging.getLogger(__name__)


def build_app() -> FastAPI:
    """The app for one API server process. Nothing runs before the server starts it."""
    loggers = Loggers()
    loop = ReconcilerLoop(loggers)
    mirror = MirrorLoop(Secrets(lambda plugin, version: loop.herder().plugin_config(plugin, version), hides_unknown=True).shown)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        loop.start()
        mirror.start()
        yield
        await run_in_threadpool(mirror.stop)
        await run_in_threadpool(loop.stop)

    return create_app(
        herder=loop.herder, access=AirflowAccess(), info=_server_info, lifespan=lifespan, loggers=loggers, warnings=loop.warnings
    )


def _server_info() -> ServerView:
    return server_info(worker_settings())


_OPEN_FILES = (
    "Config provider %s gives every connector every file that the worker may read: set config.providers.%s.param.allowed.paths, or rules "
    "(config.providers.«alias».access.«connectors»)"
)


class Rounds:
    """What one set of worker settings asks for: a herder for all who need one, and what is done every second by whoever holds the lease."""

    def __init__(self, settings: WorkerSettings, *, holder: str) -> None:
        with closing(TopicAdmin(settings)) as admin:
            admin.ensure_internal_topics()
            self._slow = admin.slow_compaction()
        for alias in config_providers.open_file_providers(settings.originals):
            _log.warning(_OPEN_FILES, alias, alias)
        self._probe = PluginProbe(settings, secrets=_secrets)
        previewer = PreviewRunner(settings, secrets=airflow_secrets, passwords=self._probe.passwords)
        launcher, resolve = AirflowLauncher(create_session), partial(_resolved, settings)
        check = dag_check(settings.dag_limits)
        backing = airflow_backing(settings)
        self.herder = Herder(settings, launcher, probe=self._probe, previewer=previewer, backing=backing, resolve=resolve, dag_check=check)
        self._reconciler = Reconciler(
            self.herder,
            create_session,
            holder=holder,
            now=time.time,
            grace_seconds=settings.missing_dag_grace_seconds,
            limit=settings.missing_dag_limit,
        )
        patience_seconds = settings.task_shutdown_graceful_timeout_ms / 1000 + _VERB_SECONDS
        self._comparison = StatusComparison(
            self.herder, create_session, patience_seconds=patience_seconds, has_bundle=connectors_bundle() is not None, now=time.time
        )
        self._removal = DagRemoval(create_session, now=time.time)
        self._holds_lease = False
        self._follower: DagFollower | None = None
        bundle = connectors_bundle()
        if bundle is None:
            _log.warning("%s", NO_BUNDLE)
        else:
            self._follower = DagFollower(create_session, bundle, settings.schedule, check=check, control=self.herder, now=time.time)

    @property
    def warnings(self) -> list[str]:
        """What an admin has to correct."""
        return [*self._slow, *self._reconciler.warnings]

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
    providers = settings.config_providers(config["name"])
    return config_providers.resolve(config, providers, config_providers.airflow_values(config, providers, airflow_secrets))


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
        self._warnings: list[str] = []
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

    def warnings(self) -> list[str]:
        """What an admin has to correct although everything goes on: settings that are not in force, DAGs that are gone."""
        return [*self._warnings, *([] if self._rounds is None else self._rounds.warnings)]

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
        """Take up settings that have changed; the Variable, the Connection and secrets can, at any time.

        Settings that cannot be used, or with which no herder can be made, leave the one that there is at work, and become a warning.
        """
        try:
            found = settings_now()
            self._take(found.settings)
            warnings = [f"Worker setting {fault}" for fault in found.faults]
        except ConnectException as error:
            if self._rounds is None:
                raise
            warnings = [f"The worker settings of before are in force, for the present ones cannot be used: {error.message}"]
            if warnings != self._warnings:
                _log.warning("%s", warnings[0])
        self._warnings = warnings
        self._settings_due = time.monotonic() + _SETTINGS_SECONDS
        self._close_former(time.monotonic())

    def _take(self, settings: WorkerSettings) -> None:
        if settings.values == self._values:
            return
        former, self._rounds = self._rounds, Rounds(settings, holder=self._holder)
        self._values = settings.values
        for warning in self._rounds.warnings:
            if former is None or warning not in former.warnings:
                _log.warning("%s", warning)
        if former is not None:
            self._former.append((time.monotonic() + _LONGEST_REQUEST_SECONDS, former))

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
