"""Airflow's own command makes the tables and takes them away, on each kind of database, as the code describes them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, inspect, text

from airflow_provider_connect.runtime.sql_mirror.tables import metadata

VERSIONS = "alembic_version_connect"
WITHOUT_MYSQLCLIENT = Path(__file__).parent / "without_mysqlclient"

_SCRIPT = """
import sys
from airflow.utils.session import create_session
from airflow_provider_connect.runtime.sql_mirror.db_manager import ConnectDBManager
from sqlalchemy import inspect

for to in sys.argv[1:]:
    with create_session(scoped=False) as session:
        manager = ConnectDBManager(session)
        manager.upgradedb() if to == "newest" else manager.downgrade(to)
        print("tables", *(name for name in inspect(session.connection()).get_table_names() if name.startswith("connect_")))
"""


_QUERIES = """
from datetime import UTC, datetime
from airflow.utils.session import create_session
from airflow_provider_connect.api_server import dags, runs, serialized_dags

names, dag_id = ["orders", "Orders"], "connect.orders"
for ask in (
    lambda session: dags.ConnectorDags().read(session),
    lambda session: runs.run_facts(session, names),
    lambda session: runs.failed_since(session, datetime.now(UTC)),
    runs.running_connectors,
    lambda session: runs.has_running_task(session, dag_id),
    lambda session: serialized_dags.definition(session, dag_id),
    lambda session: dags.set_paused(session, dag_id, paused=True),
    lambda session: runs.end_runs(session, dag_id),
    runs.end_paused_runs,
):
    with create_session() as session:
        print("answer", ask(session))
"""


def migrated(url: str, home: Path, *steps: str) -> list[set[str]]:
    """Our tables after each of the steps, which are what `airflow db migrate` does for each db-manager, without Airflow's own tables."""
    output = in_airflow(url, home, "-c", _SCRIPT, *steps)
    return [set(line.split()[1:]) for line in output.splitlines() if line.startswith("tables")]


def in_airflow(url: str, home: Path, *arguments: str) -> str:
    """The output of a Python process whose Airflow has this database."""
    airflow = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": f"sqlite+aiosqlite:///{home}/unused.db",
    }
    if url.startswith("mysql"):
        airflow["PYTHONPATH"] = str(WITHOUT_MYSQLCLIENT)
    done = subprocess.run([sys.executable, *arguments], env=os.environ | airflow, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_upgrade_and_downgrade(url: str, tmp_path: Path) -> None:
    everything, first = set(metadata.tables), {"connect_agreement", "connect_lease"}
    assert migrated(url, tmp_path, "newest", "0001_connect", "newest") == [everything, first, everything]
    engine = create_engine(url)
    with engine.connect() as connection:
        ours = {"include_name": lambda name, kind, _: kind != "table" or name in metadata.tables, "compare_type": True}
        context = MigrationContext.configure(connection, opts={**ours, "version_table": VERSIONS})
        assert compare_metadata(context, metadata) == []
        assert connection.scalar(text(f"select version_num from {VERSIONS}")) == "0007_failed"
    engine.dispose()


@pytest.mark.parametrize("url", ["mariadb"], indirect=True)
def test_what_the_reconciler_asks_of_airflows_tables_is_sql_of_mysql_too(url: str, tmp_path: Path) -> None:
    """Airflow does not support MariaDB; MySQL's dialect of SQLAlchemy is what is tried. On PostgreSQL and SQLite a whole Airflow runs."""
    in_airflow(url, tmp_path, "-m", "airflow", "db", "migrate")
    answers = in_airflow(url, tmp_path, "-c", _QUERIES)
    assert answers.count("answer ") == 9
    assert set(metadata.tables) <= set(inspect(create_engine(url)).get_table_names())
