"""A function's parameters as settings: the ConfigDef that they declare, and the arguments of a call.

The parameter ``page_size`` is the setting ``page.size``. Its annotation is the type: ``str``, ``int``, ``float``, ``bool``, ``Password``,
``list[str]``, or a ``Literal`` or ``StrEnum`` of choices. ``| None`` makes it optional. ``Annotated`` adds validators such as ``Range``, an
Importance, and the documentation. The documentation may also be in the docstring's section ``Args:``. A parameter that is a dataclass adds
one setting per field.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from airflow_provider_connect.sdk.config_def import REQUIRED, Config, ConfigDef, ConfigKey, Importance, ListOf, OneOf, Password, Type

_TYPES: Final[Mapping[object, Type]] = {
    str: Type.STRING,
    int: Type.LONG,
    float: Type.DOUBLE,
    bool: Type.BOOLEAN,
    Password: Type.PASSWORD,
}
_NO_DEFAULT: Final = inspect.Parameter.empty
_BY_NAME: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class Signature:
    """The settings of one function. ``config_def`` has their keys in the order of the parameters."""

    config_def: ConfigDef
    _parameters: Mapping[str, _Setting | _Group]

    @classmethod
    def of(cls, function: Callable[..., object], *, without: Collection[str] = ()) -> Signature:
        """The signature of ``function`` except for the parameters ``without``, which the framework fills.

        Raises TypeError for a parameter that cannot be a setting."""
        docs = _documented(function.__doc__)
        parameters: dict[str, _Setting | _Group] = {}
        for parameter in parameters_of(function).values():
            if parameter.name not in without:
                parameters[parameter.name] = _parameter(function, parameter, docs)
        return cls(ConfigDef(*(key for each in parameters.values() for key in each.config_keys())), parameters)

    def arguments(self, config: Config) -> dict[str, Any]:  # Any: each setting has a type of its own
        """The arguments of a call, by parameter name."""
        return {name: parameter.value(config) for name, parameter in self._parameters.items()}


def parameters_of(function: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    """The parameters of a function. Raises TypeError for parameters that cannot be passed by name, such as ``*args``."""
    parameters = inspect.signature(function).parameters
    for parameter in parameters.values():
        if parameter.kind not in _BY_NAME:
            raise TypeError(f"{_title(function)}: parameter {parameter} cannot be passed by name, so it cannot be a setting")
    return parameters


def refuse_unknown(function: Callable[..., object] | None, known: Collection[str], role: str) -> None:
    """Raise TypeError if ``function`` requires a parameter that is not ``known``. ``role`` names the function in the message."""
    for parameter in () if function is None else parameters_of(function).values():
        if parameter.name not in known and parameter.default is _NO_DEFAULT:
            raise TypeError(f"{role}: unknown parameter {parameter.name!r}; it may have: {', '.join(known)}")


def call_with(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:  # Any: the author's types
    """Call ``function`` with the arguments of ``given`` for which it has parameters."""
    return function(**{name: given[name] for name in parameters_of(function) if name in given})


def types_of(function: Callable[..., object], name: str) -> tuple[Any, ...]:
    """The alternatives of the annotation of a parameter, or of the result (``name="return"``); empty without an annotation.

    Raises TypeError for an annotation that cannot be evaluated."""
    hint = function.__annotations__.get(name)
    hint = _evaluated(hint, function, name) if isinstance(hint, str) else hint
    hint = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint
    return _alternatives(hint) or (() if hint is None else (hint,))


@dataclass(frozen=True, slots=True)
class _Setting:
    """A parameter that is one setting."""

    key: ConfigKey
    choices: type[StrEnum] | None = None

    def config_keys(self) -> list[ConfigKey]:
        return [self.key]

    def value(self, config: Config) -> Any:
        value = config[self.key.name]
        return value if value is None or self.choices is None else self.choices(value)


@dataclass(frozen=True, slots=True)
class _Group:
    """A parameter that is a dataclass of settings."""

    of: Callable[..., Any]
    settings: Mapping[str, _Setting]

    def config_keys(self) -> list[ConfigKey]:
        return [setting.key for setting in self.settings.values()]

    def value(self, config: Config) -> Any:
        return self.of(**{name: setting.value(config) for name, setting in self.settings.items()})


def _parameter(function: Callable[..., object], parameter: inspect.Parameter, docs: Mapping[str, str]) -> _Setting | _Group:
    hint = parameter.annotation
    if isinstance(hint, str):
        hint = _evaluated(hint, function, parameter.name)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and hint not in _TYPES:  # Password is a dataclass itself
        return _Group(hint, dict(_fields(hint)))
    return _setting(parameter.name, hint, parameter.default, docs.get(parameter.name, ""), _title(function))


def _fields(group: type) -> Iterator[tuple[str, _Setting]]:
    docs = _documented(group.__doc__)
    hints = typing.get_type_hints(group, include_extras=True)
    for field in dataclasses.fields(group):
        if not field.init:
            continue
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        default = _NO_DEFAULT if default is dataclasses.MISSING else default
        yield field.name, _setting(field.name, hints[field.name], default, docs.get(field.name, ""), group.__qualname__)


def _setting(name: str, hint: Any, default: Any, doc: str, owner: str) -> _Setting:
    notes: list[Any] = []
    is_optional = False
    while True:
        if typing.get_origin(hint) is typing.Annotated:
            hint, *more = typing.get_args(hint)
            notes += more
        elif None in _alternatives(hint) or types.NoneType in _alternatives(hint):
            is_optional = True
            hint = _without_none(hint)
        else:
            break
    if hint is _NO_DEFAULT:
        hint = str if default in (None, _NO_DEFAULT) else type(default)
    type_, choices = _type_of(hint, f"{owner}: parameter {name!r}")
    is_list = type_ is Type.LIST
    validators = [note for note in notes if callable(note)]
    validators += [ListOf(*choices) if is_list else OneOf(*choices)] if choices else []
    texts = [note for note in notes if isinstance(note, str) and not isinstance(note, StrEnum)]
    key = ConfigKey(
        name.replace("_", "."),
        type_,
        REQUIRED if default is _NO_DEFAULT else str(default) if isinstance(default, StrEnum) else default,
        validator=_Validators(tuple(validators), is_optional or default is None) if validators else None,
        importance=next(
            (note for note in notes if isinstance(note, Importance)), Importance.HIGH if default is _NO_DEFAULT else Importance.MEDIUM
        ),
        doc=" ".join(texts) or doc,
        recommender=_Choices(choices) if choices else None,
    )
    return _Setting(key, hint if isinstance(hint, type) and issubclass(hint, StrEnum) else None)


def _type_of(hint: Any, title: str) -> tuple[Type, tuple[str, ...]]:
    """The type of a setting, and its choices. Raises TypeError."""
    if typing.get_origin(hint) is typing.Literal:
        words = typing.get_args(hint)
        if all(isinstance(word, str) for word in words):
            return Type.STRING, words
    elif isinstance(hint, type) and issubclass(hint, StrEnum):
        return Type.STRING, tuple(str(word) for word in hint)
    elif hint is list or typing.get_origin(hint) is list:
        [entry] = typing.get_args(hint) or (str,)
        kind, words = _type_of(entry, title)
        if kind is Type.STRING:
            return Type.LIST, words
    elif hint in _TYPES:
        return _TYPES[hint], ()
    known = "str, int, float, bool, Password, list[str], Literal and StrEnum of texts, each also with | None, and dataclasses of these"
    raise TypeError(f"{title} of type {getattr(hint, '__name__', hint)} cannot be a setting; the types are {known}")


@dataclass(frozen=True, slots=True)
class _Validators:
    """Runs several validators. An optional setting is checked only if it is set."""

    each: tuple[Callable[[str, Any], None], ...]
    accepts_none: bool

    def __call__(self, name: str, value: Any) -> None:
        if value is None and self.accepts_none:
            return
        for validator in self.each:
            validator(name, value)


@dataclass(frozen=True, slots=True)
class _Choices:
    """Recommends the choices of a setting."""

    words: tuple[str, ...]

    def valid_values(self, name: str, parsed: Mapping[str, object]) -> list[object]:
        return list(self.words)

    def visible(self, name: str, parsed: Mapping[str, object]) -> bool:
        return True


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else ()


def _without_none(hint: Any) -> Any:
    left = [each for each in _alternatives(hint) if each not in (None, types.NoneType)]
    return left[0] if len(left) == 1 else typing.Union[tuple(left)]  # noqa: UP007  (from a list)


def _evaluated(text: str, function: Callable[..., object], name: str) -> Any:
    names = getattr(function, "__globals__", {})
    try:
        return typing.get_type_hints(types.SimpleNamespace(__annotations__={name: text}), dict(names), include_extras=True)[name]
    except NameError as error:
        title = f"{_title(function)}: parameter {name!r}"
        raise TypeError(f"{title}: its annotation {text!r} needs {error.name!r}, which the module does not import at run time") from error


_SECTION: Final = re.compile(r"^[ \t]*(?:Args|Arguments|Parameters|Attributes):[ \t]*\n((?:[ \t]*\n|[ \t]+.*(?:\n|$))+)", re.MULTILINE)
_ENTRY: Final = re.compile(r"^(\w+)(?: ?\([^)]*\))?:(.*)$")


def _documented(docstring: str | None) -> dict[str, str]:
    """The descriptions in a docstring's section ``Args:``, by parameter name."""
    section = _SECTION.search(inspect.cleandoc(docstring or ""))
    found: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc(section[1]).splitlines() if section else ():
        entry = _ENTRY.match(line)
        if entry:
            name, found[entry[1]] = entry[1], entry[2].strip()
        elif name and line.strip():
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def _title(function: Callable[..., object]) -> str:
    return getattr(function, "__qualname__", repr(function))
