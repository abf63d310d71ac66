"""The config providers that the worker settings declare: class, time to live of the values, and access rules.

::

    config.providers                                   the aliases
    config.providers.«alias».class                     a built-in provider by Kafka Connect's name; another by its Python class
    config.providers.«alias».param.«name»              a parameter of the provider
    config.providers.«alias».param.ttl.ms              the time to live of its values
    config.providers.«alias».access.«connectors»       what these connectors may read; both are patterns of whole names
    config.providers.«alias».secret                    false: its values are not secrets; true by default
    config.providers.«alias».public.keys               a pattern of whole keys whose values are not secrets
    config.providers.access.default                    without such a rule: deny (the default) or allow

``airflow`` and ``variable``, Airflow's Connections and Variables, need no declaration and have ``param.allowlist.pattern``,
``param.ttl.ms`` and ``access``. Without a rule or an allowlist, every connector is denied access to both, and to the environment. Files and
custom providers are open, as in Kafka Connect. Public values are open too. Knows nothing of where a variable is in a config.
"""

import importlib
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from airflow_provider_connect.errors import ConfigException, ConnectException, RetriableException
from airflow_provider_connect.runtime.config.built_in_providers import DirectoryConfigProvider, EnvVarConfigProvider, FileConfigProvider
from airflow_provider_connect.sdk.bounded_regex import BoundedRegex
from airflow_provider_connect.sdk.config_provider import ConfigData, ConfigProvider

AIRFLOW_PROVIDERS = ("airflow", "variable")
DEFAULT_ACCESS = "config.providers.access.default"
"""``deny``: connectors without a rule may not read the values of the whole host. ``allow``: every author of a connector is trusted."""

_log = logging.getLogger(__name__)
_OPEN_FILES = (
    "Config provider %s gives every connector every file that the worker may read: set config.providers.%s.param.allowed.paths, or rules "
    "(config.providers.«alias».access.«connectors»)"
)
_PREFIX = "config.providers"
_KAFKA = "org.apache.kafka.common.config.provider."


@dataclass(slots=True)
class DeclaredProvider(ConfigProvider):
    """One declared provider, for one config of one connector. Requests each path and key once, and notes how long the values are valid.

    ``make`` None: the caller passes in its values. ``allowlist`` None: everything is allowed. ``rules`` are the rules for this connector.
    None: every connector may read. ``has_rules`` False: ``rules`` is the default, which denies no public value. The values of keys that
    match ``public`` are public. None: every value is a secret. ``location`` is the text that rules match for a path and key.
    """

    alias: str
    make: Callable[[], ConfigProvider] | None
    ttl_ms: int | None = None
    allowlist: BoundedRegex | None = None
    rules: tuple[BoundedRegex, ...] | None = None
    public: BoundedRegex | re.Pattern[str] | None = None
    has_rules: bool = True
    location: Callable[[str, str], str] = lambda path, key: f"{path}:{key}" if path else key
    shortest_ttl_ms: int | None = None
    _made: ConfigProvider | None = None
    _known: dict[tuple[str, str], str | None] = field(default_factory=dict, repr=False)

    @property
    def is_open(self) -> bool:
        """Whether every connector may resolve all variables of the provider."""
        return self.rules is None and self.allowlist is None

    def is_public(self, key: str) -> bool:
        """Whether an admin has declared the values of ``key`` public."""
        return self.public is not None and self.public.fullmatch(key) is not None

    def refusal(self, connector: str | None, path: str, key: str) -> str:
        """The reason why ``connector`` may not read this, with advice. Empty: it may."""
        if "\0" in path or "\0" in key:
            return "a path or name must not contain a null character"
        location, prefix = self.location(path, key), f"{_PREFIX}.{self.alias}"
        if self.allowlist is not None and not self.allowlist.fullmatch(location):
            return f"{prefix}.param.allowlist.pattern does not allow it; change the variable, or ask for a wider pattern"
        if self.rules is None or any(rule.fullmatch(location) for rule in self.rules):
            return ""
        if not self.has_rules and self.is_public(key):
            return ""
        every = "" if self.has_rules else f" ({DEFAULT_ACCESS}=allow lets every connector read everything)"  # rules go before the default
        return (
            f"no {prefix}.access setting of the worker lets this connector read it; change the variable, or ask for the setting "
            f"{prefix}.access.{_as_pattern(connector or '') or '.*'}={_as_pattern(location)}{every}"
        )

    def get(self, path: str, keys: Iterable[str]) -> ConfigData:
        """Raises ConfigException, and RetriableException for any other exception of a provider."""
        keys = list(keys)
        asked = [key for key in keys if (path, key) not in self._known]
        if asked:
            found = self._asked(path, asked)
            self._note(found.ttl_ms)
            self._note(self.ttl_ms)
            self._known |= {(path, key): found.values.get(key) for key in asked}
        known = {key: self._known[path, key] for key in keys}
        return ConfigData({key: value for key, value in known.items() if value is not None}, self.shortest_ttl_ms)

    def _asked(self, path: str, keys: list[str]) -> ConfigData:
        if self.make is None:
            return ConfigData({})
        try:
            if self._made is None:
                self._made = self.make()
            return self._made.get(path, keys)
        except ConnectException:
            raise
        except Exception as error:  # (foreign code: an unavailable vault is not an error of the config)
            reason = f"Config provider {self.alias} could not resolve {', '.join(keys)}"
            raise RetriableException(f"{reason}: {type(error).__name__}: {error}") from error

    def _note(self, ttl_ms: int | None) -> None:
        if ttl_ms is not None:
            self.shortest_ttl_ms = ttl_ms if self.shortest_ttl_ms is None else min(ttl_ms, self.shortest_ttl_ms)


