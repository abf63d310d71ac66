"""Plugins are found by their metadata, in every form of location; nothing is imported, and nothing broken is fatal."""

import os
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConfigException, ConnectException, PluginNotFoundException, PluginVersionException
from airflow_provider_connect.runtime.model.versions import oldest_first
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import CONNECTOR_KINDS, PluginCatalog, PluginKind
from airflow_provider_connect.runtime.plugins.loading import plugin_path
from airflow_provider_connect.sdk.config_def import class_name_of
from tests.unit.plugins.locations import source, tree, wheel

ENTRY = "source:org.example.EchoSourceConnector = echo:EchoSource"


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        self.seconds += 10
        return self.seconds


def catalog(*path: Path) -> PluginCatalog:
    return PluginCatalog([str(directory) for directory in path], now=Clock())


def reasons(found: PluginCatalog) -> dict[str, str]:
    return {os.path.basename(broken.path): broken.reason for broken in found.broken()}


def test_a_tree_a_wheel_and_a_module_are_found_and_nothing_is_imported(tmp_path: Path) -> None:
    bomb = "raise SystemExit('imported')\n"
    tree(tmp_path / "echo", "echo", "1.0", {"echo.py": bomb + source()}, ENTRY)
    wheel(tmp_path, "wheeled", "2.0", {"wheeled.py": bomb + source()}, "source:WheeledSource = wheeled:EchoSource")
    (tmp_path / "single.py").write_text(bomb + '__version__ = "3.1"\n' + source("SingleSource"))
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "other.py").write_text(source("OtherSink", '    version = "4"').replace("SourceConnector", "SinkConnector"))
    found = {plugin.class_name: plugin for plugin in catalog(tmp_path).plugins(CONNECTOR_KINDS) if plugin.location is not None}
    assert {name: plugin.version for name, plugin in found.items()} == {
        "org.example.EchoSourceConnector": "1.0",
        "wheeled.EchoSource": "2.0",
        "single.SingleSource": "3.1",
        "other.OtherSink": "4",
    }
    assert found["other.OtherSink"].kind is PluginKind.SINK
    assert not {"echo", "wheeled", "single", "other"} & sys.modules.keys()


@pytest.mark.parametrize("name", ["org.example.EchoSourceConnector", "echo.EchoSource", "EchoSourceConnector", "EchoSource", "Chatty"])
def test_a_plugin_is_found_by_its_class_by_its_python_class_and_by_aliases(tmp_path: Path, name: str) -> None:
    tree(tmp_path / "echo", "echo", "1.0", {"echo.py": source()}, ENTRY, "source:Chatty = echo:EchoSource")
    assert catalog(tmp_path).find_connector(name).class_name == "org.example.EchoSourceConnector"


def test_a_nested_class_has_no_short_name(tmp_path: Path) -> None:
    tree(tmp_path / "cast", "cast", "1", {"cast.py": ""}, "transformation:org.example.Cast$Value = cast:CastValue")
    found = catalog(tmp_path)
    assert found.find(PluginKind.TRANSFORMATION, "org.example.Cast$Value").version == "1"
    with pytest.raises(PluginNotFoundException):
        found.find(PluginKind.TRANSFORMATION, "Cast$Value")


def test_the_newest_version_is_taken_and_ranges_hold(tmp_path: Path) -> None:
    for version in ("1.9", "1.10", "2.0rc1", "2.0"):
        tree(tmp_path / f"echo-{version}", "echo", version, {"echo.py": source()}, ENTRY)
    found = catalog(tmp_path)
    assert [plugin.version for plugin in found.named("EchoSource")] == ["1.9", "1.10", "2.0rc1", "2.0"]
    assert found.find_connector("EchoSource").version == "2.0"
    assert found.find_connector("EchoSource", "[1,2.0-alpha)").version == "1.10"
    assert found.find_connector("EchoSource", "1.9").version == "1.9"
    with pytest.raises(PluginVersionException) as error:
        found.find_connector("EchoSource", "[3,)")
    assert str(error.value) == (
        "Plugin org.example.EchoSourceConnector not found that matches the version range [3,), available versions: [1.9, 1.10, 2.0rc1, 2.0]"
    )


