"""Writes the status topic in the background with retries (KIP-1278), and reads it as a state."""

import logging
import random as _random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from airflow_provider_connect.errors import MOST_CHARACTERS, shorten
from airflow_provider_connect.runtime.config.client_settings import ClientKind, internal_client_config
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.records import Unreadable
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.status import StatusRecord, StatusState, TopicReset, TopicStatus
from airflow_provider_connect.runtime.stores.backoff import Backoff
from airflow_provider_connect.runtime.stores.decoders import decode_status
from airflow_provider_connect.runtime.stores.kafka_errors import QUICK, LastError, is_retriable, kafka_error
from airflow_provider_connect.runtime.stores.large_records import is_too_large
from airflow_provider_connect.runtime.stores.log_consumer import Closing, LogRecord
from airflow_provider_connect.runtime.stores.status_notes import StatusNotes
from airflow_provider_connect.runtime.stores.topic_reader import TopicReader
from airflow_provider_connect.runtime.wire import status_topic
from airflow_provider_connect.runtime.wire.record import WireRecord

ATTEMPT_TIMEOUT_MS = 10_000
"""How long one attempt may take. With the default retries and waits, a broker may be unavailable for more than a minute."""

UNUSED_SECONDS = 30.0
_POLL_SECONDS = 0.01
_SHORT_TRACE = 1_000  # characters; to shorten a shorter trace would not make the record fit
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Update:
    """The latest value of one key that is not on the topic yet. ``number`` distinguishes it from the values that it replaced."""

    record: StatusRecord
    key: bytes
    value: bytes | None
    headers: list[tuple[str, str | bytes | None]]
    number: int
    attempts: int = 0
    due: float = 0.0

    def shorten(self) -> bool:
        """Shortens the trace to a quarter. False: it is already short, or there is no trace."""
        trace = None if isinstance(self.record, (TopicStatus, TopicReset)) else self.record.trace
        if isinstance(self.record, (TopicStatus, TopicReset)) or trace is None or len(trace) < _SHORT_TRACE:
            return False
        self.record = replace(self.record, trace=shorten(trace, min(len(trace), MOST_CHARACTERS) // 4))
        self.value = status_topic.encode(self.record).value
        return True


class StatusWriter(StatusNotes):
    """Sends the statuses from a background thread. Sends only the latest value of each key, in order.

    Retries a retriable failure by ``status.storage.retry.*``. Logs a status that fails for good, or too often, with its value. The thread,
    the producer and the connection are created with a status, and end after ``UNUSED_SECONDS`` without another. Safe to share between
    threads.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        claim: Claim | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        random: _random.Random | None = None,
    ) -> None:
        super().__init__(claim)
        retry = settings.status_retry
        self._settings = settings
        self._topic = settings.status_topic
        self._now = now
        self._random = random or _random.Random()
        self._max_retries = retry.max_retries
        self._backoff = Backoff(retry.initial_backoff_ms, retry.max_backoff_ms, retry.backoff_multiplier, retry.jitter_factor)
        self._changed = threading.Condition()
        self._pending: dict[bytes, _Update] = {}
        self._in_flight: dict[bytes, _Update] = {}
        self._numbers = 0
        self._retries = self._failures = self._successes = 0
        self._thread: threading.Thread | None = None
        self._closed = False

    def _put(self, record: StatusRecord, wire: WireRecord) -> None:
        with self._changed:
            self._numbers += 1
            self._pending[wire.key] = _Update(record, wire.key, wire.value, [*wire.headers], self._numbers)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="connect-status-writer", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, timeout_seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending and not self._in_flight, timeout_seconds)

    def metrics(self) -> dict[str, float]:
        with self._changed:
            return {
                "status-update-retry-total": float(self._retries),
                "status-update-failure-total": float(self._failures),
                "status-update-success-total": float(self._successes),
            }

    def close(self, timeout_seconds: float = 5.0) -> None:
        """Flushes, then ends the thread. Statuses not written in time are logged with their values and counted as failed."""
        self.flush(timeout_seconds)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(timeout_seconds)

    def _run(self) -> None:
        """The thread. Only this function uses the producer."""
        producer = _producer(self._settings)
        while True:
            with self._changed:
                is_awake = self._changed.wait_for(self._awake, self._idle_seconds())
                if self._closed:
                    break
                if not is_awake and not self._pending:
                    self._thread = None
                    return
                ready = self._take_due()
            for update in ready:
                self._send(producer, update)
            _poll(producer)
        producer.purge(in_queue=True, in_flight=True, blocking=False)
        with self._changed:
            left = {**self._in_flight, **self._pending}.values()
            self._pending, self._in_flight = {}, {}
            for update in left:
                self._give_up(update, "the writer was closed")

    def _awake(self) -> bool:
        return self._closed or bool(self._in_flight) or any(self._is_due(update) for update in self._pending.values())

    def _idle_seconds(self) -> float:
        """The time until the first retry is due, or until the thread ends."""
        waiting = [update.due for key, update in self._pending.items() if key not in self._in_flight]
        return max(0.0, min(waiting) - self._now()) if waiting else UNUSED_SECONDS

    def _is_due(self, update: _Update) -> bool:
        return update.due <= self._now() and update.key not in self._in_flight

    def _take_due(self) -> list[_Update]:
        due = [update for update in self._pending.values() if self._is_due(update)]
        for update in due:
            self._in_flight[update.key] = self._pending.pop(update.key)
        return due

    def _send(self, producer: Producer, update: _Update) -> None:
        def on_delivery(error: KafkaError | None, _: Message) -> None:
            self._record_outcome(update, error)

        try:
            producer.produce(self._topic, update.value, update.key, headers=update.headers, on_delivery=on_delivery)
        except (KafkaException, BufferError) as error:
            self._record_outcome(update, kafka_error(error) or KafkaError(KafkaError._QUEUE_FULL))

    def _record_outcome(self, update: _Update, error: KafkaError | None) -> None:
        """Counts the outcome of one attempt, and schedules a retry. A newer value of the key replaces one that awaits a retry."""
        with self._changed:
            self._in_flight.pop(update.key, None)
            if error is None:
                self._successes += 1
            elif is_too_large(error) and update.shorten():
                self._pending.setdefault(update.key, update)
            elif not is_retriable(error):
                self._give_up(update, error.str())
            elif update.key not in self._pending:
                self._retry(update, error)
            self._changed.notify_all()

    def _retry(self, update: _Update, error: KafkaError) -> None:
        if update.attempts >= self._max_retries:
            self._give_up(update, f"{error.str()}, after {update.attempts} retries")
            return
        update.due = self._now() + self._backoff.delay_ms(update.attempts, self._random) / 1000
        update.attempts += 1
        self._retries += 1
        self._pending[update.key] = update

    def _give_up(self, update: _Update, reason: str) -> None:
        self._failures += 1
        value = "null" if update.value is None else update.value.decode(errors="replace")
        _log.error("Failed to write status update %s = %s: %s", update.key.decode(errors="replace"), value, reason)


def _producer(settings: WorkerSettings) -> Producer:
    """Connect's producer for statuses: acks of all replicas, and no retries of its own, because StatusWriter retries."""
    config = internal_client_config(settings, ClientKind.PRODUCER, "statuses")
    own = {**QUICK, "retries": 0, "linger.ms": 0}
    limits = {"delivery.timeout.ms": ATTEMPT_TIMEOUT_MS, "request.timeout.ms": ATTEMPT_TIMEOUT_MS, "socket.timeout.ms": ATTEMPT_TIMEOUT_MS}
    return Producer({**config, **own, **limits, **LastError().callbacks()})


def _poll(producer: Producer) -> None:
    try:
        producer.poll(_POLL_SECONDS)
    except (KafkaException, SystemError) as error:  # a fatal error, which is also in the delivery reports
        _log.debug("Status producer: %s", error)


class StatusStore(Closing):
    """Reads the statuses. ``only`` leaves out all connectors except this one and those whose names begin with it. Not thread-safe."""

    def __init__(self, settings: WorkerSettings, *, only: str | None = None) -> None:
        config = internal_client_config(settings, ClientKind.CONSUMER, "statuses")
        self._reader = TopicReader[StatusRecord | Unreadable](settings.status_topic, config, self._decode)
        self._only = only
        self._state = StatusState()
        self.skipped = self._reader.skipped

    def read(self) -> StatusState:
        """The statuses at the topic's end. Each call updates and returns the same object. Raises TopicMissingException,
        StoreTimeoutException."""
        self._reader.read(self._apply, forget=self._forget)
        return self._state

    def _apply(self, status: StatusRecord | Unreadable) -> str:
        return self._state.apply(status)

    def _decode(self, record: LogRecord) -> StatusRecord | Unreadable | None:
        is_concerned = self._only is None or status_topic.concerns(record.key, self._only)
        return decode_status(record) if is_concerned else None

    def close(self) -> None:
        self._reader.close()
        self._forget()

    def _forget(self) -> None:
        self._state = StatusState()
