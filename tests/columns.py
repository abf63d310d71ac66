"""Columns of batches."""

import dataclasses
from typing import Any

from airflow_provider_connect.sdk.batch import Batch, KafkaBatch


def there(column: Any | None) -> Any:
    """A column that the batch must have."""
    assert column is not None
    return column


def from_kafka(batch: Batch, **position: Any) -> KafkaBatch:
    """The columns of ``batch`` as they are read from Kafka."""
    return KafkaBatch(**{**{field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}, **position})