def test_plugins_come_by_kind_class_and_version_and_versions_of_equal_rank_by_location(tmp_path: Path) -> None:
    sink, other = "sink:org.example.ASinkConnector = echo:EchoSink", "source:org.example.AnotherSourceConnector = echo:AnotherSource"
    for location, version in (("a", "1"), ("b", "1.0"), ("c", "1.0rc1"), ("d", "1.0.0"), ("e", "0.10")):
        tree(tmp_path / location, "echo", version, {"echo.py": source()}, ENTRY, sink, other)
    found = [plugin for plugin in catalog(tmp_path).plugins((PluginKind.SINK, PluginKind.SOURCE)) if plugin.location is not None]
    versions = ["0.10", "1.0rc1", "1", "1.0", "1.0.0"]
    assert [(plugin.kind, plugin.class_name, plugin.version) for plugin in found] == [
        (kind, f"org.example.{name}Connector", version)
        for kind, name in ((PluginKind.SINK, "ASink"), (PluginKind.SOURCE, "AnotherSource"), (PluginKind.SOURCE, "EchoSource"))
        for version in versions
    ]


def test_a_version_in_two_locations_is_an_error_that_lists_them_when_it_is_wanted(tmp_path: Path) -> None:
    for folder, version in (("a", "1.0"), ("b", "1.0"), ("c", "2.0")):
        tree(tmp_path / folder, "echo", version, {"echo.py": source()}, ENTRY)
    found = catalog(tmp_path)
    assert found.find_connector("EchoSource").version == "2.0"
    with pytest.raises(ConfigException, match=f"is in 2 locations; please keep one: {tmp_path}/a, echo:EchoSource, {tmp_path}/b"):
        found.find_connector("EchoSource", "1.0")


def test_a_name_that_one_file_defines_twice_is_reported_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(source("Twice") + source("Twice") + source("Once"))
    found = catalog(tmp_path)
    assert found.find_connector("Once").class_name == "two.Once"
    with pytest.raises(ConfigException, match="Failed to find any class"):
        found.find_connector("two.Twice")
    assert reasons(found) == {"two.py": f"module {tmp_path}/two.py defines plugin Twice more than once; please keep one"}


def test_an_alias_of_several_classes_is_an_error_that_lists_them(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        entry = f"source:org.{folder}.EchoSourceConnector = echo:EchoSource"
        tree(tmp_path / folder, "echo", "1.0", {"echo.py": source()}, entry)
    found = catalog(tmp_path)
    with pytest.raises(ConfigException) as error:
        found.find_connector("EchoSource")
    assert str(error.value) == (
        "More than one connector matches alias EchoSource. Please use full package and class name instead. "
        "Classes found: org.a.EchoSourceConnector, org.b.EchoSourceConnector"
    )
    assert found.find_connector("org.b.EchoSourceConnector").location is not None


def test_what_is_broken_is_reported_and_the_rest_goes_on(tmp_path: Path) -> None:
    tree(tmp_path / "good", "echo", "1.0", {"echo.py": source()}, ENTRY)
    tree(tmp_path / "no-plugins", "lib", "1.0", {"lib.py": ""})
    tree(tmp_path / "malformed", "bad", "1.0", {"bad.py": ""}, "sauce:Bad = bad:Bad", "source:Bad = bad")
    tree(tmp_path / "escaping", "escape", "1.0", {"escape.py": ""}, "source:Escape = os:system")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "linked.py").symlink_to("/etc/hostname")
    tree(tmp_path / "linked", "linked", "1.0", {}, "source:Linked = linked:Linked")
    (tmp_path / "cut.whl").write_bytes(b"PK not really")
    with zipfile.ZipFile(tmp_path / "climbing.whl", "w") as archive:
        archive.writestr("../../evil.py", "")
    (tmp_path / "wrong.py").write_text("def (")
    (tmp_path / "notes.txt").write_text("is no location")
    found = catalog(tmp_path, tmp_path / "missing")
    assert [plugin.class_name for plugin in found.plugins() if plugin.location is not None] == ["org.example.EchoSourceConnector"]
    reported = reasons(found)
    assert reported.keys() == {"no-plugins", "malformed", "escaping", "linked", "cut.whl", "climbing.whl", "wrong.py", "missing"}
    assert "declares no plugins" in reported["no-plugins"]
    assert "names module os, which is not in this location" in reported["escaping"]
    assert "names module linked, which is not in this location" in reported["linked"]
    assert reported["climbing.whl"] == "its member ../../evil.py leads out of it"
    assert "cannot be read" in reported["cut.whl"]
    assert "cannot be read" in reported["wrong.py"]


