import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaException, Producer

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.errors import FencedException, RecordTooLargeException, StoreTimeoutException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.ids import config_leader_id
from airflow_provider_connect.runtime.model.records import ConfigRecord, ConnectorRecord
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.stores.config_follower import Change, ChangeKind, ConfigFollower
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.wire import config_topic
from airflow_provider_connect.runtime.wire.record import WireRecord
from tests import raw_headers
from tests.conftest import CACHE, worker_properties
from tests.integration.stores.conftest import Produce
from tests.integration.stores.open_transaction import UNVERIFIED, leave_open
from tests.waiting import HANG_SECONDS, wait_until

CONFIG = {"name": "c", "connector.class": "X"}
SPAWN = multiprocessing.get_context("spawn")


def _increment(settings: dict[str, str], times: int) -> None:
    with ConfigStore(WorkerSettings.of(settings)) as store:
        for _ in range(times):
            store.change(lambda state: [ConnectorRecord("c", {**CONFIG, "n": str(int(state.connector_configs["c"]["n"]) + 1)})])


def test_four_processes_lose_no_increment(settings: WorkerSettings) -> None:
    with ConfigStore(settings) as store:
        store.create_connector("c", CONFIG | {"n": "0"})
        writers = [SPAWN.Process(target=_increment, args=(dict(settings.originals), 30)) for _ in range(4)]
        started = time.monotonic()
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(HANG_SECONDS)
        print(f"{(time.monotonic() - started) / 120 * 1e3:.0f} ms an increment")
        assert [writer.exitcode for writer in writers] == [0, 0, 0, 0]
        assert store.read().connector_configs["c"]["n"] == "120"


