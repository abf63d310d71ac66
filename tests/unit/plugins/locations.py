"""Locations of a ``plugin.path`` for tests: trees as ``pip install --target`` leaves them, wheels, modules."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

GROUP = "airflow_provider_connect.plugins"

SOURCE = """\
from airflow_provider_connect.sdk import Config, ConfigDef, ConfigKey, SourceConnector, SourceTask


class Task(SourceTask):
    def poll(self):
        return None


class {name}(SourceConnector):
    task_class = Task
    config_def = ConfigDef(ConfigKey("topic"))
{body}"""


def source(name: str = "EchoSource", body: str = "") -> str:
    """A module with one source connector. ``body`` is more of its class, indented."""
    return SOURCE.format(name=name, body=body)


def tree(path: Path, name: str, version: str, files: Mapping[str, str], *entries: str) -> Path:
    """The distribution ``name`` in the location ``path``; more of them may follow there."""
    for file, text in files.items():
        (path / file).parent.mkdir(parents=True, exist_ok=True)
        (path / file).write_text(text)
    metadata = path / f"{name}-{version}.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nVersion: not this one\n")
    if entries:
        (metadata / "entry_points.txt").write_text("\n".join(["[console_scripts]", "x = y:z", f"[{GROUP}]", *entries, ""]))
    return path


def wheel(path: Path, name: str, version: str, files: Mapping[str, str], *entries: str) -> Path:
    """The same as a wheel in the directory ``path``."""
    file = path / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for member, text in files.items():
            archive.writestr(member, text)
        archive.writestr(f"{name}-{version}.dist-info/METADATA", f"Name: {name}\nVersion: {version}\n")
        archive.writestr(f"{name}-{version}.dist-info/entry_points.txt", "\n".join([f"[{GROUP}]", *entries, ""]))
    return file


def build(folder: Path, name: str, version: str, files: Mapping[str, str], *entries: str, needs: tuple[str, ...] = ()) -> Path:
    """A wheel as a build tool makes it."""
    metadata = f"{name}-{version}.dist-info"
    members = {
        **files,
        f"{metadata}/METADATA": "\n".join(
            ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {each}" for each in needs), ""]
        ),
        f"{metadata}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{metadata}/entry_points.txt": "\n".join([f"[{GROUP}]", *entries, ""]),
    }
    file = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as wheel:
        for member, text in members.items():
            wheel.writestr(member, text)
        wheel.writestr(f"{metadata}/RECORD", "".join(f"{member},,\n" for member in (*members, f"{metadata}/RECORD")))
    return file
