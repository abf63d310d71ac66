"""What Java plugin locations declare."""

import zipfile
from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.java.catalog.manifests import (
    SETTING,
    UNKNOWN_VERSION,
    JavaClass,
    allowed_locations,
    declared_classes,
    jars_of,
)

SOURCE = "META-INF/services/org.apache.kafka.connect.source.SourceConnector"
SINK = "META-INF/services/org.apache.kafka.connect.sink.SinkConnector"
CONVERTER = "META-INF/services/org.apache.kafka.connect.storage.Converter"


def jar(path: Path, **files: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as written:
        for name, text in files.items():
            written.writestr(name, text)
    return path


def plugin_classes(location: Path) -> dict[str, list[str]]:
    """By kind."""
    named: dict[str, list[str]] = {}
    for declared in declared_classes(location):
        named.setdefault(declared.kind, []).append(declared.name)
    return named


def test_classes_of_a_folder_of_jars_are_those_its_service_files_name(tmp_path: Path) -> None:
    location = tmp_path / "files"
    jar(location / "lib" / "files-4.3.1.jar", **{SOURCE: "# the pair\na.b.FileSource  # reads\n\n", SINK: "a.b.FileSink"})
    jar(location / "kafka-clients-4.3.1.jar", **{"org/apache/kafka/Thing.class": ""})
    jar(location / "converters-2.0.jar", **{CONVERTER: "a.c.One\na.c.Two$Inner\n"})
    assert plugin_classes(location) == {"source": ["a.b.FileSource"], "sink": ["a.b.FileSink"], "converter": ["a.c.One", "a.c.Two$Inner"]}


def test_a_single_jar_is_a_location(tmp_path: Path) -> None:
    one = jar(tmp_path / "one-1.jar", **{SINK: "a.Sink"})
    assert jars_of(one) == [one]
    assert plugin_classes(one) == {"sink": ["a.Sink"]}


@pytest.mark.parametrize(
    ("name", "manifest", "version"),
    [
        ("connect-file-4.3.1.jar", None, "4.3.1"),
        ("debezium-connector-postgres-3.6.0.Final.jar", None, "3.6.0.Final"),
        ("http-sink-2.1.0-SNAPSHOT-jar-with-dependencies.jar", None, "2.1.0-SNAPSHOT"),
        ("s3.jar", "Manifest-Version: 1.0\r\nImplementation-Version: 10.\r\n 5.7\r\n", "10.5.7"),
        ("s3-1.0.jar", "Manifest-Version: 1.0\nImplementation-Version: 2.0\n", "2.0"),
        ("s3.jar", None, UNKNOWN_VERSION),
    ],
)
def test_version_is_the_manifests_else_that_of_the_name(tmp_path: Path, name: str, manifest: str | None, version: str) -> None:
    written = jar(tmp_path / name, **{SOURCE: "a.Source", **({"META-INF/MANIFEST.MF": manifest} if manifest else {})})
    assert declared_classes(tmp_path) == [JavaClass("source", "a.Source", version, written)]


def test_what_is_not_a_jar_declares_nothing(tmp_path: Path) -> None:
    (tmp_path / "broken-1.jar").write_bytes(b"PK\x03\x04 cut off")
    (tmp_path / "text.txt").write_text("a.Source")
    jar(tmp_path / "odd-1.jar", **{SOURCE: "not a class\n../../etc/passwd\n1a.B"})
    assert plugin_classes(tmp_path) == {}
    assert plugin_classes(tmp_path / "text.txt") == {}
    assert plugin_classes(tmp_path / "absent") == {}


def test_a_class_declared_by_two_jars_is_one(tmp_path: Path) -> None:
    first = jar(tmp_path / "a-1.0.jar", **{SINK: "a.Sink\na.Sink"})
    jar(tmp_path / "b-2.0.jar", **{SINK: "a.Sink"})
    assert declared_classes(tmp_path) == [JavaClass("sink", "a.Sink", "1.0", first)]


def test_only_locations_below_the_folders_of_the_setting_are_allowed(tmp_path: Path) -> None:
    for name in ("allowed/file", "allowed-not/file"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "allowed" / "link").symlink_to(tmp_path / "allowed-not" / "file")
    (tmp_path / "other").symlink_to(tmp_path / "allowed")
    is_allowed = allowed_locations({SETTING: f" {tmp_path / 'other'} ,"})
    paths = [
        tmp_path / name for name in ("allowed/file", "allowed", "other/file", "allowed-not/file", "allowed/link", "allowed/../allowed-not")
    ]
    assert [is_allowed(path) for path in paths] == [True, True, True, False, False, False]
    assert not allowed_locations({})(tmp_path)


def test_a_folder_that_is_allowed_must_be_an_absolute_path() -> None:
    with pytest.raises(ConfigException, match=r"plugins for configuration java\.allowed\.locations: Each folder must be an absolute path"):
        allowed_locations({SETTING: "/opt,plugins"})
