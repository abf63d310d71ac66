"""Scenes of one connector each, on the broker that all tests share; and some sinks that are left alone from the beginning to the end."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_provider_connect.dev.kafka_server import KafkaServer
from tests.conftest import CACHE, WorkerSettings, worker_properties
from tests.integration.worker import plugins
from tests.integration.worker import words as word_plugins
from tests.integration.worker.scene import PLAIN, Scene, make_topic, send

FORGETFUL = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}


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


@dataclass(frozen=True, slots=True)
class QuietSinks:
    """Sinks of one topic, by ``auto.offset.reset`` and guarantee, that have run once: those from the beginning have delivered 100 lines."""

    bootstrap: str
    topic: str
    scenes: dict[tuple[str, str], Scene]


@pytest.fixture(scope="package", autouse=True)
def quiet_sinks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuietSinks | None]:
    """Made before the first test here, so that time passes while the others run; only if anybody is going to ask."""
    if not any(item.path.name == "test_weeks_of_silence.py" for item in request.session.items):
        yield None
        return
    folder = tmp_path_factory.mktemp("quiet")
    with KafkaServer(folder / "kafka", CACHE, FORGETFUL) as server:
        yield _quiet_sinks(server.bootstrap_servers, folder)


def _quiet_sinks(bootstrap: str, folder: Path) -> QuietSinks:
    topic = make_topic(bootstrap, "quiet", 2)
    send(bootstrap, topic, [f"line {number}" for number in range(100)], partitions=2)
    scenes = {}
    for guarantee in ("exactly_once", "at_least_once"):
        for reset in ("earliest", "latest"):
            scene = Scene(worker_properties(bootstrap, "quiet") | PLAIN, f"{guarantee}-{reset}", folder)
            more = {"delivery.guarantee": guarantee, "consumer.override.auto.offset.reset": reset}
            scene.run(scene.file_sink(topic, **more))
            assert len(scene.lines()) == (100 if reset == "earliest" else 0)
            assert scene.readiness().state == "no-work"
            scenes[reset, guarantee] = scene
    return QuietSinks(bootstrap, topic, scenes)
