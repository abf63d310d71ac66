"""Upserts into PostgreSQL, which go in without a merge while the table has none of the rows."""

import uuid

from tests.integration.jdbc.sinks import UPSERT, Reported, Sink, TargetDatabase


def test_new_known_and_mixed_rows_are_there_once_with_their_last_values(postgresql_target: TargetDatabase) -> None:
    sink = Sink(postgresql_target, UPSERT)
    expected: dict[int, str] = {}
    for first, last in ((0, 50), (50, 100), (90, 140), (0, 140), (140, 200), (200, 260), (150, 270), (270, 300), (300, 350)):
        rows = dict.fromkeys(range(first, last), f"{first}")
        expected |= rows
        sink.put_notes(*rows.items())
        sink.commit()
    assert sink.notes() == sorted(expected.items())
    sink.end()


def test_rows_go_into_a_table_with_more_than_one_unique_column(postgresql_target: TargetDatabase) -> None:
    postgresql_target.run("CREATE TABLE notes (id int PRIMARY KEY, text text UNIQUE)", "INSERT INTO notes VALUES (0, 'taken')")
    sink = Sink(postgresql_target, UPSERT, reported=(reported := Reported()))
    sink.put_notes((1, "one"))
    sink.commit()
    sink.put_notes((2, "two"), (3, "taken"), (1, "one again"))
    sink.commit()
    assert sink.notes() == [(0, "taken"), (1, "one again"), (2, "two")]
    assert reported.errors.keys() == {2}
    sink.end()


def test_a_table_with_row_security_which_copy_does_not_know(postgresql_target: TargetDatabase) -> None:
    target = postgresql_target
    schema, user = target.url.rpartition("=")[2], f"writer_{uuid.uuid4().hex[:8]}"
    target.run(
        f"CREATE ROLE {user} LOGIN",
        f"GRANT ALL ON SCHEMA {schema} TO {user}",
        "CREATE TABLE notes (id int PRIMARY KEY, text text)",
        "ALTER TABLE notes ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY everything ON notes USING (true)",
        f"GRANT ALL ON notes TO {user}",
    )
    sink = Sink(TargetDatabase(target.url.replace("connect@", f"{user}@"), target.dialect), UPSERT)
    try:
        for text in ("new", "changed"):
            sink.put_notes((1, text))
            sink.commit()
        assert sink.notes() == [(1, "changed")]
    finally:
        sink.end()
        target.run(f"DROP OWNED BY {user}", f"DROP ROLE {user}")
