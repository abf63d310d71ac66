"""Environments of one connector each, on the broker that all tests share."""

from pathlib import Path

import pytest

from tests.conftest import WorkerSettings
from tests.integration.worker import plugins
from tests.integration.worker import words as word_plugins
from tests.integration.worker.environment import PLAIN, RunEnvironment


@pytest.fixture
def environment(tmp_path: Path, worker_settings: WorkerSettings, unique: str, monkeypatch: pytest.MonkeyPatch) -> RunEnvironment:
    """A worker group with text converters and the test plugins installed."""
    plugins.install(tmp_path / "plugins")
    monkeypatch.syspath_prepend(str(tmp_path / "plugins"))
    return RunEnvironment(worker_settings() | PLAIN, f"c-{unique}", tmp_path)


@pytest.fixture
def words(tmp_path: Path, environment: RunEnvironment) -> RunEnvironment:
    """The environment with versions 1.5 and 2.1 of the word connector in ``tmp_path / "versions"``, its ``plugin.path``."""
    word_plugins.install(tmp_path / "versions", "1.5", "good day")
    word_plugins.install(tmp_path / "versions", "2.1", "hello")
    environment.properties["plugin.path"] = str(tmp_path / "versions")
    return environment
