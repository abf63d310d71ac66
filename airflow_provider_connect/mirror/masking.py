"""Configs as the mirror keeps them: readable by whoever may read the database, so without the secrets that the topic may hold."""

import re
from collections.abc import Mapping

from airflow_provider_connect.model.secret_keys import HIDDEN, is_secret_key

_VARIABLES = re.compile(r"(\$\{[^{}]*\})+")
_USER_INFO = re.compile(r"(?<=://)([^/@\s:]*):[^/@\s]+(?=@)")


def masked(config: Mapping[str, str]) -> dict[str, str]:
    """``config`` with ``[hidden]`` for values of keys named like secrets, and for passwords in URLs; variables (``${…}``) stay."""
    return {key: _masked(key, value) for key, value in config.items()}


def holds_hidden(config: Mapping[str, str] | None) -> bool:
    """Whether something is hidden: two such configs that look alike may differ."""
    return any(HIDDEN in value for value in (config or {}).values())


def _masked(key: str, value: str) -> str:
    if is_secret_key(key) and value and not _VARIABLES.fullmatch(value):
        return HIDDEN
    return _USER_INFO.sub(rf"\1:{HIDDEN}", value)
