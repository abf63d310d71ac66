"""What a plugin may be, and what its metadata declares of it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class PluginKind(StrEnum):
    """What a plugin is; values as in ``GET /connector-plugins``, in its order."""

    SINK = "sink"
    SOURCE = "source"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"


CONNECTOR_KINDS: Final = (PluginKind.SINK, PluginKind.SOURCE)
SUFFIXES: Final = {
    PluginKind.SINK: ("Connector",),
    PluginKind.SOURCE: ("Connector",),
    PluginKind.TRANSFORMATION: ("Transformation",),
    PluginKind.PREDICATE: ("Predicate",),
    PluginKind.CONVERTER: ("Converter",),
    PluginKind.HEADER_CONVERTER: ("HeaderConverter", "Converter"),
}
"""What an alias may leave out at the end of a class's simple name."""


@dataclass(frozen=True, slots=True)
class Declared:
    """One plugin as its metadata names it. ``names`` are further names; ``reference`` is ``module:Class``."""

    kind: PluginKind
    class_name: str
    reference: str
    version: str
    names: frozenset[str] = frozenset()


@dataclass(slots=True)
class Declarations:
    """The plugins of one location or distribution, and what is wrong with the rest of what it declares."""

    plugins: list[Declared]
    problems: list[str]


def hash_version(content: bytes) -> str:
    """The version of a module file that names none: older than any version that is named, and another one after each edit."""
    return f"0-{hashlib.sha256(content).hexdigest()[:12]}"


def is_hash_version(version: str) -> bool:
    """Whether it is one of ``hash_version``: which of two is the newer cannot be known."""
    return re.fullmatch(r"0-[0-9a-f]{12}", version) is not None