def test_a_change_whose_right_is_taken_while_its_records_are_queued_is_made_again(
    settings: WorkerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The producer is fenced between two calls: the second one reports a fatal error without its cause."""
    with ConfigStore(settings) as store, ConfigStore(settings) as other:
        store.create_connector("c", CONFIG)
        encode, encoded = config_topic.encode, list[object]()

        def is_refused(producer: Producer) -> bool:
            try:
                producer.produce(settings.config_topic, b"", b"of no transaction that is committed", 0)
            except KafkaException:
                return True
            return False

        def slowly(record: ConfigRecord) -> WireRecord:
            encoded.append(record)
            if len(encoded) == 2:
                other.create_connector("d", CONFIG)
                leader = store._leader
                assert leader is not None
                wait_until(lambda: is_refused(leader._producer))
            return encode(record)

        monkeypatch.setattr(config_topic, "encode", slowly)
        store.change(lambda state: [ConnectorRecord(name, CONFIG) for name in ("e", "f")])
        assert set(store.read().connector_configs) == {"c", "d", "e", "f"}


def test_threads_share_a_store(settings: WorkerSettings) -> None:
    with ConfigStore(settings) as store:
        store.create_connector("c", CONFIG)
        claims: list[Claim] = []
        threads = [threading.Thread(target=lambda: claims.extend(store.claim("c") for _ in range(5))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANG_SECONDS)
        assert len(set(claims)) == 20


def test_claims_rise_strictly_and_name_their_topic(settings: WorkerSettings) -> None:
    with ConfigStore(settings) as one, ConfigStore(settings) as other:
        one.create_connector("c", CONFIG)
        claims = [store.claim("c") for store in (one, other, one, one, other)]
        assert claims == sorted(set(claims))
        assert {claim.topic_id for claim in claims} == {TopicAdmin(settings).topic_id(settings.config_topic)}
        assert one.read().claims["c"] == other.read().claims["c"] == claims[-1]
        with pytest.raises(FencedException):
            one.put_tasks("c", [{"a": "1"}], claims[-2])


def test_dead_writers_open_transaction_is_cleared(settings: WorkerSettings) -> None:
    with ConfigStore(settings) as store:
        store.create_connector("c", CONFIG)
        names = {"bootstrap.servers": settings.bootstrap_servers, "transactional.id": config_leader_id(settings.group_id)}
        dead = Producer({**names, "transaction.timeout.ms": 900_000})  # the most that a broker allows
        dead.init_transactions(HANG_SECONDS)
        dead.begin_transaction()
        dead.produce(settings.config_topic, b'{"properties":{"name":"c","a":"never"}}', b"connector-c", 0)
        dead.flush(HANG_SECONDS)
        store.put_connector("c", CONFIG | {"a": "1"})
        with ConfigStore(settings) as reader:
            assert reader.read().connector_configs["c"] == CONFIG | {"a": "1"}


def test_change_is_seen_by_the_next_reader(settings: WorkerSettings) -> None:
    with ConfigStore(settings) as writer, ConfigStore(settings) as reader:
        for number in range(30):
            writer.put_connector("c", CONFIG | {"n": str(number)})
            assert reader.read().connector_configs["c"]["n"] == str(number)


def test_rule_that_raises_or_gives_nothing_writes_nothing(settings: WorkerSettings) -> None:
    with ConfigStore(settings) as store:
        store.create_connector("c", CONFIG)
        before = store.read().offset
        assert store.change(lambda state: []) == []
        with pytest.raises(ZeroDivisionError):
            store.change(lambda state: [1 / 0])  # type: ignore[list-item]
        assert store.read().offset == before
        store.put_target_state("c", TargetState.PAUSED)
        assert store.read().target_state("c") is TargetState.PAUSED


def test_record_too_large_is_reported_and_the_store_lives_on(settings: WorkerSettings) -> None:
    with ConfigStore(settings) as store:
        store.create_connector("c", CONFIG)
        with pytest.raises(RecordTooLargeException, match=r"The record connector-c of topic .* is too large: .* Raise max\.request\.size"):
            store.put_connector("c", CONFIG | {"a": "x" * 2_000_000})
        store.put_connector("c", CONFIG | {"a": "1"})
        assert store.read().connector_configs["c"] == CONFIG | {"a": "1"}


def test_bad_records_are_skipped_counted_and_logged_once(
    settings: WorkerSettings, produce: Produce, caplog: pytest.LogCaptureFixture
) -> None:
    good = b'{"properties":{"name":"c"}}'
    bad: list[tuple[bytes | None, bytes | None]] = [
        (b"\xff\xfe", b"{}"),
        (b"connector-x", b"no json"),
        (b"connector-x", b"no json"),
        (b"connector-x", b'{"properties":7}'),
        (b"connector-x", b'{"properties":{"a":{}}}'),
        (b"task-x", b'{"properties":{}}'),
        (b"commit-c", b'{"tasks":"many"}'),
        (b"target-state-c", b'{"state":"LOUD"}'),
        (b"tasks-fencing-c", b'{"task-count":-1}'),
        (b"session-key", b'{"key":"a"}'),
        (b"who-knows", b"{}"),
    ]
    produce(settings.config_topic, [(b"connector-c", good), *bad, (b"connector-d", good)], 0)
    produce(settings.config_topic, [(b"tasks-fencing-c", b'{"task-count":1}', [("claim", b"garbage")])], 0)
    with ConfigStore(settings) as store:
        assert store.read().connectors() == ["c", "d"]
        assert store.skipped.count == len(bad) + 1
        assert store.claim("c").offset > 0
    warnings = [line.getMessage() for line in caplog.records if line.levelname == "WARNING"]
    assert (
        len(warnings) == len(set(warnings)) == len(bad)
    )  # two of them have the same text, and so are logged once; the garbled claim is one more


def test_a_header_whose_name_is_no_text_stops_no_reader(settings: WorkerSettings) -> None:
    with ConfigStore(settings) as store:
        store.create_connector("c", CONFIG)
        header = [(raw_headers.NOT_UTF_8, b"")]
        raw_headers.produce(settings.bootstrap_servers, settings.config_topic, b'{"properties":{"name":"d"}}', header, key=b"connector-d")
        store.create_connector("e", CONFIG)
        assert store.read().connectors() == ["c", "d", "e"]


def test_follower_asks_the_task_to_end(settings: WorkerSettings) -> None:
    with ConfigStore(settings) as store:
        store.create_connector("c", CONFIG)
        claim = store.claim("c")
        with store.follow("c", claim) as follower:
            store.put_fencing_count("c", 1, claim)
            store.put_connector("other", CONFIG)
            assert follower.poll(0.5) is None
            started = time.perf_counter()
            for _ in range(1000):
                follower.poll()
            assert time.perf_counter() - started < HANG_SECONDS  # it never waits; 12 µs on a machine with nothing else to do
            store.put_target_state("c", TargetState.PAUSED)
            assert _wait(follower) == Change(ChangeKind.PAUSED)
            verb = store.claim("c")
            assert _wait(follower) == Change(ChangeKind.INTERRUPTED, verb)
            newer = store.claim("c", owner="a run")
            assert _wait(follower) == Change(ChangeKind.CLAIMED, newer)
        with store.follow("c", claim) as late:
            assert _wait(late) == Change(ChangeKind.CLAIMED, newer)


def _wait(follower: ConfigFollower) -> Change:
    change: Change = wait_until(lambda: follower.poll(0.1))
    return change


def _hold_open(settings: dict[str, str], ready: "multiprocessing.synchronize.Event") -> None:
    """A writer that is frozen between its read and its commit."""

    def decide(state: object) -> list[ConnectorRecord]:
        ready.set()
        os.kill(os.getpid(), signal.SIGSTOP)
        return [ConnectorRecord("c", CONFIG | {"by": "frozen"})]

    with ConfigStore(WorkerSettings.of(settings)) as store:
        store.change(decide)


def test_writer_frozen_while_deciding_decides_again(settings: WorkerSettings) -> None:
    with ConfigStore(settings) as store:
        store.create_connector("c", CONFIG)
        ready = SPAWN.Event()
        frozen = SPAWN.Process(target=_hold_open, args=(dict(settings.originals), ready))
        frozen.start()
        assert ready.wait(HANG_SECONDS)
        assert frozen.pid is not None
        process = psutil.Process(frozen.pid)
        wait_until(lambda: process.status() == psutil.STATUS_STOPPED)
        store.put_connector("c", CONFIG | {"by": "me"})
        before = store.read().offset

        def has_ended() -> bool:
            process.resume()  # its second decision freezes it again
            return not frozen.is_alive()

        wait_until(has_ended)
        assert frozen.exitcode == 0
        assert store.read().connector_configs["c"]["by"] == "frozen"
        assert store.read().offset > before


def test_broker_that_is_not_there_is_reported_in_time(free_port: int) -> None:
    settings = WorkerSettings.of({"bootstrap.servers": f"127.0.0.1:{free_port}"})
    with ConfigStore(settings) as store:
        for call in (lambda: store.read(1), lambda: store.claim("c")):
            started = time.monotonic()
            with pytest.raises(StoreTimeoutException, match=f"bootstrap.servers=127.0.0.1:{free_port}"):
                call()
            assert time.monotonic() - started < HANG_SECONDS


@pytest.mark.soak
@pytest.mark.parametrize("waits", [(0.31,), (0.5, 0.31, 0.17)], ids=["once", "again and again"])
def test_no_change_is_lost_or_doubled_when_the_broker_dies(tmp_path: Path, unique: str, waits: tuple[float, ...]) -> None:
    """The broker is killed at instants of its own, also between a commit and its answer; every change that came back is there once."""
    with KafkaServer(tmp_path / "kafka", CACHE) as server:
        settings = WorkerSettings.of(worker_properties(server.bootstrap_servers, unique))
        TopicAdmin(settings).ensure_internal_topics()
        with ConfigStore(settings, timeout_seconds=HANG_SECONDS) as store:
            store.create_connector("c", CONFIG | {"n": "0"})
            done, stop = [0], threading.Event()

            def increment() -> None:
                while not stop.is_set():
                    store.change(lambda state: [ConnectorRecord("c", {**CONFIG, "n": str(int(state.connector_configs["c"]["n"]) + 1)})])
                    done[0] += 1

            with ThreadPoolExecutor() as pool:
                changes = pool.submit(increment)
                for wait in waits:
                    time.sleep(wait)
                    server.kill()
                    server.restart()
                before = done[0]
                try:
                    wait_until(lambda: done[0] >= before + 10 or changes.done(), "changes go on after the broker is back")
                finally:
                    stop.set()
            changes.result()
            assert done[0] >= before + 10, "changes go on after the broker is back"
            assert store.read().connector_configs["c"]["n"] == str(done[0])


def test_a_transaction_whose_marker_the_broker_lost_holds_no_change_up(tmp_path: Path, unique: str) -> None:
    with KafkaServer(tmp_path / "kafka", CACHE, UNVERIFIED) as server:
        settings = WorkerSettings.of(worker_properties(server.bootstrap_servers, unique))
        TopicAdmin(settings).ensure_internal_topics()
        with ConfigStore(settings) as store:
            store.create_connector("lost", CONFIG)
            leave_open(server, settings.config_topic, config_leader_id(settings.group_id))
            store.create_connector("own", CONFIG)
            leave_open(server, settings.config_topic, config_leader_id(settings.group_id))
            with ConfigStore(settings) as other:
                other.create_connector("others", CONFIG)
                assert set(other.read().connector_configs) == {"lost", "own", "others"}
            assert set(store.read().connector_configs) == {"lost", "own", "others"}
            store.delete_connector("lost")
        with ConfigStore(settings) as reader:
            assert set(reader.read().connector_configs) == {"own", "others"}
