"""The contract of a TransactionalSink that loses its connection, tested by a fault in each of its methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ClassVar

import pytest

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.connector import SinkConnector
from airflow_provider_connect.sdk.task import SinkTask
from airflow_provider_connect.sdk.testing.calls import SinkCalls
from airflow_provider_connect.sdk.transactional_sink import TransactionalSink

_METHODS: Sequence[str] = ("write", "flush", "write_offsets", "commit")


class _Loss:
    """Raises RetriableException at the ``nth`` call of ``reached`` after it is armed."""

    def __init__(self, nth: int) -> None:
        self.is_armed = False
        self._left = nth

    def reached(self) -> None:
        self._left -= self.is_armed
        if self.is_armed and not self._left:
            raise RetriableException("The connection is lost (simulated by the suite)")


class LossTests:
    """A part of ``SinkConnectorSuite``."""

    connector_class: ClassVar[type[SinkConnector]]
    exactly_once: ClassVar[bool]
    overwrites: ClassVar[bool]
    partition: ClassVar[TopicPartition]
    batch: Callable[..., Batch]
    values: Callable[[int, int], list[Any]]
    delivered: Callable[[], list[Any]]
    task: Callable[..., SinkTask]
    end: Callable[[SinkTask], None]

    def test_lost_connection_neither_loses_nor_duplicates_records(self) -> None:
        """In each case, one method raises RetriableException once: at its first or second call, either before or after its work.

        The same instance then writes all batches since the last commit again, so ``forget`` must drop everything that ``write`` has kept.
        """
        sink = self.connector_class
        if not issubclass(sink, TransactionalSink) or not (self.exactly_once or self.overwrites):
            pytest.skip("the connector is not a TransactionalSink that writes each record once")
        reached = 0
        for method in _METHODS:
            for is_before in (True, False):
                for nth in (1, 2):
                    loss = _Loss(nth)
                    self.connector_class = _losing(sink, method, loss, is_before)  # type: ignore[misc]  # of this test alone
                    calls = SinkCalls(self.task(reached + 1), [self.partition])
                    calls.open()
                    loss.is_armed = True
                    calls.put(self.batch(reached, 2))
                    calls.put(self.batch(reached + 2, 1))
                    calls.commit()
                    loss.is_armed = False
                    self.end(calls.task)
                    reached += 3
                    at = f"{'before' if is_before else 'after'} {method} number {nth}"
                    assert self.delivered() == self.values(0, reached), (
                        f"the connection was lost {at}; do not commit in write(), and drop kept batches in forget()"
                    )


def _losing(sink: type[TransactionalSink], method: str, loss: _Loss, is_before: bool) -> type[TransactionalSink]:
    """A subclass of ``sink`` whose method loses the connection."""
    works = getattr(sink, method)

    @wraps(works)
    def losing(self: TransactionalSink, *given: Any) -> Any:
        if is_before:
            loss.reached()
        result = works(self, *given)
        if not is_before:
            loss.reached()
        return result

    return type(sink.__name__, (sink,), {method: losing, "__module__": sink.__module__, "__qualname__": sink.__qualname__})
