"""Single records on their way: when each is sent, and when it arrives in a file, a topic or a table. Waits without polling, because the
observer runs on the cores of what it observes."""

import random
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import psycopg2
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from inotify_simple import INotify, flags

from airflow_provider_connect.dev.postgres_server import PostgresServer
from tests.benchmark.topics import QUIET

_STEP_SECONDS = 0.5
_LIMIT_SECONDS = 60.0
_NOTIFYING = """
create table {table} (id bigint);
create or replace function report_arrival() returns trigger language plpgsql as
  $$ begin perform pg_notify('arrivals', new.id::text); return null; end $$;
create trigger report after insert on {table} for each row execute function report_arrival();
listen arrivals;
"""


class Arrivals(Protocol):
    """Numbers that have arrived."""

    def receive(self, timeout_seconds: float) -> list[str]:
        """The next ones; none after ``timeout_seconds``, or earlier."""

    def close(self) -> None: ...


class FileArrivals:
    """The lines of a file, which need not exist. Its folder should have no other files that change."""

    def __init__(self, file: Path) -> None:
        self._file, self._position = file, 0
        self._inotify = INotify()
        self._inotify.add_watch(file.parent, flags.MODIFY | flags.CREATE | flags.MOVED_TO)

    def receive(self, timeout_seconds: float) -> list[str]:
        self._inotify.read(timeout=round(timeout_seconds * 1000))
        if not self._file.exists():
            return []
        with self._file.open("rb") as file:
            file.seek(self._position)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._position += len(whole)
        return whole.decode().split()

    def close(self) -> None:
        self._inotify.close()


class TopicArrivals:
    """The committed values of a topic of one partition."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": f"arrivals-{topic}", **QUIET})
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])

    def receive(self, timeout_seconds: float) -> list[str]:
        first = self._consumer.poll(timeout_seconds)
        messages = [] if first is None else [first, *self._consumer.consume(500, 0)]
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
        return [(message.value() or b"").decode() for message in messages]

    def close(self) -> None:
        self._consumer.close()


class TableArrivals:
    """The column ``id`` of a new table, reported by a trigger as soon as the transaction of a row is committed."""

    def __init__(self, server: PostgresServer, table: str) -> None:
        self._connection = psycopg2.connect(server.uri())
        self._connection.autocommit = True
        with self._connection.cursor() as cursor:
            cursor.execute(_NOTIFYING.format(table=table))

    def receive(self, timeout_seconds: float) -> list[str]:
        select.select([self._connection], [], [], timeout_seconds)
        self._connection.poll()
        found = [notification.payload for notification in self._connection.notifies]
        self._connection.notifies.clear()
        return found

    def close(self) -> None:
        self._connection.close()


def latencies(send: Callable[[str], object], arrivals: Arrivals, numbers: range, rate: float) -> list[float]:
    """Sends the numbers, ``rate`` a second at random times, and returns the seconds that each took to arrive. Raises TimeoutError."""
    sent, arrived = dict[str, float](), dict[str, float]()

    def send_all() -> None:
        begun = time.monotonic()
        for place, number in enumerate(numbers):
            time.sleep(max(0.0, begun + (place + random.random()) / rate - time.monotonic()))
            sent[str(number)] = time.monotonic()
            send(str(number))

    sender = threading.Thread(target=send_all, daemon=True)
    sender.start()
    until = time.monotonic() + len(numbers) / rate + _LIMIT_SECONDS
    wanted = {str(number) for number in numbers}
    while wanted:
        found = arrivals.receive(_STEP_SECONDS)
        now = time.monotonic()
        for number in wanted.intersection(found):
            arrived[number] = now
        wanted.difference_update(found)
        if now > until:
            raise TimeoutError(f"{len(wanted)} of {len(numbers)} records have not arrived within {_LIMIT_SECONDS:.0f} s")
    sender.join()
    return [arrived[number] - sent[number] for number in sent]
