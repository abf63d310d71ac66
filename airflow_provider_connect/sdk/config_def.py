"""Declared settings: types, defaults, limits, and validation with Kafka Connect's messages (docs/contract.md §5.3).

The input is a mapping of strings; the output is typed values and errors. Knows nothing of files or config providers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Final, Protocol

from airflow_provider_connect.data.java_text import text_of
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.config_type import Password, Type, class_name_of, display_text, parse_type

__all__ = [
    "REQUIRED",
    "Config",
    "ConfigDef",
    "ConfigKey",
    "ConfigValue",
    "Importance",
    "ListOf",
    "NonEmptyString",
    "OneOf",
    "Password",
    "Plugin",
    "Range",
    "Recommender",
    "Type",
    "Validator",
    "Width",
    "add_errors",
    "class_name_of",
    "display_text",
    "parse_type",
]


class Importance(StrEnum):
    """The importance of a setting to readers of the documentation."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(StrEnum):
    """The width of the setting's input field in a form."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class _Required:
    """Marks a setting without a default."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()


class Validator(Protocol):
    """Checks the value of a setting: a function or another callable.

    Called at every validation and parse, with the parsed value. The value is None if the setting is missing or cannot be parsed."""

    def __call__(self, name: str, value: Any, /) -> None:
        """Raise ConfigException unless ``value`` is valid. ``ConfigException.of`` creates Connect's message."""


class Recommender(Protocol):
    """Suggests values for a setting, depending on other settings, and decides whether a form shows it. Called at each validation."""

    def valid_values(self, name: str, parsed: Mapping[str, object]) -> list[object]:
        """The valid values, given all parsed settings. A setting that is missing or invalid is None in ``parsed``."""

    def visible(self, name: str, parsed: Mapping[str, object]) -> bool:
        """Whether a form should show the setting."""


@dataclass(frozen=True, slots=True)
class Range:
    """Accepts a number from ``at_least`` to ``at_most``, inclusive; None means no limit. Refuses a missing value."""

    at_least: float | None = None
    at_most: float | None = None

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            raise ConfigException.of(name, "null", "Value must be non-null")
        if self.at_least is not None and value < self.at_least:
            raise ConfigException.of(name, text_of(value), f"Value must be at least {text_of(self.at_least)}")
        if self.at_most is not None and value > self.at_most:
            raise ConfigException.of(name, text_of(value), f"Value must be no more than {text_of(self.at_most)}")


class OneOf:
    """Accepts one of ``values``. With ``case_sensitive=False`` the message lists them in capitals, as Connect does."""

    def __init__(self, *values: str, case_sensitive: bool = True) -> None:
        self.values = values
        self.case_sensitive = case_sensitive

    def __call__(self, name: str, value: Any) -> None:
        if self.case_sensitive:
            if value not in self.values:
                raise ConfigException.of(name, text_of(value), f"String must be one of: {', '.join(self.values)}")
        elif value is None or value.upper() not in {word.upper() for word in self.values}:
            choices = ", ".join(word.upper() for word in self.values)
            raise ConfigException.of(name, text_of(value), f"String must be one of (case insensitive): {choices}")


class NonEmptyString:
    """Accepts a string with at least one character, and a missing value."""

    def __call__(self, name: str, value: Any) -> None:
        if value is not None and not value:
            raise ConfigException.of(name, "", "String must be non-empty")


