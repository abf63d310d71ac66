"""Reading a topic to its end, over a consumer in memory: what is decoded, applied, counted, waited for and read again."""

from collections.abc import Callable, Mapping

import pytest

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import StoreTimeoutException
from airflow_provider_connect.runtime.model.records import Unreadable
from airflow_provider_connect.runtime.stores import topic_reader
from airflow_provider_connect.runtime.stores.log_consumer import LogEnd, LogRecord, LogTruncatedException
from airflow_provider_connect.runtime.stores.topic_reader import OpenTransactionException, TopicReader

TOPIC = "t"


class Broker:
    """One topic: records by partition, the offsets that open transactions hide, and the error of the next read."""

    def __init__(self, *values: bytes | None) -> None:
        self.records = {0: [LogRecord(0, offset, 1, b"k", value, [], TOPIC) for offset, value in enumerate(values)]}
        self.stable: dict[int, int] = {}
        self.error_at: tuple[int, Exception] | None = None
        self.starts: list[dict[int, int]] = []

    def consumer(self, _: object, *, read_committed: bool = True) -> "Consumer":
        return Consumer(self, read_committed=read_committed)


class Consumer:
    def __init__(self, broker: Broker, *, read_committed: bool) -> None:
        self._broker, self._read_committed = broker, read_committed

    def partition_count(self, topic: str, timeout_seconds: float) -> int:
        return len(self._broker.records)

    def read(
        self, starts: Mapping[TopicPartition, int], timeout_seconds: float, take: Callable[[LogRecord], None]
    ) -> tuple[list[LogRecord], dict[TopicPartition, LogEnd]]:
        self._broker.starts.append({at.partition: start for at, start in starts.items()})
        ends = {}
        for at, start in starts.items():
            records = self._broker.records[at.partition]
            stable = self._broker.stable.get(at.partition, len(records)) if self._read_committed else len(records)
            for record in records[max(start, 0) : stable]:
                if self._broker.error_at is not None and self._broker.error_at[0] == record.offset:
                    error, self._broker.error_at = self._broker.error_at[1], None
                    raise error
                take(record)
            ends[at] = LogEnd(stable, len(records))
        return [], ends

    def close(self) -> None:
        """Nothing is open."""

    def __enter__(self) -> "Consumer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def decode(record: LogRecord) -> int | Unreadable | None:
    if record.value is None:
        return None
    return int(record.value) if record.value.isdigit() else Unreadable("not a number", record.key, record.offset)


class Applied:
    def __init__(self) -> None:
        self.values: list[int] = []

    def __call__(self, value: int | Unreadable) -> str:
        if isinstance(value, Unreadable):
            return value.reason
        self.values.append(value)
        return "odd" if value % 2 else ""

    def forget(self) -> None:
        self.values = []


@pytest.fixture
def applied() -> Applied:
    return Applied()


def reader_of(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> TopicReader[int | Unreadable]:
    monkeypatch.setattr(topic_reader, "LogConsumer", broker.consumer)
    return TopicReader[int | Unreadable](TOPIC, {}, decode)


def test_records_without_effect_are_counted_and_the_others_applied(applied: Applied, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(Broker(b"2", b"\xff", None, b"3", b"4"), monkeypatch)
    reader.read(applied)
    assert (applied.values, reader.skipped.count) == ([2, 3, 4], 2)
    reader.read(applied)
    assert applied.values == [2, 3, 4]


def test_a_read_continues_after_the_last_record_before_a_time_out(applied: Applied, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(b"0", b"2", b"4", b"6")
    reader = reader_of(broker, monkeypatch)
    broker.error_at = (2, StoreTimeoutException("late"))
    with pytest.raises(StoreTimeoutException):
        reader.read(applied)
    reader.read(applied)
    assert applied.values == [0, 2, 4, 6]
    assert broker.starts[-1] == {0: 2}


def test_values_before_a_time_out_are_in_the_next_list(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(b"0", b"2", b"4")
    reader = reader_of(broker, monkeypatch)
    broker.error_at = (2, StoreTimeoutException("late"))
    with pytest.raises(StoreTimeoutException):
        reader.read_to_end()
    assert reader.read_to_end() == [0, 2, 4]


def test_a_recreated_topic_is_read_from_its_beginning_after_forget(applied: Applied, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(b"0", b"2", b"4")
    reader = reader_of(broker, monkeypatch)
    reader.read(applied)
    broker.records = Broker(b"8").records
    lost = Consumer(broker, read_committed=True)
    monkeypatch.setattr(lost, "read", _truncated_once(lost.read))
    reader._opened = lost  # type: ignore[assignment]
    reader.read(applied, forget=applied.forget)
    assert applied.values == [8]


def test_a_recreated_topic_is_an_error_without_forget(applied: Applied, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(b"0")
    broker.error_at = (0, LogTruncatedException("gone"))
    with pytest.raises(LogTruncatedException):
        reader_of(broker, monkeypatch).read(applied)


def _truncated_once(read: Callable[..., object]) -> Callable[..., object]:
    left = [LogTruncatedException("gone")]

    def once(*arguments: object) -> object:
        if left:
            raise left.pop()
        return read(*arguments)

    return once


@pytest.mark.parametrize(("key", "waits"), [(b"k", True), (b"other", False)])
def test_an_open_transaction_is_waited_for_if_it_hides_a_wanted_record(
    applied: Applied, monkeypatch: pytest.MonkeyPatch, *, key: bytes, waits: bool
) -> None:
    broker = Broker(b"0", b"2")
    broker.stable = {0: 1}
    reader = reader_of(broker, monkeypatch)
    if waits:
        with pytest.raises(OpenTransactionException):
            reader.read(applied, wait_for=lambda hidden: hidden == key, settle_seconds=0.01)
        broker.stable = {}
        reader.read(applied, wait_for=lambda hidden: hidden == key)
        assert (applied.values, reader.hides_records) == ([0, 2], False)
    else:
        reader.read(applied, wait_for=lambda hidden: hidden == key)
        assert (applied.values, reader.hides_records) == ([0], True)


def test_a_read_starts_at_the_given_offsets(applied: Applied, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(b"0", b"2", b"4")
    reader = reader_of(broker, monkeypatch)
    reader.start_at({0: 2})
    reader.read(applied)
    assert applied.values == [4]
    reader.rewind()
    reader.read(applied)
    assert applied.values == [4, 0, 2, 4]
