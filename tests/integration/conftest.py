"""What tests on a real broker may ask for besides."""

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from tests.integration.installation import built_wheel


@pytest.fixture
def settings(worker_settings: Callable[..., dict[str, str]]) -> WorkerSettings:
    """Settings of this test alone; the internal topics exist."""
    made = WorkerSettings.of(worker_settings())
    TopicAdmin(made).ensure_internal_topics()
    return made


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This package's."""
    return built_wheel(tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel"))
