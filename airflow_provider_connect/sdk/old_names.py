"""Old names of the sdk. They still work, and each use warns with the new name (DeprecationWarning).

A plugin that was written against them loads and runs: what a subclass defines under an old name is used under the new one.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, TypeVar, cast

_Class = TypeVar("_Class", bound=type)
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _lambda(check: Callable[[str, Any], None], description: str = "") -> Callable[[str, Any], None]:
    return check


def _renamed(module: str, name: str) -> tuple[str, Callable[[], object]]:
    return name, lambda: getattr(import_module(f"airflow_provider_connect.sdk.{module}"), name)


def _optional(name: str) -> tuple[str, Callable[[], object]]:
    _, required = _renamed("schema", name)
    return f"{name}.as_optional()", lambda: cast(Any, required()).as_optional()


_MODULE_NAMES: Final[Mapping[str, tuple[str, Callable[[], object]]]] = {
    "Lambda": ("the function itself, which is a validator", lambda: _lambda),
    "OffsetOf": _renamed("connector", "OffsetReader"),
    "add_unreachable": _renamed("allowed_paths", "add_path_errors"),
    **{
        f"OPTIONAL_{kind}_SCHEMA": _optional(f"{kind}_SCHEMA")
        for kind in ("INT8", "INT16", "INT32", "INT64", "FLOAT32", "FLOAT64", "BOOLEAN", "STRING", "BYTES")
    },
}
"""Old names of modules: what replaces each, and its value."""


def with_old_names(module: str, load: Callable[[str], object] | None = None) -> Callable[[str], object]:
    """``__getattr__`` of a module that may still be asked for old names. ``load`` finds the others."""

    def find(name: str) -> object:
        if name in _MODULE_NAMES:
            new, value = _MODULE_NAMES[name]
            _warn(f"{name} of airflow_provider_connect.sdk is deprecated, use {new}")
            return value()
        if load is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return load(name)

    return find


_CONTEXT: Final = {"claim_order": "claim_epoch", "moved_by_others": "has_external_commits"}
_ATTRIBUTES: Final[Mapping[str, Mapping[str, str]]] = {
    "Converter": {"unreadable": "find_invalid_rows"},
    "SinkTask": {"reads": "required_columns"},
    "TransactionalSink": {"reads": "required_columns"},
    "OffsetRow": {"claim_order": "claim_epoch"},
    "TaskSinkContext": _CONTEXT,
    "MemorySinkContext": _CONTEXT,
}
"""Old names of attributes, by class, with the new ones."""


class _OldAttribute:
    """An attribute under its old name: reads and writes the new one."""

    def __init__(self, home: type, old: str, new: str) -> None:
        self.home, self.old, self.new = home, old, new

    def __get__(self, instance: Any, kind: type) -> Any:  # Any: the attribute's own type
        _warn(f"{kind.__qualname__}.{self.old} is deprecated, use {self.new}")
        if inspect.getattr_static(kind, self.old) is self:
            return getattr(kind if instance is None else instance, self.new)
        found = inspect.getattr_static(self.home, self.new)  # super() of an override
        return found.__get__(instance, kind) if callable(found) else found

    def __set__(self, instance: Any, value: Any) -> None:
        _warn(f"{type(instance).__qualname__}.{self.old} is deprecated, use {self.new}")
        setattr(instance, self.new, value)


_old_attributes: list[_OldAttribute] = []


def keeping_old_attributes(cls: _Class) -> _Class:
    """Class decorator: instances can still be asked for the attributes under their old names."""
    for old, new in _ATTRIBUTES[cls.__name__].items():
        attribute = _OldAttribute(cls, old, new)
        setattr(cls, old, attribute)
        _old_attributes.append(attribute)
    if dataclasses.is_dataclass(cls):
        cls.__init__ = keeping_old_keywords(**_ATTRIBUTES[cls.__name__])(cls.__init__)  # type: ignore[method-assign]
    return cls


def adopt_old_attributes(cls: type) -> None:
    """What a subclass, or a mixin of it, defines under an old name stands under the new one from now on. For ``__init_subclass__``."""
    for attribute in _old_attributes:
        if issubclass(cls, attribute.home):
            old, new = attribute.old, attribute.new
            author = next(kind for kind in cls.__mro__ if new in vars(kind) or (old in vars(kind) and kind is not attribute.home))
            if new not in vars(author):
                _warn(f"{author.__module__}.{author.__qualname__} defines {old}, which is deprecated: define {new}", stacklevel=4)
                setattr(cls, new, vars(author)[old])


def keeping_old_keywords(**names: str) -> Callable[[_Function], _Function]:
    """Decorator: the function still takes arguments by their old names, ``old="new"``."""

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            for old in names.keys() & keywords.keys():
                _warn(f"Argument {old} of {function.__qualname__} is deprecated, use {names[old]}")
                keywords[names[old]] = keywords.pop(old)
            return function(*arguments, **keywords)

        return cast(_Function, call)

    return decorate


def _warn(message: str, stacklevel: int = 3) -> None:
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)
