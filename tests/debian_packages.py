"""Servers from Debian's packages, unpacked into the cache. Needs no root."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from airflow_provider_connect.runtime.spark.cache import made_once
from tests.package_clients import APT, fetch
from tests.waiting import HANG_SECONDS


class MissingServerError(Exception):
    """The server is not installed here, and cannot be had."""


def unpacked(folder: Path, packages: Sequence[str]) -> Path:
    """The files of these packages below ``folder``, as below ``/``. The first one is needed; of the others those that the release has.
    Raises MissingServerError."""
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise MissingServerError(f"{packages[0]} is not on PATH, and there is no apt-get to download it with")
    return made_once(folder, partial(_unpack, packages))


def _unpack(packages: Sequence[str], folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="packages-") as name:
        for package in packages:
            done = fetch([*APT, "download", package], Path(name), {**os.environ, "LC_ALL": "C"})
            if "Failed to fetch" in done.stderr:  # a package that the release does not have is another error
                raise MissingServerError(f"Debian's package {package} cannot be downloaded: {done.stderr}")
        found = sorted(Path(name).glob("*.deb"))
        if not any(file.name.startswith(f"{packages[0]}_") for file in found):
            raise MissingServerError(f"{packages[0]} is not on PATH, and Debian's package cannot be downloaded")
        for file in found:
            subprocess.run(["dpkg", "-x", file, folder], check=True, timeout=HANG_SECONDS)
