"""Tables of settings in the documentation, made from the ConfigDefs: ``python -m tests.contract.config_tables`` brings them up to date.

A page has the two comments ``config: «class name»`` and ``end of config``, each on a line of its own; what stands between is made here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from airflow_provider_connect.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.sdk.config_def import ConfigDef, ConfigKey, OneOf

DOCS = Path(__file__).parents[2] / "docs"
_TABLE = re.compile(r"(<!-- config: (\S+) -->\n).*?(<!-- end of config -->)", re.DOTALL)


def pages() -> Iterable[Path]:
    """The pages that have such tables."""
    return (page for page in sorted(DOCS.glob("*.md")) if _TABLE.search(page.read_text(encoding="utf-8")))


def up_to_date(text: str) -> str:
    """The text of a page with its tables made anew."""
    return _TABLE.sub(lambda match: f"{match[1]}{table_of(_definition(match[2]))}{match[3]}", text)


def table_of(definition: ConfigDef) -> str:
    """One row a setting, in the order of the definition."""
    rows = [f"| `{key.name}` | {key.type.value.lower()} | {_default(key)} | {_meaning(key)} |\n" for key in definition.keys.values()]
    return "".join(["| setting | type | default | meaning |\n| --- | --- | --- | --- |\n", *rows]) if rows else "No settings.\n"


def _definition(class_name: str) -> ConfigDef:
    plugin: Any = PluginCatalog().named(class_name)[-1].load()
    definition: ConfigDef = plugin.config_def
    return definition


def _default(key: ConfigKey) -> str:
    if key.is_required:
        return "**required**"
    shown = key.describe()["default_value"]
    return "–" if shown is None else f"`{shown}`" if shown else "empty"


def _meaning(key: ConfigKey) -> str:
    text = re.sub(r"</?code>", "`", key.doc.replace("<br/>", " ")).replace("|", "\\|").replace("\n", " ")
    choices = f" One of {', '.join(f'`{value}`' for value in key.validator.values)}." if isinstance(key.validator, OneOf) else ""
    return f"{text}{choices}"


def main() -> int:
    """Write every page anew; return which have changed."""
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = up_to_date(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"{page.name} brought up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
