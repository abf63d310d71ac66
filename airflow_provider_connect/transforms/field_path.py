"""Where a field lies: its name alone (V1), or names joined by dots, with back-ticks around names that have dots (V2, KIP-821)."""

from __future__ import annotations

from typing import Final

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.config_def import Config, ConfigKey, Importance, OneOf

SYNTAX_VERSION: Final = ConfigKey(
    "field.syntax.version",
    default="V1",
    validator=OneOf("V1", "V2", case_sensitive=False),
    importance=Importance.HIGH,
    doc="Defines the version of the syntax to access fields. If set to <code>V1</code>, then the field paths are limited to access the "
    "elements at the root level of the struct or map. If set to <code>V2</code>, the syntax will support accessing nested elements. To "
    "access nested elements, dotted notation is used. If dots are already included in the field name, then backtick pairs can be used "
    'to wrap field names containing dots. E.g. to access the subfield <code>baz</code> from a field named "foo.bar" in a struct/map the '
    'following format can be used to access its elements: "<code>foo.bar</code>.baz".',
)


def field_path(text: str, config: Config) -> tuple[str, ...]:
    """The names from the outermost field inwards. Raises ConfigException for a back-tick without its pair."""
    return (text,) if config[SYNTAX_VERSION.name].upper() == "V1" else tuple(_steps(text))


def _steps(text: str) -> list[str]:
    steps = []
    at = 0
    while at < len(text):
        if text[at] == "`":
            step, at = _quoted(text, at)
        else:
            end = text.find(".", at)
            end = len(text) if end < 0 else end
            step, at = text[at:end], end + 1
        steps.append(step)
    return [*steps, ""] if text.endswith(".") or not text else steps


def _quoted(text: str, opening: int) -> tuple[str, int]:
    """The name between back-ticks, and where the next begins. It ends at a back-tick before a dot or the end, unless a backslash is
    before it."""
    name, start = "", opening + 1
    at = text.find("`", start)
    while at >= 0:
        is_escaped, is_last = text[at - 1] == "\\", at == len(text) - 1
        if is_last and not is_escaped:
            return name + text[start:at], at + 1
        if not is_last and text[at + 1] == ".":
            if not is_escaped:
                return name + text[start:at], at + 2
            name, start = f"{name}{text[start : at - 1]}`", at + 1
        at = -1 if is_last else text.find("`", at + 1)
    raise ConfigException(
        f"Incomplete backtick pair in path: [{text}], consider adding a backslash before backtick at position {opening} to escape it"
    )
