"""Bad records, lost connections, uncertain commits and older claims: nothing is lost, doubled or left half done."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_provider_connect.connectors.jdbc.sink.postgresql_store import PostgresqlStore
from airflow_provider_connect.data.schema import INT32_SCHEMA, INT64_SCHEMA, STRING_SCHEMA, Schema
from airflow_provider_connect.errors import ConnectException, FencedException, RetriableException, TaskException
from tests.integration.jdbc.sinks import UPSERT, Reported, Sink, TargetDatabase, opened
from tests.waiting import HANG_SECONDS, wait_until

MEETING_SECONDS = 0.5

INSERT = {"auto.create": "true"}
CHECKED = "CREATE TABLE notes (id bigint PRIMARY KEY, text varchar(20) NOT NULL, CHECK (id % 50 <> 7))"
MODES = {
    "insert": {},
    "upsert": UPSERT,
    "upsert of values": {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"},
    "insert and delete": {**UPSERT, "insert.mode": "insert", "delete.enabled": "true"},
}
MORE = Schema.struct({"id": INT64_SCHEMA, "text": STRING_SCHEMA.as_optional(), "more": INT32_SCHEMA.as_optional()})


@pytest.mark.parametrize("mode", MODES)
def test_bad_records_are_reported_and_the_others_written(target: TargetDatabase, mode: str) -> None:
    target.run(CHECKED)
    sink = Sink(target, {**MODES[mode], "batch.size": "300"}, reported=(reported := Reported()))
    for first in range(0, 1000, 125):
        sink.put_notes(*((id, None if id % 333 == 332 else f"note {id}") for id in range(first, first + 125)))
    sink.commit()
    bad = {id for id in range(1000) if id % 50 == 7 or id % 333 == 332}
    assert reported.errors.keys() == bad
    assert [id for id, _ in sink.notes()] == [id for id in range(1000) if id not in bad]
    assert "Table notes refuses the record at offset 7 of notes-0" in reported.errors[7]
    assert "null in column text" in reported.errors[332]
    sink.end()


def test_values_that_do_not_fit_are_bad(postgresql_target: TargetDatabase) -> None:
    postgresql_target.run("CREATE TABLE notes (id smallint, text varchar(3))", "INSERT INTO notes VALUES (4, 'old')")
    for order, settings in enumerate(({}, {"insert.mode": "update", "pk.mode": "record_key"}), 1):
        sink = Sink(postgresql_target, settings, claim_epoch=order, reported=(reported := Reported()))
        first = sink.offsets.get("notes", 0)
        sink.put_notes((1, "a"), (2, "\0"), (40000, "b"), (4, "long text"), (4, "c"), (5, "d"))
        sink.commit()
        assert {offset - first for offset in reported.errors} >= {1, 2}
        sink.end()
    assert postgresql_target.rows("SELECT id, text FROM notes ORDER BY id, text") == [(1, "a"), (4, "c"), (4, "c"), (5, "d")]


def test_what_only_the_commit_refuses_fails_the_task(postgresql_target: TargetDatabase) -> None:
    late = "bigint REFERENCES kinds DEFERRABLE INITIALLY DEFERRED"
    postgresql_target.run("CREATE TABLE kinds (id bigint PRIMARY KEY)", f"CREATE TABLE notes (id {late}, text text CHECK (text <> 'b'))")
    sink = Sink(postgresql_target, {}, reported=(reported := Reported()))
    sink.put_notes((1, "a"), (2, "b"))
    with pytest.raises(ConnectException, match="foreign key"):
        sink.commit()
    sink.end()
    assert postgresql_target.rows("SELECT id FROM notes") == []
    again = Sink(postgresql_target, {}, claim_epoch=2, reported=(reported := Reported()))
    assert again.offsets == {}
    postgresql_target.run("INSERT INTO kinds VALUES (1)")
    again.put_notes((1, "a"), (2, "b"))
    again.commit()
    again.end()
    assert postgresql_target.rows("SELECT id FROM notes") == [(1,)]
    assert reported.errors.keys() == {1}


def test_nulls_deletes_and_keys_that_are_missing_are_bad(target: TargetDatabase) -> None:
    sink = Sink(target, UPSERT, reported=(reported := Reported()))
    sink.put_notes((1, "a"))
    sink.put_deletes(1)
    sink.put([{"id": 2, "text": "a"}, None, {"id": 3, "text": "a"}], keys=[{"id": 2}, {"id": 2}, None])
    sink.put([{"id": 2, "text": "a"}])
    sink.commit()
    assert sink.notes() == [(1, "a"), (2, "a")]
    assert reported.errors.keys() == {1, 3, 4, 5}
    sink.end()


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_without_a_reporter_a_bad_record_ends_the_task(target: TargetDatabase, mode: str) -> None:
    target.run(CHECKED)
    sink = Sink(target, MODES[mode])
    sink.put_notes(*((id, "a") for id in range(30)))
    with pytest.raises(ConnectException, match="Table notes refuses the record at offset 7 of notes-0") as raised:
        sink.commit()
    assert not isinstance(raised.value, RetriableException)
    sink.end()
    assert sink.notes() == []


def end_connections(target: TargetDatabase) -> None:
    [(schema,)] = target.rows("SELECT current_schema()::text")
    target.rows(
        "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a JOIN connect_sink_offsets o "
        f"ON o.session = a.pid || ' ' || a.backend_start WHERE current_schema() = '{schema}'"
    )


def retries_of_put(sink: Sink, *notes: tuple[int, str]) -> int:
    """Put the notes; how often they had to be put again."""
    for retries in range(5):
        with contextlib.suppress(RetriableException):
            sink.put_notes(*notes)
            return retries
    raise AssertionError


def test_what_was_put_comes_again_after_a_lost_connection(postgresql_target: TargetDatabase) -> None:
    """Records are written while the next ones are put, so that a loss is known then."""
    sink = Sink(postgresql_target, {**INSERT, "batch.size": "2"})
    sink.put_notes((1, "a"), (2, "a"))
    sink.commit()
    sink.put_notes((3, "a"), (4, "a"), (5, "a"))
    end_connections(postgresql_target)
    assert retries_of_put(sink, (6, "a"), (7, "a")) + retries_of_put(sink, (8, "a"), (9, "a")) == 1
    end_connections(postgresql_target)
    sink.commit()
    assert [id for id, _ in sink.notes()] == list(range(1, 10))
    end_connections(postgresql_target)
    sink.put_notes((10, "a"))
    sink.commit()
    sink.end()
    assert len(sink.notes()) == 10
    assert Sink(postgresql_target, INSERT, claim_epoch=2).offsets == {"notes": 10}


def test_a_connection_lost_while_a_table_is_created_or_changed(postgresql_target: TargetDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    execute, lost = PostgresqlStore.execute, [0]

    def losing(self: PostgresqlStore, statement: str) -> None:
        if statement.startswith(("CREATE TABLE", "ALTER TABLE")) and lost[0] < 2 and "offsets" not in statement:
            lost[0] += 1
            raise RetriableException("the connection was lost")
        execute(self, statement)

    monkeypatch.setattr(PostgresqlStore, "execute", losing)
    sink = Sink(postgresql_target, {**INSERT, "auto.evolve": "true"})
    sink.put_notes((1, "a"))
    sink.commit()
    assert (sink.notes(), lost) == ([(1, "a")], [2])
    lost[0] = 0
    sink.put([{"id": 2, "text": "b", "more": 3}], MORE)
    sink.commit()
    assert (postgresql_target.rows("SELECT id, more FROM notes ORDER BY id"), lost) == ([(1, None), (2, 3)], [2])
    sink.end()


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_a_connection_lost_in_the_middle_of_a_statement(postgresql_target: TargetDatabase, mode: str) -> None:
    postgresql_target.run(
        "CREATE TABLE notes (id bigint PRIMARY KEY, text text)",
        "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.01); RETURN NEW; END $$",
        "CREATE TRIGGER slowly BEFORE INSERT ON notes FOR EACH ROW EXECUTE FUNCTION slowly()",
    )
    sink = Sink(postgresql_target, MODES[mode])
    sink.put_notes(*((id, "a") for id in range(100)))
    with ThreadPoolExecutor(1) as threads:
        commit = threads.submit(sink.commit)
        is_writing = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%notes%' AND pid <> pg_backend_pid()"
        wait_until(lambda: postgresql_target.rows(is_writing))
        end_connections(postgresql_target)
        commit.result(HANG_SECONDS)
    assert [id for id, _ in sink.notes()] == list(range(100))
    sink.end()


def test_a_bad_record_is_reported_once_though_it_comes_again(postgresql_target: TargetDatabase) -> None:
    postgresql_target.run(CHECKED)
    sink = Sink(postgresql_target, {"batch.size": "5"}, reported=(reported := Reported()))
    sink.put_notes(*((id, "a") for id in range(10)))
    sink.put_notes((10, "a"))
    sink.put_notes(*((id, "a") for id in range(11, 16)))
    assert reported.errors.keys() == {7}
    end_connections(postgresql_target)
    sink.commit()
    assert len(sink.notes()) == 15
    sink.end()


@pytest.mark.parametrize("has_happened", [True, False])
def test_an_uncertain_commit_is_searched_for(
    postgresql_target: TargetDatabase, monkeypatch: pytest.MonkeyPatch, has_happened: bool
) -> None:
    sink = Sink(postgresql_target, INSERT)
    sink.put_notes((1, "a"))
    sink.commit()
    commit, waiting = PostgresqlStore.commit, [True]

    def lost(self: PostgresqlStore) -> None:
        is_data = bool(self.rows("SELECT 1 FROM notes WHERE id = 2"))
        if not (is_data and waiting):
            commit(self)
            return
        waiting.clear()
        if has_happened:
            commit(self)
        self.close()
        raise RetriableException("the connection was lost")

    monkeypatch.setattr(PostgresqlStore, "commit", lost)
    sink.put_notes((2, "a"))
    sink.commit()
    assert not waiting
    sink.put_notes((3, "a"))
    sink.commit()
    assert [id for id, _ in sink.notes()] == [1, 2, 3]
    sink.end()


@pytest.mark.parametrize("has_happened", [True, False])
def test_at_most_once_an_uncertain_commit_is_never_repeated(
    postgresql_target: TargetDatabase, monkeypatch: pytest.MonkeyPatch, has_happened: bool
) -> None:
    sink = Sink(postgresql_target, INSERT, guarantee="at_most_once")
    sink.put_notes((1, "a"))
    sink.commit()
    commit = PostgresqlStore.commit

    def lost(self: PostgresqlStore) -> None:
        if has_happened:
            commit(self)
        self.close()
        raise RetriableException("the connection was lost")

    sink.put_notes((2, "a"))
    monkeypatch.setattr(PostgresqlStore, "commit", lost)
    with pytest.raises(TaskException, match="may be lost: with at_most_once they are never written again"):
        sink.commit()
    monkeypatch.undo()
    sink.end()
    assert [id for id, _ in sink.notes()] == ([1, 2] if has_happened else [1])


def test_at_most_once_a_connection_that_was_lost_between_two_puts_repeats_nothing(postgresql_target: TargetDatabase) -> None:
    sink = Sink(postgresql_target, {**INSERT, "batch.size": "2"}, guarantee="at_most_once")
    sink.put_notes((1, "a"), (2, "a"))
    sink.commit()
    sink.put_notes((3, "a"), (4, "a"))
    sink.target.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    with pytest.raises(TaskException, match="may be lost"):
        sink.commit()
    sink.end()
    assert [id for id, _ in sink.notes()] == [1, 2]


def test_a_database_that_stays_away_ends_the_task(postgresql_target: TargetDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(postgresql_target, {**INSERT, "max.retries": "2"})
    sink.put_notes((1, "a"))

    def away(self: PostgresqlStore) -> None:
        raise RetriableException("no server answers")

    monkeypatch.setattr(PostgresqlStore, "begin", away)
    with pytest.raises(ConnectException, match=r"Failed after 2 retries .*no server answers"):
        sink.commit()
    sink.end()


@pytest.mark.parametrize("has_written", [True, False])
def test_an_older_claim_writes_nothing(postgresql_target: TargetDatabase, has_written: bool) -> None:
    """The older has a transaction open, with the same keys, as the newer comes. It neither holds that up nor commits."""
    postgresql_target.run("CREATE TABLE notes (id bigint PRIMARY KEY, text text)")
    older = Sink(postgresql_target, {**UPSERT, "auto.evolve": "true", "batch.size": "1"})
    if has_written:
        older.put_notes((1, "old"), (2, "old"))
    newer = Sink(postgresql_target, UPSERT, claim_epoch=2)
    newer.put_notes((1, "new"))
    newer.commit()

    def write() -> None:
        for _ in range(3):
            with contextlib.suppress(RetriableException):
                older.put([{"id": 3, "text": "old", "more": 1}], MORE, keys=[{"id": 3}])
            older.commit()

    with pytest.raises(FencedException):
        write()
    newer.put_notes((4, "new"))
    newer.commit()
    assert postgresql_target.rows("SELECT * FROM notes ORDER BY id") == [(1, "new"), (4, "new")]  # nor has it a new column
    older.end()
    newer.end()


def test_offsets_of_at_least_once_are_not_kept_beside_older_ones(target: TargetDatabase) -> None:
    sink = Sink(target, UPSERT)
    sink.put_notes((1, "a"))
    sink.commit()
    sink.end()
    second = Sink(target, UPSERT, exactly_once=False, claim_epoch=2)
    assert second.offsets == {}
    second.end()
    third = Sink(target, UPSERT, claim_epoch=3)
    assert third.offsets == {}
    third.end()


def test_what_is_written_at_the_same_time_in_another_order_is_tried_again(postgresql_target: TargetDatabase) -> None:
    """Two tasks with keys of each other: one of them is ended by the database's deadlock detector, and goes on."""
    sinks = [Sink(postgresql_target, {**UPSERT, "batch.size": "1", "table.name.format": "notes"}, (f"t{n}",)) for n in range(2)]
    sinks[0].put([{"id": 0, "text": "first"}], keys=[{"id": 0}], topic="t0")
    sinks[0].commit()

    def run(number: int) -> None:
        for id in ((1, 2), (2, 1))[number]:
            while True:
                try:
                    sinks[number].put([{"id": id, "text": f"{number}"}], keys=[{"id": id}], topic=f"t{number}")
                    break
                except RetriableException:
                    continue
            barrier.wait() if id == number + 1 else None
        sinks[number].commit()

    barrier = Meeting(2)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(run, range(2)))
    assert [row[0] for row in postgresql_target.rows("SELECT id FROM notes ORDER BY id")] == [0, 1, 2]
    for sink in sinks:
        sink.end()


def test_rows_that_stay_locked_are_asked_for_again(postgresql_target: TargetDatabase) -> None:
    postgresql_target.run("CREATE TABLE notes (id bigint)", "INSERT INTO notes VALUES (1)")
    with contextlib.closing(opened(postgresql_target)) as owner, contextlib.closing(opened(postgresql_target)) as other:
        other.execute("SET lock_timeout = '10ms'")
        for store in (owner, other):
            store.begin()
        assert owner.locked_rows("SELECT id FROM notes") == [(1,)]
        with pytest.raises(RetriableException, match="has ended the transaction"):
            other.locked_rows("SELECT id FROM notes")


class Meeting:
    """Waits for all, but not for long: who was sent back comes alone."""

    def __init__(self, count: int) -> None:
        self._barrier = threading.Barrier(count)

    def wait(self) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            self._barrier.wait(MEETING_SECONDS)
