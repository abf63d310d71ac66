"""The connectors that the example DAG files define, read without Airflow's scheduler."""

import ast
import runpy

import pytest

import airflow_provider_connect
from tests.conftest import CHECKOUT

DAGS = CHECKOUT / "dags"


def configs_of(monkeypatch: pytest.MonkeyPatch, *files: str) -> dict[str, dict[str, str]]:
    """The configs in example files by the names of their connectors, which they contain too."""
    configs: dict[str, dict[str, str]] = {}
    monkeypatch.setattr(
        airflow_provider_connect, "ConnectorDag", lambda name, config, **_: configs.update({name: {"name": name, **config}})
    )
    for file in files:
        runpy.run_path(str(DAGS / file))
    return configs


def page_of(file: str) -> str:
    """The documentation at the beginning of an example file."""
    return ast.get_docstring(ast.parse((DAGS / file).read_text()), clean=False) or ""
