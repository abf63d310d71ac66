"""The secrets of connectors' configs: which settings have them, and how secrets are hidden and restored.

A value is hidden if its key is of type PASSWORD or named like a secret, unless the value consists of variables (``${file:…}``). The
passwords of URLs are hidden. A hidden secret is restored only for the same class and address. Otherwise an author of the config could send
the hidden secret to a host of their own. Any setting of a foreign plugin may become part of an address. So every change of such a setting
counts as another address, unless the setting is known to be harmless.
"""

import dataclasses
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from cachetools import LRUCache

from airflow_provider_connect.errors import ConfigException, ConnectException, PluginNotFoundException
from airflow_provider_connect.runtime.herder.plugin_facts import is_built_in
from airflow_provider_connect.runtime.model.config_limits import cache_key_part
from airflow_provider_connect.runtime.model.connector_keys import LOCATION_KEY, sink_config_def, source_config_def
from airflow_provider_connect.runtime.model.secret_keys import HIDDEN, is_secret_key, is_variable
from airflow_provider_connect.runtime.model.url_passwords import url_passwords, without_url_passwords
from airflow_provider_connect.runtime.model.views import ConfigKeyView, ConnectorInfo

Definitions = Callable[..., Sequence[ConfigKeyView]]
"""Returns the keys of a plugin, by class name or alias, version, and optionally location. See ``Herder.plugin_config``."""
_Named = tuple[str | None, ...]

_ADDRESS = re.compile(
    r"(?:^|[._-])(?:urls?|uris?|hosts?|hostnames?|servers?|addresse?s?|endpoints?|ports?|prox(?:y|ies)|brokers?|nodes?|clusters?|domains?|realms?"
    r"|protocol|mechanism|verification|driver|dialect|region|account|truststore)(?:$|[._-])",
    re.IGNORECASE,
)
_LOOKS_LIKE_ADDRESS = re.compile(r"://|@|^[\w.-]{1,255}:[0-9]{1,5}(?:$|[,/])|^[0-9]{1,3}(?:\.[0-9]{1,3}){3}$|[?&;][\w.%-]{1,255}=")
_PART_OF_ADDRESS = re.compile(
    r"(?:^|[._-])(?:db(?:name)?|database|path|query|params?|parameters|options?|properties|service|pg[a-z]+|tls|ssl|sslmode|encrypt)$",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"[\w ,*+-]{0,4096}|-?[0-9]{1,32}\.[0-9]{1,32}")
_PLUGIN = re.compile(r"(?:key|value|header)\.converter\.|(?:transforms|predicates)\.[^.]{1,255}\.")
_HARMLESS = re.compile(
    r"name|topics?|topics\.regex|topic\.(?:prefix|creation\..*)|transforms|predicates|errors\..*|message\.key\.columns|column\..*"
    r"|.*[._](?:include|exclude|white|black)[._]?list|.*\.format|.*\.plugin\.version"
)
_CLIENT_SECRETS = ("ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates")
_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_FRAMEWORK = {*source_config_def().keys, *sink_config_def().keys, "topic"}
_KEPT_SECONDS = 300.0
_ASKED_AGAIN_SECONDS = 30.0
_MOST_PLUGINS = 4096


class Secrets:
    """Hides secrets of configs and restores them. Reads a plugin's keys from time to time. Safe for many threads.

    With ``hides_unknown``, all settings of a plugin that does not answer are hidden. Use this for output that is stored permanently.
    ``hides_unknown`` also becomes true when the full cache (``most_plugins``) drops a plugin, because keys of that plugin may be of type
    PASSWORD.
    """

    def __init__(
        self,
        definitions: Definitions,
        now: Callable[[], float] = time.monotonic,
        *,
        hides_unknown: bool = False,
        most_plugins: int = _MOST_PLUGINS,
    ) -> None:
        self._definitions, self._now, self._hides_unknown = definitions, now, hides_unknown
        self._known: LRUCache[_Named, tuple[float, frozenset[str], bool]] = LRUCache(most_plugins)
        self._lock = threading.Lock()
        self.generation = 0
        """Increases whenever the keys of secrets may have changed."""

    def redacted(self, config: Mapping[str, str], of: Mapping[str, str] | None = None) -> dict[str, str]:
        """``config`` with ``[hidden]`` in place of secrets. For a task config, ``of`` is the connector's config."""
        passwords = self._password_keys({**(of or {}), **config})
        return {key: _redacted(key, value, passwords) for key, value in config.items()}

    def redacted_info(self, connector: ConnectorInfo) -> ConnectorInfo:
        """The connector with its secrets hidden."""
        return dataclasses.replace(connector, config=self.redacted(connector.config))

    def restore(self, given: Mapping[str, str | None], known: Mapping[str, str] | None) -> dict[str, str | None]:
        """``given`` with the secrets of ``known``, the connector's current config, in place of the hidden values of ``redacted``.

        Raises ConfigException if ``known`` has no secret under the key (the value was copied from another connector), or if the secret
        would go to another class or address than before.
        """
        passwords = self._password_keys(given)
        restored = {key: _restore(key, value, known or {}, passwords) for key, value in given.items()}
        kept = [key for key, value in given.items() if value is not None and value != restored[key]]
        if known is not None:
            _refuse_moved_secrets(kept, restored, known)
        return restored

    def restore_patch(self, patch: Mapping[str, str | None], known: Mapping[str, str]) -> dict[str, str | None]:
        """``patch`` with restored secrets, like ``restore``. A secret of ``known`` that the patch does not change counts as restored."""
        restored = self.restore({**known, **patch}, known)
        passwords = self._password_keys(known)
        kept = [key for key, value in known.items() if restored.get(key) == value and _redacted(key, value, passwords) != value]
        _refuse_moved_secrets(kept, restored, known)
        return {key: restored[key] for key in patch}

    def _password_keys(self, config: Mapping[str, str | None]) -> frozenset[str]:
        """Keys of type PASSWORD of the connector and of its converters, transformations and predicates."""
        found: set[str] = set()
        for prefix, *named in _plugins(config):
            keys, is_known = self._passwords_of(tuple(named))
            found.update(prefix + key for key in keys)
            if not is_known and self._hides_unknown:
                found.update(key for key in config if key.startswith(prefix) and not _is_of_the_framework(key))
        return frozenset(found)

    def _passwords_of(self, plugin: _Named) -> tuple[frozenset[str], bool]:
        """The keys of type PASSWORD of a plugin, and whether the plugin has ever answered with its keys. A missing plugin counts as
        known."""
        named = tuple(map(cache_key_part, plugin))
        with self._lock:
            due, known, is_known = self._known.get(named, (0.0, frozenset[str](), False))
        if due > self._now():
            return known, is_known
        try:
            keys = frozenset(key.name for key in self._definitions(*plugin) if key.type == "PASSWORD")
            kept, is_known = _KEPT_SECONDS, True
        except ConnectException as error:  # the plugin is missing or does not answer: use the known keys, else only names
            keys, kept = known, _ASKED_AGAIN_SECONDS
            is_known = is_known or isinstance(error, PluginNotFoundException)
        if keys != known:
            self.generation += 1
        with self._lock:
            self._hides_unknown |= len(self._known) == self._known.maxsize and named not in self._known
            self._known[named] = (self._now() + kept, keys, is_known)
        return keys, is_known


