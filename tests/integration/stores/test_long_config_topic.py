"""A config topic of many claims: a process continues from what another has read, and both have the state of the whole topic."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from airflow_provider_connect.api_server.launcher import airflow_backing
from airflow_provider_connect.errors import StoreTimeoutException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model import config_snapshot
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState, ConfigLog
from airflow_provider_connect.runtime.model.config_snapshot import ConfigSnapshot
from airflow_provider_connect.runtime.model.run import CLAIM_FILE
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.stores import config_cache
from airflow_provider_connect.runtime.stores.config_cache import ConfigCache
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.wire import config_topic
from airflow_provider_connect.runtime.worker.application.failure_report import report_lost, report_unready
from tests.conftest import WorkerSettings as MakeSettings
from tests.kafka_topics import alter_topic
from tests.no_runs import NoRuns
from tests.waiting import HANG_SECONDS

SHORT_SECONDS = 0.5  # for a whole topic

CLAIMS = int(os.environ.get("CONNECT_TEST_CLAIMS", "60000"))
CONNECTORS = 200


@pytest.fixture
def settings(worker_settings: MakeSettings) -> WorkerSettings:
    """A segment holds all claims: nothing is compacted away meanwhile."""
    made = WorkerSettings.of(worker_settings(config_storage_segment_bytes=str(1 << 30)))
    with closing(TopicAdmin(made)) as admin:
        admin.ensure_internal_topics()
    return made


class Decoded:
    """How many records of the config topic this process has read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        decode = config_topic.decode

        def counted(*arguments: object, **named: object) -> object:
            self.count += 1
            return decode(*arguments, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(config_topic, "decode", counted)

    def since(self) -> int:
        count, self.count = self.count, 0
        return count


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Decoded:
    return Decoded(monkeypatch)


@pytest.fixture
def store(settings: WorkerSettings) -> Iterator[ConfigStore]:
    with ConfigStore(settings) as store:
        for number in range(10):
            store.create_connector(f"c{number}", {"name": f"c{number}", "n": str(number)})
        yield store


def claims(settings: WorkerSettings, count: int, connectors: int = CONNECTORS) -> None:
    """As ``count`` runs leave them, without their transactions."""
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000})
    for first in range(0, count, 10_000):
        for number in range(first, min(first + 10_000, count)):
            producer.produce(settings.config_topic, b'{"task-count":1}', f"tasks-fencing-c{number % connectors}".encode())
        producer.flush(HANG_SECONDS)


def whole(settings: WorkerSettings) -> ClusterConfigState:
    with ConfigStore(settings, timeout_seconds=2 * HANG_SECONDS) as fresh:
        return fresh.read()


def test_a_run_reads_what_came_since_the_last_process_read(
    settings: WorkerSettings, store: ConfigStore, tmp_path: Path, decoded: Decoded
) -> None:
    claims(settings, CLAIMS)
    decoded.since()
    cache = ConfigCache(tmp_path)
    first = cache.read(settings, "c1")
    assert decoded.since() >= CLAIMS
    for connector in ("c1", "c2"):
        found = ConfigCache(tmp_path).read(settings, connector)
        assert decoded.since() == 0
        assert found.offset == first.offset
    store.put_target_state("c2", TargetState.PAUSED)
    claim = store.claim("c2")
    decoded.since()
    state = ConfigCache(tmp_path).read(settings, "c2").log("c2").state
    assert decoded.since() == 2
    assert (state.connector_config("c2"), state.target_state("c2"), state.claims["c2"]) == (
        {"name": "c2", "n": "2"},
        TargetState.PAUSED,
        claim,
    )
    assert state.connectors() == ["c2"]


