from collections.abc import Sized

import pytest
from confluent_kafka import KafkaError, KafkaException

from airflow_provider_connect.errors import ConnectException, FencedException, StoreException, StoreTimeoutException
from airflow_provider_connect.runtime.model.records import Unreadable
from airflow_provider_connect.runtime.stores.config_leader import NotWrittenException, delivered_offsets
from airflow_provider_connect.runtime.stores.kafka_errors import LastError, TopicMissingException, is_retriable, kafka_error, translated
from airflow_provider_connect.runtime.stores.topic_reader import SkippedRecords


@pytest.mark.parametrize(
    ("code", "kind", "retriable"),
    [
        (KafkaError._TRANSPORT, StoreTimeoutException, True),
        (KafkaError._MSG_TIMED_OUT, StoreTimeoutException, True),
        (KafkaError._DESTROY_BROKER, StoreTimeoutException, True),
        (KafkaError._NOENT, StoreTimeoutException, True),
        (KafkaError.NOT_ENOUGH_REPLICAS, StoreTimeoutException, True),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, TopicMissingException, True),
        (KafkaError._FENCED, FencedException, False),
        (KafkaError.INVALID_PRODUCER_EPOCH, FencedException, False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, StoreException, False),
        (KafkaError.MSG_SIZE_TOO_LARGE, StoreException, False),
        (KafkaError.INVALID_RECORD, StoreException, False),
    ],
)
def test_errors_of_the_client_become_ours(code: int, kind: type[ConnectException], retriable: bool) -> None:
    error = KafkaError(code)
    found = translated(KafkaException(error), "reading topic a")
    assert type(found) is kind
    assert "reading topic a" in str(found)
    assert is_retriable(error) is retriable


def test_fatal_error_in_a_callback_is_found_in_its_system_error() -> None:
    outer = SystemError("returned a result with an exception set")
    outer.__cause__ = KafkaException(KafkaError(KafkaError._FENCED))
    found = kafka_error(outer)
    assert found is not None
    assert found.code() == KafkaError._FENCED
    assert kafka_error(ValueError()) is None


def test_last_error_keeps_the_most_precise() -> None:
    last = LastError()
    assert str(last) == "none"
    last(KafkaError(KafkaError._TRANSPORT, "Connection refused"))
    last(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert str(last) == "Connection refused"
    last.raise_if_refused("reading")
    last(KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
    with pytest.raises(StoreException, match="wrong password"):
        last.raise_if_refused("reading")


def test_every_record_of_a_transaction_needs_its_offset() -> None:
    assert delivered_offsets([(5, None), (6, None)], 0) == [5, 6]
    for delivered, left in (([(5, None), (None, None)], 0), ([(-1001, None)], 0), ([(5, None)], 1)):
        with pytest.raises(NotWrittenException) as refused:
            delivered_offsets(delivered, left)
        assert refused.value.is_transient
        assert refused.value.uncertain == []
    with pytest.raises(KafkaException):
        delivered_offsets([(None, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))], 0)


def test_a_batch_that_the_client_does_not_unpack_names_the_setting_to_raise() -> None:
    """Three kilobytes of zstd that become a hundred megabytes end each run: Java's client has no such limit."""
    error = translated(KafkaError(KafkaError._BAD_COMPRESSION, "Decompression of message at 1 failed"), "reading topic t")
    assert type(error) is StoreException
    assert "reading topic t: Decompression of message at 1 failed" in error.message
    assert "consumer.override.fetch.max.bytes" in error.message


def test_skipped_records_are_counted_and_each_reason_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    skipped = SkippedRecords("topic")
    for offset in (1, 2, 3):
        skipped.note("not JSON", Unreadable("not JSON"), offset=offset)
    skipped.note("", Unreadable(""), offset=4)
    for number in range(1000):
        skipped.note(f"reason {number}", Unreadable("x"), partition=1, offset=number)
    assert skipped.count == 1003
    assert len(caplog.records) == 100


def test_memory_of_skipped_records_is_bounded() -> None:
    skipped = SkippedRecords("topic")
    for offset in range(10_000):
        skipped.note(f"reason {offset}", Unreadable("x"), offset=offset)
    assert max(len(kept) for kept in vars(skipped).values() if isinstance(kept, Sized)) <= 100
