"""Sinks of TransactionalSink: SQLite by its driver and by SQLAlchemy, and a destination that has no savepoints."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import sqlite3
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from airflow_provider_connect.errors import ConfigException, ConnectException, FencedException, RetriableException, is_transient
from airflow_provider_connect.runtime.worker.errors.sink_transaction import SinkTransaction
from airflow_provider_connect.runtime.worker.errors.tolerance import STRICT, Tolerance
from airflow_provider_connect.sdk import STRING_SCHEMA, Batch, OffsetRow, SinkRecord, SqlSink, TopicPartition, TransactionalSink
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED
from airflow_provider_connect.sdk.task import RollbackReason, RolledBackException, SinkTask
from airflow_provider_connect.sdk.testing import CommitStep, Fault, MemorySinkContext, SinkCalls, run
from airflow_provider_connect.sdk.testing.calls import start_task
from tests.unit.sdk.transactional_sinks import MEMORIES, REFUSED, Memory, MemorySink, MemorySuite, TableSink, TableSuite, values_in

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


class TestSqliteByItsDriver(TableSuite):
    @pytest.fixture(autouse=True)
    def url(self, tmp_path: Path) -> None:
        self.address = f"sqlite:///{tmp_path / 'shop.db'}"


class TestSqliteByAnEngine(TableSuite):
    @pytest.fixture(autouse=True)
    def url(self, tmp_path: Path) -> None:
        self.address = f"engine sqlite:///{tmp_path / 'shop.db'}"


class TestMemory(MemorySuite):
    pass


class KeepsRowsOverALoss(TableSink):
    """A mistake: the batches that it keeps come again, and it still has them."""

    def open(self) -> Any:
        self.kept: list[Batch] = getattr(self, "kept", [])
        return super().open()

    def write(self, transaction: Any, batch: Batch) -> None:
        self.kept.append(batch)

    def flush(self, transaction: Any) -> None:
        for batch in self.kept:
            super().write(transaction, batch)
        self.kept.clear()


class KeepsRowsUntilTheyAreTakenBack(KeepsRowsOverALoss):
    def forget(self) -> None:
        if hasattr(self, "kept"):
            self.kept.clear()


class KeepsRowsWithoutSavepoints(KeepsRowsUntilTheyAreTakenBack):
    def savepoint(self, transaction: Any) -> None:
        return None


class TestRowsThatAreKept(TestSqliteByItsDriver):
    connector_class = KeepsRowsUntilTheyAreTakenBack


class TestRowsThatAreKeptWithoutSavepoints(TestSqliteByItsDriver):
    connector_class = KeepsRowsWithoutSavepoints


@pytest.fixture
def config(tmp_path: Path) -> dict[str, str]:
    return {"url": f"sqlite:///{tmp_path / 'shop.db'}", "name": "shop"}


def batch(*values: str, partition: TopicPartition = P, first: int = 0) -> Batch:
    records = [SinkRecord(*partition, first + n, value=value, value_schema=STRING_SCHEMA) for n, value in enumerate(values)]
    return Batch.from_sink_records(records)[0]


BATCHES = (batch("a", "b"), batch("c", partition=Q), batch("d", "e", first=2), batch("f", partition=Q, first=1))
ALL = ["a", "b", "c", "d", "e", "f"]


def opened(
    config: dict[str, str], connector: type[TransactionalSink] = TableSink, *, claim_epoch: int = 1, exactly_once: bool = True
) -> SinkCalls:
    task = start_task(connector(), config, MemorySinkContext(config, [P], claim_epoch=claim_epoch, exactly_once=exactly_once), ALL_ALLOWED)
    calls = SinkCalls(task, [P])
    calls.open()
    return calls


# Kills


FAULTS = [Fault(step, side) for step in (CommitStep.PUT, CommitStep.PRE_COMMIT, CommitStep.COMMIT_GROUP) for side in ("before", "after")]


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_kills_around_each_step_of_a_commit_lose_and_double_nothing(fault: Fault, nth: int, config: dict[str, str]) -> None:
    fault = Fault(fault.step, fault.side, nth)
    killed = run(TableSink(), config, batches=BATCHES, tasks=2, exactly_once=True, fault=fault)
    run(TableSink(), config, batches=BATCHES, exactly_once=True, claim_epoch=2, offsets=killed.offsets)
    assert sorted(values_in(config["url"])) == ALL


def test_kills_before_each_line_of_the_framework_lose_and_double_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the group's offsets, which are older, are all that the next run was given."""
    monkeypatch.setattr(TableSink.task_class, "__module__", TransactionalSink.__module__)
    count = 0
    for line in itertools.count():
        config = {"url": f"sqlite:///{tmp_path / f'{line}.db'}", "name": "shop"}
        killed = run(TableSink(), config, batches=BATCHES, exactly_once=True, fault=Fault(CommitStep.PRE_COMMIT, line=line))
        if not killed.is_killed:
            break
        run(TableSink(), config, batches=BATCHES, exactly_once=True, claim_epoch=2, offsets=killed.offsets)
        assert sorted(values_in(config["url"])) == ALL, line
        count += 1
    assert count > 40