class ListOf:
    """Accepts a missing value, and a list of entries from ``values``. Without ``values``, accepts any entries. ``unique`` refuses
    duplicates."""

    def __init__(self, *values: str, unique: bool = False) -> None:
        self.values = values
        self.unique = unique

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            return
        for entry in value if self.values else ():
            OneOf(*self.values)(name, entry)
        if self.unique and len(set(value)) < len(value):
            raise ConfigException.of(name, text_of(value), "Duplicate alias provided.")


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One setting.

    ``default`` is a string, a value of the type, or None. REQUIRED means that the setting has no default. ``doc``, ``group``, ``order``,
    ``width`` and ``display_name`` are for forms and pages. ``dependents`` names settings whose recommended values depend on this setting.
    ``alias`` is an older name, which is read if the setting itself is missing. Blanks at both ends of a string are removed, as in Kafka,
    unless ``keeps_blanks`` is true. ``warning`` receives a given value, unparsed, and returns a reason why the value is probably wrong
    although it is valid, or None. The constructor raises ConfigException for a default that is not of the type.
    """

    name: str
    type: Type = Type.STRING
    default: object = REQUIRED
    validator: Validator | None = field(default=None, kw_only=True)
    importance: Importance = field(default=Importance.MEDIUM, kw_only=True)
    doc: str = field(default="", kw_only=True)
    group: str | None = field(default=None, kw_only=True)
    order: int = field(default=-1, kw_only=True)
    width: Width = field(default=Width.NONE, kw_only=True)
    display_name: str | None = field(default=None, kw_only=True)
    dependents: tuple[str, ...] = field(default=(), kw_only=True)
    recommender: Recommender | None = field(default=None, kw_only=True)
    alias: str | None = field(default=None, kw_only=True)
    keeps_blanks: bool = field(default=False, kw_only=True)
    warning: Callable[[str], str | None] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.default is not REQUIRED:
            object.__setattr__(self, "default", self.parse(self.default))

    def parse(self, value: Any) -> Any:  # Any: a setting's value
        """Parse ``value``: a string, or already a value of the type. None stays None. Raises ConfigException."""
        if self.keeps_blanks and isinstance(value, str):
            return value
        return parse_type(self.name, value, self.type)

    @property
    def is_required(self) -> bool:
        """Whether the setting has no default."""
        return self.default is REQUIRED

    def with_default(self, value: object) -> ConfigKey:
        """A copy with another default."""
        return dataclasses.replace(self, default=value)

    def describe(self) -> dict[str, Any]:
        """The setting as Connect's REST API returns it (ConfigKeyInfo)."""
        return {
            "name": self.name,
            "type": self.type.value,
            "required": self.is_required,
            "default_value": None if self.is_required else display_text(self.default),
            "importance": self.importance.value,
            "documentation": self.doc,
            "group": self.group,
            "order_in_group": self.order,
            "width": self.width.value,
            "display_name": self.name if self.display_name is None else self.display_name,
            "dependents": list(self.dependents),
        }

    def raw(self, settings: Mapping[str, Any]) -> tuple[bool, Any]:
        """Whether ``settings`` has this setting, under its name or alias; and the setting's unparsed value."""
        for name in (self.name, self.alias):
            if name is not None and name in settings:
                return True, settings[name]
        return False, None


@dataclass(slots=True)
class ConfigValue:
    """The result of validating one setting. ``value`` is the parsed value; None if it is missing or cannot be parsed."""

    name: str
    value: object = None
    recommended_values: list[object] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    visible: bool = True

    def describe(self) -> dict[str, Any]:
        """The value as Connect's REST API returns it (ConfigValueInfo). Secrets are hidden."""
        return {
            "name": self.name,
            "value": display_text(self.value),
            "recommended_values": [display_text(value) for value in self.recommended_values],
            "errors": list(self.errors),
            "visible": self.visible,
        }


def add_errors(values: list[ConfigValue], mistakes: Iterable[ConfigException], otherwise: str | None = None) -> None:
    """Add the errors of each exception to the first of its ``keys`` that is in ``values``.

    If no key is in ``values``, the errors go to the setting ``otherwise``. If ``otherwise`` is None, they go to the exception's first key.
    If that setting is not in ``values``, it is appended."""
    by_name = {value.name: value for value in values}
    for mistake in mistakes:
        name = next((key for key in mistake.keys if key in by_name), otherwise or mistake.keys[0])
        if name not in by_name:
            by_name[name] = ConfigValue(name)
            values.append(by_name[name])
        by_name[name].errors += mistake.errors


class Config(Mapping[str, Any]):
    """Typed settings by name: the value or default of every declared setting. Any, because each setting has its own type.

    ``originals`` has the unparsed strings, including undeclared settings.
    """

    __slots__ = ("_values", "originals")

    def __init__(self, values: Mapping[str, Any], originals: Mapping[str, str]) -> None:
        self._values = dict(values)
        self.originals = dict(originals)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Config({sorted(self._values)})"  # no values, because they may be secret


