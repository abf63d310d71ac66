"""A crowd before two API servers, and the oracle's verdict afterwards."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import create_engine

from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from tests.e2e.control.agreement import Oracle
from tests.e2e.control.api_servers import api_servers
from tests.e2e.control.crowd import Crowd


def changed_by_a_crowd(folder: Path, worker: Mapping[str, str], postgres: PostgresServer, *, seconds: float, seed: int) -> str:
    """What was done, in a line. Raises AssertionError if an update was lost, a server failed, or topics, mirror and REST do not agree."""
    started = time.monotonic()
    with api_servers(folder, worker, postgres) as (servers, database):
        crowd = Crowd(servers, "crowd", seed)
        crowd.create()
        ready = time.monotonic()
        crowd.change(seconds)
        engine = create_engine(database)
        try:
            agreed = Oracle(WorkerSettings.of(worker), engine, servers, has_dags=False).wait_for_agreement()
        finally:
            engine.dispose()
        lost = crowd.lost_updates()
        assert not lost, f"{crowd}: {'; '.join(lost[:20])}"
        return f"{crowd}; agreed {agreed:.1f} s later; {ready - started:.1f} s to start, {time.monotonic() - started:.1f} s in all"
