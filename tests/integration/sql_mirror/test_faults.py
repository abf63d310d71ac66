"""Two followers at once, followers killed, topics made anew, removals that no follower saw: nothing is lost, doubled or left over."""

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from sqlalchemy import Engine, func, select

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.config.client_settings import ClientKind, internal_client_config
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import ConnectorStatus, TaskStatus
from airflow_provider_connect.runtime.spark.parent_death import dies_with_parent
from airflow_provider_connect.runtime.sql_mirror.changes import Kind
from airflow_provider_connect.runtime.sql_mirror.follower import MirrorFollower
from airflow_provider_connect.runtime.sql_mirror.queries import changes
from airflow_provider_connect.runtime.sql_mirror.tables import (
    connector_status,
    history,
    lease,
    metadata,
    source_offset,
    task_config,
    task_set,
    task_status,
)
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.offset_store import OffsetStore
from airflow_provider_connect.runtime.stores.status_store import StatusWriter
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.stores.topic_reader import TopicReader, raw
from tests import raw_batches
from tests.conftest import CACHE, CHECKOUT, worker_properties
from tests.integration.sql_mirror.conftest import Follow, open_database, until
from tests.integration.sql_mirror.test_follower import CONFIG, reported, rows
from tests.kafka_topics import create_topic
from tests.samples import sample
from tests.waiting import HANG_SECONDS

PARTITIONS, EACH = 20, 100
ON_ONE_DATABASE = pytest.mark.parametrize("url", sample(["postgresql", "sqlite", "mariadb"], 0), indirect=True)


class Writing:
    """Moves some source partitions from 1 to ``EACH``, a little at a time, in a thread."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        producer = Producer({"bootstrap.servers": self._settings.bootstrap_servers, "linger.ms": 0})
        with OffsetStore(self._settings) as store:
            for number in range(1, EACH + 1):
                moved = [({"file": str(partition)}, {"position": number}) for partition in range(PARTITIONS)]
                for record in store.records("orders", moved):
                    producer.produce(store.topic, record.value, record.key, record.partition)
                assert producer.flush(HANG_SECONDS) == 0
                time.sleep(0.02)

    def join(self) -> None:
        self._thread.join()


def all_there(database: Engine) -> bool:
    return [row["source_offset"] for row in rows(database, source_offset)] == [f'{{"position":{EACH}}}'] * PARTITIONS


def each_change_is_reported_once(database: Engine) -> bool:
    """Each partition's lines are a chain: from nothing to 1, from 1 to 2, and so on."""
    with database.connect() as connection:
        lines = select(history.c.subject, history.c.old, history.c.new).where(history.c.kind == Kind.OFFSET).order_by(history.c.id)
        found = connection.execute(lines).all()
    chains: dict[str, list[tuple[int, int]]] = {}
    for subject, old, new in found:
        chains.setdefault(subject, []).append((json.loads(old)["position"] if old else 0, json.loads(new)["position"]))
    return list(chains.values()) == [[(number, number + 1) for number in range(EACH)]] * PARTITIONS


def test_two_followers_that_steal_the_lease_from_each_other(settings: WorkerSettings, database: Engine, follow: Follow) -> None:
    """Clocks that run ahead by turns make both of them hold it, again and again."""
    started = time.monotonic()

    def ahead_by_turns(turn: int) -> float:
        ticks = int((time.monotonic() - started) / 0.1)
        return time.time() + ticks * 20 + (10 if ticks % 2 == turn else 0)

    stop, troubles = threading.Event(), []
    followers = [follow(f"follower-{turn}", lambda turn=turn: ahead_by_turns(turn)) for turn in (0, 1)]
    steps = [0, 0]

    def run(turn: int) -> None:
        while not stop.is_set():
            try:
                steps[turn] += followers[turn].step(0.02)
            except Exception as error:  # as the loop does
                troubles.append(str(error))
                time.sleep(0.05)

    threads = [threading.Thread(target=run, args=(turn,)) for turn in (0, 1)]
    for thread in threads:
        thread.start()
    writing = Writing(settings)
    writing.join()
    try:
        until(lambda: all_there(database))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert each_change_is_reported_once(database)
    assert min(steps) > 0
    assert [trouble for trouble in troubles if "locked" not in trouble] == []


@ON_ONE_DATABASE
def test_followers_killed_again_and_again(settings: WorkerSettings, url: str, database: Engine, follow: Follow) -> None:
    command = [sys.executable, "-m", "tests.integration.sql_mirror.following", json.dumps(dict(settings.originals)), url]
    delays, writing = random.Random(4), Writing(settings)
    for number in range(6):
        process = subprocess.Popen([*command, f"killed-{number}"], cwd=CHECKOUT, preexec_fn=dies_with_parent())  # noqa: PLW1509
        try:
            seen = reported_in_all(database)
            until(partial(has_gone_on, database, seen))
            time.sleep(delays.uniform(0, 0.1))
        finally:
            process.kill()
            process.wait()
        with database.begin() as connection:
            connection.execute(lease.delete())  # as if its time had run out
    writing.join()
    until(lambda: all_there(database), follow())
    assert each_change_is_reported_once(database)


