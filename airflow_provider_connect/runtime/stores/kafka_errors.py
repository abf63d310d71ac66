"""Translates librdkafka's errors to our exceptions, and keeps the last error of a client for the message of a timeout."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from airflow_provider_connect.errors import ConnectException, FencedException, StoreException, StoreTimeoutException

_log = logging.getLogger(__name__)
_client_log = logging.getLogger(f"{__name__}.librdkafka")
_client_log.addFilter(lambda line: _log.isEnabledFor(logging.DEBUG))  # errors that matter are raised, with our messages

QUICK: Mapping[str, int | bool] = {"reconnect.backoff.ms": 5, "reconnect.backoff.max.ms": 1000, "socket.nagle.disable": True}
"""Client settings for short waits: librdkafka's default back-off of 100 ms delays the first connection by 50 ms."""

_FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})
_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
_REFUSED = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_RETRIABLE = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._DESTROY_BROKER,  # a request waited for a broker whose connection was lost
        KafkaError._MSG_TIMED_OUT,
        KafkaError._NOENT,  # no leader is known, after a lost connection
        KafkaError._QUEUE_FULL,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._WAIT_COORD,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.INVALID_MSG,  # Java's CorruptRecordException
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.LISTENER_NOT_FOUND,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)
"""The errors that are a RetriableException in Java's clients, and librdkafka's own codes for an unavailable broker."""

NO_LEADER = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,  # the leader does not yet know that it is the leader
        KafkaError._NOENT,
        KafkaError._TRANSPORT,
    }
)
"""The errors of a partition that is new or about to move, or that lost the connection to its leader: a retry succeeds soon."""


class TopicMissingException(StoreException):
    """The topic does not exist, or the client may not describe it."""


class LastError:
    """The ``error_cb`` of a client: keeps the last error, and prints nothing. Runs in the thread that polls the client."""

    def __init__(self) -> None:
        self.error: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        if self.error is None or error.code() != KafkaError._ALL_BROKERS_DOWN:  # which is less specific than the previous error
            self.error = error
        _log.debug("Kafka client: %s", error)

    def callbacks(self) -> dict[str, Any]:  # Any: librdkafka's configs hold objects of all kinds
        """The settings with which a client reports its errors to this object and prints nothing. A fenced producer prints at any log
        level."""
        return {"error_cb": self, "logger": _client_log}

    def raise_if_refused(self, stage: str) -> None:
        """Raises StoreException if the broker refused this client for good, because waiting would not help."""
        if self.error is not None and self.error.code() in _REFUSED:
            raise translated(self.error, stage)

    def __str__(self) -> str:
        return "none" if self.error is None else self.error.str()


def kafka_error(error: BaseException) -> KafkaError | None:
    """The KafkaError inside a KafkaException, if any.

    A fatal error (fenced) that arrives while a delivery callback runs is raised as a SystemError. Its cause is the KafkaException.
    """
    if isinstance(error, SystemError) and error.__cause__ is not None:
        return kafka_error(error.__cause__)
    found = error.args[0] if isinstance(error, KafkaException) and error.args else None
    return found if isinstance(found, KafkaError) else None


def is_retriable(error: KafkaError) -> bool:
    """Whether the same request, or a new attempt of the same transaction, may succeed later."""
    return error.code() not in _REFUSED and (bool(error.retriable() or error.txn_requires_abort()) or error.code() in _RETRIABLE)


def is_fenced(error: KafkaError) -> bool:
    """Whether another producer with the same transactional id has taken over."""
    return error.code() in _FENCED


def translated(error: KafkaError | BaseException, stage: str) -> ConnectException:
    """Our exception for librdkafka's error. ``stage`` names the step, such as *reading topic a*."""
    found = error if isinstance(error, KafkaError) else kafka_error(error)
    if found is None:
        return ConnectException(f"Kafka's client failed while {stage}: {error}")
    text = f"Kafka refused {stage}: {found.str()} ({found.name()}){_HINTS.get(found.code(), '')}"
    if is_fenced(found):
        return FencedException(text)
    if found.code() in _MISSING and not found.txn_requires_abort():
        return TopicMissingException(text)
    if is_retriable(found):
        return StoreTimeoutException(f"Kafka failed for now while {stage}: {found.str()} ({found.name()})", stage=stage)
    return StoreException(text)


_UNPACKED = (
    ". The client unpacks no batch that becomes more than 100 MB, or than fetch.max.bytes where that is larger, and of zstd perhaps "
    "a third of that. Set fetch.max.bytes (of a connector: consumer.override.fetch.max.bytes) to three times what the batch becomes, "
    "or set the offset after it"
)
_HINTS: Mapping[int, str] = {KafkaError._BAD_COMPRESSION: _UNPACKED}


def cause_of(error: KafkaError | BaseException, producer: Producer) -> KafkaError | BaseException:
    """The error that ended the transaction of ``producer``, if ``error`` reports only that another error has ended it (``_FATAL``,
    ``_STATE``, or a SystemError without a cause). Otherwise ``error`` itself.

    If a producer was fenced while its queue was filled, or one of its records was refused, only the next transactional call reports the
    cause. A fatal error within a flush becomes a Python exception immediately, while the callbacks of that flush still run. If a callback
    handles an exception of its own, both exceptions are lost.
    """
    found = error if isinstance(error, KafkaError) else kafka_error(error)
    if found is None and not isinstance(error, SystemError):
        return error
    code = KafkaError._FATAL if found is None else found.code()
    if code not in _CAUSE_OF:
        return error
    ask, answers = _CAUSE_OF[code]
    try:
        ask(producer)
    except KafkaException as refusal:
        cause = kafka_error(refusal)
        return refusal if cause is not None and answers(cause) else error
    return error


_CAUSE_SECONDS = 5.0  # the client's own thread answers, immediately unless the machine is busy

_CAUSE_OF: Mapping[int, tuple[Callable[[Producer], object], Callable[[KafkaError], bool]]] = {
    KafkaError._FATAL: (lambda producer: producer.abort_transaction(_CAUSE_SECONDS), KafkaError.fatal),
    KafkaError._STATE: (lambda producer: producer.commit_transaction(_CAUSE_SECONDS), KafkaError.txn_requires_abort),
}
"""For each error without its cause: a call that fails with the cause, and a check whether an error is that cause. A transaction that
accepts no more records (``_STATE``) is never committed: librdkafka demands an abort first."""


@contextmanager
def translating(stage: str, producer: Producer | None = None) -> Iterator[None]:
    """Translates the client's exceptions in its block, including those hidden in a SystemError. ``producer``: see ``cause_of``."""
    try:
        yield
    except (KafkaException, SystemError) as error:
        raise translated(error if producer is None else cause_of(error, producer), stage) from error


def unreachable(bootstrap_servers: object, seconds: float, stage: str, last: LastError | str) -> StoreTimeoutException:
    """The exception for a request that no broker answered in time."""
    return StoreTimeoutException(
        f"No answer from Kafka within {seconds:g} s while {stage}; is a broker running at bootstrap.servers={bootstrap_servers}? "
        f"Last error of the client: {last}",
        stage=stage,
    )