class LosesConnections(TableSink):
    """Its connection is lost when the statement or the commit of this number comes; ``after``: a commit goes through all the same."""

    number, after, count = -1, False, 0

    def lose(self) -> None:
        kind = type(self)
        kind.count += 1
        if kind.count == kind.number:
            raise sqlite3.OperationalError("the connection was lost")

    def write(self, transaction: Any, batch: Batch) -> None:
        self.lose()
        super().write(transaction, batch)

    def read_offsets(self, transaction: Any, connector: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetRow]:
        self.lose()
        return super().read_offsets(transaction, connector, partitions)

    def commit(self, connection: Any) -> None:
        if self.after:
            super().commit(connection)
            self.lose()
        else:
            self.lose()
            super().commit(connection)


@pytest.mark.parametrize("after", [False, True])
def test_a_connection_that_is_lost_at_any_call_loses_and_doubles_nothing(after: bool, tmp_path: Path) -> None:
    for number in itertools.count(3):  # open has ended
        LosesConnections.number, LosesConnections.after, LosesConnections.count = number, after, 0
        config = {"url": f"sqlite:///{tmp_path / f'{number}.db'}", "name": "shop"}
        calls = opened(config, LosesConnections)
        calls.put(batch("a", "b"))
        assert calls.commit() == {P: 2}
        calls.put(batch("c", first=2))
        assert calls.commit() == {P: 3}
        assert values_in(config["url"]) == ["a", "b", "c"]
        calls.task.close([P])
        if LosesConnections.count < number:
            break
    assert number > 8


# Who may write


def test_of_two_processes_with_one_claim_the_first_to_commit_goes_on(config: dict[str, str]) -> None:
    """Spark may start a task twice in one run."""
    one, twin = opened(config), opened(config)
    one.put(batch("a"))
    twin.put(batch("a"))
    one.commit()
    with pytest.raises(FencedException, match="belongs to claim suite:1 with offset 1 now"):
        twin.commit()
    one.put(batch("b", first=1))
    one.commit()
    assert values_in(config["url"]) == ["a", "b"]


def test_a_twin_is_not_let_in_by_a_lost_connection(config: dict[str, str]) -> None:
    LosesConnections.number, LosesConnections.after, LosesConnections.count = -1, False, 0
    zombie = opened(config, LosesConnections)
    twin = opened(config)
    twin.put(batch("a", "b"))
    twin.commit()
    zombie.put(batch("a"))
    LosesConnections.number = LosesConnections.count + 1
    with pytest.raises(FencedException):
        zombie.commit()
    assert values_in(config["url"]) == ["a", "b"]


