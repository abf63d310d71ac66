"""The plugins that distributions declare with entry points of one group, and the distributions' versions. Reads files, imports nothing."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES

from airflow_provider_connect.runtime.model.plugin_kinds import Declarations, Declared, PluginKind
from airflow_provider_connect.runtime.model.versions import UNDEFINED
from airflow_provider_connect.runtime.plugins.loading.plugin_path import METADATA_ENDING, metadata_directories

GROUP = "airflow_provider_connect.plugins"
_ENTRY_POINTS, _METADATA = "entry_points.txt", "METADATA"
_REFERENCE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")
_HEAD_BYTES = 65_536  # of METADATA: its headers come first, then the long description
_MOST_BYTES = 1 << 20  # of entry points


def in_tree(tree: str) -> Declarations:
    """The declarations of the distributions in a directory. Raises OSError if the directory cannot be read."""
    return _merged(_in_directory(directory, tree) for directory in metadata_directories(tree))


def installed_in(tree: str) -> Declarations:
    """Like ``in_tree``, for a directory of ``sys.path``. Its distributions may have modules elsewhere (editable installs)."""
    return _merged(_in_directory(directory, None) for directory in metadata_directories(tree))


def in_wheel(path: str) -> Declarations:
    """The declarations of a wheel. Raises OSError or BadZipFile for other files."""
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        escaping = escaping_member(names)
        if escaping is not None:
            return Declarations([], [f"its member {escaping} leads out of it"])
        native = next((name for name in names if name.endswith(tuple(EXTENSION_SUFFIXES))), None)
        if native is not None:
            return Declarations([], [f"it holds compiled code ({native}), which cannot be used from an archive: pip install --target it"])
        tops = {name.partition("/")[0].removesuffix(".py") for name in names}
        directories = sorted({name.partition("/")[0] for name in names if name.partition("/")[0].endswith(METADATA_ENDING)})
        return _merged(
            _of_texts(_member(wheel, f"{d}/{_ENTRY_POINTS}", _MOST_BYTES), _member(wheel, f"{d}/{_METADATA}"), d, tops) for d in directories
        )


def escaping_member(names: Iterable[str]) -> str | None:
    """The first member of an archive whose name leads out of the target directory. None: no member leads out."""
    return next((name for name in names if name.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", name)), None)


def _merged(parts: Iterable[Declarations]) -> Declarations:
    whole = Declarations([], [])
    for part in parts:
        whole.plugins += part.plugins
        whole.problems += part.problems
    return whole


def _in_directory(directory: str, tree: str | None) -> Declarations:
    path = f"{directory}/{_ENTRY_POINTS}"
    if not os.path.isfile(path):
        return Declarations([], [])
    try:
        with open(path, encoding="utf-8") as file:
            entry_points = file.read(_MOST_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        return Declarations([], [f"{path} cannot be read: {error}"])
    if GROUP not in entry_points:
        return Declarations([], [])
    return _of_texts(entry_points, _head(os.path.join(directory, _METADATA)), os.path.basename(directory), tree)


def _head(path: str) -> str:
    if not os.path.isfile(path):
        return ""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return ""


def _member(wheel: zipfile.ZipFile, name: str, most: int = _HEAD_BYTES) -> str:
    try:
        with wheel.open(name) as member:
            return member.read(most).decode("utf-8", "replace")
    except KeyError:
        return ""


def _of_texts(entry_points: str, metadata: str, directory: str, within: str | set[str] | None) -> Declarations:
    """``within`` is the tree, or the top-level names, that must contain every plugin's module. None: modules may be anywhere."""
    version = _version(metadata, directory)
    found: dict[tuple[PluginKind, str], Declared] = {}
    problems: list[str] = []
    for name, value in _entries(entry_points):
        kind_name, _, given = name.partition(":")
        reference = _REFERENCE.fullmatch(value.partition("[")[0].strip())
        if kind_name not in set(PluginKind) or not given or reference is None:
            kinds = ", ".join(PluginKind)
            problems.append(f"entry point {name!r} = {value!r} of {directory} is not of the form kind:ClassName = module:Class ({kinds})")
            continue
        if within is not None and not _holds(within, reference[1]):
            problems.append(f"entry point {name!r} of {directory} names module {reference[1]}, which is not in this location")
            continue
        kind = PluginKind(kind_name)
        class_name = given if "." in given else f"{reference[1]}.{reference[2]}"
        key = (kind, reference[0])
        before = found.get(key)
        names = frozenset({given}) if before is None else before.names | {given}
        named = class_name if before is None or "." in given else before.class_name
        found[key] = Declared(kind, named, reference[0], version, names)
    return Declarations(list(found.values()), problems)


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Names and values of the group. Names contain colons, at which an INI parser would split them."""
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif section == GROUP and line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()


def _version(metadata: str, directory: str) -> str:
    for line in metadata.splitlines():
        if not line.strip():
            break
        if line.lower().startswith("version:"):
            return line.partition(":")[2].strip() or UNDEFINED
    return directory.removesuffix(METADATA_ENDING).partition("-")[2] or UNDEFINED


def _holds(within: str | set[str], module: str) -> bool:
    top = module.partition(".")[0]
    if isinstance(within, set):
        return top in within
    paths = (f"{within}/{top}{ending}" for ending in ("", ".py", *EXTENSION_SUFFIXES))
    return any(_lies_in(within, path) for path in paths if os.path.exists(path))


def _lies_in(tree: str, path: str) -> bool:
    """Whether ``path``, an entry of ``tree``, is not a link that leads out of it."""
    return not os.path.islink(path) or os.path.realpath(path).startswith(os.path.realpath(tree) + os.sep)