def test_what_is_made_to_harm_its_reader_is_reported_or_passed_over(tmp_path: Path) -> None:
    """Pipes that are never written to, files that claim terabytes, archives that zipfile stumbles over, code that the parser does."""
    tree(tmp_path / "good", "echo", "1.0", {"echo.py": source()}, ENTRY)
    for name in ("pipe.py", "pipe.whl"):
        os.mkfifo(tmp_path / name)
    for folder, file in (("piped", "entry_points.txt"), ("piped-metadata", "METADATA")):
        metadata = (
            tree(tmp_path / folder, "piped", "2.0", {"piped.py": source()}, "source:Piped = piped:EchoSource") / "piped-2.0.dist-info"
        )
        (metadata / file).unlink()
        os.mkfifo(metadata / file)
    for name in ("endless.py", "endless.whl"):
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, 1 << 42)
    tree(tmp_path / "endless", "endless", "1.0", {"endless.py": source()}, "source:Endless = endless:EchoSource")
    os.truncate(tmp_path / "endless" / "endless-1.0.dist-info" / "entry_points.txt", 1 << 42)
    (tmp_path / "deep.py").write_text("-" * 200_000 + "1")
    archive = wheel(tmp_path, "locked", "1.0", {"locked.py": ""}, "source:Locked = locked:Locked").read_bytes()
    at = archive.rfind(b"PK\x01\x02")
    (tmp_path / "locked-1.0-py3-none-any.whl").write_bytes(
        archive[: at + 8] + b"\x01" + archive[at + 9 :]
    )  # of the entry points: encrypted
    found = catalog(tmp_path)
    names = [plugin.class_name for plugin in found.plugins() if plugin.location is not None]
    assert names == ["endless.EchoSource", "org.example.EchoSourceConnector", "piped.EchoSource", "piped.EchoSource"]
    reported = reasons(found)
    assert reported.keys() == {"endless", "endless.py", "endless.whl", "deep.py", "locked-1.0-py3-none-any.whl"}
    assert "it has more than 8 MiB" in reported["endless.py"]
    assert "is encrypted" in reported["locked-1.0-py3-none-any.whl"]


def test_changes_are_seen_without_a_restart(tmp_path: Path) -> None:
    found = catalog(tmp_path)
    assert found.named("EchoSource") == []
    tree(tmp_path / "echo-1", "echo", "1.0", {"echo.py": source()}, ENTRY)
    tree(tmp_path / "echo-2", "echo", "2.0", {"echo.py": source()}, ENTRY)
    assert found.find_connector("EchoSource").version == "2.0"
    (tmp_path / "echo-2").rename(tmp_path / ".echo-2")
    assert found.find_connector("EchoSource").version == "1.0"
    (tmp_path / "echo-1" / "echo-1.0.dist-info").rename(tmp_path / "echo-1" / "echo-1.1.dist-info")
    (tmp_path / "echo-1" / "echo-1.1.dist-info" / "METADATA").write_text("Name: echo\nVersion: 1.1\n")
    assert found.find_connector("EchoSource").version == "1.1"


def test_a_directory_that_is_a_location_itself_is_one(tmp_path: Path) -> None:
    tree(tmp_path, "echo", "1.0", {"echo.py": source()}, ENTRY)
    assert [plugin.version for plugin in catalog(tmp_path).named("EchoSource")] == ["1.0"]


def test_an_alias_of_a_built_in_and_of_an_installed_one_is_an_error_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path / "site", "echo", "1.0", {"echo.py": source()}, "source:org.example.FileStreamSourceConnector = echo:EchoSource")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(ConfigException) as error:
        catalog().find_connector("FileStreamSource")
    assert str(error.value).endswith(
        "Classes found: org.apache.kafka.connect.file.FileStreamSourceConnector, org.example.FileStreamSourceConnector"
    )
    assert (
        catalog().find_connector("org.apache.kafka.connect.file.FileStreamSourceConnector").reference.startswith("airflow_provider_connect")
    )


def test_a_version_that_lies_in_a_location_and_in_the_environment_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (tmp_path / "site", tmp_path / "plugins" / "echo"):
        tree(folder, "echo", "1.0", {"echo.py": source()}, ENTRY)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert catalog(tmp_path / "plugins").find_connector("EchoSource").location is not None
    with pytest.raises(PluginVersionException, match=r"available versions: \[1.0\]$"):
        catalog(tmp_path / "plugins").find_connector("EchoSource", "[2,)")


def test_installed_distributions_count_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path / "site", "echo", "1.0", {"echo.py": source()}, ENTRY)
    tree(tmp_path / "plugins" / "echo", "echo", "2.0", {"echo.py": source()}, ENTRY)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert [plugin.version for plugin in catalog(tmp_path / "plugins").named("EchoSource")] == ["1.0", "2.0"]
    assert catalog().find_connector("EchoSource").location is None


