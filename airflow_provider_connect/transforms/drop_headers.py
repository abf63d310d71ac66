"""DropHeaders: headers of some keys taken off."""

from __future__ import annotations

from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, Type
from airflow_provider_connect.sdk.transformation import Transformation
from airflow_provider_connect.transforms.header_columns import without_headers
from airflow_provider_connect.transforms.name_lists import Names

HEADERS = "headers"


class DropHeaders(Transformation):
    """All headers of a key go, however often it occurs."""

    class_name = "org.apache.kafka.connect.transforms.DropHeaders"
    config_def = ConfigDef(
        ConfigKey(HEADERS, Type.LIST, validator=Names(), importance=Importance.HIGH, doc="The name of the headers to be removed."),
    )

    def configure(self, config: Config) -> None:
        self._keys: list[str] = config[HEADERS]

    def apply_batch(self, batch: Batch) -> Batch:
        if batch.headers is None or not batch.num_records:
            return batch
        return batch.replace(headers=without_headers(batch.headers, self._keys))
