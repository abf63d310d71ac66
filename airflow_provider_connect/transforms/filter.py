"""Filter: drops every record that it is given, which a predicate decides."""

from __future__ import annotations

from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.transformation import Transformation


class Filter(Transformation):
    """Drops them all; the framework still counts them as read."""

    class_name = "org.apache.kafka.connect.transforms.Filter"
    drops_all = True

    def apply_batch(self, batch: Batch) -> None:
        return None
