"""Tables of settings in the documentation, made from the ConfigDefs: ``python -m tests.contract.config_tables`` brings them up to date.

A page has two comments, each on a line of its own; the text between them is made here. The second is ``end of config``, the first one of

- ``config: A``: the settings of the class A, by its name with or without a package,
- ``config: A, B``: the settings that A and B define alike,
- ``config: A, not B``: the settings of A that B does not define alike.

Settings that are accepted and not used stand in a list below the table, by their reason.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.sdk.config_def import ConfigDef, ConfigKey, OneOf

DOCS = Path(__file__).parents[2] / "docs"
_TABLE = re.compile(r"(<!-- config: ([^\n]+) -->\n).*?(<!-- end of config -->)", re.DOTALL)
_NOT_USED = "Not used: "
_SHORTER = (
    (
        r"Defines the version of the syntax to access fields\..*",
        "`V1`: fields at the top level. `V2`: also inner fields, as `outer.inner`; backticks enclose names with dots.",
    ),
    (r"Whether to replace fields that have a default value and that are null.*", "Whether null is replaced by the field's default."),
    (r"(Field name for .+?)\. Suffix with `!`.*", r"\1; with `!` at its end required, otherwise optional."),
    (
        r"List of fields and the type to cast them to.*",
        "`field1:type,field2:type`, or one type for the whole value: int8, int16, int32, int64, "
        "float32, float64, boolean, string. Bytes can only become string.",
    ),
    (r"The desired Unix precision for the timestamp.*", "Precision of Unix times in the input, or with `target.type=unix` in the output."),
    (
        r"When set, this is used as the schema for all messages.*",
        "Schema of all records of a sink, if `schemas.enable` is true. Records then have no envelope.",
    ),
)
"""Patterns of long texts of Kafka Connect, and the text in place of each. Validation over REST returns Connect's."""


def pages() -> Iterable[Path]:
    """The pages that have such tables."""
    return (page for page in sorted(DOCS.glob("*.md")) if _TABLE.search(page.read_text(encoding="utf-8")))


def up_to_date(text: str) -> str:
    """The text of a page with its tables made anew."""
    return _TABLE.sub(lambda match: f"{match[1]}{_rendered(_selected(match[2].split(', ')))}{match[3]}", text)


def table_of(definition: ConfigDef) -> str:
    """One row a setting, in the order of the definition."""
    return _rendered(list(definition.keys.values()))


def _selected(names: list[str]) -> list[ConfigKey]:
    first, *others = names
    keys = list(_definition(first).keys.values())
    for other in others:
        rows = {_row(key) for key in _definition(other.removeprefix("not ")).keys.values()}
        keys = [key for key in keys if (_row(key) in rows) is not other.startswith("not ")]
    return keys


def _rendered(keys: list[ConfigKey]) -> str:
    unused = [key for key in keys if key.doc.startswith(_NOT_USED)]
    rows = [_row(key) for key in keys if key not in unused]
    table = "".join(["| setting | type | default | meaning |\n| --- | --- | --- | --- |\n", *rows]) if rows else "No settings.\n"
    reasons = dict.fromkeys(key.doc.removeprefix(_NOT_USED) for key in unused)
    lines = [f"- {_names([key.name for key in unused if key.doc == _NOT_USED + reason], keys)}: {reason}\n" for reason in reasons]
    return "".join([table, "\nAccepted and not used:\n\n", *lines]) if lines else table


def _names(unused: list[str], keys: list[ConfigKey]) -> str:
    """The names between commas; one pattern for all settings with a prefix that has no others."""
    groups = {name: name.partition(".")[0] + "." for name in unused}
    whole = {group for group in groups.values() if all(key.name in groups for key in keys if key.name.startswith(group))}
    return ", ".join(
        dict.fromkeys(
            f"`{group}*`" if group in whole and list(groups.values()).count(group) > 2 else f"`{name}`" for name, group in groups.items()
        )
    )


def _row(key: ConfigKey) -> str:
    return f"| `{key.name}` | {key.type.value.lower()} | {_default(key)} | {_meaning(key)} |\n"


def _definition(class_name: str) -> ConfigDef:
    catalog = PluginCatalog()
    found = catalog.named(class_name) or [plugin for plugin in catalog.plugins() if plugin.class_name.endswith(f".{class_name}")]
    plugin: Any = found[-1].load()
    definition: ConfigDef = plugin.config_def
    return definition


def _default(key: ConfigKey) -> str:
    if key.is_required:
        return "**required**"
    shown = key.describe()["default_value"]
    return "–" if shown is None else f"`{shown}`" if shown else "empty"


def _meaning(key: ConfigKey) -> str:
    text = re.sub(r"</?code>", "`", key.doc.replace("<br/>", " ")).replace("\n", " ")
    for pattern, shorter in _SHORTER:
        text = re.sub(pattern, shorter, text)
    text = text.replace("|", "\\|")
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
