"""Configs as the mirror keeps them: readable by whoever may read the database, so without the secrets that the topic may hold."""

from collections.abc import Callable, Mapping

from airflow_provider_connect.model.secret_keys import HIDDEN, is_secret_key, is_variable
from airflow_provider_connect.model.url_passwords import without_url_passwords

Hide = Callable[[Mapping[str, str], Mapping[str, str] | None], Mapping[str, str]]
"""A config with ``[hidden]`` for what its plugins say is a password, as REST shows it; of a task's config beside its connector's."""


def masked(config: Mapping[str, str], of: Mapping[str, str] | None = None) -> dict[str, str]:
    """``config`` with ``[hidden]`` for values of keys named like secrets, and for passwords in URLs; variables (``${…}``) stay."""
    return {key: _masked(key, value) for key, value in config.items()}


def holds_hidden(config: Mapping[str, str] | None) -> bool:
    """Whether something is hidden: two such configs that look alike may differ."""
    return any(HIDDEN in value for value in (config or {}).values())


def _masked(key: str, value: str) -> str:
    if is_secret_key(key) and value and not is_variable(value):
        return HIDDEN
    return without_url_passwords(value)
