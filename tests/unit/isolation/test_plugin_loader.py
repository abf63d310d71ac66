"""Two versions with conflicting dependencies in one process, each with its own; the sdk and the standard library shared."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.isolation.plugin_catalog import Plugin, PluginCatalog
from airflow_provider_connect.sdk.connector import SourceConnector
from airflow_provider_connect.sdk.plugin import class_name_of
from tests.unit.isolation.locations import source, tree, wheel

ENTRY = "source:org.example.EchoSourceConnector = echo.connector:EchoSource"
CONNECTOR = """\
from __future__ import annotations
import importlib
import importlib.metadata
from dataclasses import dataclass, field
from typing import ClassVar
import colours.words
import colours.words as said_otherwise
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
            colours.words.WORD, said_otherwise.WORD, shade(), colours.late.LATE, beside.NEXT, NEXT,
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
    told: list[str] = connector.facts()
    return told


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
    ("text", "said"),
    [
        ("import nothing_of_this_name", "ModuleNotFoundError"),
        ("raise RuntimeError('not today')", "RuntimeError: not today"),
        ("import outside", "leads out of its location"),
        ("x = 1", "has no attribute 'EchoSource'"),
    ],
)
def test_what_cannot_be_imported_says_which_plugin_and_where(tmp_path: Path, text: str, said: str) -> None:
    tree(tmp_path / "plugins" / "echo", "echo", "1.0", {"echo.py": text}, "source:EchoSource = echo:EchoSource")
    (tmp_path / "elsewhere.py").write_text("")
    (tmp_path / "plugins" / "echo" / "outside.py").symlink_to(tmp_path / "elsewhere.py")
    with pytest.raises(ConfigException, match=said) as error:
        versions(tmp_path / "plugins")["1.0"].load()
    assert f"Plugin echo.EchoSource ({tmp_path}/plugins/echo, echo:EchoSource) cannot be imported" in str(error.value)


NATIVE = """
import sys
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.isolation.plugin_catalog import PluginCatalog
found = {plugin.version: plugin for plugin in PluginCatalog([sys.argv[1]]).named("EchoSource")}
assert found["1.0"].load().__module__ == "echo"
try:
    found["2.0"].load()
except ConfigException as error:
    print(error)
"""


def test_a_second_location_with_compiled_code_of_the_same_name_is_refused(tmp_path: Path) -> None:
    for version in ("1.0", "2.0"):
        path = tree(tmp_path / version, "echo", version, {"echo.py": source()}, "source:EchoSource = echo:EchoSource")
        (path / "_speed.abi3.so").write_bytes(b"")
    done = subprocess.run([sys.executable, "-c", NATIVE, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"both it and {tmp_path}/1.0 bring _speed, echo with compiled code" in done.stdout