def _redacted(key: str, value: str, passwords: frozenset[str]) -> str:
    if _is_secret(key, value, passwords):
        return HIDDEN
    return without_url_passwords(value) if value else value


def _restore(key: str, value: str | None, known: Mapping[str, str], passwords: frozenset[str]) -> str | None:
    if value is None or HIDDEN not in value:
        return value
    is_secret = _is_secret(key, value, passwords)
    if key in known and value in (HIDDEN, known[key], without_url_passwords(known[key])):
        return known[key]
    if is_secret and value != HIDDEN:
        raise ConfigException.of(key, HIDDEN, "this stands for a whole secret, not for a part of one; give the secret itself")
    if is_secret or any(HIDDEN in password for password in url_passwords(value)):
        reason = "this stands for a secret that is not shown, and the connector has none under this key; give the secret itself"
        raise ConfigException.of(key, value, reason)
    return value


def _refuse_moved_secrets(kept: Iterable[str], given: Mapping[str, str | None], known: Mapping[str, str]) -> None:
    """Raise ConfigException if a ``kept`` secret would go to another class or address than in ``known``."""
    secrets = [key for key in kept if known.get(key)]
    if not secrets:
        return
    changed = [key for key in dict.fromkeys((*given, *known)) if (given.get(key) or "") != (known.get(key) or "")]
    strict = {prefix for prefix in map(_plugin_of, secrets) if prefix or not is_built_in(known)}
    moved = sorted(
        key
        for key in changed
        for value in (given.get(key), known.get(key))
        if _is_address(key, value) or (_plugin_of(key) in strict and _may_be_address(key, value))
    )
    if moved:
        names = ", ".join(dict.fromkeys(moved))
        reason = f"this stands for a secret that is not shown, and {names} has changed with it: give the secret again"
        raise ConfigException.of(", ".join(sorted(secrets)), HIDDEN, reason)


def _is_address(key: str, value: str | None) -> bool:
    """Whether a setting decides which code or host gets a secret."""
    if key.startswith("airflow."):
        return False
    if key in ("connector.class", LOCATION_KEY, *_CONVERTERS) or (key.startswith(("transforms.", "predicates.")) and key.endswith(".type")):
        return True
    return _ADDRESS.search(key) is not None or (value is not None and _LOOKS_LIKE_ADDRESS.search(value) is not None)


def _may_be_address(key: str, value: str | None) -> bool:
    """Whether a setting of a foreign plugin may become part of an address. False for a setting that all connectors of a kind have, and for
    a value that is a number or plain words."""
    if key.startswith("airflow.") or _HARMLESS.fullmatch(key):
        return False
    return _PART_OF_ADDRESS.search(key) is not None or (value is not None and _PLAIN.fullmatch(value) is None)


def _plugin_of(key: str) -> str:
    """The prefix of the setting's plugin. Empty: the connector."""
    found = _PLUGIN.match(key)
    return "" if found is None else found[0]


def _is_secret(key: str, value: str | None, passwords: frozenset[str]) -> bool:
    if not value or is_variable(value):
        return False
    return key in passwords or key.endswith(_CLIENT_SECRETS) or (is_secret_key(key) and value.lower() not in ("true", "false"))


def _is_of_the_framework(key: str) -> bool:
    return key in _FRAMEWORK or key.endswith((".type", ".plugin.version", ".plugin.location"))


def _plugins(config: Mapping[str, str | None]) -> Iterable[tuple[str, *_Named]]:
    """Prefix of the keys, name, version and, if given, location of each plugin in the config."""
    if name := config.get("connector.class"):
        named = name, config.get("connector.plugin.version")
        yield ("", *named) if (location := config.get(LOCATION_KEY)) is None else ("", *named, location)
    for converter in _CONVERTERS:
        if name := config.get(converter):
            yield f"{converter}.", name, config.get(f"{converter}.plugin.version")
    for kind in ("transforms", "predicates"):
        for alias in (config.get(kind) or "").split(","):
            prefix = f"{kind}.{alias.strip()}."
            if name := config.get(f"{prefix}type"):
                yield prefix, name, config.get(f"{prefix}plugin.version")
