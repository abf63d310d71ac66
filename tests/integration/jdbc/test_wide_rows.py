"""What tasks of JdbcSource and JdbcSink hold in memory is bounded by bytes: 1,500 rows of 200 kB are 300 MB."""

import subprocess
import sys

import pytest

from tests.integration.jdbc.sinks import TargetDatabase
from tests.samples import sample
from tests.waiting import HANG_SECONDS

ROWS = 1_500
READ_BYTES = 96 << 20  # a few pages of 4 MiB, or of 32 rows
WRITTEN_BYTES = 384 << 20  # 64 MiB that wait for their commit, a batch of 32 MiB, and the statement that is made of them
QUERIES = {
    "sqlite": "SELECT id, replace(hex(zeroblob(100000)), '0', 'x') AS text FROM numbers WHERE id <= {rows}",
    "mariadb": "SELECT id, repeat('x', 200000) AS text FROM numbers WHERE id <= {rows}",
    "postgresql": "SELECT id, repeat('x', 200000) AS text FROM numbers WHERE id <= {rows}",
}


def grown_bytes(what: str, target: TargetDatabase, query: str = "") -> int:
    command = [sys.executable, "-m", "tests.integration.jdbc.wide_rows", what, target.dialect, target.url, str(ROWS), query]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    assert ended.returncode == 0, ended.stderr
    return int(ended.stdout)


@pytest.mark.parametrize("dialect", sample(["postgresql", "sqlite", "mariadb"], 0))
def test_long_rows_that_are_read_do_not_fill_the_memory(request: pytest.FixtureRequest, dialect: str) -> None:
    target: TargetDatabase = request.getfixturevalue(f"{dialect}_target")
    target.run("CREATE TABLE numbers (id integer PRIMARY KEY)")
    target.run(f"INSERT INTO numbers VALUES {','.join(f'({number})' for number in range(1, ROWS + 1))}")
    assert grown_bytes("source", target, QUERIES[dialect]) < READ_BYTES


@pytest.mark.soak
@pytest.mark.parametrize("dialect", ["postgresql", "sqlite", "mariadb"])
def test_long_rows_that_are_written_do_not_fill_the_memory(request: pytest.FixtureRequest, dialect: str) -> None:
    target: TargetDatabase = request.getfixturevalue(f"{dialect}_target")
    target.run(f"CREATE TABLE notes (id integer, text {'longtext' if dialect == 'mariadb' else 'text'})")
    try:
        assert grown_bytes("sink", target) < WRITTEN_BYTES
    finally:
        target.run("DROP TABLE notes")