class ConfigDef:
    """The declared settings of a plugin, in the order in which they are shown. Raises ConfigException for a name that is used twice."""

    def __init__(self, *keys: ConfigKey) -> None:
        self.keys: dict[str, ConfigKey] = {key.name: key for key in keys}
        if len(self.keys) < len(keys):
            names = [key.name for key in keys]
            twice = next(name for name in names if names.count(name) > 1)
            raise ConfigException(f"Configuration {twice} is defined twice.")

    def with_keys(self, *more: ConfigKey) -> ConfigDef:
        """A new definition with ``more`` appended. A key with the name of an existing key replaces it."""
        return ConfigDef(*{**self.keys, **{key.name: key for key in more}}.values())

    def groups(self) -> list[str]:
        """The names of all groups, in the order of their first key."""
        return list(dict.fromkeys(key.group for key in self.keys.values() if key.group is not None))

    def parse(self, settings: Mapping[str, Any]) -> Config:
        """Typed values of all keys. Raises one ConfigException with all errors."""
        found = self._parse_all(settings)
        errors = [error for value in found.values() for error in value.errors]
        if errors:
            raise ConfigException("\n".join(errors), errors=errors)
        originals = {name: text for name, text in _originals(settings).items() if text is not None}
        return Config({name: value.value for name, value in found.items()}, originals)

    def validate(self, settings: Mapping[str, Any]) -> list[ConfigValue]:
        """One value per key, in order, with its errors and recommended values. Dependents that are not defined come last, each with an
        error.

        The validator of a key that is missing or cannot be parsed is called with None, so such a key may have two errors, as in Connect.
        """
        found = self._parse_all(settings)
        parsed = {name: value.value for name, value in found.items()}
        for key in self.keys.values():
            if key.recommender is not None:
                _recommend(key, key.recommender, found[key.name], parsed)
        unknown = dict.fromkeys(name for key in self.keys.values() for name in key.dependents if name not in self.keys)
        return [*found.values(), *(_undefined_dependent(name) for name in unknown)]

    def warnings(self, settings: Mapping[str, Any], prefix: str = "") -> list[str]:
        """A sentence for each given value with a ``warning``. ``prefix`` precedes the settings' names in the sentences."""
        given = ((key, *key.raw(settings)) for key in self.keys.values() if key.warning is not None)
        reasons = ((key.name, key.warning(value)) for key, is_given, value in given if key.warning and is_given and isinstance(value, str))
        return [f"The setting {f'{prefix}{name}'!r}: {reason}" for name, reason in reasons if reason is not None]

    def describe(self) -> list[dict[str, Any]]:
        """All keys as Connect's REST API returns them."""
        return [key.describe() for key in self.keys.values()]

    def _parse_all(self, settings: Mapping[str, Any]) -> dict[str, ConfigValue]:
        raw = _originals(settings)
        return {key.name: _parse_key(key, raw) for key in self.keys.values()}


def _originals(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    return settings.originals if isinstance(settings, Config) else settings


def _parse_key(key: ConfigKey, settings: Mapping[str, Any]) -> ConfigValue:
    found = ConfigValue(key.name)
    given, raw = key.raw(settings)
    try:
        if given:
            found.value = key.parse(raw)
        elif key.is_required:
            found.errors.append(f'Missing required configuration "{key.name}" which has no default value.')
        else:
            found.value = key.default
    except ConfigException as error:
        found.errors.append(error.message)
    if key.validator is not None:
        try:
            key.validator(key.name, found.value)
        except ConfigException as error:
            found.errors.extend(error.errors)
    return found


def _recommend(key: ConfigKey, recommender: Recommender, found: ConfigValue, parsed: Mapping[str, object]) -> None:
    try:
        found.recommended_values = list(recommender.valid_values(key.name, parsed))
        found.visible = recommender.visible(key.name, parsed)
    except ConfigException as error:
        found.errors.extend(error.errors)


def _undefined_dependent(name: str) -> ConfigValue:
    return ConfigValue(name, errors=[f"{name} is referred in the dependents, but not defined."], visible=False)


class Plugin:
    """Base of connectors, converters, transformations and predicates. The framework creates each plugin without arguments, and then
    configures it."""

    class_name: ClassVar[str | None] = None
    """The plugin's name in configs. None: module and name of its class. A built-in plugin has the name of Kafka Connect's Java class."""
    aliases: ClassVar[tuple[str, ...]] = ()
    """Other names that a config may use."""
    version: ClassVar[str | None] = None
    """The plugin's version. None: the version of its distribution."""
    config_def: ClassVar[ConfigDef] = ConfigDef()
    """The plugin's settings."""
