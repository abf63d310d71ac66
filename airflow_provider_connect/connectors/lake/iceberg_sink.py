"""IcebergSink: writes records to Iceberg tables. Has the settings of Apache Iceberg's own sink for Kafka Connect.

With exactly once, a commit of the table contains rows, offsets and claim. Rows are processed as whole columns. Only tasks import pyiceberg.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_provider_connect.connectors.lake.iceberg_settings import (
    CONFIG_DEF,
    EVOLVE,
    WAREHOUSE,
    IcebergSettings,
    catalog_options,
    ignored_keys,
    mistakes,
)
from airflow_provider_connect.connectors.lake.lake_sink import LakeSink
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.config_def import Config

if TYPE_CHECKING:
    from airflow_provider_connect.connectors.lake.iceberg_session import IcebergSession

log = logging.getLogger(__name__)


class IcebergSinkConnector(LakeSink):
    """Appends the records of topics to Iceberg tables, or updates their rows by key.

    Values must be structs with a schema. Each task handles a share of the topics' partitions.
    """

    class_name = "org.apache.iceberg.connect.IcebergSinkConnector"
    aliases = ("IcebergSink", "IcebergSinkConnector", "io.tabular.iceberg.connect.IcebergSinkConnector")
    config_def = CONFIG_DEF
    evolve_setting = EVOLVE
    alias_remedy = ", or give the column both names in the table's property schema.name-mapping.default"

    def start(self, config: Config) -> None:
        super().start(config)
        IcebergSettings.of(config)
        catalog_options(config, self.allowed_paths)
        ignored = ignored_keys(config.originals)
        if ignored:
            log.warning("%s: these settings have no effect: %s", config.originals.get("name", ""), ", ".join(ignored))

    def mistakes(self, config: Config) -> list[ConfigException]:
        found = list(mistakes(config))
        if not found:
            try:
                catalog_options(config, self.allowed_paths)
            except ConfigException as error:
                found.append(error)
        return found

    def open(self) -> IcebergSession:
        from airflow_provider_connect.connectors.lake.iceberg_session import IcebergSession

        return IcebergSession(self.config, self.allowed_paths, self.unwritten)

    def translate_library_error(self, error: Exception) -> Exception:
        from airflow_provider_connect.connectors.lake.iceberg_errors import translate_error

        return translate_error(error, self.config[WAREHOUSE])
