"""The reference pages of the documentation, generated from the code: ``python -m tests.contract.references`` writes docs/reference-*.md."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

from airflow.cli.cli_config import ActionCommand, GroupCommand

from airflow_provider_connect.cli.commands import get_connect_cli_commands
from airflow_provider_connect.dag_files.retry import RetrySettings
from airflow_provider_connect.get_provider_info import get_provider_info
from airflow_provider_connect.rest import server
from airflow_provider_connect.runtime.config import dag_settings, worker_settings
from airflow_provider_connect.runtime.config.dag_settings import DagSettings
from airflow_provider_connect.runtime.config.key_values import schedule_of
from airflow_provider_connect.runtime.config.settings_reader import SettingsReader
from airflow_provider_connect.runtime.java.catalog import manifests
from airflow_provider_connect.runtime.model.connector_keys import common_config_def, own_config_def, sink_config_def, source_config_def
from airflow_provider_connect.runtime.model.verbs import VERBS
from airflow_provider_connect.sdk.config_def import ConfigDef
from tests.contract.config_tables import table_of
from tests.contract.setting_texts import AIRFLOW, GROUPS_OF_WORKER, WORKER

DOCS = Path(__file__).parents[2] / "docs"
GENERATED = "<!-- generated from the code by python -m tests.contract.references; edits here are lost -->\n"
_ELSEWHERE = {
    "listeners": "list",
    "access.control.allow.origin": "list",
    "access.control.allow.methods": "list",
    "rest.advertised.host.name": "string",
    server.ALLOWED_HOSTS: "list",
    server.ANONYMOUS: "boolean",
    manifests.SETTING: "list",
    dag_settings.WORKERS_JAVA_MEMORY: "size",
    dag_settings.MOST_JAVA_MEMORY: "size",
}
"""Worker settings that are read elsewhere, with their types. Their texts have their defaults."""


def pages() -> dict[str, Callable[[], str]]:
    """What writes each page, by the page's name."""
    return {
        "reference-settings.md": settings_page,
        "reference-commands.md": commands_page,
        "reference-rest.md": rest_page,
        "reference-operators.md": operators_page,
    }