FUNCTIONS = """\
import other
from airflow_provider_connect import sdk
from airflow_provider_connect.sdk import sink, source as reads

{version}
@reads
def orders(): ...

@reads(cursor="id")
def prices(): ...

@sink()
def shelf(rows): ...

@sdk.transformation
def upper(text): ...

@other.source
@other.sink()
def not_ours(): ...

@reads
def _hidden(): ...

def plain(): ...
"""


def test_functions_of_a_module_are_found_by_their_decorators_and_nothing_is_imported(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(FUNCTIONS.format(version='__version__ = "1.1"'))
    found = [plugin for plugin in catalog(tmp_path).plugins() if plugin.location is not None]
    assert [(str(plugin.kind), plugin.class_name, plugin.reference, plugin.version) for plugin in found] == [
        ("sink", "shop.shelf", "shop:shelf", "1.1"),
        ("source", "shop.orders", "shop:orders", "1.1"),
        ("source", "shop.prices", "shop:prices", "1.1"),
        ("transformation", "shop.upper", "shop:upper", "1.1"),
    ]
    assert "shop" not in sys.modules


@pytest.mark.parametrize("base", ["SinkConnector", "TransactionalSink", "SqlSink", "KeyedSink", "sdk.SqlSink"])
def test_a_class_of_a_module_is_a_sink_by_each_base_of_the_sdk(tmp_path: Path, base: str) -> None:
    (tmp_path / "shop.py").write_text(
        f"from airflow_provider_connect import sdk\nfrom airflow_provider_connect.sdk import *\nclass Shelf({base}):\n    pass\n"
    )
    [found] = [plugin for plugin in catalog(tmp_path).plugins() if plugin.location is not None]
    assert (str(found.kind), found.class_name) == ("sink", "shop.Shelf")


def test_a_module_without_a_version_has_that_of_its_content(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    found = catalog(tmp_path)
    versions: list[str] = []
    for word in ("one", "two", "one"):
        file.write_text(f"# {word}\n{source()}")
        os.utime(file, ns=(len(versions), len(versions)))
        versions.append(found.find_connector("shop.EchoSource").version)
    assert versions[0] == versions[2] != versions[1]
    assert all(re.fullmatch("0-[0-9a-f]{12}", version) for version in versions)
    assert oldest_first([*versions[:2], "0.0.1"])[2] == "0.0.1"


def test_versions_by_content_have_no_newest(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "shop.py").write_text(f"# {folder}\n{source()}")
    found = catalog(tmp_path / "a", tmp_path / "b")
    one, two = (plugin.version for plugin in found.named("shop.EchoSource"))
    for spec in (None, "latest", "[0,1)"):
        with pytest.raises(ConfigException, match=f"give each file a __version__: {one} in .*, {two} in "):
            found.find_connector("shop.EchoSource", spec)
    assert found.find_connector("shop.EchoSource", one).version == one
    (tmp_path / "b" / "shop.py").write_text(f'__version__ = "0.1"\n{source()}')
    assert found.find_connector("shop.EchoSource").version == "0.1"


def test_what_a_module_declares_in_vain_is_reported(tmp_path: Path) -> None:
    sdk = "from airflow_provider_connect.sdk import rest_source, source\n"
    (tmp_path / "waits.py").write_text(f"{sdk}@source\nasync def rows(): ...\nasync def other(): ...\n@source\ndef good(): ...\n")
    (tmp_path / "shop.py").write_text(f"{sdk}Shop = rest_source('Shopp', resources=[])\n_Hidden = rest_source('x', resources=[])\n")
    found = catalog(tmp_path)
    assert {name: reason.partition(".py, ")[2] for name, reason in reasons(found).items()} == {
        "waits.py": "line 3: rows is async; a decorated function must not be",
        "shop.py": "line 2: Shop = rest_source('Shopp', …): the first argument must be 'Shop'",
    }
    assert [plugin.class_name for plugin in found.plugins(CONNECTOR_KINDS) if plugin.location is not None] == ["waits.good"]


def test_classes_that_a_function_of_the_module_makes_are_found_or_reported(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "from airflow_provider_connect.sdk import Resource, rest_source, source\n"
        "def make(name, path='/orders'):\n"
        "    return rest_source(name, base_url='http://shop', resources=[Resource('orders', path)])\n"
        "def titled(name):\n"
        "    return rest_source(name.title(), base_url='http://shop', resources=[Resource('orders', '/orders')])\n"
        "def decorated():\n"
        "    @source\n"
        "    def rows(): yield {}\n"
        "    return rows\n"
        "Orders = make('Orders')\n"
        "Customers = make('customers')\n"
        "Items = titled('items')\n"
        "Rows = decorated()\n"
    )
    found = catalog(tmp_path)
    plugins = [plugin for plugin in found.plugins(CONNECTOR_KINDS) if plugin.location is not None]
    assert [(plugin.class_name, class_name_of(plugin.load())) for plugin in plugins] == [("shop.Orders", "shop.Orders")]
    told = "\n".join(broken.reason for broken in found.broken())
    assert "line 11: Customers = make('customers', …): the first argument must be 'Customers'" in told
    assert "line 12: Items = titled(…) is not found as a plugin: titled must return rest_source" in told
    assert "line 13: Rows = decorated(…) is not found as a plugin" in told


def test_entries_of_plugin_path_that_are_no_folders_are_reported(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(source())
    found = catalog(tmp_path / "shop.py", tmp_path / "absent", tmp_path / "with\0NUL")
    assert reasons(found) == {
        "with\\0NUL": "it cannot be read: embedded null byte",
        "shop.py": "it is a file: plugin.path takes the folder that contains it",
        "absent": "it cannot be read: No such file or directory",
    }


def test_a_wrong_kind_of_an_entry_point_is_reported_with_the_kinds_also_of_an_installed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path / "site", "shop", "1.0", {"shop.py": source()}, "sources:Shop = shop:EchoSource")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    found = catalog()
    assert not found.named("Shop")
    assert reasons(found) == {
        "site": "entry point 'sources:Shop' = 'shop:EchoSource' of shop-1.0.dist-info is not of the form kind:ClassName = module:Class "
        "(sink, source, transformation, predicate, converter, header_converter)"
    }


def test_an_unknown_name_has_the_nearest_one_in_its_message(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(source("OrdersSource"))
    found = catalog(tmp_path)
    with pytest.raises(ConfigException, match=r"available connectors are: \(did you mean shop\.OrdersSource\?\) .*Source.* 0-\w+$"):
        found.find_connector("shop.OrderSource")
    install = r"\(to install it: airflow connect plugins install maven:io\.debezium:debezium-connector-mysql:3\.6\.1\.Final\) "
    with pytest.raises(
        ConfigException, match=rf"matches io\.debezium\.connector\.mysql\.MySqlConnector, available connectors are: {install}"
    ):
        found.find_connector("io.debezium.connector.mysql.MySqlConnector")
    with pytest.raises(
        PluginNotFoundException, match=r"^No converter is called JsonConvertor; did you mean JsonConverter\?; there are: .*StringConverter$"
    ):
        found.find(PluginKind.CONVERTER, "JsonConvertor")
    with pytest.raises(ConfigException, match=r"shop\.OrdersSource 0-\w+$"):
        found.find_connector("zzz")


def test_an_unknown_name_has_the_broken_locations_in_its_message(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / f"a{number}.py").write_text("secret = 'canary'\nthis is no Python\n")
    (tmp_path / "shop.py").write_text("class Orders(:\n")
    found = catalog(tmp_path)
    end = "Not usable on plugin.path: shop.py, a0.py, a1.py, a2.py, a3.py and 2 more; 'airflow connect plugins broken' prints the reasons"
    for kind in (None, PluginKind.TRANSFORMATION):
        with pytest.raises(ConnectException) as caught:
            found.find_connector("shop.Orders") if kind is None else found.find(kind, "shop.Orders")
        assert caught.value.message.endswith(f". {end}")
        assert str(tmp_path) not in caught.value.message
        assert "canary" not in caught.value.message
    assert found.unread("nothing").startswith(" Not usable on plugin.path: a0.py, a1.py")
    assert catalog().unread("shop.Orders") == ""


def test_a_tree_that_goes_while_its_directory_is_read_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        tree(tmp_path / name, name, "1.0", {f"{name}.py": source()}, f"source:{name.upper()}Source = {name}:EchoSource")
    stamp = plugin_path._tree_stamp

    def removed(path: str) -> str:
        text = stamp(path)
        if path.endswith("/b"):
            shutil.rmtree(path)
        return text

    monkeypatch.setattr(plugin_path, "_tree_stamp", removed)
    found, broken = plugin_path.locations([str(tmp_path)])
    assert [os.path.basename(location.path) for location in found] == ["a", "c"]
    assert broken == []
