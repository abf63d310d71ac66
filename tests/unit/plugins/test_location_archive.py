"""Locations travel to another machine in every form, and are found there by what they declare."""

import zipfile
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.runtime.plugins.loading.plugin_path import unpacked_paths, write_archive
from tests.unit.plugins.locations import source, tree, wheel


def test_a_tree_a_wheel_and_a_module_are_found_where_the_archive_is_unpacked(tmp_path: Path) -> None:
    here = tmp_path / "here"
    entry = "source:org.example.EchoSourceConnector = echo:EchoSource"
    first = tree(here / "a" / "echo", "echo", "1.0", {"echo.py": source(), "pack/words.txt": "data"}, entry)
    (first / "__pycache__").mkdir()
    (first / "__pycache__" / "echo.cpython-311.pyc").touch()
    (tmp_path / "shared.py").write_text("SHARED = 1\n")
    (first / "linked.py").symlink_to(tmp_path / "shared.py")
    second = tree(here / "b" / "echo", "echo", "2.0", {"echo.py": source()}, entry)
    third = wheel(here, "wheeled", "3.0", {"wheeled.py": source()}, "source:Wheeled = wheeled:EchoSource")
    (here / "single.py").write_text('__version__ = "4.0"\n' + source("SingleSource"))
    locations = [first, second, third, here / "single.py"]
    write_archive(list(map(str, locations)), str(tmp_path / "sent.zip"))
    with zipfile.ZipFile(tmp_path / "sent.zip") as archive:
        assert "1/echo/echo.py" in archive.namelist()
        assert not [name for name in archive.namelist() if "__pycache__" in name]
        archive.extractall(tmp_path / "there")
    unpacked = unpacked_paths(str(tmp_path / "there"), list(map(str, locations)))
    found = PluginCatalog([str(Path(path).parent) for path in unpacked])
    assert found.broken() == []
    versions = {(plugin.class_name, plugin.version) for plugin in found.plugins() if plugin.location is not None}
    assert versions == {
        ("org.example.EchoSourceConnector", "1.0"),
        ("org.example.EchoSourceConnector", "2.0"),
        ("wheeled.EchoSource", "3.0"),
        ("single.SingleSource", "4.0"),
    }
    assert found.find_connector("EchoSourceConnector", "1.0").load().__name__ == "EchoSource"
    assert not (tmp_path / "there" / "0" / "echo" / "linked.py").is_symlink()


def test_a_location_that_has_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_archive([str(tmp_path / "gone.whl")], str(tmp_path / "sent.zip"))
    with pytest.raises(FileNotFoundError):
        write_archive([str(tmp_path / "gone")], str(tmp_path / "sent.zip"))