def test_offsets_that_an_admin_sets_fence_a_task_that_still_writes(config: dict[str, str]) -> None:
    calls = opened(config)
    calls.put(batch("a", "b"))
    calls.commit()
    for _ in range(2):
        assert TableSink().alter_offsets(config, {P: 0, Q: 5})
    calls.put(batch("c", first=2))
    with pytest.raises(FencedException, match="altered"):
        calls.commit()
    calls.task.close([P])
    assert opened(config, claim_epoch=2).start == {P: 0}  # Q was unknown
    assert values_in(config["url"]) == ["a", "b"]


def test_a_claim_of_another_config_topic_takes_over(config: dict[str, str]) -> None:
    row = OffsetRow(5, "old:100", 100)
    assert row.take_over(P, OffsetRow(None, "new:1", 1)) == OffsetRow(5, "new:1", 1)
    with pytest.raises(FencedException):
        row.take_over(P, OffsetRow(None, "old:99", 99))


def test_an_offset_holds_in_the_topic_that_it_was_counted_in() -> None:
    row = OffsetRow(5, "cluster:100", 100, "topic-1")
    assert row.take_over(P, OffsetRow(None, "cluster:101", 101, "topic-1")) == OffsetRow(5, "cluster:101", 101, "topic-1")
    assert row.take_over(P, OffsetRow(None, "cluster:101", 101)) == OffsetRow(5, "cluster:101", 101, "topic-1")
    assert row.take_over(P, OffsetRow(None, "cluster:101", 101, "topic-2")) == OffsetRow(None, "cluster:101", 101, "topic-2")
    moved = OffsetRow(None, "another config topic:1", 1, "topic-1")
    assert row.take_over(P, moved) == OffsetRow(5, "another config topic:1", 1, "topic-1")


def test_an_offset_of_another_cluster_is_neither_continued_nor_dropped() -> None:
    row, foreign = OffsetRow(5, "theirs:100", 100, "topic-1"), OffsetRow(None, "ours:1", 1, "topic-2")
    with pytest.raises(ConfigException, match=r"another Connect cluster \(config topic id theirs\).*set destination\.adopt=theirs"):
        row.take_over(P, foreign)
    with pytest.raises(ConfigException):
        row.take_over(P, foreign, adopts="someone else's")
    assert row.take_over(P, foreign, adopts="theirs") == foreign


def test_connectors_share_a_table_and_no_rows(config: dict[str, str]) -> None:
    calls = opened(config)
    calls.put(batch("a"))
    calls.commit()
    assert opened({**config, "name": "Shop"}).start == {}
    assert opened(config, claim_epoch=2).start == {P: 1}


def test_at_least_once_keeps_no_offsets_and_needs_no_table(config: dict[str, str]) -> None:
    calls = opened(config, exactly_once=False)
    calls.put(batch("a"))
    assert calls.commit() == {P: 1}
    with contextlib.closing(sqlite3.connect(config["url"].removeprefix("sqlite:///"))) as database:
        assert database.execute("SELECT name FROM sqlite_master WHERE name = 'connect_sink_offsets'").fetchall() == []
    exact = opened(config)
    exact.put(batch("b", first=1))
    exact.commit()
    opened(config, claim_epoch=2, exactly_once=False)
    assert opened(config, claim_epoch=3).start == {}
    assert values_in(config["url"]) == ["a", "b"]


# Errors


def test_a_refused_record_is_left_out_alone(config: dict[str, str]) -> None:
    done = run(
        TableSink(), {**config, "errors.tolerance": "all"}, batches=[batch("a", REFUSED, "b"), batch("c", first=3)], exactly_once=True
    )
    assert set(done.reporter.offsets) == {1}
    assert (values_in(config["url"]), done.offsets) == (["a", "b", "c"], {P: 4})


def test_what_is_refused_goes_back_to_the_last_commit(config: dict[str, str]) -> None:
    calls = opened(config)
    calls.task.put(batch("a", REFUSED))
    with pytest.raises(RolledBackException, match="CHECK constraint failed") as caught:
        calls.task.pre_commit({P: 2})
    assert caught.value.reason is RollbackReason.REFUSED


