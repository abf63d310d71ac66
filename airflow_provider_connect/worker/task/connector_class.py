"""The class of a connector, loaded within a limit: importing it runs code of whoever wrote it, which may never come back."""

from __future__ import annotations

from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.errors import ConfigException, RetriableException
from airflow_provider_connect.plugins.catalog.plugin_catalog import Plugin
from airflow_provider_connect.worker.delivery.bounded_call import within

_OURS = "airflow_provider_connect."


def connector_class(plugin: Plugin, settings: WorkerSettings) -> type:
    """The class of ``plugin``. Raises ConfigException when it cannot be imported, or not within ``plugin.probe.timeout.ms``: the import is
    then left behind, in a thread that ends with the process."""
    if plugin.location is None and plugin.reference.startswith(_OURS):
        return plugin.load()
    seconds = settings.plugin_probe_timeout_ms / 1000
    loaded: list[type] = []
    try:
        within(seconds, lambda: loaded.append(plugin.load()), f"import of {plugin.class_name}")
    except RetriableException as error:
        said = f"importing it ({plugin.origin}) took more than the {seconds:g} s of plugin.probe.timeout.ms"
        raise ConfigException.of("connector.class", plugin.class_name, said) from error
    return loaded[0]
