"""Two API servers over one database and one broker, changed through by many clients at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_provider_connect.dev.postgres_server import PostgresServer
from tests.conftest import worker_properties
from tests.e2e.control.two_servers import changed_by_a_crowd


@pytest.mark.soak
def test_no_update_is_lost_and_everything_agrees_in_the_end(bootstrap: str, postgres: PostgresServer, tmp_path: Path, unique: str) -> None:
    seed = int(os.environ.get("SEED", "1"))
    summary = changed_by_a_crowd(tmp_path, worker_properties(bootstrap, unique), postgres, seconds=10, seed=seed)
    print(summary)
