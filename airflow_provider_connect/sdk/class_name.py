"""The public name of a class: how configs, statuses and topics call it."""

from __future__ import annotations

import sys


def class_name_of(cls: type) -> str:
    """Its ``class_name`` where it has one, else module and class; the module by its author's name, whatever it was imported as."""
    given: str | None = getattr(cls, "class_name", None)
    if given:
        return given
    module = getattr(sys.modules.get(cls.__module__), "__plugin_module__", cls.__module__)
    return f"{module}.{cls.__qualname__}"
