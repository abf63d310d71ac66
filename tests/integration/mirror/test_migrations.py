"""Airflow's own command makes the tables and takes them away, on each kind of database, as the code describes them."""

import os
import subprocess
import sys
from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, text

from airflow_provider_connect.mirror.tables import metadata

VERSIONS = "alembic_version_connect"

_SCRIPT = """
import sys
from airflow.utils.session import create_session
from airflow_provider_connect.mirror.db_manager import ConnectDBManager
from sqlalchemy import inspect

for to in sys.argv[1:]:
    with create_session(scoped=False) as session:
        manager = ConnectDBManager(session)
        manager.upgradedb() if to == "newest" else manager.downgrade(to)
        print("tables", *(name for name in inspect(session.connection()).get_table_names() if name.startswith("connect_")))
"""


def migrated(url: str, home: Path, *steps: str) -> list[set[str]]:
    """Our tables after each of the steps, which are what `airflow db migrate` does for each db-manager, without Airflow's own tables."""
    airflow = {"AIRFLOW_HOME": str(home), "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    command = [sys.executable, "-c", _SCRIPT, *steps]
    done = subprocess.run(command, env=os.environ | airflow, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [set(line.split()[1:]) for line in done.stdout.splitlines() if line.startswith("tables")]


def test_upgrade_and_downgrade(url: str, tmp_path: Path) -> None:
    everything, first = set(metadata.tables), {"connect_agreement", "connect_lease"}
    assert migrated(url, tmp_path, "newest", "0001_connect", "newest") == [everything, first, everything]
    engine = create_engine(url)
    with engine.connect() as connection:
        ours = {"include_name": lambda name, kind, _: kind != "table" or name in metadata.tables, "compare_type": True}
        context = MigrationContext.configure(connection, opts={**ours, "version_table": VERSIONS})
        assert compare_metadata(context, metadata) == []
        assert connection.scalar(text(f"select version_num from {VERSIONS}")) == "0002_mirror"
    engine.dispose()
