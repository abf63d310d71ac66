"""A connector whose dependencies hold compiled code, in as many versions as a test likes, and a NumPy of a location's own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from markupsafe import _speedups

from tests.unit.plugins.locations import tree

EXTENSION = Path(_speedups.__file__)
CONNECTOR = """\
import fast
import fast._speedups
import numpy
from airflow_provider_connect.sdk import Batch, ConfigDef, ConfigKey, SourceConnector, SourceTask, pa


class FastTask(SourceTask):
    def start(self, config):
        self.config, self.partition = config, {"all": 1}
        self.is_done = bool(self.context.offset(self.partition))

    def poll(self):
        if self.is_done:
            return None
        self.is_done = True
        words = pa.array([fast.WORD, fast._speedups.__file__, numpy.__file__, str(pa.array(numpy.arange(3)))])
        return Batch.of(self.config["topic"], value=words, source_partition=self.partition, source_offset={"done": 1})

    def stop(self):
        pass


class FastSource(SourceConnector):
    task_class = FastTask
    config_def = ConfigDef(ConfigKey("topic"))

    def task_configs(self, max_tasks):
        return [self.config]
"""


def install(plugin_path: Path, version: str) -> Path:
    """The connector, and the version of ``fast`` that it needs; returns the compiled module."""
    location = tree(plugin_path / version, "connector", version, {"connector.py": CONNECTOR}, "source:FastSource = connector:FastSource")
    tree(location, "fast", version, {"fast/__init__.py": f"WORD = 'fast {version}'\n"})
    return Path(shutil.copy(EXTENSION, location / "fast" / EXTENSION.name))


def bring_numpy(location: Path) -> Path:
    """A NumPy of the location's own, which names another version as its own; returns its first module."""
    import numpy

    installed = Path(numpy.__file__).parent
    for folder in (installed, installed.with_name("numpy.libs")):
        if folder.exists():
            shutil.copytree(folder, location / folder.name, copy_function=link, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    tree(location, "numpy", "0.0.1", {})
    return location / "numpy" / "__init__.py"


def link(source: str, target: str) -> None:
    """Without a copy where that is possible."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
