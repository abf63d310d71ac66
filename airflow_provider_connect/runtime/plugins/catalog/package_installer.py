"""Uses pip or uv to fill a directory with a distribution and its dependencies, without the distributions that this package shares with
plugins.

Does not name a package index, because both tools use their own configuration.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name

from airflow_provider_connect import __version__
from airflow_provider_connect.errors import BadRequestException, ConnectException

_OURS: Final = "airflow-provider-connect"
BRINGING: Final = {
    "airflow_provider_connect": (_OURS,),
    "pyarrow": ("pyarrow",),
    "pyspark": ("pyspark", "pyspark-client", "pyspark-connect"),
    "py4j": ("py4j",),
    "confluent_kafka": ("confluent-kafka",),
}
"""The distributions of each module in ``plugin_path.SHARED``."""
_WHEEL: Final = "Wheel-Version: 1.0\nGenerator: airflow-provider-connect\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


class Tool(StrEnum):
    """The program that resolves, downloads and unpacks."""

    UV = "uv"
    PIP = "pip"


Run = Callable[[Sequence[str]], int]
"""Runs a command line and returns its exit code. The user sees its output."""


def run_printing(command: Sequence[str]) -> int:
    """Run the command with its output on standard error."""
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2, check=False).returncode


@dataclass(frozen=True, slots=True)
class PackageInstaller:
    """``command`` starts the tool. ``run`` runs it."""

    tool: Tool
    command: Sequence[str]
    run: Run = run_printing

    @classmethod
    def of(cls, tool: Tool | None, environ: Mapping[str, str] = os.environ) -> PackageInstaller:
        """The installer for ``tool``. None: uv if it is installed, but pip if only pip is configured, because uv does not read pip's
        configuration.

        Raises BadRequestException if the tool is not installed.
        """
        found = {Tool.UV: _uv(), Tool.PIP: [sys.executable, "-m", "pip"] if importlib.util.find_spec("pip") else None}
        pip = found[Tool.PIP]
        if tool is None:
            tool = Tool.PIP if pip and (found[Tool.UV] is None or _is_configured(pip, environ)) else Tool.UV
        command = found[tool]
        if command is None:
            raise BadRequestException(f"{tool} is not installed for {sys.executable}: install it, or take the other one of pip and uv")
        return cls(tool, command)

    def fill(self, location: Path, asked: str, scratch: Path) -> None:
        """Install ``asked``, a requirement or the path of a wheel, into the empty directory ``location``. ``scratch`` is a directory for
        temporary files. Raises ConnectException if the tool fails. The tool has then printed the reason.

        A requirement of a shared distribution is checked against the installed version. A stand-in satisfies the requirement, and is then
        removed.
        """
        stand_ins = _stand_ins(scratch)
        code = self.run([*self._install_command(), "--target", str(location), asked, *_requirements(stand_ins)])
        if code:
            raise ConnectException(f"{asked} could not be installed: {self.tool} ended with exit code {code}, and has printed the reason")
        for found in list(importlib.metadata.distributions(path=[str(location)])):
            if canonicalize_name(found.metadata["Name"] or "") in stand_ins:
                shutil.rmtree(str(found._path))  # type: ignore[attr-defined]  # there is no public attribute of its path

    def _install_command(self) -> list[str]:
        if self.tool is Tool.PIP:
            return [*self.command, "install", "--disable-pip-version-check", "--no-input"]
        return [*self.command, "pip", "install", "--python", sys.executable, "--link-mode", "copy", "--compile-bytecode"]


def shared_distributions() -> dict[str, str]:
    """The installed versions of the distributions that plugins share with this package, by canonical name."""
    found = {_OURS: __version__}
    for name in (name for names in BRINGING.values() for name in names if name != _OURS):
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _uv() -> list[str] | None:
    if importlib.util.find_spec("uv"):
        return [sys.executable, "-m", "uv"]
    found = shutil.which("uv")
    return [found] if found else None


def _is_configured(pip: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether pip has a configuration, such as an index or a proxy, but uv has none."""
    if any(name.startswith("UV_") for name in environ):
        return False
    listed = subprocess.run(
        [*pip, "config", "list"], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=dict(environ), check=False
    )
    return bool(listed.stdout.strip())


def _requirements(stand_ins: Mapping[str, Path]) -> list[str]:
    return [f"{name} @ {path.as_uri()}" for name, path in stand_ins.items()]


def _stand_ins(directory: Path) -> dict[str, Path]:
    """A wheel without modules for each shared distribution, by the distribution's name."""
    wheels = {}
    for name, version in shared_distributions().items():
        stem = f"{name.replace('-', '_')}-{version}"
        wheels[name] = directory / f"{stem}-py3-none-any.whl"
        with zipfile.ZipFile(wheels[name], "w") as wheel:
            wheel.writestr(f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            wheel.writestr(f"{stem}.dist-info/WHEEL", _WHEEL)
            wheel.writestr(f"{stem}.dist-info/RECORD", "".join(f"{stem}.dist-info/{file},,\n" for file in ("METADATA", "WHEEL", "RECORD")))
    return wheels
