"""Scenes of one connector each, on the broker that all tests share."""

from pathlib import Path

import pytest

from tests.conftest import WorkerSettings
from tests.integration.worker import plugins
from tests.integration.worker import words as word_plugins
from tests.integration.worker.scene import PLAIN, Scene


@pytest.fixture
def scene(tmp_path: Path, worker_settings: WorkerSettings, unique: str, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A worker group with text converters and the test plugins installed."""
    plugins.install(tmp_path / "plugins")
    monkeypatch.syspath_prepend(str(tmp_path / "plugins"))
    return Scene(worker_settings() | PLAIN, f"c-{unique}", tmp_path)


@pytest.fixture
def words(tmp_path: Path, scene: Scene) -> Scene:
    """The scene with versions 1.5 and 2.1 of the word connector in ``tmp_path / "versions"``, its ``plugin.path``."""
    word_plugins.install(tmp_path / "versions", "1.5", "good day")
    word_plugins.install(tmp_path / "versions", "2.1", "hello")
    scene.properties["plugin.path"] = str(tmp_path / "versions")
    return scene
