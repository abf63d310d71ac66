"""The mirror's tables in memory."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, create_engine

from airflow_provider_connect.runtime.sql_mirror.tables import metadata


@pytest.fixture
def database() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    metadata.create_all(engine)
    with engine.connect() as connection, connection.begin():
        yield connection
    engine.dispose()
