"""``connect-new my-connector`` creates a package with example plugins from the templates next to this module.

``airflow connect new`` does the same. Imports only the standard library."""

from __future__ import annotations

import argparse
import keyword
import os
import re
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Final

from airflow_provider_connect import __version__
from airflow_provider_connect.errors import AlreadyExistsException, BadRequestException, ConnectException

ABOUT: Final = "Create a package with a plugin to begin with: entry points, tests, for a connector an example DAG"
ARGUMENTS: Final[tuple[tuple[tuple[str, ...], dict[str, Any]], ...]] = (
    (("name",), {"help": "What the package is to be called, such as my-connector"}),
    (("--source",), {"action": "store_true", "help": "With a source connector; the default"}),
    (("--sink",), {"action": "store_true", "help": "With a sink connector"}),
    (("--both",), {"action": "store_true", "help": "With a source and a sink"}),
    (("--transformation",), {"action": "store_true", "help": "With a transformation"}),
    (("--converter",), {"action": "store_true", "help": "With a converter"}),
    (("--decorated",), {"action": "store_true", "help": "With decorated functions in place of classes; not for a converter"}),
    (("--directory",), {"default": ".", "metavar": "DIR", "help": "Create the package's directory in DIR; else in the current directory"}),
)
_ENDING: Final = re.compile(r"(?<=.)-(connector|transformation|converter)$")
_FORM: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_MAX_CHARACTERS: Final = 40
_RESERVED: Final = frozenset(
    {
        *("airflow", "airflow_provider_connect", "confluent_kafka", "dags", "numpy", "packaging", "pip", "polars", "py4j", "pyarrow"),
        *("pyspark", "pytest", "regex", "setuptools", "src", "tests"),
    }
)


class Kind(StrEnum):
    """The kinds of plugins that a package may have."""

    SOURCE = "source"
    SINK = "sink"
    TRANSFORMATION = "transformation"
    CONVERTER = "converter"

    @property
    def is_connector(self) -> bool:
        return self in (Kind.SOURCE, Kind.SINK)

    def name_of(self, stem: str) -> str:
        """The name of a package's plugin of this kind in configs."""
        return f"{stem}{self.capitalize()}"

    def entry_point(self, names: Names, *, decorated: bool) -> str:
        name = self.name_of(names.stem)
        attribute = f"{names.function}_{self}" if decorated else f"{name}Connector" if self.is_connector else name
        return f'"{self}:{name}" = "{names.module}.{self}:{attribute}"'


_EVERY: Final = {
    ".gitignore": "gitignore",
    "README.md": "README.md",
    "pyproject.toml": "pyproject.toml",
    "src/{module}/__init__.py": "__init__.py",
    "src/{module}/py.typed": "py.typed",
    "tests/test_package.py": "test_package.py",
}
_OF_KIND: Final = {"src/{module}/{kind}.py": "{kind}.py", "tests/test_{kind}.py": "test_{kind}.py"}
_OF_FUNCTION: Final = {path: template.replace("{kind}", "{kind}_function") for path, template in _OF_KIND.items()}
_OF_CONNECTOR: Final = {
    "dags/{module}_{kind}.py": "dag_{kind}.py",
    "worker.properties": "worker.properties",
    "{kind}.properties": "{kind}.properties",
}
_OFFSETS_IN_A_FILE: Final = (
    "# Offsets of sources are kept in this file, and sources and sinks deliver at least once. Without the line offsets are kept on\n"
    "# internal topics, and a source with a cursor is exactly once, as is a sink whose destination keeps offsets.\n"
    "offset.storage.file.filename=connect.offsets"
)
_OFFSETS_ON_TOPICS: Final = "# With offset.storage.file.filename sinks would deliver at least once."
_STRINGS: Final = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
_STRUCTS: Final = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
"""The converters of the examples. Examples with classes have strings as values; in examples with functions, values have fields."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script. Ends the process with exit code 1 if nothing was created."""
    parser = argparse.ArgumentParser(prog="connect-new", description=ABOUT)
    for flags, rest in ARGUMENTS:
        parser.add_argument(*flags, **rest)
    new(parser.parse_args(arguments))


def new(options: argparse.Namespace) -> None:
    """Create the package from the parsed arguments, and print the created files."""
    asked = {kind for kind in Kind if getattr(options, kind) or (options.both and kind.is_connector)} or {Kind.SOURCE}
    try:
        texts = package_files(options.name, asked, framework=__version__, decorated=options.decorated)
        target = Path(options.directory) / options.name
        write_package(target, texts)
    except ConnectException as error:
        sys.exit(error.message)
    print(f"Created {target} with")
    print("\n".join(f"  {path}" for path in texts))
    print(f"Next: cd {target}, pip install -e '.[test]', pytest; README.md has the rest")


