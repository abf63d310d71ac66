"""Two versions with conflicting dependencies in one process, each with its own; the sdk and the standard library shared."""

import ast
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import Plugin, PluginCatalog
from airflow_provider_connect.sdk.config_def import class_name_of
from airflow_provider_connect.sdk.connector import SourceConnector
from tests.unit.plugins.locations import source, tree, wheel

ENTRY = "source:org.example.EchoSourceConnector = echo.connector:EchoSource"
CONNECTOR = """\
from __future__ import annotations
import importlib
import importlib.metadata
from dataclasses import dataclass, field
from typing import ClassVar
import colours.words
import colours.words as same_words
from colours import shade
from importlib import import_module
from . import beside
from .beside import NEXT
from airflow_provider_connect.sdk import SourceConnector, SourceTask, ConfigDef, ConfigKey


@dataclass
class Spot:
    known: ClassVar[int] = 1
    names: list[str] = field(default_factory=list)


class EchoTask(SourceTask):
    def poll(self):
        return None


class EchoSource(SourceConnector):
    task_class = EchoTask
    config_def = ConfigDef(ConfigKey("topic"))

    def facts(self):
        import colours.late
        return [
            colours.words.WORD, same_words.WORD, shade(), colours.late.LATE, beside.NEXT, NEXT,
            importlib.import_module("colours.words").WORD, import_module("colours").__name__.rpartition(".")[2],
            importlib.metadata.version("colours"), importlib.import_module(".beside", __package__).NEXT,
        ]
"""


def echo(path: Path, version: str, word: str) -> None:
    """The plugin and its dependency ``colours``, of which each version needs another one."""
    files = {"echo/__init__.py": "", "echo/connector.py": CONNECTOR, "echo/beside.py": f"NEXT = {version!r}\n"}
    tree(path, "echo", version, files, ENTRY)
    shade = "'dark ' + WORD" if version > "2" else "WORD + 'ish'"
    files = {
        "colours/__init__.py": f"from colours.words import WORD\ndef shade():\n    return {shade}\n",
        "colours/words.py": f"WORD = {word!r}\n",
        "colours/late.py": "from .words import WORD\nLATE = WORD + ' late'\n",
    }
    tree(path, "colours", version, files)


def versions(*path: Path) -> dict[str, Plugin]:
    return {plugin.version: plugin for plugin in PluginCatalog([str(each) for each in path]).named("EchoSource")}


def facts(plugin: Plugin) -> list[str]:
    connector: Any = plugin.load()()
    reported: list[str] = connector.facts()
    return reported


def test_each_version_sees_its_own_dependencies_in_one_process(tmp_path: Path) -> None:
    echo(tmp_path / "one", "1.0", "red")
    echo(tmp_path / "two", "2.0", "blue")
    found = versions(tmp_path)
    for _ in range(2):
        assert facts(found["1.0"]) == ["red", "red", "redish", "red late", "1.0", "1.0", "red", "colours", "1.0", "1.0"]
        assert facts(found["2.0"]) == ["blue", "blue", "dark blue", "blue late", "2.0", "2.0", "blue", "colours", "2.0", "2.0"]
    assert not {"colours", "echo"} & sys.modules.keys()


def test_the_sdk_is_shared_and_a_class_is_loaded_once(tmp_path: Path) -> None:
    echo(tmp_path / "one", "1.0", "red")
    echo(tmp_path / "two", "2.0", "blue")
    one, two = (plugin.load() for plugin in versions(tmp_path).values())
    assert one is not two
    assert issubclass(one, SourceConnector)
    assert issubclass(two, SourceConnector)
    assert versions(tmp_path)["1.0"].load() is one
    assert class_name_of(one) == "echo.connector.EchoSource"
    assert pickle.loads(pickle.dumps(one)) is one
    spot = sys.modules[one.__module__].Spot(["a"])
    assert pickle.loads(pickle.dumps(spot)) == spot


