"""Of what a broker refuses in one go, only the records at fault are given up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.worker.delivery.refused_records import RefusedRecords
from airflow_provider_connect.runtime.worker.errors.failures import Failure

LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
FORBIDDEN = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)


class Report:
    """A delivery report as the client makes it: without headers."""

    def __init__(self, value: bytes) -> None:
        self._value = value

    def value(self) -> bytes:
        return self._value

    def key(self) -> bytes:
        return b"k"

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 2

    def timestamp(self) -> tuple[int, int]:
        return 1, 77


class Broker:
    """Takes what lies between two flushes as one batch, and refuses all of it when one record is too large."""

    def __init__(self, error: KafkaError = LARGE) -> None:
        self.error = error
        self.taken: list[dict[str, Any]] = []
        self._batch: list[tuple[dict[str, Any], Callable[..., None]]] = []

    def produce(self, topic: str, on_delivery: Callable[..., None], **options: Any) -> None:
        self._batch.append((options, on_delivery))

    def flush(self, timeout: float) -> int:
        batch, self._batch = self._batch, []
        if any(options["value"].startswith(b"large") for options, _ in batch):
            for options, reported in batch:
                reported(self.error, Report(options["value"]))
        else:
            self.taken += [options for options, _ in batch]
        return 0


@settings(deadline=None)
@given(st.integers(1, 40), st.sets(st.integers(0, 39), max_size=5))
def test_only_those_that_are_too_large_are_given_up(count: int, large: set[int]) -> None:
    broker, failures = Broker(), list[Failure]()
    refused = RefusedRecords(broker, failures.append)  # type: ignore[arg-type]
    values = [b"large %d" % n if n in large else b"small %d" % n for n in range(count)]
    for value in values:
        assert refused.delivered(LARGE, Report(value), [("h", value)])  # type: ignore[arg-type]
    refused.settle(1)
    small = [value for value in values if value.startswith(b"small")]
    assert sorted(options["value"] for options in broker.taken) == sorted(small)
    assert len(failures) == count - len(small)
    assert all((o["key"], o["partition"], o["timestamp"], o["headers"]) == (b"k", 2, 77, [("h", o["value"])]) for o in broker.taken)
    refused.settle(1)  # nothing is left
    assert len(broker.taken) == len(small)


def test_reasons_that_lie_elsewhere_are_no_records() -> None:
    refused = RefusedRecords(Broker(), lambda _: None)  # type: ignore[arg-type]
    assert not refused.delivered(FORBIDDEN, Report(b"large"))  # type: ignore[arg-type]
    assert not refused.give_up("t", {"value": b"large"}, FORBIDDEN)
    assert refused.delivered(LARGE, Report(b"large"))  # type: ignore[arg-type]
    forbidding = RefusedRecords(Broker(FORBIDDEN), lambda _: None)  # type: ignore[arg-type]
    forbidding.delivered(LARGE, Report(b"large"))  # type: ignore[arg-type]
    with pytest.raises(ConnectException, match="TOPIC_AUTHORIZATION_FAILED"):
        forbidding.settle(1)
