"""The one herder of an API server process, for its requests and its reconciler alike; made anew when the worker settings change."""

import logging
import threading
import time
from collections.abc import Callable

from airflow.utils.session import create_session

from airflow_provider_connect.airflow_launcher import AirflowLauncher
from airflow_provider_connect.airflow_settings import worker_properties, worker_settings
from airflow_provider_connect.herder.herder import Herder
from airflow_provider_connect.settings import WorkerSettings
from airflow_provider_connect.stores.topic_admin import TopicAdmin

_SETTINGS_SECONDS = 10.0
_LAST_CALL_SECONDS = 100.0  # no request takes longer

_log = logging.getLogger(__name__)


def make_herder(settings: WorkerSettings) -> Herder:
    """A herder over the internal topics, which it creates where they are missing, and Airflow's runs."""
    admin = TopicAdmin(settings)
    try:
        admin.ensure_internal_topics()
    finally:
        admin.close()
    return Herder(settings, AirflowLauncher(create_session))


class CurrentHerder:
    """Call it for the herder. Safe to share between threads. The settings can change at any time, by a Variable or a Connection."""

    def __init__(self, make: Callable[[WorkerSettings], Herder] = make_herder, *, now: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._now = now
        self._lock = threading.Lock()
        self._herder: Herder | None = None
        self._properties: dict[str, str] | None = None
        self._due = 0.0
        self._former: list[tuple[float, Herder]] = []

    def __call__(self) -> Herder:
        """Raises what is wrong with the settings, or with the broker, while none can be made."""
        if self._herder is not None and self._now() < self._due:
            return self._herder
        with self._lock:
            return self._renewed()

    def _renewed(self) -> Herder:
        if self._herder is not None and self._now() < self._due:
            return self._herder
        properties = worker_properties()
        if self._herder is None or properties != self._properties:
            made = self._make(worker_settings())
            if self._herder is not None:
                _log.info("The worker settings have changed; they hold from now on")
                self._former.append((self._now() + _LAST_CALL_SECONDS, self._herder))  # a request may be using it
            self._herder, self._properties = made, properties
        self._due = self._now() + _SETTINGS_SECONDS
        self._close_former(self._now())
        return self._herder

    def close(self) -> None:
        """No request is under way any more."""
        with self._lock:
            self._close_former(float("inf"))
            if self._herder is not None:
                self._herder.close()
            self._herder = self._properties = None

    def _close_former(self, now: float) -> None:
        for until, herder in list(self._former):
            if until <= now:
                self._former.remove((until, herder))
                herder.close()
