"""Records that a producer or their topic refuses because of their size. Knows nothing of their content.

A client refuses a record at the call. A broker refuses a whole batch, in the delivery report. Then the largest record of the batch is
named.
"""

from collections.abc import Iterator

from confluent_kafka import KafkaError, KafkaException, Message

from airflow_provider_connect.errors import RecordTooLargeException
from airflow_provider_connect.runtime.model.config_limits import cut

_LONGEST_KEY = 500  # characters


def is_too_large(error: object) -> bool:
    """Whether this KafkaError, or the KafkaError of a KafkaException, concerns the size of a record."""
    found = error.args[0] if isinstance(error, KafkaException) and error.args else error
    return isinstance(found, KafkaError) and found.code() == KafkaError.MSG_SIZE_TOO_LARGE


class LargeRecords:
    """The records that one producer could not write. ``setting`` is the name of the setting that raises the producer's limit."""

    def __init__(self, setting: str) -> None:
        self._setting = setting
        self._failed: list[tuple[KafkaError, Message]] = []

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """The ``on_delivery`` of each record. Does as little as possible. See ``kafka_errors.cause_of``."""
        if error is not None:
            self._failed.append((error, message))

    def check(self) -> None:
        """Raises RecordTooLargeException if the broker has refused a record."""
        largest = max(self._refused(), default=None)
        if largest is not None:
            size, topic, key = largest
            raise _too_large(size, topic, key, f"Raise max.message.bytes of topic {topic}, whose default is the brokers' message.max.bytes")

    def _refused(self) -> Iterator[tuple[int, str, bytes]]:
        for error, message in self._failed:
            if is_too_large(error):
                key = message.key() or b""
                yield len(key) + len(message), message.topic() or "", key if isinstance(key, bytes) else key.encode()

    def by_producer(self, topic: str, key: bytes, value: bytes | None) -> RecordTooLargeException:
        """The exception for a record that the producer itself has refused."""
        raised = f"Raise {self._setting}, and max.message.bytes of topic {topic} with it"
        return _too_large(len(key) + len(value or b""), topic, key, raised)


def _too_large(size: int, topic: str, key: bytes, advice: str) -> RecordTooLargeException:
    shown = cut(key.decode(errors="replace"), _LONGEST_KEY)
    return RecordTooLargeException(f"The record {shown} of topic {topic} is too large: its key and value have {size} bytes. {advice}")
