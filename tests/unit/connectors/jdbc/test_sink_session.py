"""What happens to a sink's transaction, on a real SQLite file: its statements that begin and end one, and what comes again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connectors.jdbc.database.database_errors import RefusedException
from airflow_provider_connect.connectors.jdbc.sink.connector import JdbcSinkConnector, open_store
from airflow_provider_connect.connectors.jdbc.sink.rounded_numbers import RoundedNumbers
from airflow_provider_connect.connectors.jdbc.sink.session import SinkSession
from airflow_provider_connect.connectors.jdbc.sink.settings import SinkSettings
from airflow_provider_connect.connectors.jdbc.sink.sqlalchemy_store import RowStore
from airflow_provider_connect.data.columns import column_of
from airflow_provider_connect.data.schema import INT64_SCHEMA, STRING_SCHEMA, Schema
from airflow_provider_connect.errors import ConnectException, DataException, FencedException
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch
from airflow_provider_connect.sdk.task import RollbackReason, RolledBackException

NOTE = Schema.struct({"id": INT64_SCHEMA})
LONGER = Schema.struct({"id": INT64_SCHEMA, "text": STRING_SCHEMA.as_optional()})
ENDS = ("BEGIN", "COMMIT", "ROLLBACK", "CREATE", "ALTER", "INSERT")


def notes(*ids: int, schema: Schema = NOTE) -> Batch:
    values = [{"id": id, "text": None} if schema is LONGER else {"id": id} for id in ids]
    return KafkaBatch("notes", value=column_of(values, schema), value_schema=schema, kafka_partition=0, first_offset=ids[0])


class Sessions:
    """One session, and what it executes."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.executed: list[str] = []
        self.checks = 0
        config = {"connection.url": f"sqlite:///{path}", "topics": "notes", "auto.create": "true", "auto.evolve": "true"}
        parsed = JdbcSinkConnector.config_def.parse(config)
        self.store = open_store(parsed, ALL_ALLOWED)
        assert isinstance(self.store, RowStore)
        monkeypatch.setattr(self.store, "execute", self._noting(self.store.execute))
        monkeypatch.setattr(self.store, "_execute_rows", self._noting(self.store._execute_rows))
        self.session = SinkSession(self.store, SinkSettings.of(parsed), self.check, RoundedNumbers("sink"))

    def check(self, session: SinkSession) -> None:
        session.begin()  # as whatever reads rows in a transaction
        self.checks += 1

    def _noting(self, execute: Callable[..., Any]) -> Callable[..., Any]:
        def noted(sql: str, *more: Any) -> Any:
            word = sql.split(maxsplit=1)[0]
            if word in ENDS and not sql.startswith("ROLLBACK TO"):
                self.executed.append(word)
            return execute(sql, *more)

        return noted

    def rows(self) -> list[int]:
        return [id for (id,) in self.store.rows("SELECT id FROM notes ORDER BY id")]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sessions]:
    sessions = Sessions(tmp_path / "notes.db", monkeypatch)
    with closing(sessions.store):
        yield sessions


def create(opened: Sessions) -> None:
    opened.store.execute("CREATE TABLE notes (id BIGINT CHECK (id > 0))")
    opened.executed.clear()


def test_a_commit_without_rows_executes_nothing(opened: Sessions) -> None:
    opened.session.flush()
    opened.session.commit()
    assert opened.executed == []


def test_rows_are_written_in_one_transaction_at_the_commit(opened: Sessions) -> None:
    create(opened)
    for id in (1, 2):
        opened.session.put(notes(id))
    assert (opened.executed, opened.session.blocks_writers) == ([], False)  # SQLite has one writer
    opened.session.flush()
    assert opened.session.blocks_writers
    opened.session.commit()
    assert opened.executed == ["BEGIN", "INSERT", "COMMIT"]
    assert (opened.rows(), opened.session.blocks_writers) == ([1, 2], False)


def test_rows_of_structs_that_are_optional_at_times_are_written_together(opened: Sessions) -> None:
    create(opened)
    for id in range(1, 7):
        opened.session.put(notes(id, schema=NOTE.as_optional() if id % 2 else NOTE))
    opened.session.flush()
    opened.session.put(notes(7))
    opened.session.commit()
    assert (opened.executed, opened.rows()) == (["BEGIN", "INSERT", "COMMIT"], [*range(1, 7)])


def test_before_the_first_row_a_change_rolls_nothing_back(opened: Sessions) -> None:
    opened.session.put(notes(1))
    opened.session.flush()
    opened.session.commit()
    assert opened.executed == ["BEGIN", "CREATE", "COMMIT", "BEGIN", "INSERT", "COMMIT"]
    assert (opened.rows(), opened.checks) == ([1], 1)


def test_a_table_is_changed_outside_of_the_transaction_of_rows(opened: Sessions) -> None:
    create(opened)
    opened.session.put(notes(1))
    opened.session.flush()
    opened.session.put(notes(2, schema=LONGER))
    with pytest.raises(RolledBackException) as error:
        opened.session.flush()
    assert error.value.reason is RollbackReason.CHANGED
    assert opened.executed == ["BEGIN", "INSERT", "ROLLBACK", "BEGIN", "ALTER", "COMMIT"]
    opened.session.commit()  # what waited is dropped, too
    assert (opened.rows(), opened.checks) == ([], 1)
    opened.session.put(notes(1))
    opened.session.put(notes(2, schema=LONGER))
    opened.session.flush()
    opened.session.commit()
    assert opened.rows() == [1, 2]


def test_a_fenced_task_changes_no_table(opened: Sessions) -> None:
    def refuse(session: SinkSession) -> None:
        raise FencedException("newer")

    session = SinkSession(opened.store, opened.session._settings, refuse, RoundedNumbers("sink"))
    session.put(notes(1))
    with pytest.raises(FencedException):
        session.flush()
    assert opened.executed == ["BEGIN"]


def test_a_refusal_rolls_all_rows_back_and_from_then_on_each_batch_is_written_as_it_is_put(opened: Sessions) -> None:
    create(opened)
    opened.session.put(notes(1))
    opened.session.put(notes(-2, 3))
    with pytest.raises(RolledBackException) as error:
        opened.session.flush()
    assert error.value.reason is RollbackReason.REFUSED
    assert opened.executed == ["BEGIN", "INSERT", "ROLLBACK"]
    opened.session.put(notes(1))
    with pytest.raises(DataException, match="refuses a record from offset -2 on of notes-0"):
        opened.session.put(notes(-2, 3))
    opened.session.put(notes(3))
    opened.session.commit()
    assert opened.rows() == [1, 3]
    opened.session.put(notes(4))
    assert opened.rows() == [1, 3]  # waits again


def test_a_mistake_in_values_that_is_of_no_row_ends_the_session(opened: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the batch, which waits already, would be put again."""
    create(opened)

    def refuse(*_: object) -> None:
        raise DataException("unreadable")

    monkeypatch.setattr(opened.store, "insert", refuse)
    opened.session.put(notes(1))
    with pytest.raises(ConnectException, match="unreadable") as error:
        opened.session.flush()
    assert not isinstance(error.value, DataException | RefusedException)
