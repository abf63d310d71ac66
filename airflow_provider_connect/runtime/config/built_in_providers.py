"""Kafka Connect's own config providers: properties files, directories of files, environment variables (contract §4.7).

A forbidden path or variable counts as missing. The variable is then left as written, and a warning names it.
"""

import logging
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.properties import parse_properties
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.sdk.config_provider import ConfigData, ConfigProvider

AIRFLOWS_OWN = ("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_", "_AIRFLOW_", "__AIRFLOW_")
"""The prefixes of environment variables with Airflow's settings, Connections, Variables and keys."""

MOST_CHARACTERS = 1 << 20
"""The maximum length of a file. An author of configs may name any file that the provider can read, and the server reads it."""
_KERNELS = ("/proc", "/sys")
"""Folders of the kernel. They are never read, because they contain the environment of this process, including Airflow's keys."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FileConfigProvider(ConfigProvider):
    """``${file:/path/to.properties:key}``. ``allowed_paths`` None: any file may be read."""

    allowed_paths: tuple[str, ...] | None = None

    def get(self, path: str, keys: Iterable[str]) -> ConfigData:
        if not path or not _allowed(path, self.allowed_paths):
            return ConfigData({})
        try:
            values = parse_properties(_text(Path(path)))
        except (OSError, ValueError) as error:
            raise ConfigException(f"Could not read properties from file {path}") from error
        return ConfigData({key: values[key] for key in keys if key in values})


@dataclass(frozen=True, slots=True)
class DirectoryConfigProvider(ConfigProvider):
    """``${dir:/path:name}``: the content of the file ``name`` in ``/path``."""

    allowed_paths: tuple[str, ...] | None = None

    def get(self, path: str, keys: Iterable[str]) -> ConfigData:
        if not path or not _allowed(path, self.allowed_paths):
            return ConfigData({})
        values = {}
        for key in keys:
            file = Path(path) / key
            try:
                if file.parent == Path(path) and file.is_file() and _allowed(str(file), self.allowed_paths):
                    values[key] = _text(file)
            except (OSError, ValueError) as error:
                raise ConfigException(f"Could not read file {file} for property {key}") from error
        return ConfigData(values)


@dataclass(frozen=True, slots=True)
class EnvVarConfigProvider(ConfigProvider):
    """``${env:NAME}``: environment variables whose whole name matches ``allowlist_pattern``. Airflow's own variables are excluded, and no
    application receives them."""

    allowlist_pattern: str = ".*"

    def get(self, path: str, keys: Iterable[str]) -> ConfigData:
        if path:
            raise ConfigException(f"Path is not supported for EnvVarConfigProvider, invalid value '{path}'")
        allowed = re.compile(self.allowlist_pattern)
        there = (key for key in keys if key in os.environ and not key.startswith(AIRFLOWS_OWN))
        return ConfigData({key: os.environ[key] for key in there if allowed.fullmatch(key)})


def _text(file: Path) -> str:
    """The content of a file. Raises OSError, or ValueError if it is not UTF-8 or too long."""
    real = file.resolve()
    if not real.is_file() or any(map(real.is_relative_to, _KERNELS)):  # reading a pipe or a device would never end
        raise FileNotFoundError(real)
    with real.open(encoding="utf-8") as opened:
        text = opened.read(MOST_CHARACTERS + 1)
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"{real} has more than {MOST_CHARACTERS} characters")
    return text


def _allowed(path: str, roots: tuple[str, ...] | None) -> bool:
    """Whether ``path``, with its links followed, is under one of ``roots``."""
    if roots is None:
        return True
    real = Path(path).resolve()
    if any(real.is_relative_to(Path(root).resolve()) for root in roots):
        return True
    _log.warning("The path %s is not permitted by allowed.paths", cut(path))
    return False
