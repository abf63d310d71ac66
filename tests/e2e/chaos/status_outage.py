"""Statuses that change while the broker is away: who puts them never waits, and what becomes of each is known to the last one."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.runtime.config.client_settings import ClientKind, internal_client_config
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.statuses import WAIT_SECONDS
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import TaskStatus
from airflow_provider_connect.runtime.stores import status_store
from airflow_provider_connect.runtime.stores.status_store import StatusWriter
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.stores.topic_reader import TopicReader, raw
from airflow_provider_connect.runtime.wire import status_topic
from tests.conftest import worker_properties
from tests.waiting import HANG_SECONDS

RETRY, FAILURE, SUCCESS = "status-update-retry-total", "status-update-failure-total", "status-update-success-total"
LONGEST_CALL_SECONDS = 5.0  # an attempt takes ten
LATE_SECONDS = 4.0  # a thread that has waited long enough is let go on so late, on a machine with other things to do
LONGEST_WAKE_SECONDS = 30.0  # how late an attempt may come on a machine with other things to do
CALLERS, TASKS = 4, 5  # each caller has tasks of its own, so that its values have an order
PERSISTENT = {"status.storage.retry.max.retries": "1000", "status.storage.retry.max.backoff.ms": "2000"}


@dataclass(frozen=True, slots=True)
class Retry:
    """A failed attempt: its number (0: the first), and in seconds when it failed (not before, not after), was due
    again, and was made again (None: replaced)."""

    attempt: int
    failed: tuple[float, float]
    due: float
    again: float | None = None


class Watched(StatusWriter):
    """A writer whose attempts are noted: ``sends``, and ``retries`` by the update's number."""

    def __init__(self, settings: WorkerSettings) -> None:
        super().__init__(settings)
        self.sends: dict[int, int] = defaultdict(int)
        self.retries: dict[int, list[Retry]] = defaultdict(list)

    def _send(self, producer: Any, update: Any) -> None:  # Any: the writer's own, which no other code sees
        self.sends[update.number] += 1
        if waits := self.retries[update.number]:
            waits[-1] = Retry(waits[-1].attempt, waits[-1].failed, waits[-1].due, time.monotonic())
        super()._send(producer, update)

    def _retry(self, update: Any, error: KafkaError) -> None:
        attempt, failed = update.attempts, time.monotonic()
        super()._retry(update, error)
        if update.attempts > attempt:
            self.retries[update.number].append(Retry(attempt, (failed, time.monotonic()), update.due))


class GivenUp(logging.Handler):
    """The lines in which the writer reports what it has given up."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def __enter__(self) -> GivenUp:
        logging.getLogger(status_store.__name__).addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger(status_store.__name__).removeHandler(self)


@dataclass(slots=True)
class Callers:
    """Threads that put a new value of their own tasks again and again, of every other one once: a newer value would replace one
    that is to be sent again. ``put`` are the values of each task in their order."""

    writer: StatusWriter
    connector: str
    pause_seconds: float
    put: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    longest_seconds: float = 0.0
    longest_verb_seconds: float = 0.0
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def one(self, task: int) -> None:
        """The next value of a task. What makes values differ is the worker's name."""
        value = f"{self.connector}-{task}:{len(self.put[task])}"
        started = time.monotonic()
        self.writer.put_task(TaskStatus(self.connector, task, State.RUNNING, value))
        self.longest_seconds = max(self.longest_seconds, time.monotonic() - started)
        self.put[task].append(value)

    def start(self) -> None:
        def calls(number: int) -> None:
            tasks = range(number * TASKS, (number + 1) * TASKS)
            while not self._stop.is_set():
                for task in tasks:
                    self.one(task)
                if number == 0:
                    self._wait_as_a_verb_does()
                tasks = range(number * TASKS, (number + 1) * TASKS, 2)
                self._stop.wait(self.pause_seconds)

        self._threads = [threading.Thread(target=calls, args=(number,)) for number in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    def _wait_as_a_verb_does(self) -> None:
        started = time.monotonic()
        self.writer.flush(WAIT_SECONDS)
        self.longest_verb_seconds = max(self.longest_verb_seconds, time.monotonic() - started)

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@dataclass(slots=True)
class Account:
    """What became of one writer's statuses; ``problems`` is empty if all is as promised."""

    name: str
    put: int
    on_topic: int
    retried: int
    given_up: int
    replaced: int
    longest_call_seconds: float
    longest_verb_seconds: float
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.put} put, {self.on_topic} on the topic, {self.replaced} replaced by newer ones, {self.given_up} given up, "
            f"{self.retried} retries; longest call {self.longest_call_seconds * 1000:.1f} ms, longest wait of a verb "
            f"{self.longest_verb_seconds:.2f} s"
        )


