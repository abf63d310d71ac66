"""The app that the API server mounts: the REST server with Airflow's users, and the ticker while the server runs."""

import logging
import os
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool

from airflow_provider_connect.api_server.access import AirflowAccess
from airflow_provider_connect.api_server.mirror import POLL_SECONDS, Mirror, MirroredRuns
from airflow_provider_connect.api_server.ticker import Part, Ticker
from airflow_provider_connect.api_server.worker import CurrentWorker, ServerWorker
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.hooks.airflow_settings import own_option, worker_settings
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.rest.secrets import Secrets
from airflow_provider_connect.rest.server_routes import Loggers
from airflow_provider_connect.runtime.model.views import ServerView
from airflow_provider_connect.runtime.stores.admin_connection import server_info

_INTERVAL_MS = 1000
_CHECKS_SECONDS = 60.0
_SLOTS_SECONDS = 600.0  # a check takes up to 30 s, because it queries a database server
_SILENCE_SECONDS = 5.0
_DEADLINES_SECONDS = 15.0
_EVENTS_SECONDS = 3.0
_LAGS_SECONDS = 15.0  # often enough for one measurement per minute

_log = logging.getLogger(__name__)


def build_app() -> FastAPI:
    """The app for one API server process. Nothing runs before the server starts it."""
    loggers = Loggers()
    holder = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    current = CurrentWorker(holder=holder)
    ticker = Ticker(_parts(current, loggers, holder))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        ticker.start()
        yield
        await run_in_threadpool(ticker.stop)

    return create_app(
        herder=current.herder,
        access=AirflowAccess(),
        info=_server_info,
        lifespan=lifespan,
        loggers=loggers,
        warnings=lambda: [*current.warnings(), *ticker.warnings()],
        runs=MirroredRuns(),
    )


def _parts(current: CurrentWorker, loggers: Loggers, holder: str) -> list[Part]:
    """The ticker's parts in the order in which they act. The mirror's step may take long."""
    seconds = _interval_seconds()
    secrets = Secrets(lambda *plugin: current.herder().plugin_config(*plugin), hides_unknown=True)
    mirror = Mirror(current.settings, holder=holder, hide=secrets.redacted)
    acts = {
        "log levels": lambda worker: loggers.follow(worker.herder.config_state()),
        "reconciler": ServerWorker.reconcile,
        "DAG follower": ServerWorker.follow_dags,
        "status comparison": ServerWorker.compare_statuses,
        "hosted runs": ServerWorker.wake_hosted_runs,
        "DAG removal": ServerWorker.remove_dags,
    }
    return [
        Part("worker settings", current.renew, seconds=seconds, close=current.close),
        *(Part(name, partial(current.act, act), seconds=seconds) for name, act in acts.items()),
        Part("cluster checks", partial(current.act, ServerWorker.check_cluster), seconds=_CHECKS_SECONDS, is_slow=True),
        Part("replication slots", partial(current.act, ServerWorker.check_slots), seconds=_SLOTS_SECONDS, is_slow=True),
        Part("silent tasks", partial(current.act, ServerWorker.expire_silent_tasks), seconds=_SILENCE_SECONDS, is_slow=True),
        Part("deadlines", partial(current.act, ServerWorker.watch_deadlines), seconds=_DEADLINES_SECONDS, is_slow=True),
        Part("asset events", partial(current.act, ServerWorker.emit_asset_events), seconds=_EVENTS_SECONDS, is_slow=True),
        Part("lineage", partial(current.act, ServerWorker.report_lineage), seconds=_EVENTS_SECONDS, is_slow=True),
        Part("lags", partial(current.act, ServerWorker.sample_distances), seconds=_LAGS_SECONDS, is_slow=True),
        Part("SQL mirror", mirror.step, seconds=POLL_SECONDS, longest_seconds=60.0, is_slow=True, close=mirror.close),
    ]


def _interval_seconds() -> float:
    text = own_option("reconcile_interval_ms") or str(_INTERVAL_MS)
    try:
        return max(int(text), 100) / 1000
    except ValueError:
        _log.warning("%s", ConfigException.of("reconcile_interval_ms", text, "give a whole number of milliseconds").message)
        return _INTERVAL_MS / 1000


def _server_info() -> ServerView:
    return server_info(worker_settings())
