"""Reads the files of the command line, and opens the stores of a standalone worker.

The files are ``worker.properties``, and connector files in the three forms that Kafka Connect's standalone worker accepts (contract §4.8).
The forms are tried in Kafka Connect's order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.properties import parse_properties
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.states import INITIAL_STATES, TargetState
from airflow_provider_connect.runtime.stores.backing import Backing, TopicBacking
from airflow_provider_connect.runtime.stores.local_backing import LocalBacking
from airflow_provider_connect.runtime.stores.offset_file import SETTING, OffsetFile
from airflow_provider_connect.sdk.allowed_paths import DATA_FOLDER
from airflow_provider_connect.sdk.allowed_paths import SETTING as ALLOWED_PATHS

NAME = "name"
EXACTLY_ONCE = "exactly.once.source.support"


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    """The content of a connector file. ``config`` contains the name. ``initial_state`` None is Connect's default, STARTED."""

    name: str
    config: Mapping[str, str]
    initial_state: TargetState | None = None


def read_connector_file(path: Path, name: str | None = None) -> ConnectorFile:
    """Read a connector file. It has one of three forms: a JSON object of strings, the JSON body of ``POST /connectors``, or Java
    properties. ``name`` is used for a file without a name. Raises ConfigException, which names the file."""
    try:
        content = path.read_bytes()
        values = _json_object(content)
        properties = parse_properties(content) if values is None else {}
    except (OSError, ValueError) as error:
        raise ConfigException(f"Connector configuration at '{path}' cannot be read: {error}") from error
    if values is not None and _are_texts(values):
        return _named_file(path, _as_texts(values), name)
    if values is not None and isinstance(values.get("config"), dict):
        return _request(path, values, name)
    if values is not None:
        raise ConfigException(
            f"Connector configuration at '{path}' is neither a JSON map of texts nor an object with '{NAME}' and 'config', as POST takes it"
        )
    return _named_file(path, properties, name)


def _request(path: Path, values: Mapping[str, object], given: str | None) -> ConnectorFile:
    inner = values["config"]
    assert isinstance(inner, dict)
    name = values.get(NAME, inner.get(NAME, given) if given else None)
    if not isinstance(name, str) or not name:
        raise _missing_name(path)
    if not _are_texts(inner):
        raise ConfigException(f"Connector configuration at '{path}': each value in 'config' must be a text")
    config = _as_texts(inner)
    if config.get(NAME, name) != name:
        raise ConfigException(f"Connector name configuration in 'config' doesn't match the one specified in 'name' at '{path}'")
    return ConnectorFile(name, {**config, NAME: name}, _state(path, values.get("initial_state")))


def _state(path: Path, word: object) -> TargetState | None:
    if word is None:
        return None
    state = INITIAL_STATES.get(str(word).upper())
    if state is None:
        raise ConfigException(f"Connector configuration at '{path}': initial_state must be one of RUNNING, PAUSED, STOPPED, not {word!r}")
    return state


def _named_file(path: Path, config: Mapping[str, str], given: str | None) -> ConnectorFile:
    name = config.get(NAME) or given
    if not name:
        raise _missing_name(path)
    return ConnectorFile(name, {**config, NAME: name})


def _missing_name(path: Path) -> ConfigException:
    return ConfigException(f"Connector configuration at '{path}' is missing the mandatory '{NAME}' configuration")


def _json_object(content: bytes) -> dict[str, object] | None:
    """The JSON object in the file. None: the content is not a JSON object, and may be properties."""
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _are_texts(values: Mapping[str, object]) -> bool:
    """Whether Jackson would accept the values as strings. Numbers and booleans count as strings."""
    return all(isinstance(value, str | int | float) for value in values.values())


def _as_texts(values: Mapping[str, object]) -> dict[str, str]:
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}


# --- the worker's settings ------------------------------------------------------------------------------------------------------------


def read_properties(path: Path) -> dict[str, str]:
    """The content of a properties file. Unless the file names other folders, connectors may reach files of one folder next to it. Raises
    ConfigException if the file cannot be read."""
    try:
        return with_data_folder(parse_properties(path.read_bytes()), path.absolute().parent)
    except (OSError, ValueError) as error:
        raise ConfigException(f"Worker configuration {path} cannot be read: {error}") from error


def with_data_folder(properties: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The properties of a worker whose own folder is ``folder``."""
    return {ALLOWED_PATHS: str(folder / DATA_FOLDER), **properties}


def standalone_settings(properties: Mapping[str, str]) -> WorkerSettings:
    """The checked settings. Sources deliver at least once, because their offsets are in a file. Raises ConfigException with all errors."""
    if not properties.get(SETTING, "").strip():
        raise ConfigException(f'Missing required configuration "{SETTING}" which has no default value.')
    asked = properties.get(EXACTLY_ONCE, "disabled")
    if asked.strip().lower() == "enabled":
        raise ConfigException.of(
            EXACTLY_ONCE, asked, f"Offsets in a file ({SETTING}) cannot share a transaction with records. Leave this key out."
        )
    return WorkerSettings.of({**properties, EXACTLY_ONCE: "disabled"})


def open_backing(settings: WorkerSettings, opened: ExitStack) -> Backing:
    """If the settings name an offset file: configs in memory, and offsets in this file, which ``opened`` closes. Otherwise the topics."""
    path = settings.values.get(SETTING, "").strip()
    if not path:
        return TopicBacking(settings)
    file = OffsetFile(Path(path))
    opened.callback(file.close)
    return LocalBacking(file)
