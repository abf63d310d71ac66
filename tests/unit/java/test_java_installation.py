"""Java plugins are installed from archives and coordinates, whole or not at all; nothing leaves the folder or the limits."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from airflow_provider_connect.errors import AlreadyExistsException, BadRequestException, ConnectException, NotFoundException
from airflow_provider_connect.runtime.java.catalog import location as java_location
from airflow_provider_connect.runtime.java.installation import archive as plugin_archive
from airflow_provider_connect.runtime.java.installation.installation import SERVICES_JAR, install, java_locations, remove, scan_location
from airflow_provider_connect.runtime.model.plugin_kinds import Declared, PluginKind
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.runtime.plugins.catalog.plugin_installation import InstalledPlugins
from tests.unit.java.test_java_plugins import INVENTORY, jar

FOUND = [Declared(PluginKind.SOURCE, INVENTORY, INVENTORY, "2.0.1")]
MAVEN = "maven:org.example:inventory:2.0"


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    """A directory of ``plugin.path``."""
    path = tmp_path / "plugins"
    path.mkdir()
    return path


def scan(location: Path) -> Sequence[Declared]:
    return FOUND


def no_java(location: Path) -> Sequence[Declared]:
    raise ConnectException("there is no Java")


def fetch(coordinates: str, folder: Path) -> None:
    jar(folder / f"{coordinates.replace(':', '-')}.jar", {"source": [INVENTORY]}, "2.0")


def installed(
    wanted: str | Path, plugins: Path, *, by: Callable[[str, Path], None] = fetch, scan: Callable[[Path], Sequence[Declared]] = scan
) -> InstalledPlugins:
    return install(str(wanted), plugins, by, scan, lambda text: None)


def zipped(path: Path, members: dict[str, bytes], *links: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        for name in links:
            link = zipfile.ZipInfo(name)
            link.external_attr = 0o120777 << 16
            archive.writestr(link, "/etc/passwd")
    return path


def tarred(path: Path, members: dict[str, bytes], *odd: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o6777
            archive.addfile(member, io.BytesIO(content))
        for member in odd:
            archive.addfile(member)
    return path


def content(tmp_path: Path, *, declares: bool = True) -> bytes:
    return jar(tmp_path / "made.jar", {"source": [INVENTORY]} if declares else {}, "2.0").read_bytes()


def odd(name: str, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    return member


def test_an_archive_of_confluent_hub_becomes_a_location_of_its_name_and_version(plugins: Path, tmp_path: Path) -> None:
    manifest = json.dumps({"name": "kafka-connect-inventory", "version": "2.0.1", "owner": {"username": "x"}}).encode()
    members = {"x-kafka-2.0.1/manifest.json": manifest, "x-kafka-2.0.1/lib/inventory.jar": content(tmp_path), "x-kafka-2.0.1/doc/A.md": b""}
    made = installed(zipped(tmp_path / "any.zip", members), plugins)
    assert (made.path, [plugin.version for plugin in made.plugins]) == (str(plugins / "kafka-connect-inventory-2.0.1"), ["2.0.1"])
    assert [plugin.version for plugin in PluginCatalog([str(plugins)]).named(INVENTORY)] == ["2.0.1"]
    record = json.loads((Path(made.path) / "connect-plugins.json").read_text())
    assert [each["path"] for each in record["jars"]] == ["lib/inventory.jar"]
    assert len(record["jars"][0]["sha256"]) == 64
    before = (plugins / "kafka-connect-inventory-2.0.1").stat().st_ino
    with pytest.raises(AlreadyExistsException, match="already exists: remove it first"):
        installed(tmp_path / "any.zip", plugins)
    assert (plugins / "kafka-connect-inventory-2.0.1").stat().st_ino == before
    assert [path.name for path in plugins.iterdir()] == ["kafka-connect-inventory-2.0.1"]


def test_a_tar_and_a_jar_are_named_by_their_files_and_get_rights_of_ours(plugins: Path, tmp_path: Path) -> None:
    members = {"debezium-x/a.jar": content(tmp_path), "debezium-x/b.jar": content(tmp_path, declares=False)}
    made = installed(tarred(tmp_path / "inventory-2.0-plugin.tar.gz", members), plugins)
    assert made.path == str(plugins / "inventory-2.0")
    assert {os.stat(path).st_mode & 0o7022 for path in (plugins / "inventory-2.0").iterdir()} == {0}
    (tmp_path / "uber-1.0.jar").write_bytes(content(tmp_path))
    assert installed(tmp_path / "uber-1.0.jar", plugins).path == str(plugins / "uber-1.0")
    assert os.stat(plugins / "uber-1.0").st_mode & 0o055, "others may read it"


def test_what_an_archive_claims_is_not_believed(plugins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = {"p/a.jar": content(tmp_path)}
    refused = {
        zipped(tmp_path / "up-1.zip", {**good, "../../evil.jar": b""}): "its member .* leads out of it",
        zipped(tmp_path / "down-1.zip", {**good, "p/../../../evil.jar": b""}): "leads out of it",
        zipped(tmp_path / "windows-1.zip", {**good, "p\\..\\..\\evil.jar": b""}): "leads out of it",
        zipped(tmp_path / "absolute-1.zip", {**good, f"{tmp_path}/evil.jar": b""}): "leads out of it",
        zipped(tmp_path / "dot-1.zip", {**good, ".": b"x"}): "its member '.' has no name",
        zipped(tmp_path / "dots-1.zip", {"./.": b"x"}): "its member './.' has no name",
        tarred(tmp_path / "dot-1.tar.gz", {**good, ".": b"x"}): "its member '.' has no name",
        zipped(tmp_path / "linked-1.zip", good, "p/evil.jar"): "neither a file nor a folder",
        tarred(tmp_path / "soft-1.tar.gz", good, odd("p/evil.jar", tarfile.SYMTYPE)): "neither a file nor a folder",
        tarred(tmp_path / "hard-1.tar.gz", good, odd("p/evil.jar", tarfile.LNKTYPE)): "neither a file nor a folder",
        tarred(tmp_path / "pipe-1.tar.gz", good, odd("p/evil.jar", tarfile.FIFOTYPE)): "neither a file nor a folder",
        tarred(tmp_path / "device-1.tar.gz", good, odd("p/evil.jar", tarfile.CHRTYPE)): "neither a file nor a folder",
        tarred(tmp_path / "slip-1.tar.gz", {**good, "../evil.jar": b""}): "leads out of it",
        zipped(tmp_path / "python-1.zip", {"evil.py": b"", "a.jar": content(tmp_path)}): "Python modules next to them",
        zipped(tmp_path / "empty-1.zip", {"p/readme": b""}): "has no jars",
        zipped(tmp_path / "many-1.zip", {**good, **{f"p/{number}": b"" for number in range(20)}}): "more than 20 files",
        zipped(tmp_path / "bomb-1.zip", {**good, "p/zeros": bytes(3 << 20)}): "unpacks to more than 2 MiB",
        tarred(tmp_path / "bomb-1.tar.gz", {**good, "p/zeros": bytes(3 << 20)}): "unpacks to more than 2 MiB",
    }
    monkeypatch.setattr(plugin_archive, "MOST_FILES", 20)
    monkeypatch.setattr(plugin_archive, "MOST_BYTES", 2 << 20)
    for archive, reason in refused.items():
        with pytest.raises(ConnectException, match=reason):
            installed(archive, plugins)
    rubbish = tmp_path / "rubbish-1.zip"
    rubbish.write_bytes(b"no zip")
    for path in (rubbish, tmp_path / "missing-1.zip"):
        with pytest.raises(BadRequestException):
            installed(path, plugins)
    assert list(plugins.iterdir()) == []
    assert not list(tmp_path.rglob("evil.*"))


@pytest.mark.parametrize(("kind", "name"), [(tarfile.GNUTYPE_LONGNAME, "long-1.tar.gz"), (tarfile.XHDTYPE, "pax-1.tar")])
def test_a_header_of_a_tar_is_not_read_whole(plugins: Path, tmp_path: Path, kind: bytes, name: str) -> None:
    header = tarfile.TarInfo("x")
    header.size, header.type = 3 << 30, kind
    data = header.tobuf(tarfile.GNU_FORMAT) + bytes(8 << 20)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    with pytest.raises(ConnectException, match="one of its headers has more than 4 MiB"):
        installed(tmp_path / name, plugins)


@pytest.mark.parametrize("is_large", [False, True])
def test_a_directory_of_a_zip_is_not_read_whole(plugins: Path, tmp_path: Path, *, is_large: bool) -> None:
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF if is_large else 1 << 30, 0, 0)
    before = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1 << 26, 1 << 26, 1 << 34, 0) if is_large else b""
    (tmp_path / "entries-1.zip").write_bytes(before + end)
    with pytest.raises(ConnectException, match="it has more than 20000 files"):
        installed(tmp_path / "entries-1.zip", plugins)


def test_a_member_that_comes_twice_replaces_nothing(plugins: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "twice-1.zip", "w") as archive:
        archive.writestr("p/a.jar", content(tmp_path))
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("p/a.jar", b"other")
    with pytest.raises(ConnectException, match="cannot be unpacked"):
        installed(tmp_path / "twice-1.zip", plugins)


def test_coordinates_are_fetched_whole_or_not_at_all(plugins: Path) -> None:
    assert installed(MAVEN, plugins).path == str(plugins / "inventory-2.0")
    assert [path.name for path in sorted((plugins / "inventory-2.0").iterdir())] == [
        "connect-plugins.json",
        "org.example-inventory-2.0.jar",
    ]

    def broken(coordinates: str, folder: Path) -> None:
        fetch(coordinates, folder)
        raise ConnectException("the repository is away")

    with pytest.raises(ConnectException, match="the repository is away"):
        installed("maven:org.example:inventory:2.1", plugins, by=broken)
    with pytest.raises(AlreadyExistsException):
        installed(MAVEN, plugins)
    for wrong in ("", "a:b", "a:b:../c", "a:b:c:d:e:f", "a:/b:1", "a b:c:1", "a:b:1\n", "a::1", "a:b:-1"):
        wanted = f"maven:{wrong}"
        with pytest.raises(BadRequestException, match="is not of the form maven:GROUP:ARTIFACT:VERSION"):
            installed(wanted, plugins)
    assert [path.name for path in plugins.iterdir()] == ["inventory-2.0"]


def test_an_archive_may_come_from_the_repository_too(plugins: Path, tmp_path: Path) -> None:
    def archive(coordinates: str, folder: Path) -> None:
        assert coordinates == "org.example:inventory:2.0:tar.gz:plugin"
        tarred(folder / "inventory-2.0-plugin.tar.gz", {"p/a.jar": content(tmp_path)})

    assert installed(f"{MAVEN}:tar.gz:plugin", plugins, by=archive).path == str(plugins / "inventory-2.0")
    assert (plugins / "inventory-2.0" / "a.jar").is_file()


def test_plugins_without_service_files_get_them(plugins: Path, tmp_path: Path) -> None:
    installed(zipped(tmp_path / "silent-1.zip", {"p/a.jar": content(tmp_path, declares=False)}), plugins)
    with zipfile.ZipFile(plugins / "silent-1" / SERVICES_JAR) as archive:
        assert archive.namelist() == ["META-INF/services/org.apache.kafka.connect.source.SourceConnector"]
        assert archive.read(archive.namelist()[0]).decode().split() == [INVENTORY]
    scan_location(plugins / "silent-1", scan, "scan", lambda text: None)
    assert [plugin.version for plugin in PluginCatalog([str(plugins)]).named(INVENTORY)] == ["2.0.1"]


def test_without_a_jvm_service_files_are_enough_and_nothing_else_is(plugins: Path, tmp_path: Path) -> None:
    notes: list[str] = []
    made = install(MAVEN, plugins, fetch, no_java, notes.append)
    assert [plugin.version for plugin in made.plugins] == ["2.0"]
    assert not (plugins / "inventory-2.0" / "connect-plugins.json").exists()
    assert "there is no Java" in notes[0]
    silent = zipped(tmp_path / "silent-1.zip", {"p/a.jar": content(tmp_path, declares=False)})
    with pytest.raises(ConnectException, match="there is no Java"):
        installed(silent, plugins, scan=no_java)
    with pytest.raises(ConnectException, match="Kafka Connect finds no plugins in it"):
        installed(silent, plugins, scan=lambda location: [])
    assert [path.name for path in plugins.iterdir()] == ["inventory-2.0"]


def test_a_record_in_an_archive_is_not_taken(plugins: Path, tmp_path: Path) -> None:
    location = tmp_path / "forged"
    jar(location / "a.jar", {"source": [INVENTORY]}, "2.0")
    java_location.write_record(location, [Declared(PluginKind.SINK, "org.example.Forged", "org.example.Forged", "9")], "")
    members = {f"p/{path.name}": path.read_bytes() for path in location.iterdir()}
    installed(zipped(tmp_path / "forged-1.zip", members), plugins, scan=no_java)
    assert [plugin.class_name for plugin in PluginCatalog([str(plugins)]).plugins() if plugin.location] == [INVENTORY]


def test_one_is_removed_by_the_name_of_its_location(plugins: Path) -> None:
    for version in ("1.0.Final", "2.0", "3.0"):
        installed(f"maven:org.example:inventory:{version}", plugins)
    (plugins / "python").mkdir()
    (plugins / "link-1").symlink_to(plugins / "inventory-2.0")
    for wanted in ("python", "link-1", "../plugins/inventory-2.0", ".", "inventory", "inventory==9"):
        assert remove(wanted, plugins) is None
    assert remove("inventory-1.0.Final", plugins) == str(plugins / "inventory-1.0.Final")
    assert remove("inventory==2.0", plugins) == str(plugins / "inventory-2.0")
    assert remove("maven:org.example:inventory:3.0", plugins) == str(plugins / "inventory-3.0")
    assert sorted(path.name for path in plugins.iterdir()) == ["link-1", "python"]


def test_locations_to_scan_are_named_by_name(plugins: Path) -> None:
    installed(MAVEN, plugins)
    (plugins / "python.py").write_text("")
    assert [path.name for path in java_locations(plugins, [])] == ["inventory-2.0"]
    for name in ("python.py", "../plugins/inventory-2.0", "missing"):
        with pytest.raises(NotFoundException, match=r"there are: inventory-2\.0"):
            java_locations(plugins, [name])
