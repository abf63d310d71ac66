"""Java plugins lie in plugin.path beside Python's; what runs where both have a name is one rule. No JVM is started here."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConfigException, PluginVersionException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.java.catalog.location import write_record
from airflow_provider_connect.runtime.java.catalog.manifests import SERVICES
from airflow_provider_connect.runtime.model.connector_keys import strip_framework_keys
from airflow_provider_connect.runtime.model.plugin_kinds import Declared
from airflow_provider_connect.runtime.plugins.catalog.chosen_plugins import PluginChoice
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import CONNECTOR_KINDS, Plugin, PluginCatalog, PluginKind
from airflow_provider_connect.runtime.plugins.loading.plugin_path import LocationForm
from airflow_provider_connect.runtime.spark.jar_cache import KAFKA_CONNECT
from tests.unit.plugins.locations import source, tree

SERVICE_OF = {kind: interface for interface, kind in SERVICES.items()}
FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
INVENTORY = "org.example.InventorySourceConnector"


def jar(path: Path, plugins: Mapping[str, Sequence[str]], version: str = "") -> Path:
    """A jar whose service files name ``plugins``, by kind; its manifest has ``version``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        stated = f"Implementation-Version: {version}\r\n" if version else ""
        archive.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\r\n{stated}")
        for kind, names in plugins.items():
            archive.writestr(f"META-INF/services/{SERVICE_OF[kind]}", "".join(f"{name}\n" for name in names))
    return path


def catalog(*path: Path) -> PluginCatalog:
    seconds = iter(range(0, 100_000, 10))
    return PluginCatalog([str(directory) for directory in path], now=lambda: float(next(seconds)))


def located(found: PluginCatalog) -> dict[tuple[str, str, str], Plugin]:
    return {(str(p.kind), p.class_name, p.version): p for p in found.plugins() if p.location is not None}


def choice(found: PluginCatalog, **ranges: str) -> PluginChoice:
    settings = WorkerSettings.of({"bootstrap.servers": "x:1", **{f"version_ranges.{name}": text for name, text in ranges.items()}})
    return PluginChoice(found, settings)


def test_folders_of_jars_and_single_jars_stand_beside_python_plugins(tmp_path: Path) -> None:
    jar(tmp_path / "inventory-2.0" / "lib" / "inventory.jar", {"source": [INVENTORY], "transformation": ["org.example.Mask$Value"]}, "2.0")
    jar(tmp_path / "inventory-2.0" / "lib" / "other.jar", {})
    jar(tmp_path / "uber-1.5.jar", {"converter": ["org.example.TextConverter"], "header_converter": ["org.example.TextConverter"]})
    tree(tmp_path / "echo", "echo", "1.0", {"echo.py": source()}, "source:org.example.EchoSourceConnector = echo:EchoSource")
    jar(tmp_path / "echo" / "drivers" / "driver.jar", {"source": ["org.example.NotOurs"]}, "9")
    found = catalog(tmp_path)
    assert {plugin: it.is_java for plugin, it in located(found).items()} == {
        ("source", "org.example.EchoSourceConnector", "1.0"): False,
        ("source", INVENTORY, "2.0"): True,
        ("transformation", "org.example.Mask$Value", "2.0"): True,
        ("converter", "org.example.TextConverter", "1.5"): True,
        ("header_converter", "org.example.TextConverter", "1.5"): True,
    }
    assert found.broken() == []
    assert found.find_connector("InventorySource").class_name == INVENTORY
    with pytest.raises(ConfigException, match="is a Java plugin: it has no Python class"):
        found.find_connector(INVENTORY).load()


