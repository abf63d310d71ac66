"""What of the installed plugins travels to executors."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.spark.code_archives import GROUP, plugin_archives


def install(folder: Path, name: str, entries: str) -> None:
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[console_scripts]\nrun = x:y\n[{GROUP}]\n{entries}")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


def test_without_plugins_there_is_nothing_to_send(tmp_path: Path) -> None:
    assert plugin_archives(tmp_path) == []


def test_plugin_is_found_where_only_its_zip_is(site: Path, tmp_path: Path) -> None:
    install(site, "connect_a", "sink:a.SinkConnector = connect_pack.inner:SinkConnector\n")
    install(site, "connect_b", "source:b.SourceConnector = connect_single:SourceConnector\n")
    (site / "connect_pack" / "__pycache__").mkdir(parents=True)
    (site / "connect_pack" / "__init__.py").touch()
    (site / "connect_pack" / "__pycache__" / "old.pyc").touch()
    (site / "connect_pack" / "words.txt").write_text("data\n")
    (site / "connect_pack" / "inner.py").write_text("class SinkConnector: ...\n")
    (site / "connect_single.py").write_text("class SourceConnector: ...\n")
    archives = plugin_archives(tmp_path / "cache")
    assert [archive.name for archive in archives] == ["connect_a.zip", "connect_b.zip"]
    assert "connect_pack/words.txt" in zipfile.ZipFile(archives[0]).namelist()
    assert not [name for name in zipfile.ZipFile(archives[0]).namelist() if "__pycache__" in name]
    code = (
        f"import sys; sys.path[:0] = {list(map(str, archives))!r}\n"
        f"from importlib.metadata import entry_points\n"
        f"for entry in sorted(entry_points(group={GROUP!r})): print(entry.name, entry.dist.version, entry.load().__module__)\n"
    )
    reported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert reported.stdout.splitlines() == ["sink:a.SinkConnector 1.0 connect_pack.inner", "source:b.SourceConnector 1.0 connect_single"]


def test_archive_is_made_anew_when_a_file_changes(site: Path, tmp_path: Path) -> None:
    install(site, "connect_c", "sink:c.SinkConnector = connect_c:SinkConnector\n")
    (site / "connect_c.py").write_text("a = 1\n")
    (first,) = plugin_archives(tmp_path / "cache")
    assert plugin_archives(tmp_path / "cache") == [first]
    (site / "connect_c.py").write_text("a = 12\n")
    (second,) = plugin_archives(tmp_path / "cache")
    assert second != first
    assert zipfile.ZipFile(second).read("connect_c.py") == b"a = 12\n"


def test_compiled_code_stays_at_home(site: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    install(site, "connect_d", "sink:d.SinkConnector = connect_d:SinkConnector\n")
    (site / "connect_d").mkdir()
    (site / "connect_d" / "__init__.py").touch()
    (site / "connect_d" / f"fast{EXTENSION_SUFFIXES[0]}").touch()
    assert plugin_archives(tmp_path / "cache") == []
    assert "Plugins of connect_d contain compiled code" in caplog.text


def test_plugin_that_cannot_be_found_is_left_out(site: Path, tmp_path: Path) -> None:
    install(site, "connect_e", "sink:e.SinkConnector = no_such_module_at_all:SinkConnector\n")
    assert plugin_archives(tmp_path / "cache") == []
