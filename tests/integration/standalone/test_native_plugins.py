"""Two versions of a connector whose dependencies hold compiled code: each in a process of its own, first on the path of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from airflow_provider_connect.runtime.stores.offset_file import SETTING
from tests.integration.standalone.agent import STRING, properties, without_airflow
from tests.integration.standalone.test_one_run import Runs, shown
from tests.integration.worker.environment import make_topic, values_of
from tests.native_plugins import bring_numpy, install
from tests.waiting import HANG_SECONDS


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
        output, _ = run.communicate(timeout=HANG_SECONDS)
        assert run.returncode == 0, output
    for version, module in compiled.items():
        word, file, of_numpy, _ = values_of(worker["bootstrap.servers"], f"{unique}-{version}")
        assert (word, file) == (f"fast {version}", str(module))
        assert (of_numpy == str(numpy)) == (version == "2.0")


def test_each_preview_has_its_own_compiled_code(tmp_path: Path) -> None:
    compiled = {version: install(tmp_path / "plugins", version) for version in ("1.0", "2.0")}
    numpy = bring_numpy(tmp_path / "plugins" / "2.0")
    runs = Runs(tmp_path, {SETTING: str(tmp_path / "offsets"), "plugin.path": str(tmp_path / "plugins")})
    for version, module in compiled.items():
        config = {"name": "c", "connector.class": "FastSource", "connector.plugin.version": version, "topic": "t"}
        code, output = runs.run("--preview", **config)
        assert code == 0, output
        word, file, of_numpy, _ = shown(output)
        assert (word, file, of_numpy == str(numpy)) == (f"fast {version}", str(module), version == "2.0")
