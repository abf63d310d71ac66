"""Settings that SparkSource and SparkSink share: a Spark format, a path and options. Knows nothing of pyspark."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.config_def import Config, ConfigKey, ConfigValue, Importance, Range, Type
from airflow_provider_connect.sdk.connector import Connector
from airflow_provider_connect.sdk.required_packages import RequiredPackages

PACKAGES: Final = RequiredPackages("A connector of Spark", ("pandas", "pyspark"), "frames")
FORMAT, PATH, OPTION = "format", "path", "option."
ROWS: Final = "batch.max.rows"

KEYS: Final = (
    ConfigKey(
        FORMAT,
        importance=Importance.HIGH,
        doc="Spark's name of the format: parquet, csv, jdbc … The worker setting connectors.spark.formats must allow it.",
    ),
    ConfigKey(
        PATH,
        default="",
        importance=Importance.HIGH,
        doc="Folder or file below the allowed paths, for file formats. It must exist on the driver and all executors.",
    ),
    ConfigKey(
        "option.*",
        default=None,
        doc="option.«name» sets an option of the format. The worker setting connectors.spark.options must allow it.",
    ),
)
ROWS_KEY: Final = ConfigKey(
    ROWS,
    Type.INT,
    10_000,
    validator=Range(1, 1_000_000),
    doc="Maximum rows of a batch; rows with the same value of the column stay together.",
)
_PATTERN: Final = frozenset("*?[]{}\\")


@dataclass(frozen=True, slots=True)
class FrameSettings:
    """The data that Spark reads or writes. ``url`` is the path with links resolved, or empty for formats without a path."""

    format: str
    url: str
    options: Mapping[str, str]

    @classmethod
    def of(cls, config: Config, allowed: AllowedPaths) -> FrameSettings:
        """Parse settings. Called just before the path is opened. Raises ConfigException for a path outside the allowed folders."""
        PACKAGES.require(FORMAT, config[FORMAT])
        given = config[PATH]
        url = f"file://{_check_path(given, allowed)}" if given else ""
        return cls(config[FORMAT], url, options_of(config.originals))


def options_of(texts: Mapping[str, str]) -> dict[str, str]:
    """The options of the format, by name."""
    return {key.removeprefix(OPTION): text for key, text in texts.items() if key.startswith(OPTION)}


def add_errors(values: Sequence[ConfigValue], texts: Mapping[str, str], connector: Connector) -> list[ConfigValue]:
    """``values`` with the errors of format, path and options, and a value for each option, so that no option is reported as unknown."""
    found = [value for value in values if value.name != "option.*"]
    found += [ConfigValue(f"{OPTION}{name}", text) for name, text in options_of(texts).items()]
    by_name: dict[str, Any] = {value.name: value for value in found}
    for mistake in _config_errors(texts, connector):
        by_name[mistake.keys[0] if mistake.keys[0] in by_name else FORMAT].errors += mistake.errors
    return found


def _config_errors(texts: Mapping[str, str], connector: Connector) -> Iterator[ConfigException]:
    yield from PACKAGES.mistakes(FORMAT, texts.get(FORMAT))
    if FORMAT in texts:
        yield from connector.allowed_spark.mistakes(FORMAT, texts[FORMAT], OPTION, options_of(texts))
    try:
        if texts.get(PATH):
            _check_path(texts[PATH], connector.allowed_paths)
    except ConfigException as error:
        yield error


def _check_path(given: str, allowed: AllowedPaths) -> str:
    """The path with links resolved. Spark itself follows links and expands patterns, so links and patterns are not allowed in or below the
    path."""
    real = allowed.resolve(PATH, given) if given.startswith("/") else ""
    if not real or not _PATTERN.isdisjoint(real):
        raise ConfigException.of(PATH, given[:200], "Give the absolute path of a folder or file without the characters * ? [ ] { } and \\.")
    if not allowed.allow_all:
        for folder, folders, files in os.walk(real):
            for name in (*folders, *files):
                if os.path.islink(inside := os.path.join(folder, name)):
                    allowed.resolve(PATH, inside)
    return real