def test_an_own_copy_of_the_framework_in_a_location_is_not_used(tmp_path: Path) -> None:
    echo(tmp_path / "one", "1.0", "red")
    (tmp_path / "one" / "airflow_provider_connect").mkdir()
    (tmp_path / "one" / "airflow_provider_connect" / "__init__.py").write_text("raise AssertionError")
    (tmp_path / "one" / "dataclasses.py").write_text("raise AssertionError")
    assert issubclass(versions(tmp_path)["1.0"].load(), SourceConnector)


def test_changed_files_are_loaded_anew(tmp_path: Path) -> None:
    echo(tmp_path / "one", "1.0", "red")
    assert facts(versions(tmp_path)["1.0"])[0] == "red"
    (tmp_path / "one" / "colours" / "words.py").write_text("WORD = 'scarlet'\n")
    assert facts(versions(tmp_path)["1.0"])[0] == "scarlet"


def test_a_wheel_and_a_module_are_loaded_where_they_lie(tmp_path: Path) -> None:
    wheel(tmp_path, "boxed", "1.0", {"boxed/__init__.py": "", "boxed/a.py": source() + "from boxed.b import B\n", "boxed/b.py": "B = 7\n"},
          "source:Boxed = boxed.a:EchoSource")  # fmt: skip
    (tmp_path / "alone.py").write_text(source("AloneSource"))
    found = PluginCatalog([str(tmp_path)])
    loaded = found.find_connector("Boxed").load()
    assert sys.modules[loaded.__module__].B == 7
    assert found.find_connector("AloneSource").load().__name__ == "AloneSource"


def test_namespace_packages_reach_into_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site" / "shades" / "env").mkdir(parents=True)
    (tmp_path / "site" / "shades" / "env" / "__init__.py").write_text("WHERE = 'environment'\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    text = source(body="    def facts(self):\n        import shades.env, shades.own\n        return [shades.env.WHERE, shades.own.WHERE]\n")
    files = {"echo.py": text, "shades/own/__init__.py": "WHERE = 'location'\n"}
    tree(tmp_path / "plugins" / "echo", "echo", "1.0", files, "source:EchoSource = echo:EchoSource")
    assert facts(versions(tmp_path / "plugins")["1.0"]) == ["environment", "location"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nothing_of_this_name", "ModuleNotFoundError"),
        ("raise RuntimeError('not today')", "RuntimeError: not today"),
        ("import outside", "leads out of its location"),
        ("x = 1", "has no attribute 'EchoSource'"),
    ],
)
def test_what_cannot_be_imported_names_the_plugin_and_its_location(tmp_path: Path, text: str, message: str) -> None:
    tree(tmp_path / "plugins" / "echo", "echo", "1.0", {"echo.py": text}, "source:EchoSource = echo:EchoSource")
    (tmp_path / "elsewhere.py").write_text("")
    (tmp_path / "plugins" / "echo" / "outside.py").symlink_to(tmp_path / "elsewhere.py")
    with pytest.raises(ConfigException, match=message) as error:
        versions(tmp_path / "plugins")["1.0"].load()
    assert f"Plugin echo.EchoSource ({tmp_path}/plugins/echo, echo:EchoSource) cannot be imported" in str(error.value)


NATIVE = """
import sys
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
found = {plugin.version: plugin for plugin in PluginCatalog([sys.argv[1]]).named("EchoSource")}
for text in sys.argv[2:]:
    try:
        exec(text)
    except ConfigException as error:
        print(error)
"""
WHO = "print(found['1.0'].load().task_class.who())"
WHO_IT_IS = """
import fast, fast._speedups, pyarrow
Task.who = classmethod(lambda cls: (__name__, fast.WORD, fast._speedups.__file__, pyarrow.__file__))
"""


def native(path: Path, version: str, fast: str, extension: Path) -> Path:
    """The plugin and its dependency ``fast``, which has a compiled module."""
    location = tree(path, "echo", version, {"echo.py": source() + WHO_IT_IS}, "source:EchoSource = echo:EchoSource")
    tree(location, "fast", fast, {"fast/__init__.py": f"WORD = {fast!r}\n"})
    shutil.copy(extension, location / "fast" / extension.name)
    return location


