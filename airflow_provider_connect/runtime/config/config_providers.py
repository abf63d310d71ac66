"""Resolves variables in a config, ``${provider:path:key}``.

``file``, ``dir`` and ``env`` exist if the worker setting ``config.providers`` declares them, as in Kafka Connect (contract §4.7).
``${airflow:connection:field}`` and ``${variable:key}`` are Airflow's: only Airflow resolves them, so their values are passed in. A variable
within a value is not replaced. Stored and served configs stay raw. Before any provider is called, a config is checked: its connector must
have access to the variables, and settings of names and classes must contain no secrets. Every value is a secret unless the worker declares
it public (``config.providers.«alias».secret``, ``….public.keys``).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.declared_providers import (
    AIRFLOW_PROVIDERS,
    DeclaredProvider,
    Providers,
    create_providers,
    open_file_providers,
    shortest_ttl_ms,
    warn_open_file_providers,
)
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.model.secret_keys import SHORTEST, is_secret_key, variable_spans
from airflow_provider_connect.sdk.config_provider import ConfigProvider

__all__ = [
    "AIRFLOW_PROVIDERS",
    "ConfigProvider",
    "airflow_values",
    "airflow_variables",
    "check_variables",
    "create_providers",
    "hidden_values",
    "is_public",
    "is_structural",
    "open_file_providers",
    "resolve",
    "shortest_ttl_ms",
    "unresolved_warnings",
    "variable_values",
    "variables",
    "warn_open_file_providers",
    "with_public_values",
]

_Text = TypeVar("_Text", str, str | None)
_STRUCTURAL = frozenset(
    {
        *("name", "connector.class", "task.class", "topic", "topics", "topics.regex", "topic.prefix", "transforms", "predicates"),
        *("key.converter", "value.converter", "header.converter", "offsets.storage.topic", "topic.creation.groups"),
        *("errors.deadletterqueue.topic.name", "group.id", "client.id", "transactional.id"),
    }
)
_TOPICS = frozenset({"topic", "topics", "topics.regex", "topic.prefix", "offsets.storage.topic", "errors.deadletterqueue.topic.name"})
"""Settings whose values are names of topics, which contain no ``$``. So a variable that no provider resolves is an error in them."""
_STRUCTURAL_ENDINGS = (".plugin.version", ".plugin.location", ".override.group.id", ".override.client.id", ".override.transactional.id")
_IDENTITY = frozenset(
    {
        *("name", "connector.class", "task.class", "key.converter", "value.converter", "header.converter", "transforms", "predicates"),
        *("offsets.storage.topic", "group.id", "transactional.id"),
    }
)
_IDENTITY_ENDINGS = (".plugin.version", ".plugin.location", ".override.group.id", ".override.transactional.id")
"""Settings that are read without a provider: the code to run, and names that must be unique among connectors."""
_STRUCTURAL_PARTS = {"transforms": ("type", "predicate", "negate"), "predicates": ("type",)}


def variables(config: Mapping[str, str | None]) -> list[str]:
    """The variables in ``config``, as written, each once, in the order of first use."""
    texts = (value for value in config.values() if value)
    return list(dict.fromkeys(text[start:end] for text in texts for start, end in variable_spans(text)))


def airflow_variables(config: Mapping[str, str | None]) -> list[str]:
    """The variables in ``config`` that only Airflow resolves."""
    return [text for text in variables(config) if _split(text)[0] in AIRFLOW_PROVIDERS]


def is_structural(key: str) -> bool:
    """Whether a connector's setting holds names of classes, topics, groups or other settings. Such settings are shown, so they must hold no
    secrets."""
    if key in _STRUCTURAL or key.endswith(_STRUCTURAL_ENDINGS):
        return True
    kind, _, rest = key.partition(".")
    return rest.rpartition(".")[2] in _STRUCTURAL_PARTS.get(kind, ())


def is_public(text: str, providers: Mapping[str, ConfigProvider]) -> bool:
    """Whether the worker declares the value of the variable ``text`` public."""
    name, _, key = _split(text)
    provider = providers.get(name)
    return isinstance(provider, DeclaredProvider) and provider.is_public(key)


def hidden_values(config: Mapping[str, str | None], providers: Mapping[str, ConfigProvider], values: Mapping[str, str]) -> set[str]:
    """The secrets among ``values``, by variable: all except the public ones, and those in settings that are named like secrets."""
    hidden = set(variables({key: text for key, text in config.items() if is_secret_key(key)}))
    return {value for text, value in values.items() if text in hidden or not is_public(text, providers)}


def check_variables(config: Mapping[str, str | None], providers: Mapping[str, ConfigProvider]) -> None:
    """Raises ConfigException for variables in settings that allow no variables, or no secrets, for variables of an unknown provider in
    names of topics, and for variables that the connector of ``providers`` may not read. Calls no provider."""
    connector = providers.connector if isinstance(providers, Providers) else None
    if connector is not None:
        for key in filter(is_structural, config):
            for text in variables({key: config[key]}):
                if refusal := _refusal_in_names(key, text, providers):
                    raise ConfigException.of(key, text, refusal)
    for text in variables(config):
        name, path, key = _split(text)
        provider = providers.get(name)
        if isinstance(provider, DeclaredProvider) and (refusal := provider.refusal(connector, path, key)):
            raise ConfigException.of(_keys_with(text, config), text, refusal)


def _refusal_in_names(key: str, text: str, providers: Mapping[str, ConfigProvider]) -> str:
    """The reason why a setting of names may not contain this variable. Empty: it may."""
    is_known = _split(text)[0] in providers
    if not is_known and key not in _TOPICS:
        return ""
    is_type = key.startswith(tuple(f"{kind}." for kind in _STRUCTURAL_PARTS)) and key.endswith(".type")
    if is_type or key in _IDENTITY or key.endswith(_IDENTITY_ENDINGS):
        return "this setting names the connector, its plugins or its exclusive resources, and allows no variable; write the value out"
    if not is_known:
        return f"no topic can have this name: {_why_unresolved(text, {key: text}, providers)}"
    if is_public(text, providers):
        return ""
    return f"this setting holds names, which are shown, and allows no secret; write the value out, or {_declare_public(text)}"


def _declare_public(text: str) -> str:
    """The advice for the variable ``text`` if its value is not a secret."""
    every = f"config.providers.{_split(text)[0]}.secret=false"
    return f"ask for the worker setting {_public_keys(text)} if it is not a secret ({every}: no value of this provider is one)"


def _public_keys(text: str) -> str:
    provider, _, key = _split(text)
    pattern = key if re.fullmatch(r"[\w.-]+", key) else re.escape(key)
    return f"config.providers.{provider}.public.keys={pattern}"


def airflow_values(
    config: Mapping[str, _Text],
    providers: Mapping[str, ConfigProvider],
    read: Callable[[Mapping[str, _Text]], Mapping[str, str]],
) -> Mapping[str, str]:
    """The values of Airflow's variables in a connector's ``config``, from ``read``. First checks that the connector may read them."""
    check_variables(config, providers)
    return read(config)


def resolve(
    config: Mapping[str, str],
    providers: Mapping[str, ConfigProvider] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """``config`` with its variables replaced. ``secrets`` maps Airflow's variables, as written, to their values.

    A variable that its provider does not have is left unchanged, and so is one of an unknown provider, except in names of topics. Raises
    ConfigException as ``check_variables`` does, and for a variable of Airflow's that ``secrets`` lacks. Otherwise the variable's text would
    be sent instead of a password.
    """
    values = variable_values(config, providers, secrets)
    return {key: _replaced(key, text, values) for key, text in config.items()}


def variable_values(
    config: Mapping[str, str | None],
    providers: Mapping[str, ConfigProvider] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The known values of the variables in ``config``. Raises ConfigException as ``check_variables``, and for a connector's secret values
    that are too short to be masked."""
    providers = providers or {}
    check_variables(config, providers)
    named = variables(config)
    wanted = set(named)
    values = _looked_up(named, providers) | {text: value for text, value in (secrets or {}).items() if text in wanted}
    if isinstance(providers, Providers) and providers.connector is not None and not providers.trusts_authors:
        for text, value in values.items():
            if value and len(value.strip()) < SHORTEST and not is_public(text, providers):
                reason = f"its value has fewer than {SHORTEST} characters, too few to be kept secret; {_declare_public(text)}"
                raise ConfigException.of(_keys_with(text, config), text, reason)
    return values