class Unavailable(TableSink):
    max_retries = 2
    is_available = True

    def write(self, transaction: Any, batch: Batch) -> None:
        if not self.is_available:
            raise RetriableException("come back later", retry_after_ms=700)
        super().write(transaction, batch)


def test_losses_without_a_commit_between_them_are_counted(config: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    calls = opened(config, Unavailable)
    monkeypatch.setattr(Unavailable, "is_available", False)
    calls.task.put(batch("a"))
    for _ in range(2):
        with pytest.raises(RolledBackException, match="come back later") as caught:
            calls.task.pre_commit({P: 1})
        assert caught.value.reason is RollbackReason.LOST
        calls.task.open([P])
        calls.task.put(batch("a"))
    with pytest.raises(ConnectException, match=r"Failed after 2 retries \(max_retries\): come back later") as failed:
        calls.task.pre_commit({P: 1})
    assert is_transient(failed.value)  # the next attempt of the run may find it
    assert isinstance(calls.task.context, MemorySinkContext)
    assert calls.task.context.timeouts_ms == [700, 700]


class DefersChecks(TableSink):
    def commit(self, connection: Any) -> None:
        cursor = connection.execute("SELECT count(*) FROM records WHERE value = 'late'")
        if cursor.fetchone()[0]:
            raise sqlite3.IntegrityError("checked at the commit")
        super().commit(connection)


def test_a_record_that_only_the_commit_refuses_fails_the_task(config: dict[str, str]) -> None:
    """No record can be named: each was written by itself."""
    calls = opened(config, DefersChecks)
    calls.put(batch("late"))
    with pytest.raises(ConnectException, match="IntegrityError: checked at the commit"):
        calls.commit()
    assert values_in(config["url"]) == []


class HasNoSavepoints(TableSink):
    def savepoint(self, transaction: Any) -> None:
        return None


def test_a_database_without_savepoints(config: dict[str, str]) -> None:
    done = run(HasNoSavepoints(), {**config, "errors.tolerance": "all"}, batches=[batch("a", REFUSED, "b")], exactly_once=True)
    assert set(done.reporter.offsets) == {1}
    assert values_in(config["url"]) == ["a", "b"]


class MayNotCreate(TableSink):
    def open(self) -> Any:
        connection = super().open()
        forbidden = (sqlite3.SQLITE_CREATE_TABLE, "connect_sink_offsets")
        connection.set_authorizer(lambda action, name, *_: sqlite3.SQLITE_DENY if (action, name) == forbidden else sqlite3.SQLITE_OK)
        return connection


def test_a_table_that_cannot_be_created_is_named_with_the_way_out(config: dict[str, str]) -> None:
    with pytest.raises(ConfigException, match=r"The table connect_sink_offsets .* Create it \(id CHAR\(64\).* at_least_once"):
        opened(config, MayNotCreate)


class Driver:
    """A driver of another paramstyle, as far as it is asked."""

    def __init__(self, *, autocommit: bool = False) -> None:
        self.autocommit = autocommit
        self.statements: list[tuple[str, object]] = []

    def cursor(self) -> Driver:
        return self

    def execute(self, sql: str, parameters: object = None) -> None:
        self.statements.append((sql, parameters))

    def fetchall(self) -> list[tuple[str, int, str, int]]:
        return []


def test_a_connection_that_commits_each_statement_is_refused() -> None:
    with pytest.raises(ConnectException, match="turn autocommit off"):
        SqlSink().begin(Driver(autocommit=True))


def test_a_driver_of_mysql_that_shows_its_transaction_is_not_taken_for_sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect.getmodule(Driver), "paramstyle", "pyformat", raising=False)

    class MysqlConnector(Driver):
        """As mysql-connector-python's: BEGIN IMMEDIATE is a syntax error there, and FOR UPDATE is needed."""

        in_transaction = False

    sink, driver = SqlSink(), MysqlConnector()
    sink.read_offsets(sink.begin(driver), "c", [P])
    statements = [sql for sql, _ in driver.statements]
    assert not any(sql.startswith("BEGIN") for sql in statements)
    assert statements[-1].endswith("FOR UPDATE")