def table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """A table of Markdown with the columns of ``head``, which are separated by ``|``."""
    titles = [title.strip() for title in head.split("|")]
    lines = [titles, ["---"] * len(titles), *([cell.replace("\n", " ").replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


class _RecordingReader(SettingsReader):
    """Records each key that is read by its name, with its type and its default."""

    def __init__(self) -> None:
        super().__init__({})
        self.seen: dict[str, tuple[str, str]] = {}

    def _see(self, name: str, kind: str, default: object) -> None:
        shown = {None: "–", "": "–", (): "–"}.get(default) if isinstance(default, str | tuple | None) else None
        self.seen.setdefault(name, (kind, shown or f"`{str(default).lower() if isinstance(default, bool) else default}`"))

    def text(self, name: str, default: str = "") -> str:
        self._see(name, "string", default)
        return super().text(name, default)

    def names(self, name: str) -> tuple[str, ...]:
        self._see(name, "list", ())
        return super().names(name)

    def flag(self, name: str, default: bool) -> bool:
        self._see(name, "boolean", default)
        return super().flag(name, default)

    def number(self, name: str, default: int, at_least: int = 0, *, at_most: int | None = None, bits: int = 64) -> int:
        self._see(name, "int" if bits < 64 else "long", default)
        return super().number(name, default, at_least, at_most=at_most, bits=bits)

    def real(self, name: str, default: float, at_least: float, at_most: float = float("inf")) -> float:
        self._see(name, "double", default)
        return super().real(name, default, at_least, at_most)

    def duration(self, name: str, default: float) -> float:
        self._see(name, "duration", f"{default:g}s")
        return super().duration(name, default)

    def memory(self, name: str, default: str) -> int:
        self._see(name, "size", default)
        return super().memory(name, default)

    def choice(self, name: str, default: str, *choices: str) -> str:
        self._see(name, f"one of {', '.join(f'`{choice}`' for choice in choices)}", default)
        return super().choice(name, default, *choices)


def worker_keys() -> dict[str, tuple[str, str]]:
    """Type and default of each worker setting, by its key."""
    read = _RecordingReader()
    worker_settings._settings(read, {}, {})
    optional = {"batch.max.records": ("long", "–"), dag_settings.SCHEDULE: ("schedule", "–")}  # read only where they are given
    return {**read.seen, **optional, **{key: (kind, "–") for key, kind in _ELSEWHERE.items()}}


def _allowed(parse: Callable[[str], Any]) -> str:
    """What a parser of the DAG's settings accepts, in the words in which it refuses other values."""
    for wrong in ("x" * 100_000, "999999999d", "x"):
        try:
            parse(wrong)
        except ValueError as error:
            if found := re.search(r"give (?:no more than|an? \w*|one of) .*|(?:no longer than) \w+|expected .*", str(error)):
                return found[0].removeprefix("give ").removeprefix("expected ") + (" characters" if "characters long" in str(error) else "")
    raise LookupError("the parser refuses nothing")


def airflow_keys() -> dict[str, tuple[str, str]]:
    """What each ``airflow.*`` key of a connector's config accepts, and its default, by the key."""
    fields: Mapping[str, tuple[str, Callable[[str], Any]]] = dag_settings._KEYS
    defaults = DagSettings(schedule=None)
    of_retries = {
        "airflow.retry.delay.max": "max_delay_seconds",
        "airflow.retry.delay.multiplier": "multiplier",
        "airflow.retry.delay.jitter": "jitter",
    }
    parsers = {
        dag_settings.SCHEDULE: schedule_of,
        **dag_settings.RETRY_KEYS,
        **{key: parse for key, (_, parse) in fields.items()},
    }
    found = {}
    for key in sorted(dag_settings._KNOWN):
        field = fields[key][0] if key in fields else ""
        default = getattr(defaults, field) if field else getattr(RetrySettings(), of_retries[key]) if key in of_retries else None
        unit = "s" if field.endswith("_seconds") or of_retries.get(key, "").endswith("_seconds") else ""
        shown = default if isinstance(default, str) else "" if default in (None, ()) else f"{default:g}{unit}"
        found[key] = (_allowed(parsers[key]), f"`{shown}`" if shown else "–")
    return found


def settings_page() -> str:
    """Every worker setting, ``airflow.*`` key and setting of all connectors."""
    worker = [(f"`{key}`", kind, default, WORKER[key]) for key, (kind, default) in sorted(worker_keys().items())]
    steering = [(f"`{key}`", allowed, default, AIRFLOW[key]) for key, (allowed, default) in airflow_keys().items()]
    groups = [(", ".join(f"`{part.strip()}`" for part in keys.split(",")), text) for keys, text in GROUPS_OF_WORKER.items()]
    return "\n".join(
        [
            "# Reference: settings\n",
            "[Settings](settings.md) explains where values come from and which value wins.",
            "The settings of a connector class are on its own page.\n",
            "## Worker settings\n",
            table("setting | type | default | meaning", worker),
            table("settings that begin with | meaning", groups),
            "## Settings of a connector's DAG\n",
            "These keys of a connector's config are removed before the connector sees it.\n",
            table("setting | accepts | default | meaning", steering),
            "## Settings of every connector\n",
            table_of(common_config_def()),
            "## Settings of every connector that Kafka Connect does not have\n",
            table_of(own_config_def()),
            "## Settings of every source\n",
            table_of(_beyond_common(source_config_def())),
            "Keys of `topic.creation.«group»` are in [topics and clients](topics-and-clients.md#topics-that-a-source-creates).\n",
            "## Settings of every sink\n",
            table_of(_beyond_common(sink_config_def())),
        ]
    )


def _beyond_common(definition: ConfigDef) -> ConfigDef:
    return ConfigDef(*(key for name, key in definition.keys.items() if name not in common_config_def().keys))


def commands_page() -> str:
    """Every command of the command line with its options."""
    parts = ["# Reference: commands\n", "[Hooks, operators, sensors, command line](hooks.md#the-command-line) explains their use.\n"]
    for words, command in _commands((), get_connect_cli_commands()):
        rows = [(_option(arg), str(arg.kwargs.get("help", ""))) for arg in command.args]
        parts += [
            f"## `airflow {' '.join(words)}`\n",
            f"{command.help}.\n",
            table("argument | meaning", rows) if rows else "No arguments.\n",
        ]
    return "\n".join(parts)


def _commands(words: tuple[str, ...], commands: Iterable[Any]) -> Iterator[tuple[tuple[str, ...], ActionCommand]]:
    for command in commands:
        below = (*words, command.name)
        if isinstance(command, GroupCommand):
            yield from _commands(below, command.subcommands)
        else:
            yield below, command


def _option(arg: Any) -> str:
    given = arg.kwargs
    choices = "\\|".join(given["choices"]).replace("\\|", "|") if given.get("choices") else None
    takes_value = given.get("action", "store") in ("store", "append") and arg.flags[0].startswith("-")
    value = choices or given.get("metavar") or (arg.flags[-1].strip("-").upper() if takes_value else "")
    return f"`{', '.join(arg.flags)}{f' {value}' if takes_value and value else ''}`"


def rest_page() -> str:
    """Every route of the REST API."""
    rows = []
    for verb in VERBS.values():
        statuses = ", ".join(map(str, (verb.status, *sorted(verb.also))))
        query = "; ".join(f"`{name}`: {each.about}" for name, each in verb.query.items())
        about = verb.about.replace("``", "`") + (f" Parameters: {query}." if query else "") + (" For admins." if verb.is_admin else "")
        rows.append((f"`{verb.method} {verb.path}`", statuses, about, f"`{verb.name}`"))
    return "\n".join(
        [
            "# Reference: REST API\n",
            "[REST](rest.md) explains rights, limits and differences from Kafka Connect. Paths are below `/connect` on Airflow's API",
            "server, and below `/` on other servers. *Method* is the method of `ConnectHook` and `ConnectClient` that sends this request.",
            "`GET /openapi.json` has the schemas of bodies.\n",
            table("route | statuses | effect | method", rows),
            "`GET /metrics` ([metrics](metrics.md)) and `GET /openapi.json` are served beside them. Errors have Kafka Connect's form:",
            '`{"error_code": 404, "message": "Connector orders not found"}`.\n',
        ]
    )


def operators_page() -> str:
    """Every operator, sensor and hook with its parameters."""
    found: Any = get_provider_info()
    parts = ["# Reference: operators, sensors and hooks\n", "[Hooks, operators, sensors, command line](hooks.md) explains their use.\n"]
    for title in ("operators", "sensors", "hooks", "triggers"):
        parts.append(f"## {title.capitalize()}\n")
        modules = [importlib.import_module(name) for group in found[title] for name in group["python-modules"]]
        for module in modules:
            for cls in _classes(module):
                rows = [(f"`{name}`", default) for name, default in _parameters(cls).items()]
                shown = table("parameter | default", rows) if rows else "No parameters.\n"
                text = re.sub(r"``", "`", inspect.cleandoc(cls.__doc__ or ""))
                parts += [f"### `{cls.__name__}`\n", f"From `{module.__name__}`. {text}\n", shown]
    return "\n".join(parts)


def _classes(module: ModuleType) -> list[type]:
    public = [one for name, one in vars(module).items() if inspect.isclass(one) and one.__module__ == module.__name__ and name[0] != "_"]
    ours = [one for one in public if {"execute", "run", "get_conn"} & {name for base in one.__mro__ for name in vars(base)}]
    return sorted(ours, key=lambda one: inspect.getsourcelines(one)[1])


def _parameters(cls: type) -> dict[str, str]:
    """The parameters of our own constructors with their defaults, the nearest class first; without those of every task of Airflow."""
    found: dict[str, str] = {}
    for one in cls.__mro__:
        init = (
            inspect.unwrap(vars(one)["__init__"])
            if one.__module__.startswith("airflow_provider_connect.") and "__init__" in vars(one)
            else None
        )
        if init is not None:
            for name, parameter in inspect.signature(init).parameters.items():
                if name != "self" and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                    is_required = parameter.default is parameter.empty
                    found.setdefault(name, "**required**" if is_required else f"`{_shown(parameter.default)}`")
    return found


def _shown(default: object) -> str:
    return repr(default.value if isinstance(default, Enum) else default)


def main() -> int:
    """Writes every page, and prints which have changed."""
    for name, page in pages().items():
        file = DOCS / name
        text = GENERATED + page()
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
            print(f"{name} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