def package_files(package: str, kinds: Collection[Kind], *, framework: str, decorated: bool = False) -> dict[str, str]:
    """The texts of a package's files, by path. ``framework`` is the version of this provider for which they are created.

    Raises BadRequestException for an invalid name, and for a decorated converter.
    """
    names = Names.of(package)
    chosen = [kind for kind in Kind if kind in kinds]
    if decorated and Kind.CONVERTER in chosen:
        raise BadRequestException(
            "A converter cannot be one decorated function: it has two directions, from values to bytes and back. "
            "Leave --decorated out, or create the converter in a package of its own"
        )
    converter = _STRUCTS if decorated else _STRINGS
    values = {
        "package": names.package,
        "module": names.module,
        "label": names.label,
        "stem": names.stem,
        "function": names.function,
        "framework": framework,
        "converter": "\n".join(f'        "{key}": "{value}",' for key, value in converter.items()),
        "offset_lines": _OFFSETS_IN_A_FILE if Kind.SOURCE in chosen else _OFFSETS_ON_TOPICS,
        "converter_lines": "\n".join(f"{key}={value}" for key, value in converter.items()),
        "entry_points": "\n".join(kind.entry_point(names, decorated=decorated) for kind in chosen),
        "plugins": " and ".join(f"`{kind.name_of(names.stem)}`" for kind in chosen),
    }
    values["usage"] = "\n".join(_fill(f"usage_{usage}.md", values) for usage in _usages(chosen, decorated=decorated))
    paths = dict(_EVERY)
    for kind in chosen:
        of_kind = _OF_FUNCTION if decorated else _OF_KIND
        files_of_kind = {**of_kind, **(_OF_CONNECTOR if kind.is_connector else {})}
        paths |= {path.replace("{kind}", kind): template.replace("{kind}", kind) for path, template in files_of_kind.items()}
    return {path.format(module=names.module): _fill(template, values) for path, template in sorted(paths.items())}


def _usages(kinds: Sequence[Kind], *, decorated: bool) -> list[str]:
    """The templates of the README's sections on use."""
    usages = [f"{kind}_function" if decorated and not kind.is_connector else str(kind) for kind in kinds]
    return [*usages, "connector"] if any(kind.is_connector for kind in kinds) else usages


def _fill(template: str, values: Mapping[str, str]) -> str:
    text = files(__package__).joinpath("templates", f"{template}.tmpl").read_text(encoding="utf-8")
    return Template(text).substitute(values)


def write_package(target: Path, texts: Mapping[str, str]) -> None:
    """Create the directory ``target`` with these files, completely or not at all.

    Raises AlreadyExistsException if ``target`` exists and is not empty, and BadRequestException if it cannot be written.
    """
    if target.is_symlink() or (target.exists() and not _is_empty(target)):
        raise AlreadyExistsException(f"{target} exists: nothing is overwritten; give another name or --directory")
    beside = target.with_name(f".{target.name}-{os.getpid()}")
    try:
        beside.mkdir(parents=True)
        for path, text in texts.items():
            file = beside / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        beside.rename(target)  # fails without a change if another process has created files there
    except OSError as error:
        shutil.rmtree(beside, ignore_errors=True)
        raise BadRequestException(f"{target} cannot be created: {error.strerror}") from error


def _is_empty(directory: Path) -> bool:
    return directory.is_dir() and not any(directory.iterdir())


@dataclass(frozen=True, slots=True)
class Names:
    """The names in a package. ``package`` is the distribution (``my-connector``), and ``module`` is the module (``my_connector``).
    Connectors and topics are named ``label`` (``my``). Class names begin with ``stem`` (``My``)."""

    package: str
    module: str
    label: str
    stem: str

    @classmethod
    def of(cls, package: str) -> Names:
        """The names for a package's name. Raises BadRequestException for an invalid name; the message has a similar valid name."""
        if not _FORM.fullmatch(package) or len(package) > _MAX_CHARACTERS:
            raise BadRequestException(
                f"{package!r} is not a name for a package: take lower-case letters, digits and single hyphens, beginning with a letter, "
                f"at most {_MAX_CHARACTERS} characters{_suggestion(package)}"
            )
        module = package.replace("-", "_")
        if module in _RESERVED or module in sys.stdlib_module_names or keyword.iskeyword(module):
            raise BadRequestException(f"{package!r} is not a name for a package: there is a module {module}; take {package}-connector")
        label = _ENDING.sub("", package)
        return cls(package, module, label, "".join(word.capitalize() for word in label.split("-")))

    @property
    def function(self) -> str:
        """The beginning of the names of decorated functions (``my``)."""
        return self.label.replace("-", "_")


def _suggestion(package: str) -> str:
    """A similar valid name, in brackets. Empty if there is none."""
    proposed = re.sub(r"[^a-z0-9]+", "-", package.lower()).strip("-0123456789")[:_MAX_CHARACTERS].strip("-")
    return f" (such as {proposed})" if _FORM.fullmatch(proposed) else ""


if __name__ == "__main__":
    main()
