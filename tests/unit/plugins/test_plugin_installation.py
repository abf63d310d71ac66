"""Plugins are installed by uv and by pip, whole or not at all, beside their other versions, and without what all of them share."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from airflow_provider_connect.errors import AlreadyExistsException, BadRequestException, ConnectException, NotFoundException
from airflow_provider_connect.runtime.model.plugin_kinds import Declarations
from airflow_provider_connect.runtime.plugins.catalog.location_reader import read_location
from airflow_provider_connect.runtime.plugins.catalog.package_installer import BRINGING, PackageInstaller, Tool, shared_distributions
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.runtime.plugins.catalog.plugin_installation import install, remove
from airflow_provider_connect.runtime.plugins.loading.plugin_path import SHARED, Location
from tests.unit.plugins.locations import build, source

ENTRY = "source:org.example.EchoSourceConnector = echo:EchoSource"
NEEDS = ("airflow-provider-connect>=0.0.1", "pyarrow", "greeting")


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where both tools find distributions, and the only location."""
    path = tmp_path / "wheels"
    path.mkdir()
    for name in ("PIP_NO_INDEX", "UV_NO_INDEX", "UV_OFFLINE"):
        monkeypatch.setenv(name, "1")
    for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS"):
        monkeypatch.setenv(name, str(path))
    monkeypatch.setenv("UV_NO_CACHE", "1")
    return path


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    """A directory of ``plugin.path``."""
    path = tmp_path / "plugins"
    path.mkdir()
    return path


def echo(folder: Path, version: str, **more: tuple[str, ...]) -> Path:
    """The plugin in a version that returns which greeting it found."""
    text = "import greeting\n" + source(body="    def word(self):\n        return greeting.WORD\n")
    build(folder, "greeting", version, {"greeting.py": f"WORD = 'in {version}'\n"})
    return build(folder, "echo", version, {"echo.py": text}, ENTRY, needs=more.get("needs", (*NEEDS[:2], f"greeting=={version}")))


def pip_or_uv(tool: str) -> PackageInstaller:
    return PackageInstaller.of(Tool(tool))


def test_versions_stand_side_by_side_with_dependencies_of_their_own(wheels: Path, plugins: Path) -> None:
    echo(wheels, "1.0")
    made = install("echo==1.0", plugins, pip_or_uv("pip"))
    assert [plugin.class_name for plugin in made.plugins] == ["org.example.EchoSourceConnector"]
    install(str(echo(wheels, "2.0rc1")), plugins, pip_or_uv("uv"))
    assert sorted(path.name for path in plugins.iterdir()) == ["echo-1.0", "echo-2.0rc1"]
    for version in ("1.0", "2.0rc1"):
        there = sorted(path.name for path in (plugins / f"echo-{version}").glob("*.dist-info"))
        assert there == [f"echo-{version}.dist-info", f"greeting-{version}.dist-info"], "nothing that is shared"
    assert not [path for path in plugins.rglob("*") if path.is_symlink()]
    found = PluginCatalog([str(plugins)])
    assert found.broken() == []
    assert [plugin.load()().word() for plugin in found.named("EchoSource")] == ["in 1.0", "in 2.0rc1"]
    before = (plugins / "echo-1.0").stat()
    with pytest.raises(AlreadyExistsException, match=r"echo-1\.0 already exists: remove it first"):
        install("echo==1.0", plugins, pip_or_uv("uv"))
    assert (plugins / "echo-1.0").stat().st_ino == before.st_ino
    assert len(list(plugins.iterdir())) == 2
    assert before.st_mode & 0o055, "others may read it"


def test_what_cannot_be_used_is_not_installed(wheels: Path, plugins: Path, tmp_path: Path) -> None:
    uv = pip_or_uv("uv")
    echo(wheels, "1.0", needs=("airflow-provider-connect>=99",))
    refused = {
        "echo": "uv ended with exit code",
        "nobody": "uv ended with exit code",
        str(build(wheels, "outside", "1.0", {"outside.py": ""}, "source:Outside = os:system")): "names module os, which is not in this",
        str(build(wheels, "plain", "1.0", {"plain.py": ""})): "it declares no plugins",
        str(build(wheels, "wrong", "1.0", {"wrong.py": ""}, "sauce:Wrong = wrong:Wrong")): "is not of the form",
        str(build(wheels, "climbing", "1.0", {"../../evil.py": ""}, ENTRY)): r"its member \.\./\.\./evil\.py leads out of it",
        str(build(wheels, "absolute", "1.0", {f"{tmp_path}/evil.py": ""}, ENTRY)): "leads out of it",
        str(build(wheels, "data", "1.0", {"data-1.0.data/data/../../../evil.py": ""}, ENTRY)): "leads out of it",
    }
    for wanted, message in refused.items():
        with pytest.raises(ConnectException, match=message):
            install(wanted, plugins, uv)
    for wanted in ("no such thing!", "../echo", str(wheels / "bad.whl"), str(tmp_path / "missing-1.0-py3-none-any.whl"), "pyarrow", "-r x"):
        with pytest.raises(BadRequestException):
            install(wanted, plugins, uv)
    with pytest.raises(NotFoundException, match="create it, and add it to the worker setting"):
        install("echo", tmp_path / "missing", uv)
    assert list(plugins.iterdir()) == []
    assert not list(tmp_path.rglob("evil.py"))


