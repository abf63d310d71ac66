"""The decoders of the internal topics, from a record to its value. For a malformed record they return Unreadable, and never raise."""

from collections.abc import Callable

from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.batches import BatchRecord, BatchReset
from airflow_provider_connect.runtime.model.offsets import OffsetRecord
from airflow_provider_connect.runtime.model.records import ConfigRecord, Unreadable
from airflow_provider_connect.runtime.model.status import StatusRecord
from airflow_provider_connect.runtime.stores.log_consumer import LogRecord
from airflow_provider_connect.runtime.wire import batch_topic, config_topic, offset_topic, status_topic

StateValue = ConfigRecord | StatusRecord | OffsetRecord | BatchRecord | BatchReset


def decode_config(record: LogRecord) -> ConfigRecord | Unreadable:
    return config_topic.decode(record.key, record.value, record.headers, offset=record.offset)


def decode_status(record: LogRecord) -> StatusRecord | Unreadable:
    return status_topic.decode(record.key, record.value, record.headers, offset=record.offset, timestamp=record.timestamp)


def decode_batch(record: LogRecord) -> BatchRecord | BatchReset | Unreadable:
    return batch_topic.decode(record.key, record.value, record.headers, offset=record.offset, timestamp=record.timestamp)


def decode_offset(record: LogRecord) -> OffsetRecord | Unreadable:
    return offset_topic.decode(record.key, record.value, record.headers, offset=record.offset)


def by_topic(settings: WorkerSettings) -> dict[str, Callable[[LogRecord], StateValue | Unreadable]]:
    """The decoders by topic. Offsets topics are not listed, because a connector may have one of its own. So any topic that is not listed
    holds source offsets."""
    return {settings.config_topic: decode_config, settings.status_topic: decode_status, settings.batch_topic: decode_batch}
