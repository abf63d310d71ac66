"""``airflow connect plugins list|config``."""

from dataclasses import asdict
from typing import Any

from airflow_provider_connect.cli.connection import Verbs, speaks_to_connect
from airflow_provider_connect.cli.printing import print_rows


@speaks_to_connect
def list_plugins(arguments: Any, verbs: Verbs) -> None:
    found = verbs.plugins(connectors_only=not arguments.all)
    print_rows([{"class": plugin.class_name, "type": plugin.type, "version": plugin.version} for plugin in found], arguments.output)


@speaks_to_connect
def config(arguments: Any, verbs: Verbs) -> None:
    """The keys that a plugin knows: as a table what fits into a line, else everything."""
    keys = verbs.plugin_config(arguments.plugin, arguments.plugin_version)
    if arguments.output != "table":
        print_rows([{**asdict(key), "dependents": list(key.dependents)} for key in keys], arguments.output)
        return
    rows = [
        {"key": key.name, "type": key.type, "default": "(required)" if key.required else key.default_value, "about": key.documentation}
        for key in keys
    ]
    print_rows([{**row, "about": _short(str(row["about"] or ""))} for row in rows], "table")


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 80 else f"{words[:79]}…"