def has_gone_on(database: Engine, seen: int) -> bool:
    return reported_in_all(database) > seen or all_there(database)


def reported_in_all(database: Engine) -> int:
    with database.connect() as connection:
        return connection.scalar(select(func.count()).select_from(history)) or 0


@ON_ONE_DATABASE
def test_a_topic_made_anew_is_read_from_its_beginning(settings: WorkerSettings, database: Engine, follow: Follow) -> None:
    follower = follow()
    with StatusWriter(settings) as writer:
        for name in ("stays", "changes", "goes"):
            writer.put_connector(ConnectorStatus(name, State.RUNNING, "host:1"))
            writer.put_task(TaskStatus(name, 0, State.RUNNING, "host:1"))
        assert writer.flush(HANG_SECONDS)
    until(lambda: len(rows(database, task_status)) == 3 and len(rows(database, connector_status)) == 3, follower)
    make_anew(settings, settings.status_topic)
    with StatusWriter(settings) as writer:
        writer.put_connector(ConnectorStatus("stays", State.RUNNING, "host:1"))
        writer.put_connector(ConnectorStatus("changes", State.PAUSED, "host:1"))
        assert writer.flush(HANG_SECONDS)
    until(lambda: not rows(database, task_status), follower)
    until(lambda: [row["state"] for row in rows(database, connector_status)] == ["PAUSED", "RUNNING"], follower)
    assert len(reported(database, "stays", Kind.STATUS)) == 1
    assert [line[3] is None for line in reported(database, "goes", Kind.STATUS)] == [False, True]
    with database.connect() as connection:
        (about,) = changes(connection, kinds=[Kind.MIRROR])
        assert about.subject == settings.status_topic
        assert "created anew" in (about.note or "")
        (removed,) = changes(connection, "goes", kinds=[Kind.TASK_STATUS], limit=1)
        assert "no longer on the topic" in (removed.note or "")


def make_anew(settings: WorkerSettings, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(HANG_SECONDS)

    def made() -> bool:
        try:
            return topic in TopicAdmin(settings).ensure_internal_topics()
        except (KafkaException, ConnectException):  # while it is being deleted
            return False

    until(made)


@ON_ONE_DATABASE
def test_a_connector_with_an_offsets_topic_of_its_own(settings: WorkerSettings, database: Engine, follow: Follow) -> None:
    follower, topic = follow(), f"own-{settings.offset_topic}"
    with ConfigStore(settings) as configs:
        configs.create_connector("orders", {**CONFIG, "offsets.storage.topic": topic})
    until(lambda: reported(database, "orders"), follower)
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    producer.produce(topic, b'{"position":7}', b'["orders",{"file":"a"}]')
    assert producer.flush(HANG_SECONDS) == 0
    until(lambda: [row["topic"] for row in rows(database, source_offset)] == [topic], follower)


def undecodable(settings: WorkerSettings, topic: str) -> None:
    """A batch of ten kilobytes that becomes more than the client takes."""
    create_topic(settings.bootstrap_servers, topic)
    batch = raw_batches.batch("zstd", raw_batches.record(300 << 20))
    assert len(batch) < 12_000
    assert raw_batches.send(settings.bootstrap_servers, topic, batch) == 0


@ON_ONE_DATABASE
@pytest.mark.parametrize("name", ["own-{}", "no topic, {}"])
def test_an_offsets_topic_that_a_config_names_and_that_cannot_be_read_holds_up_no_other(
    settings: WorkerSettings, database: Engine, follow: Follow, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """The mirror stood still for all connectors."""
    topic = name.format(settings.offset_topic)
    if " " not in topic:
        undecodable(settings, topic)

    def is_left_out(times: int) -> bool:
        return caplog.text.count(f"The mirror skips topic {topic}") == times

    ahead = 0.0
    follower = follow(now=lambda: time.time() + ahead)
    with ConfigStore(settings) as configs:
        configs.create_connector("hostile", {**CONFIG, "offsets.storage.topic": topic})
        for number in (0, 1):  # it is tried again after some minutes
            until(partial(is_left_out, number + 1), follower)
            configs.create_connector(f"orders-{number}", CONFIG)
            until(partial(reported, database, f"orders-{number}"), follower)
            ahead += 700


@ON_ONE_DATABASE
def test_an_aborted_offset_is_not_mirrored(settings: WorkerSettings, database: Engine, follow: Follow) -> None:
    follower = follow()
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers, "transactional.id": f"t-{settings.group_id}"})
    producer.init_transactions(HANG_SECONDS)
    producer.begin_transaction()
    producer.produce(settings.offset_topic, b'{"position":666}', b'["orders",{"file":"a"}]', 0)
    producer.flush(HANG_SECONDS)
    producer.abort_transaction(HANG_SECONDS)
    producer.begin_transaction()
    producer.produce(settings.offset_topic, b'{"position":1}', b'["orders",{"file":"b"}]', 0)
    producer.commit_transaction(HANG_SECONDS)
    until(lambda: rows(database, source_offset), follower)
    assert [line[3] for line in reported(database, "orders")] == ['{"position":1}']


