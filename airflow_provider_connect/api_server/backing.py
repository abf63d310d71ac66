"""The stores of a herder in a process of Airflow's: they read on from what processes of this host have read of the config topic."""

import logging

from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.hooks.airflow_settings import run_directory
from airflow_provider_connect.stores.backing import TopicBacking
from airflow_provider_connect.stores.config_cache import ConfigCache

_READ_SECONDS = 30.0

_log = logging.getLogger(__name__)


def airflow_backing(settings: WorkerSettings) -> TopicBacking:
    """Stores that read on from the config topic as it is now, which is read once for all of them. The topics must be there.

    Where another user owns the run directory, each store reads the topic whole. Raises StoreTimeoutException: what was read until then is
    kept in the run directory, and the next call goes on behind it.
    """
    try:
        folder = run_directory()
    except ConfigException as error:
        _log.info("The config topic is read whole: %s", error.message)
        return TopicBacking(settings)
    return TopicBacking(settings, known=ConfigCache(folder).read(settings, None, timeout_seconds=_READ_SECONDS))
