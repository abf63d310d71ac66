"""A location with compiled code in a Spark application: its own NumPy is there before anything of ours has loaded the environment's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.e2e.faults.environments import PLAIN
from tests.e2e.faults.runs import Runs
from tests.integration.worker.environment import make_topic, values_of
from tests.native_plugins import bring_numpy, install


def test_a_task_has_the_locations_own_compiled_code(worker_settings: Callable[..., dict[str, str]], tmp_path: Path, unique: str) -> None:
    settings = worker_settings() | PLAIN | {"plugin.path": str(tmp_path / "plugins")}
    install(tmp_path / "plugins", "2.0")
    compiled = install(tmp_path / "plugins", "1.0")
    numpy = bring_numpy(tmp_path / "plugins" / "1.0")
    make_topic(settings["bootstrap.servers"], unique)
    config = {"connector.class": "FastSource", "connector.plugin.version": "[1,2)", "topic": unique}
    result = Runs(tmp_path, unique, settings, config, "local[1]").until_done(tries=1)
    assert result.versions["task"] == "1.0"
    assert values_of(settings["bootstrap.servers"], unique)[:3] == ["fast 1.0", str(compiled), str(numpy)]
