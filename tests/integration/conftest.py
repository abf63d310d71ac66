"""What tests on a real broker may ask for besides."""

from collections.abc import Callable

import pytest

from airflow_provider_connect.settings import WorkerSettings
from airflow_provider_connect.stores.topic_admin import TopicAdmin


@pytest.fixture
def settings(worker_settings: Callable[..., dict[str, str]]) -> WorkerSettings:
    """Settings of this test alone; the internal topics exist."""
    made = WorkerSettings.of(worker_settings())
    TopicAdmin(made).ensure_internal_topics()
    return made
