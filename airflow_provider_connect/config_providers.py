"""Variables in a config, ``${provider:path:key}``, and where their values come from.

``file``, ``dir`` and ``env`` are there when the worker setting ``config.providers`` declares them, as in Kafka Connect (contract §3.8).
``${airflow:connection:field}`` and ``${variable:key}`` are Airflow's: only Airflow can look them up, so their values are handed in. A
variable is replaced once, never what its value holds; stored and served configs stay raw.
"""

import re
from collections.abc import Iterable, Mapping

from airflow_provider_connect.declared_providers import AIRFLOW_PROVIDERS, DeclaredProvider, providers_of, shortest_ttl_ms
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.config_provider import ConfigProvider

__all__ = [
    "AIRFLOW_PROVIDERS",
    "ConfigProvider",
    "airflow_variables",
    "providers_of",
    "resolve",
    "shortest_ttl_ms",
    "variable_values",
    "variables",
]

_VARIABLE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")


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
    ConfigException, to go on would send the text of the variable where a password belongs; and so is one that the connector of
    ``providers`` has no right to.
    """
    values = variable_values(config, providers, secrets)
    return {key: _replaced(key, text, values) for key, text in config.items()}


def variable_values(
    config: Mapping[str, str | None],
    providers: Mapping[str, ConfigProvider] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """What the variables of ``config`` stand for, as far as it is known. Raises ConfigException for those that nobody may look up."""
    named = variables(config)
    _refuse_forbidden(config, named, providers or {})
    return _looked_up(named, providers or {}) | {text: value for text, value in (secrets or {}).items() if text in named}


def _refuse_forbidden(config: Mapping[str, str | None], texts: Iterable[str], providers: Mapping[str, ConfigProvider]) -> None:
    for text in texts:
        name, path, key = _split(text)
        provider = providers.get(name)
        refusal = provider.refusal(path, key) if isinstance(provider, DeclaredProvider) else ""
        if refusal:
            keys = ", ".join(sorted(key for key, value in config.items() if value and text in value))
            raise ConfigException.of(keys, text, f"{refusal}; change the variable or ask for that worker setting")


def _looked_up(texts: Iterable[str], providers: Mapping[str, ConfigProvider]) -> dict[str, str]:
    """The values by variable; each provider is asked once a path."""
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
