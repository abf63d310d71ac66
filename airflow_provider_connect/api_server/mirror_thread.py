"""The SQL mirror in Airflow's database: the thread that fills it for as long as the API server lives, and its rebuilding."""

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Any

from airflow.utils.session import create_session

from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.hooks.airflow_settings import own_option, worker_settings
from airflow_provider_connect.sql_mirror.config_rows import Hide
from airflow_provider_connect.sql_mirror.follower import MirrorFollower
from airflow_provider_connect.sql_mirror.follower import rebuild as rebuild_rows
from airflow_provider_connect.sql_mirror.queries import forget_history

_WAIT_SECONDS = 1.0
_STANDBY_SECONDS = 5.0
_LONGEST_WAIT_SECONDS = 60.0
_SETTINGS_SECONDS = 10.0
_FORGET_SECONDS = 3600.0
_DAY_SECONDS = 86400.0

_log = logging.getLogger(__name__)


def rebuild(*, keep_history: bool = True) -> None:
    """Drop what the mirror says, and have a running API server fill it again from the topics, within some seconds.

    For a process that may use Airflow's database, such as a command. ``keep_history`` as in ``sql_mirror.follower.rebuild``.
    """
    with create_session() as session:
        rebuild_rows(session, keep_history=keep_history)


class MirrorLoop:
    """Calls a follower over and over in a thread of its own, and makes a new one when the settings change.

    ``hide`` hides secrets of configs.
    """

    def __init__(self, hide: Hide) -> None:
        self._hide = hide
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connect-mirror", daemon=True)
        self._follower: MirrorFollower | None = None
        self._values: Mapping[str, str] | None = None
        self._settings_due = self._forget_due = 0.0
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread and let another process follow."""
        self._stopping.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        trouble, wait = None, 0.0
        while not self._stopping.wait(wait):
            wrong = None
            try:
                wait = 0.0 if self._step() else _STANDBY_SECONDS
            except Exception as error:  # the boundary of the thread: no trouble, of whatever kind, may end it
                wrong = _said(error)
                wait = min(max(wait * 2, _WAIT_SECONDS), _LONGEST_WAIT_SECONDS)
            if wrong != trouble:
                if wrong:
                    _log.warning("The SQL mirror stands still: %s", wrong)
                else:
                    _log.info("The SQL mirror goes on")
            trouble = wrong
        try:
            self._close()
        except Exception as error:
            _log.info("The SQL mirror ended with: %s", _said(error))

    def _step(self) -> bool:
        if self._follower is None or time.monotonic() >= self._settings_due:
            self._renew()
        follows = self._follower is not None and self._follower.step(_WAIT_SECONDS)
        if follows and time.monotonic() >= self._forget_due:
            self._forget()
        return follows

    def _forget(self) -> None:
        """Once an hour, delete history that is older than the option ``mirror_history_days`` says."""
        self._forget_due = time.monotonic() + _FORGET_SECONDS
        try:
            days = history_days(own_option("mirror_history_days"))
        except ConfigException as error:
            _log.warning("No history is forgotten: %s", error.message)
            return
        if days is not None:
            with create_session() as session:
                if forget_history(session, before_ms=int((time.time() - days * _DAY_SECONDS) * 1000)):
                    self._forget_due = 0.0  # the rest follows, between two steps of the follower

    def _renew(self) -> None:
        """Take up settings that have changed; the Variable and the Connection can, at any time. Unusable ones change nothing."""
        try:
            settings = worker_settings()
        except ConfigException:
            if self._follower is None:
                raise
        else:
            if settings.values != self._values or self._follower is None:
                self._close()
                sessions: Any = create_session  # its sessions are ORM sessions, which is all that the follower asks
                self._follower = MirrorFollower(settings, sessions, holder=self._holder, now=time.time, hide=self._hide)
                self._values = settings.values
        self._settings_due = time.monotonic() + _SETTINGS_SECONDS

    def _close(self) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.close()


def history_days(text: str | None) -> float | None:
    """How many days history is kept; None: for ever. Raises ConfigException."""
    if text is None:
        return None
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 < days < float("inf"):
        raise ConfigException.of("mirror_history_days", text, "give a number of days above 0")
    return days


def _said(error: Exception) -> str:
    """The error in a line. A statement that failed is told without its parameters."""
    if isinstance(error, ConnectException):
        return error.message
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    return ": ".join([type(error).__name__, *lines[:1]])