def test_a_connection_without_a_transaction_after_begin_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect.getmodule(Driver), "paramstyle", "qmark", raising=False)

    class OperationalError(Exception):
        pass

    class HasNoAttribute(Driver):
        is_lost = False

        def rollback(self) -> None:
            raise OperationalError("cannot rollback - no transaction is active")

        def execute(self, sql: str, parameters: object = None) -> None:
            if self.is_lost and sql == "SELECT 1":
                raise OperationalError("gone")

    with pytest.raises(ConnectException, match=r"SqlSink\.open has no transaction after begin \(cannot rollback .*override begin"):
        SqlSink().create_offsets(HasNoAttribute())
    lost = HasNoAttribute()
    lost.is_lost = True
    with pytest.raises(OperationalError):
        SqlSink().create_offsets(lost)


class Methods:
    """A connection of a driver whose ``autocommit`` is a method."""

    def __init__(self, path: Path, *, commits: bool) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None if commits else "DEFERRED")

    def autocommit(self, wanted: bool) -> None:
        raise NotImplementedError

    def cursor(self) -> sqlite3.Cursor:
        return self._connection.cursor()

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()


def test_a_driver_that_does_not_report_whether_it_commits_is_tried(tmp_path: Path) -> None:
    sink = SqlSink()
    sink.create_offsets(Methods(tmp_path / "a.db", commits=False))
    with pytest.raises(ConnectException, match="turn autocommit off"):
        sink.create_offsets(Methods(tmp_path / "a.db", commits=True))
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        assert connection.execute("SELECT count(*) FROM connect_sink_offsets").fetchone() == (0,)


@pytest.mark.parametrize(
    ("style", "marks", "parameters"),
    [
        ("qmark", "?, ?, ?, ?", ("s:1", "c", "t", "id")),
        ("numeric", ":1, :2, :3, :4", ("s:1", "c", "t", "id")),
        ("named", ":text0, :text1, :text2, :text3", {"text0": "s:1", "text1": "c", "text2": "t", "text3": "id"}),
        ("format", "%s, %s, %s, %s", ("s:1", "c", "t", "id")),
    ],
)
def test_parameters_are_marked_as_the_driver_has_them(style: str, marks: str, parameters: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect.getmodule(Driver), "paramstyle", style, raising=False)
    sink, driver = SqlSink(), Driver()
    rows: Mapping[TopicPartition, OffsetRow] = {P: OffsetRow(7, "s:1", 1, "id")}
    assert sink.read_offsets(sink.begin(driver), "c", [P]) == {}
    sink.write_offsets(driver, "c", rows)
    [*_, (read, _), (written, given)] = driver.statements
    assert read.endswith("ORDER BY id FOR UPDATE")
    assert written.endswith(f"', 0, 7, 1, {marks})")
    assert given == parameters


def test_a_sink_of_a_sink_has_a_task_of_its_own() -> None:
    assert LosesConnections.task_class is not TableSink.task_class
    assert issubclass(LosesConnections.task_class, SinkTask)
    assert LosesConnections.task_class.__module__ == __name__


class Noted(MemorySink):
    """Notes its calls, and writes what it has kept at the end of a transaction."""

    calls: ClassVar[list[str]] = []

    def end_older_sessions(self, connection: Any, connector: str, partitions: Collection[TopicPartition], claim: OffsetRow) -> None:
        self.calls.append(f"end older than {claim.claim_epoch} of {len(partitions)}")

    def write(self, transaction: Memory, batch: Batch) -> None:
        self.kept = [*getattr(self, "kept", []), batch]
        if batch.value is not None and "lost" in batch.value.to_pylist() and self.calls.count("lost") == 0:
            self.calls.append("lost")
            raise RetriableException("lost")

    def forget(self) -> None:
        self.kept = []

    def flush(self, transaction: Memory) -> None:
        for batch in self.kept:
            super().write(transaction, batch)
        self.kept = []
        self.calls.append("flush")

    def write_offsets(self, transaction: Memory, connector: str, rows: Mapping[TopicPartition, OffsetRow | None]) -> None:
        super().write_offsets(transaction, connector, rows)
        self.calls.append("offsets")


