"""The clients of package registries, as tests run them: an outage of half a minute fails no fetch."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from airflow_provider_connect.dev import set_up
from airflow_provider_connect.runtime.spark.jar_cache import PAUSES
from tests.waiting import HANG_SECONDS

APT = ("apt-get", "-o", "Acquire::Retries=5")
_VARIABLES = {**set_up.RETRIES, "npm_config_fetch_retries": "4", "GOFLAGS": "-p=1"}
_WITHOUT_RETRIES = ("go",)


def fetch(
    command: Sequence[str | Path], folder: Path | None = None, environment: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    """What became of the command. Programs without retries of their own are run again after pauses."""
    for pause in PAUSES if command[0] in _WITHOUT_RETRIES else ():
        if (done := _run(command, folder, environment)).returncode == 0:
            return done
        time.sleep(pause)
    return _run(command, folder, environment)


def _run(command: Sequence[str | Path], folder: Path | None, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    variables = {**_VARIABLES, **environment}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=3 * HANG_SECONDS)
