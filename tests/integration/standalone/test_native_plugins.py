"""Two versions of a connector whose dependencies hold compiled code: each in a process of its own, first on the path of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from markupsafe import _speedups

from tests.integration.standalone.agent import STRING, properties, without_airflow
from tests.integration.worker.scene import make_topic, values_of
from tests.unit.isolation.locations import tree

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
    """A NumPy of the location's own, which says that it is another version; returns its first module."""
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


def test_each_run_has_its_own_compiled_code(worker_settings: Callable[..., dict[str, str]], tmp_path: Path, unique: str) -> None:
    worker = {**worker_settings(), "plugin.path": str(tmp_path / "plugins"), "key.converter": STRING, "value.converter": STRING}
    (tmp_path / "worker.properties").write_text(properties(worker))
    compiled = {version: install(tmp_path / "plugins", version) for version in ("1.0", "2.0")}
    numpy = bring_numpy(tmp_path / "plugins" / "2.0")
    runs = []
    for version in compiled:
        topic = make_topic(worker["bootstrap.servers"], f"{unique}-{version}")
        config = {"name": topic, "connector.class": "FastSource", "connector.plugin.version": version, "topic": topic}
        (tmp_path / f"{version}.properties").write_text(properties(config))
        command = [sys.executable, "-m", "airflow_provider_connect.standalone.one_run", str(tmp_path / f"{version}.properties")]
        command += ["--worker", str(tmp_path / "worker.properties")]
        runs.append(subprocess.Popen(command, env=without_airflow(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    for run in runs:
        output, _ = run.communicate(timeout=120)
        assert run.returncode == 0, output
    for version, module in compiled.items():
        word, file, of_numpy, _ = values_of(worker["bootstrap.servers"], f"{unique}-{version}")
        assert (word, file) == (f"fast {version}", str(module))
        assert (of_numpy == str(numpy)) == (version == "2.0")