def test_older_connections_are_ended_before_the_first_claim_and_kept_batches_are_written_before_offsets(config: dict[str, str]) -> None:
    Noted.calls.clear()
    settings = {**config, "memory": config["url"]}
    done = run(Noted(), settings, batches=[batch("a"), batch("lost", first=1)], exactly_once=True)
    assert done.offsets == {P: 2}
    assert Noted.calls == ["end older than 1 of 1", "offsets", "lost", "offsets", "flush", "offsets"]
    assert MEMORIES[config["url"]].values == ["a", "lost"]


def test_a_transaction_of_the_author_is_fenced_too(config: dict[str, str]) -> None:
    settings = {**config, "memory": config["url"]}
    tasks = [
        start_task(MemorySink(), settings, MemorySinkContext(settings, [P], claim_epoch=n, exactly_once=True), ALL_ALLOWED) for n in (1, 2)
    ]
    for task in tasks:
        task.open([P])
    older, newer = (task._sink for task in tasks)
    newer.check_claims(MEMORIES[config["url"]])
    with pytest.raises(FencedException):
        older.check_claims(MEMORIES[config["url"]])
    MemorySink().check_claims(None)  # that of an admin's change of offsets


# Mistakes of authors


class CommitsWhenItWrites(TableSink):
    def write(self, transaction: Any, batch: Batch) -> None:
        super().write(transaction, batch)
        transaction.connection.commit()


class WritesOnAConnectionOfItsOwn(TableSink):
    def write(self, transaction: Any, batch: Batch) -> None:
        transaction.connection.commit()
        with contextlib.closing(super().open()) as other:
            super().write(other.cursor(), batch)
            other.commit()
        transaction.execute("BEGIN IMMEDIATE")


class KeepsRowsForLater(TableSink):
    def write(self, transaction: Any, batch: Batch) -> None:
        kept: list[Batch] = self.__dict__.setdefault("kept", [])
        kept.append(batch)
        if len(kept) > 2:
            for each in kept:
                super().write(transaction, each)
            kept.clear()


class IgnoresErrors(TableSink):
    def write(self, transaction: Any, batch: Batch) -> None:
        with contextlib.suppress(sqlite3.Error):
            super().write(transaction, batch)


class StoresNoClaims(MemorySink):
    def write_offsets(self, transaction: Memory, connector: str, rows: Mapping[TopicPartition, OffsetRow | None]) -> None:
        super().write_offsets(transaction, connector, {p: row and OffsetRow(row.next_offset, "suite:0", 0) for p, row in rows.items()})


class CommitsOffsetsApart(MemorySink):
    def write_offsets(self, transaction: Memory, connector: str, rows: Mapping[TopicPartition, OffsetRow | None]) -> None:
        super().write_offsets(MEMORIES[self.config["memory"]], connector, rows)


class ForgetsThePartition(MemorySink):
    def read_offsets(self, transaction: Memory, connector: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetRow]:
        return {p: row for (name, _), row in transaction.rows.items() for p in partitions if name == connector}