@pytest.fixture(scope="module")
def cleaning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A broker that compacts at once."""
    with KafkaServer(tmp_path_factory.mktemp("cleaning"), CACHE, {"log.cleaner.backoff.ms": "100"}) as server:
        yield server


def test_what_was_removed_and_compacted_while_no_process_followed(cleaning: KafkaServer, unique: str, tmp_path: Path) -> None:
    quick = {"delete.retention.ms": "1000", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.001", "max.compaction.lag.ms": "500"}
    properties = worker_properties(cleaning.bootstrap_servers, unique)
    properties |= {f"status.storage.{name}": value for name, value in quick.items()} | {"status.storage.partitions": "1"}
    settings = WorkerSettings.of(properties)
    TopicAdmin(settings).ensure_internal_topics()
    database = open_database(f"sqlite:///{tmp_path / 'mirror.db'}")
    metadata.create_all(database)
    with StatusWriter(settings) as writer:
        for name in ("stays", "goes"):
            writer.put_connector(ConnectorStatus(name, State.RUNNING, "host:1"))
            writer.put_task(TaskStatus(name, 0, State.RUNNING, "host:1"))
        assert writer.flush(HANG_SECONDS)

    def followed(condition: Callable[[], object], holder: str) -> None:
        follower = MirrorFollower(settings, database.begin, holder=holder, now=time.time)
        until(condition, follower)
        follower.close()

    followed(lambda: len(rows(database, task_status)) == 2 and len(rows(database, connector_status)) == 2, "one")
    with StatusWriter(settings) as writer:
        writer.delete_task("goes", 0)
        writer.delete_connector("goes")
        assert writer.flush(HANG_SECONDS)
    until(lambda: not any(b"goes" in (key or b"") for key in keys_on(settings)))
    followed(lambda: len(rows(database, task_status)) == 1 and len(rows(database, connector_status)) == 1, "two")
    assert [line[3] for line in reported(database, "goes", Kind.TASK_STATUS)][-1] is None
    with database.connect() as connection:
        assert "delete.retention.ms" in (changes(connection, kinds=[Kind.MIRROR])[0].note or "")
    database.dispose()


def test_a_connector_created_again_while_no_process_followed_has_no_tasks_of_the_deleted_one(
    cleaning: KafkaServer, unique: str, tmp_path: Path
) -> None:
    """The tombstone between the two is compacted away long before ``delete.retention.ms``: its key has a newer record."""
    quick = {"segment.ms": "500", "min.cleanable.dirty.ratio": "0.001", "min.compaction.lag.ms": "100", "max.compaction.lag.ms": "500"}
    properties = worker_properties(cleaning.bootstrap_servers, unique)
    settings = WorkerSettings.of(properties | {f"config.storage.{name}": value for name, value in quick.items()})
    TopicAdmin(settings).ensure_internal_topics()
    database = open_database(f"sqlite:///{tmp_path / 'mirror.db'}")
    metadata.create_all(database)

    def followed(condition: Callable[[], object], holder: str) -> None:
        follower = MirrorFollower(settings, database.begin, holder=holder, now=time.time)
        until(condition, follower)
        follower.close()

    with ConfigStore(settings) as store:
        store.create_connector("orders", CONFIG)
        store.put_tasks("orders", [{"file": "a"}, {"file": "b"}], store.claim("orders"))
        followed(lambda: len(rows(database, task_set)) == 1, "one")
        store.delete_connector("orders")
        store.create_connector("orders", CONFIG)

        def is_compacted() -> bool:
            store.claim("orders")  # the newest segment is never compacted
            time.sleep(0.6)
            with TopicReader(settings.config_topic, internal_client_config(settings, ClientKind.CONSUMER, "test"), raw) as log:
                return [record.key for record in log.read_to_end()].count(b"connector-orders") == 1

        until(is_compacted)
    followed(lambda: not rows(database, task_set) and not rows(database, task_config), "two")
    database.dispose()


def keys_on(settings: WorkerSettings) -> list[bytes | None]:
    """The keys that the status topic holds; each call adds a record, for the newest segment is never compacted."""
    with StatusWriter(settings) as writer:
        writer.put_connector(ConnectorStatus("stays", State.RUNNING, "host:1"))
        assert writer.flush(HANG_SECONDS)
    time.sleep(0.6)
    with TopicReader(settings.status_topic, internal_client_config(settings, ClientKind.CONSUMER, "test"), raw) as log:
        return [record.key for record in log.read_to_end()]