@pytest.fixture
def extension() -> Path:
    """A compiled module of this Python, ``_speedups``."""
    from markupsafe import _speedups

    return Path(_speedups.__file__)


def in_a_process(plugin_path: Path, *statements: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", NATIVE, str(plugin_path), *statements]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_location_with_compiled_code_comes_first_but_for_what_is_shared(tmp_path: Path, extension: Path) -> None:
    location = native(tmp_path / "one", "1.0", "7.0", extension)
    (location / "pyarrow.py").write_text("raise AssertionError\n")
    module, word, compiled, arrow = ast.literal_eval(in_a_process(tmp_path, WHO))
    assert (module, word, Path(compiled)) == ("echo", "7.0", location / "fast" / extension.name)
    assert not Path(arrow).is_relative_to(tmp_path)


def test_a_copy_of_what_is_shared_makes_no_location_native(tmp_path: Path, extension: Path) -> None:
    location = tree(
        tmp_path / "one", "echo", "1.0", {"echo.py": source(), "pyarrow/__init__.py": ""}, "source:EchoSource = echo:EchoSource"
    )
    shutil.copy(extension, location / "pyarrow" / extension.name)
    assert versions(tmp_path)["1.0"].load().__module__.startswith("connect_plugins.one_")


def test_locations_with_compiled_code_share_a_process_where_they_agree(tmp_path: Path, extension: Path) -> None:
    native(tmp_path / "one", "1.0", "7.0", extension)
    entry = "transformation:Faster = faster:Faster"
    tree(tmp_path / "two", "faster", "1.0", {"faster.py": "import fast\nclass Faster:\n    word = fast.WORD\n"}, entry)
    native_parts = tmp_path / "two" / "fast"
    shutil.copytree(tmp_path / "one" / "fast", native_parts)
    shutil.copytree(tmp_path / "one" / "fast-7.0.dist-info", tmp_path / "two" / "fast-7.0.dist-info")
    find = "from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginKind\n"
    faster = find + "print(PluginCatalog([sys.argv[1]]).find(PluginKind.TRANSFORMATION, 'Faster').load().word)"
    assert in_a_process(tmp_path, "found['1.0'].load()", faster) == "7.0\n"
    (tmp_path / "two" / "fast-7.0.dist-info" / "METADATA").write_text("Name: fast\nVersion: 8.0\n")
    output = in_a_process(tmp_path, "found['1.0'].load()", faster)
    assert f"it has compiled code, as {tmp_path}/one does, and a process can load one of fast 8.0 here, fast 7.0 there" in output
    assert "in processes of their own" in output


def test_two_versions_with_compiled_code_do_not_share_a_process(tmp_path: Path, extension: Path) -> None:
    native(tmp_path / "one", "1.0", "7.0", extension)
    native(tmp_path / "two", "2.0", "8.0", extension)
    output = in_a_process(tmp_path, "found['1.0'].load()", "found['2.0'].load()")
    assert f"as {tmp_path}/one does, and a process can load one of echo 2.0 here, echo 1.0 there, fast 8.0 here, fast 7.0 there" in output


def test_compiled_code_that_the_process_has_loaded_from_elsewhere_is_not_mixed(tmp_path: Path, extension: Path) -> None:
    native(tmp_path / "plugins" / "one", "1.0", "7.0", extension)
    native(tmp_path / "site", "1.0", "6.0", extension)
    loaded = f"sys.path.insert(0, {str(tmp_path / 'site')!r})\nimport fast._speedups"
    output = in_a_process(tmp_path / "plugins", loaded, WHO)
    assert f"it has fast 7.0 with compiled code, and this process has loaded another one from {tmp_path}/site/fast/__init__.py" in output
    assert "have the same version in the location and in the environment" in output