@pytest.mark.parametrize(
    ("suite", "wrong", "test"),
    [
        (TableSuite, CommitsWhenItWrites, "kill_at_any_line_neither_loses_nor_duplicates_records"),
        (TableSuite, WritesOnAConnectionOfItsOwn, "kill_at_any_line_neither_loses_nor_duplicates_records"),
        (TableSuite, KeepsRowsForLater, "records_arrive_in_order"),
        (TableSuite, KeepsRowsOverALoss, "lost_connection_neither_loses_nor_duplicates_records"),
        (TableSuite, KeepsRowsOverALoss, "refused_records_are_reported_and_the_others_written"),
        (TableSuite, IgnoresErrors, "refused_records_are_reported_and_the_others_written"),
        (MemorySuite, StoresNoClaims, "older_claim_is_refused"),
        (MemorySuite, CommitsOffsetsApart, "kill_at_any_line_neither_loses_nor_duplicates_records"),
        (MemorySuite, ForgetsThePartition, "partitions_are_independent"),
    ],
)
def test_the_suites_find_the_mistake(suite: type[Any], wrong: type[TransactionalSink], test: str, tmp_path: Path) -> None:
    tried = type(wrong.__name__, (suite,), {"connector_class": wrong})()
    tried.address = f"sqlite:///{tmp_path / 'shop.db'}"
    tried.name = wrong.__name__
    with pytest.raises((AssertionError, ConnectException, sqlite3.Error)):
        getattr(tried, f"test_{test}")()


def test_kills_by_line_leave_the_trace_function_as_it_was(config: dict[str, str]) -> None:
    """The lines of a TransactionalSink's task are in the folder of the testing code itself: coverage would end with the first kill."""

    class OfThePackage(TableSink):
        pass

    OfThePackage.task_class.__module__ = TransactionalSink.__module__  # whose folder has the lines to be killed at

    def of_others(*_: object) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(of_others)
    try:
        for step in (CommitStep.PUT, CommitStep.PRE_COMMIT):
            for line in itertools.count():
                done = run(OfThePackage(), config, batches=BATCHES, exactly_once=True, fault=Fault(step, line=line))
                assert sys.gettrace() is of_others, (step, line)
                if not done.is_killed:
                    break
    finally:
        sys.settrace(before)


# Behind the framework's own loop of a transaction


class Context(MemorySinkContext):
    def take_retry_ms(self) -> int | None:
        return 0


@pytest.mark.parametrize("connector", [TableSink, MemorySink])
@pytest.mark.parametrize("refused", [(), (0,), (3, 4, 19), tuple(range(0, 20, 3)), tuple(range(20))], ids=str)
def test_behind_the_framework_refused_records_are_reported_once(
    connector: type[TransactionalSink], refused: Collection[int], config: dict[str, str]
) -> None:
    reported: list[int] = []
    settings = {**config, "memory": config["url"]}
    context = Context(settings, [P], exactly_once=True)
    task = start_task(connector(), settings, context, ALL_ALLOWED)
    sink = SinkTransaction(
        task,
        context,
        Tolerance(replace(STRICT, tolerates_all=True)),
        lambda failures: reported.extend(record.first_offset for record, _ in failures if record.first_offset is not None),
    )
    assert sink.open([P]) == {}
    texts = [REFUSED if n in refused else f"{n}" for n in range(20)]
    for first in range(0, 20, 5):
        sink.put(batch(*texts[first : first + 5], first=first))
        if first % 2:
            sink.pre_commit({P: first + 5})
    assert sink.pre_commit({P: 20}) == {P: 20}
    sink.close([P])
    assert reported == list(refused)
    delivered = values_in(config["url"]) if connector is TableSink else MEMORIES[config["url"]].values
    assert delivered == [text for text in texts if text != REFUSED]


@pytest.mark.parametrize("after", [False, True])
def test_behind_the_framework_a_lost_connection_is_opened_again(after: bool, tmp_path: Path) -> None:
    for number in itertools.count(3):
        LosesConnections.number, LosesConnections.after, LosesConnections.count = number, after, 0
        config = {"url": f"sqlite:///{tmp_path / f'{number}.db'}", "name": "shop"}
        context = Context(config, [P], exactly_once=True)
        sink = SinkTransaction(start_task(LosesConnections(), config, context, ALL_ALLOWED), context, Tolerance(STRICT), lambda _: None)
        sink.open([P])
        for first in range(3):
            sink.put(batch(f"{first}", first=first))
            assert sink.pre_commit({P: first + 1}) == {P: first + 1}
        sink.close([P])
        assert values_in(config["url"]) == ["0", "1", "2"]
        if LosesConnections.count < number:
            break
