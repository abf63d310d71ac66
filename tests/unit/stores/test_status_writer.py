"""Which statuses are sent to the status topic, over a producer in memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError

from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import TaskStatus
from airflow_provider_connect.runtime.stores import status_store
from airflow_provider_connect.runtime.stores.status_store import StatusWriter
from airflow_provider_connect.runtime.wire import status_topic
from tests.waiting import HANG_SECONDS

OLD, NEW = TaskStatus("c", 0, State.RUNNING, "h:1"), TaskStatus("c", 0, State.FAILED, "h:1", trace="boom")
Delivery = Callable[[KafkaError | None, None], None]


class Broker:
    """The producer of a broker that refuses the first records. ``before_refusal`` is called while a record is in flight."""

    def __init__(self, refusals: int, before_refusal: Callable[[], None]) -> None:
        self.sent: list[bytes | None] = []
        self._refusals, self._before_refusal = refusals, before_refusal
        self._in_flight: list[Delivery] = []

    def produce(self, topic: str, value: bytes | None, key: bytes, *, headers: object, on_delivery: Delivery) -> None:
        self.sent.append(value)
        self._in_flight.append(on_delivery)

    def poll(self, timeout_seconds: float) -> None:
        deliveries, self._in_flight = self._in_flight, []
        for on_delivery in deliveries:
            if self._refusals:
                self._refusals -= 1
                self._before_refusal()
                on_delivery(KafkaError(KafkaError.NOT_ENOUGH_REPLICAS), None)
            else:
                on_delivery(None, None)

    def purge(self, **_: bool) -> None: ...


@pytest.mark.parametrize(("is_replaced", "sent", "retries"), [(False, [OLD, OLD], 1), (True, [OLD, NEW], 0)])
def test_a_refused_status_is_sent_again_unless_a_newer_one_of_its_key_waits(
    is_replaced: bool, sent: list[TaskStatus], retries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = StatusWriter(WorkerSettings.of({"status.storage.retry.initial.backoff.ms": "1"}))
    broker = Broker(1, lambda: writer.put_task(NEW) if is_replaced else None)
    monkeypatch.setattr(status_store, "_producer", lambda settings: broker)
    with writer:
        writer.put_task(OLD)
        assert writer.flush(HANG_SECONDS)
    assert broker.sent == [status_topic.encode(status).value for status in sent]
    assert writer.metrics() == {
        "status-update-retry-total": float(retries),
        "status-update-failure-total": 0.0,
        "status-update-success-total": 1.0,
    }
