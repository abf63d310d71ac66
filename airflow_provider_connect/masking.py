"""Secrets out of texts that people may read: traces, statuses, results, logs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from airflow_provider_connect import config_providers
from airflow_provider_connect.config_providers import ConfigProvider
from airflow_provider_connect.model.secret_keys import HIDDEN, is_secret_key

SHORTEST = 4  # shorter values would blot out ordinary words
_QUOTED = re.compile(r"\"([^\"]+)\"|'([^']+)'")


class Mask:
    """Replaces, in the texts it is called with, every secret that it has been told of."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: set[str] = set()
        self.add(secrets)

    def add(self, secrets: Iterable[str]) -> None:
        for secret in secrets:
            if len(secret) >= SHORTEST:
                self._secrets |= _forms(secret)

    def __call__(self, text: str) -> str:
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return text


def _forms(secret: str) -> set[str]:
    """How a secret may stand in a text: as it is, in a Python or JSON literal, in a URL."""
    return {secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], quote(secret), quote(secret, safe="")}


def secret_values(config: Mapping[str, str], providers: Mapping[str, ConfigProvider], secrets: Mapping[str, str]) -> set[str]:
    """What must not be shown of ``config``: what its variables stand for, and what keys that are named like secrets hold.

    Raises ConfigException when a provider's file cannot be read.
    """
    found = set(config_providers.variable_values(config, providers, secrets).values())
    for key, text in config.items():
        if text and is_secret_key(key) and config_providers.variables({key: text}) != [text]:  # a variable may be shown, as it is written
            found |= {text, *(part for parts in _QUOTED.findall(text) for part in parts if part)}
    return found
