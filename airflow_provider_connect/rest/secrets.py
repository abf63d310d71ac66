"""Which settings of a connector hold secrets, how they are shown, and how a secret comes back when what was shown is sent in.

A value is hidden when its key is of type PASSWORD or named like a secret; one that is all variables (``${file:…}``) is no secret.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.model.secret_keys import HIDDEN, is_secret_key
from airflow_provider_connect.model.views import ConfigKeyView

Definitions = Callable[[str, str | None], Sequence[ConfigKeyView]]
"""The keys of a plugin, by class name or alias and version; ``Herder.plugin_config``."""

_VARIABLES = re.compile(r"(\s*\$\{[^}]*\}\s*)+")
_CLIENT_SECRETS = ("ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates")
_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_KEPT_SECONDS = 300.0
_ASKED_AGAIN_SECONDS = 30.0


class Secrets:
    """Hides secrets of configs and restores them. Asks for a plugin's keys once in a while; safe for many threads."""

    def __init__(self, definitions: Definitions, now: Callable[[], float] = time.monotonic) -> None:
        self._definitions, self._now = definitions, now
        self._known: dict[tuple[str, str | None], tuple[float, frozenset[str]]] = {}
        self.learned = 0
        """Changes whenever what is hidden may have changed."""

    def shown(self, config: Mapping[str, str]) -> dict[str, str]:
        """``config`` with ``[hidden]`` in place of secrets."""
        passwords = self._password_keys(config)
        return {key: HIDDEN if _is_secret(key, value, passwords) else value for key, value in config.items()}

    def restored(self, given: Mapping[str, str | None], known: Mapping[str, str] | None) -> dict[str, str | None]:
        """``given`` with the secrets of ``known``, the connector's config as it is, where ``given`` has what ``shown`` put there.

        Raises ConfigException where ``known`` has no secret under the key: it was taken over from another connector.
        """
        return {key: self._secret(key, known or {}) if self._is_mark(key, value, given) else value for key, value in given.items()}

    def _is_mark(self, key: str, value: str | None, config: Mapping[str, str | None]) -> bool:
        return value == HIDDEN and _is_secret(key, value, self._password_keys(config))

    @staticmethod
    def _secret(key: str, known: Mapping[str, str]) -> str:
        if key not in known:
            reason = "this stands for a secret that is not shown, and the connector has none under this key; give the secret itself"
            raise ConfigException.of(key, HIDDEN, reason)
        return known[key]

    def _password_keys(self, config: Mapping[str, str | None]) -> frozenset[str]:
        """Keys of type PASSWORD of the connector and of its converters, transformations and predicates."""
        found: set[str] = set()
        for prefix, name, version in _plugins(config):
            found.update(prefix + key for key in self._passwords_of(name, version))
        return frozenset(found)

    def _passwords_of(self, plugin: str, version: str | None) -> frozenset[str]:
        due, known = self._known.get((plugin, version), (0.0, frozenset[str]()))
        if due > self._now():
            return known
        try:
            keys = frozenset(key.name for key in self._definitions(plugin, version) if key.type == "PASSWORD")
            kept = _KEPT_SECONDS
        except ConnectException:  # a plugin that is not there, or does not answer now: what was known holds, and else the names
            keys, kept = known, _ASKED_AGAIN_SECONDS
        if keys != known:
            self.learned += 1
        self._known[plugin, version] = (self._now() + kept, keys)
        return keys


def _is_secret(key: str, value: str | None, passwords: frozenset[str]) -> bool:
    if not value or _VARIABLES.fullmatch(value):
        return False
    return key in passwords or key.endswith(_CLIENT_SECRETS) or (is_secret_key(key) and value.lower() not in ("true", "false"))


def _plugins(config: Mapping[str, str | None]) -> Iterable[tuple[str, str, str | None]]:
    """Prefix of the keys, name and version of each plugin that the config names."""
    if name := config.get("connector.class"):
        yield "", name, config.get("connector.plugin.version")
    for converter in _CONVERTERS:
        if name := config.get(converter):
            yield f"{converter}.", name, config.get(f"{converter}.plugin.version")
    for kind in ("transforms", "predicates"):
        for alias in (config.get(kind) or "").split(","):
            prefix = f"{kind}.{alias.strip()}."
            if name := config.get(f"{prefix}type"):
                yield prefix, name, config.get(f"{prefix}plugin.version")