def live_through(server: KafkaServer, name: str, seconds: float) -> list[Account]:
    """The broker is killed and stays away for ``seconds``. One writer never gives up; another does after the retries that fit half of that.

    Nothing is on its way when the broker goes, so that every value is either on the topic or is not.
    """
    few = {"status.storage.retry.max.retries": str(int(seconds / 2 / status_store.ATTEMPT_TIMEOUT_MS * 1000) - 1)}
    base = worker_properties(server.bootstrap_servers, name)
    settings = {which: WorkerSettings.of(base | more) for which, more in {"persistent": PERSISTENT, "limited": few}.items()}
    TopicAdmin(settings["persistent"]).ensure_internal_topics()
    with GivenUp() as given_up:
        all_callers = {
            which: Callers(Watched(its), which, 0.05 if which == "persistent" else 2 * seconds) for which, its in settings.items()
        }
        for callers in all_callers.values():
            for task in range(CALLERS * TASKS):
                callers.one(task)
            assert callers.writer.flush(HANG_SECONDS)
        server.kill()
        gone = time.monotonic()
        for callers in all_callers.values():
            callers.start()
        time.sleep(max(0.0, gone + seconds - time.monotonic()))
        for callers in all_callers.values():
            callers.end()
        server.start()
        late = all_callers["limited"]
        for task in range(CALLERS):  # what changes later gets through again
            late.one(task)
        accounts = []
        for which, callers in all_callers.items():
            flushed = callers.writer.flush(HANG_SECONDS)
            counted = callers.writer.metrics()
            callers.writer.close()
            accounts.append(_account(callers, settings[which], given_up.lines, counted))
            if not flushed:
                accounts[-1].problems.append("not everything was written within 120 s of the broker's return")
    persistent, limited = accounts
    if persistent.given_up or not persistent.retried:
        persistent.problems.append(f"{persistent.given_up} given up, {persistent.retried} retries, by a writer that never gives up")
    if not limited.given_up:
        limited.problems.append("nothing was given up")
    return accounts


def _account(callers: Callers, settings: WorkerSettings, lines: list[str], counted: Mapping[str, float]) -> Account:
    landed = _on_topic(settings, callers.connector)
    given = [line for line in lines if f"status-task-{callers.connector}-" in line]
    writer = callers.writer
    assert isinstance(writer, Watched)
    retried = sum(count - 1 for count in writer.sends.values()) + _never_made_again(writer)
    put = sum(len(values) for values in callers.put.values())
    on_topic = sum(map(len, landed.values()))
    replaced, problems = 0, _formula_problems(writer, settings)
    for task, values in callers.put.items():
        in_log = {value for value in values if any(f'"{value}"' in line for line in given)}
        there = set(landed.get(task, ()))
        if landed.get(task, []) != [value for value in values if value in there]:
            problems.append(f"task {task}: the topic has values twice, or out of order: {landed.get(task)}")
        if there & in_log:
            problems.append(f"task {task}: given up and on the topic: {there & in_log}")
        if values[-1] not in there | in_log:
            problems.append(f"task {task}: the last value {values[-1]} is nowhere")
        replaced += len(set(values) - there - in_log)
    expected = {RETRY: float(retried), FAILURE: float(len(given)), SUCCESS: float(on_topic)}
    if counted != expected:
        problems.append(f"counted {counted}, but seen were {expected}")
    if put != on_topic + len(given) + replaced:
        problems.append(f"{put} put, but {on_topic} + {len(given)} + {replaced} replaced")
    if callers.longest_seconds > LONGEST_CALL_SECONDS:
        problems.append(f"a caller waited {callers.longest_seconds:.2f} s")
    if callers.longest_verb_seconds > LONGEST_CALL_SECONDS + LATE_SECONDS:
        problems.append(f"a verb waited {callers.longest_verb_seconds:.2f} s")
    longest = callers.longest_seconds, callers.longest_verb_seconds
    return Account(callers.connector, put, on_topic, retried, len(given), replaced, *longest, problems)


def _never_made_again(writer: Watched) -> int:
    """Retries that were planned, and counted, before a newer value came in place of the one to be sent again."""
    return sum(1 for waits in writer.retries.values() if waits and waits[-1].again is None)


def _formula_problems(writer: Watched, settings: WorkerSettings) -> list[str]:
    """Waits that are not ``min(initial × multiplier^n, max)``, give or take the jitter."""
    retry, problems = settings.status_retry, []
    for number, waits in writer.retries.items():
        for wait in waits:
            longest, shortest = ((wait.due - failed) * 1000 for failed in wait.failed)
            base = min(retry.initial_backoff_ms * retry.backoff_multiplier**wait.attempt, retry.max_backoff_ms)
            least, most = base * (1 - retry.jitter_factor), base * (1 + retry.jitter_factor)
            if longest < least - 1 or shortest > most + 1:  # the writer read the clock in between
                problems.append(f"update {number}, retry {wait.attempt}: {shortest:.0f} to {longest:.0f} ms, not {least:.0f} to {most:.0f}")
            if wait.again is not None and not -0.001 <= wait.again - wait.due <= LONGEST_WAKE_SECONDS:
                problems.append(f"update {number}, retry {wait.attempt}: made {wait.again - wait.due:.3f} s after it was due")
    return problems


def _on_topic(settings: WorkerSettings, connector: str) -> dict[int, list[str]]:
    """The values on the topic, by task, in their order: all that were ever written, for nothing is compacted so soon."""
    found: dict[int, list[str]] = defaultdict(list)
    with TopicReader(settings.status_topic, internal_client_config(settings, ClientKind.CONSUMER, "oracle"), raw) as log:
        for record in log.read_to_end():
            status = status_topic.decode(record.key, record.value, record.headers, offset=record.offset, timestamp=record.timestamp)
            if isinstance(status, TaskStatus) and status.connector == connector:
                found[status.task].append(status.worker_id)
    return found


def problems_of(accounts: list[Account], notify: Callable[[str], None] = print) -> list[str]:
    """Notifies of each account; returns what is not as promised."""
    for account in accounts:
        notify(str(account))
    return [f"{account.name}: {problem}" for account in accounts for problem in account.problems]