def with_public_values(
    config: Mapping[str, _Text], providers: Mapping[str, ConfigProvider], secrets: Mapping[str, str] | None = None
) -> dict[str, _Text]:
    """``config`` with only its public variables resolved. Settings that are named like secrets stay unchanged. Raises as ``resolve``."""
    named = {key: text for key, text in config.items() if text and not is_secret_key(key)}
    public = {key: text for key, text in named.items() if any(is_public(each, providers) for each in variables({key: text}))}
    if not public:
        return dict(config)
    values = {text: value for text, value in variable_values(public, providers, secrets).items() if is_public(text, providers)}
    return {key: _with_values(text, values) if text and key in public else text for key, text in config.items()}


def unresolved_warnings(config: Mapping[str, str | None], providers: Mapping[str, ConfigProvider], values: Mapping[str, str]) -> list[str]:
    """For each variable of ``config`` without a value: the settings that contain it, and why it is used as written."""
    return [
        f"{_keys_with(text, config)}: {cut(text)} is used as written: {_why_unresolved(text, config, providers)}"
        for text in variables(config)
        if text not in values
    ]


def _why_unresolved(text: str, config: Mapping[str, str | None], providers: Mapping[str, ConfigProvider]) -> str:
    name, path, key = _split(text)
    if name in providers:
        origin = f"{path!r} has" if path else "there is"
        return f"{origin} no {key!r} that the config provider {name!r} may read"
    declared = _CLASSES.get(name)
    example = f", such as config.providers={name} and config.providers.{name}.class={declared}" if declared else ""
    if example and any(is_structural(key) for key, value in config.items() if value and text in value):
        example += f", with {_public_keys(text)}, since a setting of names allows no secret"
    return f"no worker setting declares a config provider {name!r}{example}"