def test_one_of_several_versions_is_removed_by_name(wheels: Path, plugins: Path) -> None:
    for version in ("1.0", "1.1", "2.0"):
        install(str(echo(wheels, version)), plugins, pip_or_uv("uv"))
    (plugins / "echo-extras-9.0").mkdir()
    (plugins / ".removing-killed").mkdir()
    os.utime(plugins / ".removing-killed", (0, 0))
    with pytest.raises(BadRequestException, match=r"several versions of echo, 1\.0, 1\.1, 2\.0: name one, such as echo==1\.0"):
        remove("echo", plugins)
    with pytest.raises(NotFoundException, match=r"no location of echo==3; of echo there are: echo-1\.0, echo-1\.1, echo-2\.0"):
        remove("echo==3", plugins)
    for wanted in ("echo==1/../../x", "../echo", "echo==1.0/.."):
        with pytest.raises(BadRequestException):
            remove(wanted, plugins)
    found = PluginCatalog([str(plugins)], now=iter(range(0, 1000, 10)).__next__)
    assert len(found.named("EchoSource")) == 3
    assert remove("Echo==2.0", plugins) == str(plugins / "echo-2.0")
    assert remove("echo<1.1", plugins) == str(plugins / "echo-1.0")
    assert [plugin.version for plugin in found.named("EchoSource")] == ["1.1"]
    assert remove("echo", plugins) == str(plugins / "echo-1.1")
    assert [path.name for path in plugins.iterdir()] == ["echo-extras-9.0"]


def test_pip_is_taken_where_it_is_configured_and_uv_is_not(tmp_path: Path) -> None:
    nothing = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "PIP_CONFIG_FILE": "/dev/null"}
    assert PackageInstaller.of(None, nothing | {"PIP_NO_INDEX": "1"}).tool is Tool.PIP
    assert PackageInstaller.of(None, nothing | {"PIP_NO_INDEX": "1", "UV_OFFLINE": "1"}).tool is Tool.UV


def test_what_is_shared_is_known_by_its_distribution() -> None:
    assert BRINGING.keys() == SHARED
    assert {"airflow-provider-connect", "pyarrow", "confluent-kafka"} <= shared_distributions().keys()


def test_many_read_while_locations_come_and_go(wheels: Path, plugins: Path) -> None:
    """Every reader sees a version whole or not at all, and the others always."""
    install(str(echo(wheels, "1.0")), plugins, pip_or_uv("uv"))
    install(str(echo(wheels, "2.0")), plugins, pip_or_uv("uv"))
    (plugins / "echo-2.0").rename(wheels / "echo-2.0")
    clock = iter(range(10**9))
    found = PluginCatalog([str(plugins)], now=clock.__next__)
    over = threading.Event()
    seen: set[tuple[str, ...]] = set()
    wrong: list[object] = []

    def read() -> None:
        try:
            while not over.is_set():
                versions = tuple(plugin.version for plugin in found.named("EchoSource"))
                seen.add(versions)
                wrong.extend(found.broken())
        except Exception as error:  # (reported below: no caller sees an exception in a thread)
            wrong.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        (wheels / "echo-2.0").rename(plugins / "echo-2.0")
        assert found.find_connector("EchoSource").version in ("1.0", "2.0")
        (plugins / "echo-2.0").rename(wheels / "echo-2.0")
    over.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert seen <= {("1.0",), ("1.0", "2.0")}


@pytest.mark.parametrize(("comes_back", "versions"), [(False, []), (True, ["1.0"])])
def test_a_location_that_goes_away_while_it_is_read_is_not_broken(
    wheels: Path, plugins: Path, monkeypatch: pytest.MonkeyPatch, comes_back: bool, versions: list[str]
) -> None:
    install(str(echo(wheels, "1.0")), plugins, pip_or_uv("uv"))
    moves = [lambda: (plugins / "echo-1.0").rename(wheels / "echo-1.0"), lambda: (wheels / "echo-1.0").rename(plugins / "echo-1.0")]

    def read(location: Location) -> Declarations:
        if moves:
            moves.pop(0)()
        found = read_location(location)
        if comes_back and moves:
            moves.pop(0)()
        moves.clear()
        return found

    monkeypatch.setattr("airflow_provider_connect.runtime.plugins.catalog.location_reader.read_location", read)
    found = PluginCatalog([str(plugins)], now=lambda: 0.0)
    assert [plugin.version for plugin in found.named("EchoSource")] == versions
    assert found.broken() == []
