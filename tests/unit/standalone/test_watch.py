"""Which changes ``connect-run --watch`` sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_connect.standalone.watch import WatchedFiles
from tests.unit.plugins.locations import source, tree


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A connector's properties, whose class is in a tree, and the worker's."""
    connector, worker = tmp_path / "c.properties", tmp_path / "w.properties"
    tree(tmp_path / "plugins" / "echo-1", "echo", "1", {"echo/main.py": source(), "echo/more.py": ""}, "source:Echo = echo.main:EchoSource")
    (tmp_path / "plugins" / "single.py").write_text(source("SingleSource"))
    connector.write_text("name=c\nconnector.class=Echo\ntopic=t\n")
    worker.write_text(f"plugin.path={tmp_path / 'plugins'}\n")
    return connector, worker


def test_code_and_properties_are_watched(files: tuple[Path, Path], tmp_path: Path) -> None:
    watched = WatchedFiles.of(*files)
    states = [watched.state()]
    assert watched.state() == states[0]
    for path in (*files, *(tmp_path / "plugins" / name for name in ("echo-1/echo/main.py", "echo-1/echo/more.py", "single.py", "new.py"))):
        before = path.stat().st_size if path.exists() else 0
        path.write_text("#" * (before + 1))
        states.append(watched.state())
    fresh = tmp_path / "fresh"
    fresh.write_text((tmp_path / "plugins" / "single.py").read_text())
    fresh.replace(tmp_path / "plugins" / "single.py")  # as editors save
    states.append(watched.state())
    (tmp_path / "plugins" / "echo-1" / "echo" / "more.py").unlink()
    states.append(watched.state())
    files[0].unlink()
    states.append(watched.state())
    assert len(set(states)) == 10


def test_what_runs_write_is_not_watched(files: tuple[Path, Path], tmp_path: Path) -> None:
    watched = WatchedFiles.of(*files)
    before = watched.state()
    for folder in ("plugins/echo-1/echo/__pycache__", "connect-data"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "written").write_text("by a run")
    assert watched.state() == before


def test_an_editable_plugin_is_watched(files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path / "src", "shop", "1", {"shop/__init__.py": "", "shop/main.py": source()}, "source:Shop = shop.main:EchoSource")
    monkeypatch.syspath_prepend(str(tmp_path / "src"))
    files[0].write_text("name=c\nconnector.class=Shop\ntopic=t\n")
    watched = WatchedFiles.of(*files)
    assert [location.path for location in watched.used] == [str(tmp_path / "src" / "shop")]
    before = watched.state()
    (tmp_path / "src" / "shop" / "main.py").write_text("")
    assert watched.state() != before


@pytest.mark.parametrize("text", ["nonsense", "name=c\n", ""])
def test_broken_properties_are_watched_until_they_are_whole(files: tuple[Path, Path], text: str) -> None:
    files[0].write_text(text)
    watched = WatchedFiles.of(*files)
    before = watched.state()
    files[0].write_text("name=c\nconnector.class=Echo\ntopic=t\n")
    assert watched.state() != before
    assert WatchedFiles.of(*files).used