def test_a_change_of_the_jars_is_noticed(tmp_path: Path) -> None:
    first = jar(tmp_path / "inventory" / "inventory.jar", {"source": [INVENTORY]}, "1.0")
    found = catalog(tmp_path)
    assert [plugin.version for plugin in found.named(INVENTORY)] == ["1.0"]
    jar(first, {"source": [INVENTORY]}, "1.0.1")
    assert [plugin.version for plugin in found.named(INVENTORY)] == ["1.0.1"]
    shutil.rmtree(tmp_path / "inventory")
    assert found.named(INVENTORY) == []
    assert found.broken() == []


def test_what_a_scan_recorded_counts_while_the_jars_are_the_same(tmp_path: Path) -> None:
    location = tmp_path / "silent"
    silent = jar(location / "silent.jar", {})
    found = catalog(tmp_path)
    assert "airflow connect plugins scan" in found.broken()[0].reason
    write_record(location, [Declared(PluginKind.SOURCE, INVENTORY, INVENTORY, "7.1")], "scan")
    assert [plugin.version for plugin in found.named(INVENTORY)] == ["7.1"]
    os.utime(silent, (1, 1))
    assert [plugin.version for plugin in found.named(INVENTORY)] == ["7.1"], "a copy has another time and the same content"
    shutil.copytree(location, tmp_path / "copied")
    assert len(found.named(INVENTORY)) == 2
    shutil.rmtree(tmp_path / "copied")
    jar(silent, {"sink": ["org.example.Other"]})
    assert found.named(INVENTORY) == []
    assert [plugin.class_name for plugin in found.named("org.example.Other")] == ["org.example.Other"]


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", '{"format": 2}', '{"format": 1, "jars": [{}], "plugins": []}', "[" * 100_000, "\0"])
def test_a_record_that_is_none_leaves_the_service_files(tmp_path: Path, text: str) -> None:
    jar(tmp_path / "inventory" / "inventory.jar", {"source": [INVENTORY]}, "1.0")
    (tmp_path / "inventory" / "connect-plugins.json").write_text(text)
    assert [plugin.version for plugin in catalog(tmp_path).named(INVENTORY)] == ["1.0"]


def test_a_record_does_not_reach_out_of_its_location(tmp_path: Path) -> None:
    jar(tmp_path / "inventory" / "inventory.jar", {"source": [INVENTORY]}, "1.0")
    write_record(tmp_path / "inventory", [Declared(PluginKind.SINK, "org.example.Evil", "org.example.Evil", "1")], "")
    record = tmp_path / "inventory" / "connect-plugins.json"
    written = json.loads(record.read_text())
    written["jars"].append({**written["jars"][0], "path": "../../etc/passwd"})
    record.write_text(json.dumps(written))
    assert [str(plugin.kind) for plugin in catalog(tmp_path).plugins(CONNECTOR_KINDS) if plugin.location] == ["source"]


def test_broken_jars_hide_no_other(tmp_path: Path) -> None:
    (tmp_path / "rubbish.jar").write_bytes(b"no zip")
    (tmp_path / "half").mkdir()
    whole = jar(tmp_path / "whole.jar", {"source": [INVENTORY]}, "1.0")
    (tmp_path / "half" / "half.jar").write_bytes(whole.read_bytes()[:-30])
    found = catalog(tmp_path)
    assert len(found.named(INVENTORY)) == 1
    assert sorted(os.path.basename(broken.path) for broken in found.broken()) == ["half", "rubbish.jar"]


def test_ours_runs_unless_a_version_or_a_location_asks_for_javas(tmp_path: Path) -> None:
    jar(tmp_path / "connect-file-4.3.1" / "connect-file.jar", {"source": [FILE_SOURCE]}, "4.3.1")
    jar(tmp_path / "connect-file-3.9" / "connect-file.jar", {"source": [FILE_SOURCE]}, "3.9.0")
    found = catalog(tmp_path)
    ours = found.find_connector(FILE_SOURCE)
    assert not ours.is_java
    for name in (FILE_SOURCE, "FileStreamSourceConnector", "FileStreamSource"):
        assert found.find_connector(name) == found.find_connector(name, "latest") == ours
        assert found.find_connector(name, f"[{ours.version},9)") == ours
        assert found.find_connector(name, "[3,4)").version == "3.9.0"
        assert found.find_connector(name, "[3,5)").version == "4.3.1"
        assert found.find_connector(name, None, "connect-file-3.9").version == "3.9.0"
        assert found.find_connector(name, "[3,)", "connect-file-3.9").is_java
    with pytest.raises(PluginVersionException, match=rf"available versions: \[{ours.version}, 3\.9\.0, 4\.3\.1\]"):
        found.find_connector(FILE_SOURCE, "[5,)")
    with pytest.raises(PluginVersionException, match="matches the version range"):
        found.find_connector(FILE_SOURCE, "4.3.1", "connect-file-3.9")
    for escape in ("../connect-file-3.9", str(tmp_path / "connect-file-3.9"), "", "."):
        with pytest.raises(ConfigException, match=r"it is in: connect-file-3\.9, connect-file-4\.3\.1"):
            found.find_connector(FILE_SOURCE, None, escape)


def test_a_config_and_the_worker_settings_choose(tmp_path: Path) -> None:
    jar(tmp_path / "connect-file-4.3.1" / "connect-file.jar", {"source": [FILE_SOURCE]}, "4.3.1")
    found = catalog(tmp_path)
    config = {"connector.class": "FileStreamSource"}
    assert not choice(found).connector("c", config).is_java
    assert choice(found).connector("c", {**config, "connector.plugin.version": "4.3.1"}).is_java
    assert choice(found).connector("c", {**config, "connector.plugin.location": "connect-file-4.3.1"}).is_java
    assert choice(found, **{FILE_SOURCE: "[4,)"}).connector("c", config).is_java
    assert choice(found, c="4.3.1").connector("c", config).is_java
    assert strip_framework_keys({**config, "connector.plugin.location": "x"}) == config


def test_an_installed_java_plugin_takes_no_name_that_ours_answers_to(tmp_path: Path) -> None:
    names = ["io.debezium.connector.jdbc.JdbcSinkConnector", "io.aiven.connect.jdbc.JdbcSinkConnector"]
    before = {name: catalog().find_connector(name) for name in ("JdbcSink", "JdbcSinkConnector", names[1])}
    jar(tmp_path / "debezium" / "jdbc.jar", {"sink": names[:1]}, "3.6.0.Final")
    jar(tmp_path / "aiven" / "jdbc.jar", {"sink": names[1:]}, "6.10.0")
    found = catalog(tmp_path)
    for name, plugin in before.items():
        assert found.find_connector(name) == plugin
    assert found.find_connector(names[0]).version == "3.6.0.Final"
    assert found.find_connector(names[1], "6.10.0").is_java
    with pytest.raises(PluginVersionException):
        found.find_connector("JdbcSink", "3.6.0.Final")


def test_each_side_uses_the_converters_and_transformations_of_its_own(tmp_path: Path) -> None:
    jar(tmp_path / "inventory" / "a.jar", {"source": [INVENTORY], "transformation": ["org.example.Mask"], "converter": ["x.Text"]}, "2")
    (tmp_path / "python.py").write_text(
        source("PySource") + "\n\nfrom airflow_provider_connect.sdk import Transformation\n\n\nclass Shout(Transformation):\n    pass\n"
    )
    found = catalog(tmp_path)
    chosen = choice(found).all("c", {"connector.class": INVENTORY, "transforms.a.type": "Mask", "value.converter": "x.Text"}, ["a"], [])
    assert {prefix: (plugin.is_java, plugin.version) for prefix, plugin in chosen.by_prefix()} == {
        "connector": (True, "2"),
        "task": (True, "2"),
        "key.converter": (True, KAFKA_CONNECT),
        "value.converter": (True, "2"),
        "header.converter": (True, KAFKA_CONNECT),
        "transforms.a": (True, "2"),
    }
    assert chosen.locations() == [str(tmp_path / "inventory")]
    connects = {"connector.class": INVENTORY, "transforms.a.type": "org.apache.kafka.connect.transforms.Cast$Key"}
    assert choice(found).all("c", connects, ["a"], []).transforms["a"].is_java
    ours = {**connects, "connector.class": "FileStreamSource"}
    assert not choice(found).all("c", ours, ["a"], []).transforms["a"].is_java
    refused = {
        ("FileStreamSource", "org.example.Mask"): "is a Java plugin, which a Python connector cannot use",
        (INVENTORY, "python.Shout"): "is a Python plugin, which a Java connector cannot use",
    }
    for (connector, transformation), reason in refused.items():
        with pytest.raises(ConfigException, match=reason):
            choice(found).all("c", {"connector.class": connector, "transforms.a.type": transformation}, ["a"], [])


def test_plugins_side_by_side_that_have_the_same_jars_use_each_its_own(tmp_path: Path) -> None:
    for name in ("mysql", "mariadb", "postgres"):
        stages = {"transformation": ["io.debezium.ByLogicalTableRouter"], "converter": ["io.debezium.CloudEvents"]}
        jar(tmp_path / f"debezium-{name}-3.6.1" / "core.jar", {"source": [f"io.debezium.{name}.Source"], **stages}, "3.6.1.Final")
    found = catalog(tmp_path)
    config = {"transforms.a.type": "ByLogicalTableRouter", "value.converter": "io.debezium.CloudEvents"}
    for name in ("mysql", "mariadb", "postgres"):
        chosen = choice(found).all("c", {**config, "connector.class": f"io.debezium.{name}.Source"}, ["a"], [])
        assert chosen.locations() == [str(tmp_path / f"debezium-{name}-3.6.1")]
        pinned = PluginChoice(found, choice(found).settings, pinned=chosen.versions())
        assert pinned.all("c", {**config, "connector.class": f"io.debezium.{name}.Source"}, ["a"], []) == chosen
    jar(tmp_path / "inventory-2" / "a.jar", {"source": [INVENTORY]}, "2")
    other = choice(found).all("c", {**config, "connector.class": INVENTORY}, ["a"], [])
    assert other.transforms["a"].location == other.converters["value"].location
    assert other.locations() == [str(tmp_path / "inventory-2"), str(tmp_path / "debezium-mariadb-3.6.1")]


def test_a_connector_of_one_version_in_two_locations_is_still_asked_for_by_its_location(tmp_path: Path) -> None:
    for name in ("one", "two"):
        jar(tmp_path / name / "a.jar", {"source": [INVENTORY]}, "2")
    with pytest.raises(ConfigException, match="is in 2 locations"):
        choice(catalog(tmp_path)).connector("c", {"connector.class": INVENTORY})
    assert choice(catalog(tmp_path)).connector("c", {"connector.class": INVENTORY, "connector.plugin.location": "two"}).location is not None


def test_of_connects_own_runtime_the_version_is_that_which_runs() -> None:
    assert PluginCatalog().find(PluginKind.CONVERTER, "JsonConverter", is_java=True).version == KAFKA_CONNECT


def test_the_form_of_a_path_is_that_of_the_catalogue(tmp_path: Path) -> None:
    jar(tmp_path / "inventory" / "lib" / "a.jar", {})
    jar(tmp_path / "mixed" / "a.jar", {})
    (tmp_path / "mixed" / "module.py").write_text("")
    (tmp_path / "empty").mkdir()
    assert LocationForm.of(str(tmp_path / "inventory")) is LocationForm.JAVA
    assert LocationForm.of(str(tmp_path / "inventory" / "lib" / "a.jar")) is LocationForm.JAVA
    assert LocationForm.of(str(tmp_path / "mixed")) is LocationForm.TREE
    assert LocationForm.of(str(tmp_path / "empty")) is LocationForm.TREE