def _as_pattern(text: str) -> str:
    """A regular expression for ``text``, which is the text itself for most."""
    return text if re.fullmatch(r"[\w ./:,@-]*", text) else re.escape(text)


class Providers(dict[str, DeclaredProvider]):
    """The providers for one config, by alias. ``connector`` None: the config is the worker's own, to which no access rule applies.
    ``trusts_authors``: ``config.providers.access.default`` is ``allow``."""

    def __init__(self, providers: Mapping[str, DeclaredProvider], connector: str | None, *, trusts_authors: bool) -> None:
        super().__init__(providers)
        self.connector, self.trusts_authors = connector, trusts_authors


def create_providers(settings: Mapping[str, str], connector: str | None = None) -> Providers:
    """The providers that the worker ``settings`` declare, and Airflow's two. Raises ConfigException for a wrong declaration."""
    aliases = [name.strip() for name in settings.get(_PREFIX, "").split(",")]
    declared = {alias: _declared(alias, settings, connector) for alias in dict.fromkeys((*filter(None, aliases), *AIRFLOW_PROVIDERS))}
    return Providers(declared, connector, trusts_authors=_trusts_authors(settings))


def open_file_providers(settings: Mapping[str, str]) -> list[str]:
    """The aliases of declared file and directory providers that let every connector read every file that the worker may read."""
    declared = create_providers(settings, "").items()
    files = [alias for alias, provider in declared if provider.is_open and provider.location in _LOCATIONS.values()]
    return [alias for alias in files if not settings.get(f"{_PREFIX}.{alias}.param.allowed.paths", "").strip()]


def warn_open_file_providers(settings: Mapping[str, str]) -> None:
    """Logs a warning for each of ``open_file_providers``. Each program that runs or serves connectors calls it once."""
    for alias in open_file_providers(settings):
        _log.warning(_OPEN_FILES, alias, alias)


def _trusts_authors(settings: Mapping[str, str]) -> bool:
    text = settings.get(DEFAULT_ACCESS, "deny")
    if text.strip().lower() not in ("allow", "deny"):
        raise ConfigException.of(DEFAULT_ACCESS, text, "give deny, or allow if every author of a connector is trusted with every secret")
    return text.strip().lower() == "allow"


def shortest_ttl_ms(providers: Mapping[str, ConfigProvider]) -> int | None:
    """How long all resolved values are valid. None: no limit is known."""
    known = (provider.shortest_ttl_ms for provider in providers.values() if isinstance(provider, DeclaredProvider))
    return min((ttl for ttl in known if ttl is not None), default=None)


def _declared(alias: str, settings: Mapping[str, str], connector: str | None) -> DeclaredProvider:
    prefix = f"{_PREFIX}.{alias}."
    params = {key.removeprefix(f"{prefix}param."): value for key, value in settings.items() if key.startswith(f"{prefix}param.")}
    ttl_ms = _ttl_ms(f"{prefix}param.ttl.ms", params.pop("ttl.ms", None))
    rules = _rules(f"{prefix}access.", settings, connector)
    public = _public(prefix, settings)
    class_name = settings.get(f"{prefix}class")
    is_denied = connector is not None and not _trusts_authors(settings) and "allowlist.pattern" not in params
    has_rules = rules is not None
    if rules is None and is_denied and _is_of_the_host(alias, class_name):
        rules = ()
    if alias not in AIRFLOW_PROVIDERS:
        made = DeclaredProvider(alias, _provider(prefix, class_name, params), ttl_ms, None, rules, public, has_rules)
        made.location = _LOCATIONS.get((class_name or "").strip().removeprefix(_KAFKA), made.location)
        return made
    if class_name is not None:
        raise ConfigException.of(f"{prefix}class", class_name, f"{alias} is Airflow's own: choose another alias")
    allowed = params.get("allowlist.pattern")
    allowlist = None if allowed is None else _pattern(f"{prefix}param.allowlist.pattern", allowed)
    return DeclaredProvider(alias, None, ttl_ms, None if connector is None else allowlist, rules, public, has_rules)