def test_a_reader_that_is_far_behind_writes_each_row_once(
    settings: WorkerSettings, store: ConfigStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims(settings, CLAIMS)
    made: list[str] = []
    of = config_snapshot._slice

    def noted(log: ConfigLog, name: str) -> config_snapshot.Slice:
        made.append(name)
        return of(log, name)

    monkeypatch.setattr(config_snapshot, "_slice", noted)
    found = ConfigCache(tmp_path).read(settings, None)
    assert max(made.count(f"c{number}") for number in range(10)) <= 2 * (1 + CLAIMS // 200_000)  # for the file, and for who asks
    monkeypatch.undo()
    assert found.log().state == whole(settings)


def test_a_reader_that_is_killed_leaves_what_it_had_read(
    settings: WorkerSettings, store: ConfigStore, tmp_path: Path, decoded: Decoded, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims(settings, 10_000)
    monkeypatch.setattr(config_cache, "_MOST_READ", 3000)
    counted, decoded.count = config_topic.decode, 0

    def killed(*arguments: object, **named: object) -> object:
        if decoded.count == 7500:
            raise KeyboardInterrupt
        return counted(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(config_topic, "decode", killed)
    with pytest.raises(KeyboardInterrupt):
        ConfigCache(tmp_path).read(settings, "c1")
    monkeypatch.setattr(config_topic, "decode", counted)
    decoded.since()
    found = ConfigCache(tmp_path).read(settings, None)
    assert decoded.since() == 10_000 + 10 - 6000
    assert found.log().state == whole(settings)


def test_the_file_has_the_state_of_the_topic(settings: WorkerSettings, store: ConfigStore, tmp_path: Path) -> None:
    cache = ConfigCache(tmp_path)
    cache.read(settings, "c3")
    claims(settings, 3000)
    cache.read(settings, "c4")
    claim = store.claim("c5")
    store.put_tasks("c5", [{"t": "0"}, {"t": "1"}], claim)
    store.put_fencing_count("c5", 2, claim)
    store.put_target_state("c6", TargetState.STOPPED)
    store.delete_connector("c7")
    claims(settings, 3000)
    cache.read(settings, "c8")
    assert cache.read(settings, None).log().state == whole(settings)
    again = ConfigSnapshot.from_json(cache.read(settings, "c5").to_json())
    assert again.log("c5").state.all_task_configs("c5") == {0: {"t": "0"}, 1: {"t": "1"}}
    assert again.log("c5").state.claims["c5"] == whole(settings).claims["c5"]


def test_a_time_out_loses_nothing_of_what_was_read(settings: WorkerSettings, store: ConfigStore, tmp_path: Path, decoded: Decoded) -> None:
    claims(settings, CLAIMS)
    decoded.since()
    for _ in range(1000):
        try:
            found = ConfigCache(tmp_path).read(settings, None, timeout_seconds=SHORT_SECONDS)
            break
        except StoreTimeoutException:
            continue
    assert decoded.since() < CLAIMS + 2 * 20_000 + 1000
    assert found.log().state == whole(settings)


def test_a_store_that_is_handed_a_state_reads_on_from_there(
    settings: WorkerSettings, store: ConfigStore, tmp_path: Path, decoded: Decoded
) -> None:
    claims(settings, 5000)
    known = ConfigCache(tmp_path).read(settings, "c1")
    decoded.since()
    with ConfigStore(settings, known=known, only="c1") as handed:
        assert handed.read().connector_config("c1") == {"name": "c1", "n": "1"}
        assert decoded.since() == 0
        claim = handed.claim("c1")
        assert (handed.read().claims["c1"], handed.read().connectors()) == (claim, ["c1"])
        assert store.read().claims["c1"] == claim
        onward = handed.snapshot()
    assert onward is not None
    assert list(onward.slices) == ["c1"]


def test_the_claims_transaction_decides_whatever_was_handed_on(settings: WorkerSettings, store: ConfigStore, tmp_path: Path) -> None:
    known = ConfigCache(tmp_path).read(settings, "c1")
    store.delete_connector("c1")
    with ConfigStore(settings, known=known, only="c1") as handed, pytest.raises(Exception, match="c1"):
        handed.claim("c1")
    assert "c1" not in store.read().claims


def test_a_state_of_another_topic_is_not_used(settings: WorkerSettings, store: ConfigStore, tmp_path: Path) -> None:
    known = ConfigCache(tmp_path).read(settings, "c1")
    other = ConfigSnapshot("another-topic-id", known.offset, {"c1": {"config": {"name": "c1", "n": "wrong"}}})
    with ConfigStore(settings, known=other) as handed:
        assert handed.read() == store.read()


@pytest.mark.parametrize(("lag_ms", "kept_seconds"), [("900000", 450), ("0", 3600), (str(40 * 3_600_000), 6 * 3600)])
def test_a_state_that_is_too_old_is_discarded(
    settings: WorkerSettings, store: ConfigStore, tmp_path: Path, decoded: Decoded, *, lag_ms: str, kept_seconds: int
) -> None:
    """A tombstone that a newer record replaced may be gone after the lag."""
    alter_topic(settings.bootstrap_servers, settings.config_topic, min_compaction_lag_ms=lag_ms, max_compaction_lag_ms=None)
    now = 1_000_000.0
    ConfigCache(tmp_path, now=lambda: now).read(settings, "c1")
    decoded.since()
    ConfigCache(tmp_path, now=lambda: now + kept_seconds - 1).read(settings, "c1")
    assert decoded.since() == 0
    ConfigCache(tmp_path, now=lambda: now + 2 * kept_seconds).read(settings, "c1")
    assert decoded.since() >= 10


def test_each_read_extends_the_validity_of_the_file(settings: WorkerSettings, store: ConfigStore, tmp_path: Path, decoded: Decoded) -> None:
    ConfigCache(tmp_path, now=lambda: 0.0).read(settings, "c1")
    decoded.since()
    for minutes in range(5, 60, 5):
        ConfigCache(tmp_path, now=lambda: minutes * 60.0).read(settings, "c1")  # noqa: B023  (called at once)
    assert decoded.since() == 0


@pytest.mark.parametrize("harm", ["text", "folder", "rows", "position"])
def test_a_damaged_file_is_ignored(settings: WorkerSettings, store: ConfigStore, tmp_path: Path, harm: str) -> None:
    cache = ConfigCache(tmp_path)
    cache.read(settings, "c1")
    (file,) = tmp_path.glob("config-topic-*.sqlite")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    if harm == "text":
        file.write_text("no database" * 1000)
    elif harm == "folder":
        file.unlink()
        file.mkdir()
    else:
        with sqlite3.connect(file) as database:
            database.execute("UPDATE connectors SET slice = '{'" if harm == "rows" else "UPDATE position SET read_to = 999999999")
    for _ in range(2):
        assert cache.read(settings, "c1").log().state.connector_config("c1") == {"name": "c1", "n": "1"}


def test_the_stores_of_a_server_read_the_topic_once_among_them_and_the_next_server_goes_on(
    settings: WorkerSettings, store: ConfigStore, tmp_path: Path, decoded: Decoded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CONNECT__RUN_DIRECTORY", str(tmp_path / "runs"))
    claims(settings, 5000)
    decoded.since()
    with Herder(settings, NoRuns(), backing=airflow_backing(settings)) as herder:
        assert len(herder.connectors()) == 10
        herder.pause("c1")
        assert decoded.since() <= 5000 + 10 + 10
        assert herder.config_state() == whole(settings)
    decoded.since()
    with Herder(settings, NoRuns(), backing=airflow_backing(settings)) as herder:
        assert herder.config_state().target_state("c1") is TargetState.PAUSED
        herder.resume("c1")
        assert decoded.since() <= 10
    assert store.read().target_state("c1") is TargetState.STARTED


def test_a_server_without_a_directory_of_its_own_reads_the_topic(
    settings: WorkerSettings, store: ConfigStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setenv("AIRFLOW__CONNECT__RUN_DIRECTORY", str(tmp_path))
    with Herder(settings, NoRuns(), backing=airflow_backing(settings)) as herder:
        assert herder.config_state() == store.read()


def test_a_lost_application_is_reported_without_reading_the_whole_topic_again(
    settings: WorkerSettings, store: ConfigStore, tmp_path: Path, decoded: Decoded
) -> None:
    claim = store.claim("c1")
    store.put_tasks("c1", [{"t": "0"}], claim)
    (tmp_path / CLAIM_FILE).write_text(str(claim))
    claims(settings, 5000, connectors=1)  # c0's
    cache = ConfigCache(tmp_path)
    known = cache.read(settings, "c1")
    decoded.since()
    assert report_lost(settings, "c1", tmp_path, 137, ["killed"], cache=cache) == [0]
    report_unready(settings, "c1", claim, [0], "the file is missing", known=known)
    assert decoded.since() <= 10
