"""What tasks have counted, for metrics: by connector, task and Kafka Connect's metric name."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.model.batches import ConnectorType
from airflow_provider_connect.stores.batch_log import BatchLog

TaskMetrics = Mapping[tuple[str, int], Mapping[str, float]]
ReadTaskMetrics = Callable[[], TaskMetrics]

_WRITTEN = {ConnectorType.SOURCE: "source-record-write-total", ConnectorType.SINK: "sink-record-send-total"}
_log = logging.getLogger(__name__)


class BatchLogMetrics:
    """Read from the batch log, which tasks in other processes write. Totals rise for as long as this process lives, and begin with the last
    run of each task. Safe to share between threads."""

    def __init__(self, batch_log: BatchLog) -> None:
        self._batch_log = batch_log
        self._lock = threading.Lock()

    def read(self) -> TaskMetrics:
        """Empty while the batch log cannot be read: metrics of states are useful alone."""
        try:
            with self._lock:
                delivered = self._batch_log.delivered()
        except ConnectException as error:
            _log.warning("The batch log cannot be read for metrics: %s", error.message)
            return {}
        return {(task.connector, task.task): {_WRITTEN[found.type]: float(found.records)} for task, found in delivered.items()}

    def close(self) -> None:
        with self._lock:
            self._batch_log.close()