def _public(prefix: str, settings: Mapping[str, str]) -> BoundedRegex | re.Pattern[str] | None:
    """The keys whose values are public. None: every value is a secret."""
    text, keys = settings.get(f"{prefix}secret", "true"), settings.get(f"{prefix}public.keys", "")
    if text.strip().lower() not in ("true", "false"):
        raise ConfigException.of(f"{prefix}secret", text, "give true, or false if no value of this provider is a secret")
    if text.strip().lower() == "false":
        return re.compile(".*", re.DOTALL)
    return _pattern(f"{prefix}public.keys", keys) if keys.strip() else None


def _is_of_the_host(alias: str, class_name: str | None) -> bool:
    """Whether the provider reads values of the whole host or of all of Airflow. No admin has selected these values for connectors."""
    return alias in AIRFLOW_PROVIDERS or (class_name or "").strip().removeprefix(_KAFKA) == "EnvVarConfigProvider"


def _provider(prefix: str, class_name: str | None, params: Mapping[str, str]) -> Callable[[], ConfigProvider]:
    """A function that creates the provider at its first use."""
    if class_name is None:
        raise ConfigException(f'Missing required configuration "{prefix}class" which has no default value.')
    match class_name.strip().removeprefix(_KAFKA):
        case "FileConfigProvider":
            return partial(FileConfigProvider, _paths(params.get("allowed.paths")))
        case "DirectoryConfigProvider":
            return partial(DirectoryConfigProvider, _paths(params.get("allowed.paths")))
        case "EnvVarConfigProvider":
            pattern = _pattern(f"{prefix}param.allowlist.pattern", params.get("allowlist.pattern", ".*"))
            return partial(EnvVarConfigProvider, pattern.pattern)
    return _installed(f"{prefix}class", class_name.strip(), params)


def _of_properties(path: str, key: str) -> str:
    return f"{os.path.realpath(path)}:{key}"


def _of_file(path: str, key: str) -> str:
    return ":".join(os.path.split(os.path.realpath(os.path.join(path, key))))


_LOCATIONS = {"FileConfigProvider": _of_properties, "DirectoryConfigProvider": _of_file}
"""The locations, with links followed. Otherwise a link in another directory could bypass a rule."""


def _installed(key: str, class_name: str, params: Mapping[str, str]) -> Callable[[], ConfigProvider]:
    """A function that creates and configures an installed class at its first use."""
    module, _, name = class_name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigException.of(
            key,
            class_name,
            "give FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider, or the Python class of a ConfigProvider that is "
            f"installed here ({error}); ${{airflow:connection:field}} and ${{variable:key}} need no declaration",
        ) from error
    if not (isinstance(found, type) and issubclass(found, ConfigProvider)):
        raise ConfigException.of(key, class_name, "it is not a class that extends airflow_provider_connect.sdk.ConfigProvider")

    def make() -> ConfigProvider:
        provider = found()
        provider.configure(dict(params))
        return provider

    return make


def _rules(prefix: str, settings: Mapping[str, str], connector: str | None) -> tuple[BoundedRegex, ...] | None:
    """The rules for ``connector``. None: no rule restricts access."""
    given = {key: value for key, value in settings.items() if key.startswith(prefix)}
    patterns = {key: (_pattern(key, key[len(prefix) :]), _pattern(key, value)) for key, value in given.items()}
    if connector is None or not patterns:
        return None
    return tuple(what for who, what in patterns.values() if who.fullmatch(connector))


def _ttl_ms(key: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise ConfigException.of(key, text, "Value must be a number of milliseconds, at least 1")
    return int(text)


def _paths(text: str | None) -> tuple[str, ...] | None:
    paths = tuple(path.strip() for path in (text or "").split(",") if path.strip())
    for path in paths:
        if not os.path.isabs(path):
            raise ConfigException.of("allowed.paths", path, "Path must be absolute")
    return paths or None


def _pattern(key: str, pattern: str) -> BoundedRegex:
    try:
        return BoundedRegex(pattern, key)  # an admin's pattern, matched against texts of config authors
    except re.error as error:
        raise ConfigException.of(key, pattern, f"Invalid regex: {error}") from error
