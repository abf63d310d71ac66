"""What Airflow's discovery finds in this package, without starting any of Airflow."""

import importlib
import inspect
import json
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import airflow
import jsonschema  # type: ignore[import-untyped]
import pytest

from airflow_provider_connect.cli.commands import get_connect_cli_commands
from airflow_provider_connect.cli.settings import masked
from airflow_provider_connect.get_provider_info import get_provider_info
from airflow_provider_connect.hooks.connect import ConnectHook
from tests.contract.provider_info import MODULE, module_text

ROOT = Path(__file__).resolve().parents[3]
SETUP = ConfigParser()
SETUP.read(ROOT / "setup.cfg")


def test_the_provider_info_is_generated_from_the_yaml() -> None:
    assert MODULE.read_text(encoding="utf-8") == module_text(), "run: python -m tests.contract.provider_info"


def test_the_provider_info_is_as_airflow_wants_it() -> None:
    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def named_in(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for part in value.values():
            yield from named_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from named_in(part)
    elif isinstance(value, str) and value.startswith("airflow_provider_connect."):
        yield value


def load(path: str) -> Any:
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("path", sorted(set(named_in(get_provider_info()))))
def test_what_the_provider_info_names_exists(path: str) -> None:
    assert load(path) is not None


def test_the_connection_form_is_the_hooks() -> None:
    (connection,) = get_provider_info()["connection-types"]
    assert (connection["connection-type"], connection["hook-name"]) == (ConnectHook.conn_type, ConnectHook.hook_name)


def test_the_setup_names_what_exists() -> None:
    for line in SETUP["options.entry_points"]["apache_airflow_provider"].split("\n") + SETUP["options.entry_points"][
        "airflow.plugins"
    ].split("\n"):
        if line.strip():
            module, _, name = line.partition("=")[2].strip().partition(":")
            assert getattr(importlib.import_module(module), name) is not None


def test_the_setup_lists_every_package() -> None:
    listed = set(SETUP["options"]["packages"].split())
    found = {str(file.parent.relative_to(ROOT)).replace("/", ".") for file in (ROOT / "airflow_provider_connect").rglob("*.py")}
    assert listed == found | {"airflow_provider_connect.examples", "airflow_provider_connect.spark_jobs"}


def commands(group: Any, prefix: str) -> Iterator[str]:
    for command in getattr(group, "subcommands", ()):
        yield from commands(command, f"{prefix} {command.name}")
    if not hasattr(group, "subcommands"):
        yield prefix


def action_commands() -> dict[str, str]:
    """The dotted name of each command's function."""
    found: dict[str, str] = {}

    def visit(group: Any, prefix: str) -> None:
        for command in group.subcommands:
            if hasattr(command, "subcommands"):
                visit(command, f"{prefix} {command.name}")
            else:
                found[f"{prefix} {command.name}"] = inspect.getclosurevars(command.func).nonlocals["import_path"]

    visit(get_connect_cli_commands()[0], "connect")
    return found


def test_the_commands() -> None:
    (group,) = get_connect_cli_commands()
    names = [name.removeprefix("connect ") for name in commands(group, group.name)]
    verbs = "list get create put patch delete status tasks pause resume stop restart validate"
    details = ("offsets get", "offsets alter", "offsets reset", "topics", "plugins list", "plugins config", "workers", "loggers list")
    servers = ("rest", "standalone", "mirror rebuild", "dev up", "dev status", "dev down", "settings")
    assert {*verbs.split(), *details, "loggers set", *servers} <= set(names)
    assert len(names) == len(set(names))


@pytest.mark.parametrize("command", sorted(action_commands()))
def test_a_command_names_a_function_that_exists(command: str) -> None:
    assert callable(load(action_commands()[command]))


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [("group.id", "g", "g"), ("sasl.jaas.config", "x", "[hidden]"), ("ssl.key.password", "${env:P}", "${env:P}")],
)
def test_printed_settings_hide_secrets(key: str, value: str, shown: str) -> None:
    assert masked(key, value) == shown