_CLASSES = {"file": "FileConfigProvider", "dir": "DirectoryConfigProvider", "env": "EnvVarConfigProvider"}
"""The classes by the aliases in Kafka Connect's documentation."""


def _keys_with(text: str, config: Mapping[str, str | None]) -> str:
    return ", ".join(sorted(key for key, value in config.items() if value and text in value))


def _looked_up(texts: Iterable[str], providers: Mapping[str, ConfigProvider]) -> dict[str, str]:
    """The values by variable. Calls each provider once per path."""
    wanted: dict[tuple[str, str], dict[str, str]] = {}
    for text in texts:
        name, path, key = _split(text)
        if name in providers:
            wanted.setdefault((name, path), {})[key] = text
    values: dict[str, str] = {}
    for (name, path), keys in wanted.items():
        found = providers[name].get(path, keys).values
        values |= {text: found[key] for key, text in keys.items() if key in found}
    return values


def _split(text: str) -> tuple[str, str, str]:
    """Provider, path and key of a variable as written."""
    name, _, rest = text[2:-1].partition(":")
    path, colon, key = rest.partition(":")
    return (name, path, key) if colon else (name, "", rest)


def _replaced(key: str, text: str | None, values: Mapping[str, str]) -> str:
    if not text:
        return text  # type: ignore[return-value]  # a null value stays null; validation names it
    return _with_values(text, {text[start:end]: _value_of(key, text[start:end], values) for start, end in variable_spans(text)})


def _with_values(text: str, values: Mapping[str, str]) -> str:
    parts, at = [], 0
    for start, end in variable_spans(text):
        parts += [text[at:start], values.get(text[start:end], text[start:end])]
        at = end
    return "".join([*parts, text[at:]])


def _value_of(key: str, variable: str, values: Mapping[str, str]) -> str:
    if variable in values:
        return values[variable]
    provider = _split(variable)[0]
    if provider in AIRFLOW_PROVIDERS:
        where = "connection" if provider == "airflow" else "variable"
        raise ConfigException.of(key, variable, f"Airflow has no such {where}, or it was not passed to this process")
    return variable
