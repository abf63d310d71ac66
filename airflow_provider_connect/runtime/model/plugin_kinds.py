"""The kinds of plugins, and what a plugin's metadata declares."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class PluginKind(StrEnum):
    """The kind of a plugin. Values and order are as in ``GET /connector-plugins``."""

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
"""The endings of a class's simple name that an alias may omit."""


@dataclass(frozen=True, slots=True)
class Declared:
    """One plugin as its metadata declares it. ``names`` are further names. ``reference`` is ``module:Class``, or the Java class."""

    kind: PluginKind
    class_name: str
    reference: str
    version: str
    names: frozenset[str] = frozenset()


@dataclass(slots=True)
class Declarations:
    """The plugins of one location or distribution, and the problems of declarations that are not valid."""

    plugins: list[Declared]
    problems: list[str]


def hash_version(content: bytes) -> str:
    """The version of a module file that declares no version. It is older than any declared version, and changes with each edit."""
    return f"0-{hashlib.sha256(content).hexdigest()[:12]}"


def is_hash_version(version: str) -> bool:
    """Whether ``hash_version`` created ``version``. Of two such versions, neither is known to be newer."""
    return re.fullmatch(r"0-[0-9a-f]{12}", version) is not None
