"""The plugins on the pages for authors: how long they are, and that they open no file of the host that the worker does not allow."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk import AllowedPaths, Config
from airflow_provider_connect.skeleton.new import Kind, package_files
from tests.integration.pages import steps

DOCS = Path(__file__).resolve().parents[3] / "docs"


def text_of(page: str, file: str) -> str:
    """The file that a page shows."""
    [text] = [step.text for step in steps((DOCS / page).read_text(encoding="utf-8")) if step.file == file]
    return text


@pytest.mark.parametrize(
    ("page", "file", "most_lines"),
    [
        ("functions.md", "plugins/shop.py", 15),  # an HTTP source, page by page
        ("writing-connectors.md", "src/shop/events.py", 60),  # the same as a class
        ("writing-connectors.md", "src/shop/rows.py", 30),
    ],
)
def test_plugins_are_short(page: str, file: str, most_lines: int) -> None:
    assert len(text_of(page, file).splitlines()) <= most_lines


def test_the_generated_sink_is_short() -> None:
    texts = package_files("shop", [Kind.SINK], framework="1.2.3")
    assert len(texts["src/shop/sink.py"].splitlines()) <= 60


def loaded(page: str, file: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The page's file as a module."""
    module = ModuleType(f"page_{Path(file).stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(text_of(page, file), file, "exec"), module.__dict__)
    return module


@pytest.mark.parametrize(
    ("page", "file", "name"),
    [
        ("writing-connectors.md", "src/shop/rows.py", "RowsSinkConnector"),
        ("testing-plugins.md", "tests/test_orders.py", "OrdersSink"),
    ],
)
def test_sinks_open_no_file_outside(page: str, file: str, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sink: Any = getattr(loaded(page, file, monkeypatch), name)()
    sink.allowed_paths = AllowedPaths((str(tmp_path / "data"),))
    (tmp_path / "data").mkdir()
    for path, is_allowed in ((tmp_path / "outside.db", False), (tmp_path / "data" / "inside.db", True)):
        sink.config = Config({"path": str(path)}, {"path": str(path)})
        if is_allowed:
            sink.open().close()
        else:
            with pytest.raises(ConfigException, match=r"connectors\.allowed\.paths"):
                sink.open()
        assert path.exists() == is_allowed


def test_a_sink_function_opens_no_file_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shelf = loaded("functions.md", "plugins/shelf.py", monkeypatch).shelf
    (tmp_path / "data").mkdir()
    allowed = AllowedPaths((str(tmp_path / "data"),))
    with pytest.raises(ConfigException, match=r"connectors\.allowed\.paths"):
        shelf.function([{"id": 1, "item": "tea"}], str(tmp_path / "outside.db"), allowed)
    shelf.function([{"id": 1, "item": "tea"}], str(tmp_path / "data" / "inside.db"), allowed)
    assert sorted(path.name for path in tmp_path.rglob("*.db")) == ["inside.db"]
