"""What the page shows of a class before it is chosen: its author's first sentence, which no import is needed for."""

import sys
import zipfile
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.model.plugin_kinds import PluginKind
from airflow_provider_connect.runtime.plugins.catalog.plugin import Plugin
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import CONNECTOR_KINDS, PluginCatalog
from airflow_provider_connect.runtime.plugins.catalog.plugin_summary import read_summary
from airflow_provider_connect.runtime.plugins.loading.plugin_path import Location, LocationForm

SOURCE = '''raise SystemExit("this module is imported")

class Orders:
    """Brings the orders
    of a shop. Nothing else."""

def items(since: int = 0):
    """Items: all of them."""

class Silent: pass
'''


def plugin(reference: str, path: Path, form: LocationForm) -> Plugin:
    return Plugin(PluginKind.SOURCE, reference.replace(":", "."), reference, "1", Location(str(path), form, "1"))


@pytest.mark.parametrize("form", [LocationForm.MODULE, LocationForm.TREE, LocationForm.WHEEL])
def test_the_first_sentence_is_read_from_the_source_wherever_it_lies(tmp_path: Path, form: LocationForm) -> None:
    module, path = "shop", tmp_path / "shop.py"
    if form is LocationForm.MODULE:
        path.write_text(SOURCE)
    elif form is LocationForm.TREE:
        module, path = "shop.connectors", tmp_path
        (tmp_path / "shop" / "connectors").mkdir(parents=True)
        (tmp_path / "shop" / "connectors" / "__init__.py").write_text(SOURCE)
    else:
        path = tmp_path / "shop-1-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr("shop.py", SOURCE)
    found = [read_summary(plugin(f"{module}:{name}", path, form)) for name in ("Orders", "items", "Silent", "Missing")]
    assert found == ["Brings the orders of a shop", "Items", None, None]
    assert "shop" not in sys.modules


def test_a_package_that_is_installed_as_editable_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its finder knows the folder, which is on no path."""

    class Finder:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
            return spec_from_file_location(name, tmp_path / "shop.py") if name == "shop" else None

    (tmp_path / "shop.py").write_text(SOURCE)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert read_summary(Plugin(PluginKind.SOURCE, "shop.Orders", "shop:Orders", "1")) == "Brings the orders of a shop"
    assert "shop" not in sys.modules


@pytest.mark.parametrize("content", ["class Orders(:", "\0", "(" * 100_000, '"""' + "x" * (1 << 20) + '"""\n' + SOURCE])
def test_a_source_that_cannot_be_read_has_no_summary(tmp_path: Path, content: str) -> None:
    (tmp_path / "shop.py").write_text(content)
    assert read_summary(plugin("shop:Orders", tmp_path / "shop.py", LocationForm.MODULE)) is None
    assert read_summary(plugin("gone:Orders", tmp_path / "gone.py", LocationForm.MODULE)) is None
    (tmp_path / "broken.whl").write_text(content)
    assert read_summary(plugin("shop:Orders", tmp_path / "broken.whl", LocationForm.WHEEL)) is None


def test_every_connector_of_this_package_has_one() -> None:
    missing = [each.class_name for each in PluginCatalog().plugins(CONNECTOR_KINDS) if each.location is None and not read_summary(each)]
    assert missing == []
