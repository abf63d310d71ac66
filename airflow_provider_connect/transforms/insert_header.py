"""InsertHeader: the same header for every record."""

from __future__ import annotations

from typing import Any

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.arrow import pa
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, Lambda
from airflow_provider_connect.sdk.transformation import Transformation
from airflow_provider_connect.sdk.value_parser import parse_value
from airflow_provider_connect.transforms.header_columns import with_header

HEADER, VALUE = "header", "value.literal"


def _check_given(name: str, value: Any) -> None:
    if value is None:
        raise ConfigException.of(name, "null", "entry must be non null")


class InsertHeader(Transformation):
    """Its type is inferred from its text, as that of headers which are read: ``5`` is a number, ``true`` a boolean."""

    class_name = "org.apache.kafka.connect.transforms.InsertHeader"
    config_def = ConfigDef(
        ConfigKey(HEADER, validator=Lambda(_check_given), importance=Importance.HIGH, doc="The name of the header."),
        ConfigKey(
            VALUE,
            validator=Lambda(_check_given),
            importance=Importance.HIGH,
            doc="The literal value that is to be set as the header value on all records.",
        ),
    )

    def configure(self, config: Config) -> None:
        self._key: str = config[HEADER]
        self._schema, self._value = parse_value(config[VALUE])

    def apply_batch(self, batch: Batch) -> Batch:
        if not batch.num_records:
            return batch
        data = self.header_converter.from_connect_header(batch.topic, self._key, self._schema, self._value)
        values = pa.repeat(pa.scalar(data, pa.binary()), batch.num_records)
        return batch.replace(headers=with_header(batch.headers, self._key, values))
