"""Records that a producer or their topic refuses for their size. Knows nothing of what they are records of.

A client refuses a record at the call, a broker in the delivery report, there a whole batch: then the largest record of it is named.
"""

from confluent_kafka import KafkaError, KafkaException, Message

from airflow_provider_connect.errors import RecordTooLargeException
from airflow_provider_connect.model.config_limits import cut

_LONGEST_KEY = 500  # characters


def is_too_large(error: object) -> bool:
    """Whether this KafkaError, or that of a KafkaException, is about the size of a record."""
    found = error.args[0] if isinstance(error, KafkaException) and error.args else error
    return isinstance(found, KafkaError) and found.code() == KafkaError.MSG_SIZE_TOO_LARGE


class LargeRecords:
    """Those that one producer could not write. ``setting``: the one that has the producer take larger ones."""

    def __init__(self, setting: str) -> None:
        self._setting = setting
        self._largest: tuple[int, str, bytes] | None = None

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """The ``on_delivery`` of each record."""
        if error is None or not is_too_large(error):
            return
        key = message.key() or b""
        found = len(key) + len(message), message.topic() or "", key if isinstance(key, bytes) else key.encode()
        self._largest = max(self._largest or found, found)

    def check(self) -> None:
        """Raises RecordTooLargeException if the broker has refused one."""
        if self._largest is not None:
            size, topic, key = self._largest
            raise _too_large(size, topic, key, f"Raise max.message.bytes of topic {topic}, whose default is the brokers' message.max.bytes")

    def by_producer(self, topic: str, key: bytes, value: bytes | None) -> RecordTooLargeException:
        """The exception for a record that the producer itself has refused."""
        raised = f"Raise {self._setting}, and max.message.bytes of topic {topic} with it"
        return _too_large(len(key) + len(value or b""), topic, key, raised)


def _too_large(size: int, topic: str, key: bytes, advice: str) -> RecordTooLargeException:
    shown = cut(key.decode(errors="replace"), _LONGEST_KEY)
    return RecordTooLargeException(f"The record {shown} of topic {topic} is too large: its key and value have {size} bytes. {advice}")
