"""Variables in a config, ``${provider:path:key}``, and where their values come from.

``file``, ``dir`` and ``env`` are there when the worker setting ``config.providers`` declares them, as in Kafka Connect (contract §3.8).
``${airflow:connection:field}`` and ``${variable:key}`` are Airflow's: only Airflow can look them up, so their values are handed in. A
variable is replaced once, never what its value holds; stored and served configs stay raw.
"""

import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.properties import parse_properties

AIRFLOW_PROVIDERS = ("airflow", "variable")

_log = logging.getLogger(__name__)
_VARIABLE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")


class ConfigProvider(Protocol):
    """Looks up the values of one provider's variables."""

    def get(self, path: str, keys: Iterable[str]) -> Mapping[str, str]:
        """The values of those of ``keys`` that exist under ``path`` (empty text: the variable names none)."""
        ...


@dataclass(frozen=True, slots=True)
class FileConfigProvider:
    """``${file:/path/to.properties:key}``; ``allowed_paths`` None: any file."""

    allowed_paths: tuple[str, ...] | None = None

    def get(self, path: str, keys: Iterable[str]) -> Mapping[str, str]:
        if not path or not _allowed(path, self.allowed_paths):
            return {}
        try:
            values = parse_properties(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigException(f"Could not read properties from file {path}") from error
        return {key: values[key] for key in keys if key in values}


@dataclass(frozen=True, slots=True)
class DirectoryConfigProvider:
    """``${dir:/path:name}``: the content of the file ``name`` in ``/path``."""

    allowed_paths: tuple[str, ...] | None = None

    def get(self, path: str, keys: Iterable[str]) -> Mapping[str, str]:
        if not path or not _allowed(path, self.allowed_paths):
            return {}
        values = {}
        for key in keys:
            file = Path(path) / key
            if file.parent != Path(path) or not file.is_file() or not _allowed(str(file), self.allowed_paths):
                continue
            try:
                values[key] = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigException(f"Could not read file {file} for property {key}") from error
        return values


@dataclass(frozen=True, slots=True)
class EnvVarConfigProvider:
    """``${env:NAME}``: environment variables whose whole name matches ``allowlist_pattern``."""

    allowlist_pattern: str = ".*"

    def get(self, path: str, keys: Iterable[str]) -> Mapping[str, str]:
        if path:
            raise ConfigException(f"Path is not supported for EnvVarConfigProvider, invalid value '{path}'")
        allowed = re.compile(self.allowlist_pattern)
        return {key: os.environ[key] for key in keys if key in os.environ and allowed.fullmatch(key)}


def _allowed(path: str, roots: tuple[str, ...] | None) -> bool:
    """Whether ``path``, with its links followed, lies under one of ``roots``."""
    if roots is None:
        return True
    real = Path(path).resolve()
    if any(real.is_relative_to(Path(root).resolve()) for root in roots):
        return True
    _log.warning("The path %s is not permitted by allowed.paths", path)
    return False


def providers_of(settings: Mapping[str, str]) -> dict[str, ConfigProvider]:
    """The providers that the worker ``settings`` declare under ``config.providers``, by their alias."""
    names = [name.strip() for name in settings.get("config.providers", "").split(",")]
    return {name: _provider(name, settings) for name in names if name}


def _provider(name: str, settings: Mapping[str, str]) -> ConfigProvider:
    key = f"config.providers.{name}.class"
    class_name = settings.get(key)
    if class_name is None:
        raise ConfigException(f'Missing required configuration "{key}" which has no default value.')
    prefix = f"config.providers.{name}.param."
    match class_name.strip().rpartition(".")[2]:
        case "FileConfigProvider":
            return FileConfigProvider(_paths(settings.get(prefix + "allowed.paths")))
        case "DirectoryConfigProvider":
            return DirectoryConfigProvider(_paths(settings.get(prefix + "allowed.paths")))
        case "EnvVarConfigProvider":
            return EnvVarConfigProvider(_pattern(prefix + "allowlist.pattern", settings))
    raise ConfigException.of(
        key,
        class_name,
        "there are FileConfigProvider, DirectoryConfigProvider and EnvVarConfigProvider; "
        "${airflow:connection:field} and ${variable:key} need no declaration",
    )


def _paths(text: str | None) -> tuple[str, ...] | None:
    paths = tuple(path.strip() for path in (text or "").split(",") if path.strip())
    for path in paths:
        if not Path(path).is_absolute():
            raise ConfigException.of("allowed.paths", path, "Path must be absolute")
    return paths or None


def _pattern(key: str, settings: Mapping[str, str]) -> str:
    pattern = settings.get(key, ".*")
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigException.of(key, pattern, f"Invalid regex: {error}") from error
    return pattern


def variables(config: Mapping[str, str | None]) -> list[str]:
    """The variables that ``config`` names, as written, each once, in the order of their first use."""
    texts = (value for value in config.values() if value)
    return list(dict.fromkeys(found.group(0) for text in texts for found in _VARIABLE.finditer(text)))


def airflow_variables(config: Mapping[str, str | None]) -> list[str]:
    """Those of ``variables`` that only Airflow can look up."""
    return [text for text in variables(config) if _split(text)[0] in AIRFLOW_PROVIDERS]


def resolve(
    config: Mapping[str, str],
    providers: Mapping[str, ConfigProvider] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """``config`` with its variables replaced. ``secrets`` maps Airflow's variables, as written, to their values.

    A variable of an unknown provider, or that its provider does not have, is left as it is. One of Airflow's that ``secrets`` lacks is a
    ConfigException: to go on would send the text of the variable where a password belongs.
    """
    values = variable_values(config, providers, secrets)
    return {key: _replaced(key, text, values) for key, text in config.items()}


def variable_values(
    config: Mapping[str, str | None],
    providers: Mapping[str, ConfigProvider] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """What the variables of ``config`` stand for, as far as it is known."""
    named = variables(config)
    return _looked_up(named, providers or {}) | {text: value for text, value in (secrets or {}).items() if text in named}


def _looked_up(texts: Iterable[str], providers: Mapping[str, ConfigProvider]) -> dict[str, str]:
    """The values by variable; each provider is asked once a path."""
    wanted: dict[tuple[str, str], dict[str, str]] = {}
    for text in texts:
        name, path, key = _split(text)
        if name in providers:
            wanted.setdefault((name, path), {})[key] = text
    values: dict[str, str] = {}
    for (name, path), keys in wanted.items():
        found = providers[name].get(path, keys)
        values |= {text: found[key] for key, text in keys.items() if key in found}
    return values


def _split(text: str) -> tuple[str, str, str]:
    found = _VARIABLE.fullmatch(text)
    if found is None:  # only texts that the same expression found come here
        raise ValueError(text)
    return found.group(1), found.group(3) or "", found.group(4)


def _replaced(key: str, text: str | None, values: Mapping[str, str]) -> str:
    if not text:
        return text  # type: ignore[return-value]  # a null value stays null; validation names it

    def value_of(found: re.Match[str]) -> str:
        variable = found.group(0)
        if variable in values:
            return values[variable]
        if found.group(1) in AIRFLOW_PROVIDERS:
            where = "connection" if found.group(1) == "airflow" else "variable"
            raise ConfigException.of(key, variable, f"Airflow has no such {where}, or it was not handed to this process")
        return variable

    return _VARIABLE.sub(value_of, text)
