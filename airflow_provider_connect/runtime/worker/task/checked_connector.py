"""A connector whose config has been checked: class, settings, converters. Nothing is started, read or written here.

Used before a run starts to move records: in the Airflow task before spark-submit, and by the planner in the application.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from airflow_provider_connect.errors import (
    ConfigException,
    MissingException,
    PluginVersionException,
    RetriableException,
    message_of,
    plugin_code,
)
from airflow_provider_connect.runtime.config import config_providers
from airflow_provider_connect.runtime.config.client_settings import clients_of, refused_overrides, unused_overrides
from airflow_provider_connect.runtime.config.config_providers import ConfigProvider
from airflow_provider_connect.runtime.config.masking import HideSecrets, Mask, config_secrets, password_values
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.java.catalog.location import refuse_location
from airflow_provider_connect.runtime.java.config.connector import JavaSink, JavaSource, java_errors
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.config_limits import TASK_MEMORY
from airflow_provider_connect.runtime.model.connector_keys import (
    names_of,
    own_config_def,
    sink_config_def,
    source_config_def,
    strip_framework_keys,
)
from airflow_provider_connect.runtime.model.connector_settings import ConnectorSettings, Guarantee, TransactionBoundary
from airflow_provider_connect.runtime.model.topic_creation import TopicCreation, unused_keys, uses_topic_creation
from airflow_provider_connect.runtime.model.unknown_settings import misspellings, unknown_settings
from airflow_provider_connect.runtime.plugins.catalog.chosen_plugins import ChosenPlugins, PluginChoice
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import Plugin, PluginCatalog, PluginKind
from airflow_provider_connect.runtime.plugins.validation.delivery_checks import (
    backfill_errors,
    boundary_errors,
    data_topic_errors,
    foreign_errors,
    group_errors,
    memory_errors,
    offsets_topic_errors,
    refusal_of_topics,
    tasks_errors,
)
from airflow_provider_connect.runtime.stores.offset_location import OffsetLocation, sink_overrides
from airflow_provider_connect.runtime.worker.bounded_call import connector_class
from airflow_provider_connect.sdk.config_def import ConfigDef
from airflow_provider_connect.sdk.connector import Connector, ExactlyOnceSupport, SinkConnector, SourceConnector

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CheckedConnector:
    """``raw`` is the config as on the topic. ``resolved`` is the same config with its variables resolved, and is never published or logged.
    ``variables`` maps each variable to its value. ``hidden`` are the secrets among these values. ``plugins`` maps each key whose value is a
    class name to the plugin, in the chosen version. ``topic_creation`` None: the connector creates no topics. ``declared`` are the settings
    on which its ``validate`` reports."""

    name: str
    plugins: ChosenPlugins
    connector: Connector
    raw: Mapping[str, str]
    resolved: Mapping[str, str] = field(repr=False)
    variables: Mapping[str, str] = field(repr=False)
    hidden: frozenset[str] = field(repr=False)
    settings: ConnectorSettings
    topic_creation: TopicCreation | None = None
    declared: frozenset[str] = frozenset()

    @property
    def plugin(self) -> Plugin:
        return self.plugins.connector

    def secrets(self) -> set[str]:
        """The secrets, which no output may show: values of variables, and of keys that are of type PASSWORD or named like secrets."""
        return {*self.hidden, *password_values(self.connector.config_def, self.resolved), *config_secrets(self.raw)} - {""}

    @property
    def is_java(self) -> bool:
        """Whether Kafka Connect's own classes run it in a JVM. ``connector`` is then a placeholder."""
        return self.plugins.connector.is_java

    @property
    def is_source(self) -> bool:
        return isinstance(self.connector, SourceConnector)

    def producer_overrides(self, settings: WorkerSettings) -> Mapping[str, str]:
        """The overrides of the connector's transactional producers, which write to the cluster of its offsets."""
        return OffsetLocation.of(settings, self.resolved).producer if self.is_source else sink_overrides(self.resolved)


def check_connector(
    name: str,
    raw: Mapping[str, str],
    settings: WorkerSettings,
    secrets: Mapping[str, str],
    *,
    versions: Mapping[str, str] | None = None,
    version: str | None = None,
    providers: Mapping[str, ConfigProvider] | None = None,
    hide: HideSecrets = lambda _: None,
) -> CheckedConnector:
    """Check the config of connector ``name``. Raises ConfigException with all errors in Connect's words, and RetriableException if the
    connector raises it. Neither contains secrets. ``versions`` are the versions that the run has chosen (``ChosenPlugins.versions``).
    ``version`` is the version of the connector to use, even if its config requests another one. ``providers`` may already have resolved
    values. None: no value is resolved yet. ``hide`` receives the secrets before any code of the connector runs."""
    providers = settings.config_providers(name) if providers is None else providers
    mask = Mask()

    def note(values: Iterable[str]) -> None:
        known = set(values)
        mask.add(known)
        hide(known)

    values = config_providers.variable_values(raw, providers, secrets)
    hidden = config_providers.hidden_values(raw, providers, values)
    note(hidden | config_secrets(raw))
    try:
        choice = PluginChoice(PluginCatalog(settings.plugin_path), settings, versions, version)
        return _checked(name, raw, values, choice, note, hidden=frozenset(hidden))
    except ConfigException as error:
        raise ConfigException(mask(error.message), errors=map(mask, error.errors)) from None
    except Exception as error:  # (the connector's own code: validators, recommenders)
        kind = RetriableException if isinstance(error, RetriableException) else ConfigException
        raise kind(f"Connector {name} could not check its configuration: {type(error).__name__}: {mask(message_of(error))}") from None


def _java_class(plugin: Plugin, settings: WorkerSettings) -> type[Connector]:
    location = None if plugin.location is None else plugin.location.path
    refuse_location(plugin.class_name, location, plugin.origin, settings.values)
    return JavaSource if plugin.kind is PluginKind.SOURCE else JavaSink


@plugin_code()
def _checked(
    name: str, raw: Mapping[str, str], variables: Mapping[str, str], choice: PluginChoice, hide: HideSecrets, *, hidden: frozenset[str]
) -> CheckedConnector:
    resolved = config_providers.resolve(raw, secrets=variables)
    plugin = _plugin(name, resolved, choice)
    connector: Connector = (_java_class if plugin.is_java else connector_class)(plugin, choice.settings)()
    connector.allowed_paths = choice.settings.allowed_paths
    connector.allowed_spark = choice.settings.allowed_spark
    resolved = {**connector.default_settings, **resolved}
    connector.refusal_of_topic = refusal_of_topics(choice.settings, resolved)
    hide(password_values(connector.config_def, resolved))
    values = list(connector.validate(strip_framework_keys(resolved)))
    errors = [error for value in values for error in value.errors]
    checked: ConnectorSettings | None = None
    plugins: ChosenPlugins | None = None
    try:
        checked = ConnectorSettings.of({"name": name, **resolved}, is_sink=plugin.kind is PluginKind.SINK)
        plugins = choice.all(name, resolved, [named.alias for named in checked.transforms], list(checked.predicates))
        errors += tasks_errors(choice.settings, checked.tasks_max)
        errors += memory_errors(choice.settings, resolved.get(TASK_MEMORY))
    except ConfigException as error:
        errors = [*error.errors, *(text for text in errors if text not in error.errors)]
    if isinstance(connector, SourceConnector) and checked is not None:
        errors += offsets_topic_errors(choice.settings, resolved)
        if checked.transaction_boundary is TransactionBoundary.CONNECTOR:
            errors += boundary_errors(connector, strip_framework_keys(resolved))
    for of_topics in data_topic_errors(choice.settings, strip_framework_keys(resolved), connector).values():
        errors += [error for error in of_topics if error not in errors]
    for of_backfill in backfill_errors(resolved, None if plugin.is_java else connector).values():
        errors += [error for error in of_backfill if error not in errors]
    errors += java_errors(name, plugin.class_name, resolved, choice.settings) if plugin.is_java else []
    if not isinstance(connector, SourceConnector):
        errors += group_errors(choice.settings, {"name": name, **resolved})
    creation, of_creation = _topic_creation(connector, resolved, choice.settings)
    errors += of_creation
    kinds = clients_of(choice.settings, resolved, is_sink=plugin.kind is PluginKind.SINK)
    errors += [f"{key}: {text}" for key, text in refused_overrides(choice.settings, resolved, kinds).items()]
    declared = frozenset(value.name for value in values)
    if errors or checked is None or plugins is None:
        unknown = [] if plugin.is_java else _unknown_settings(connector, raw, declared, _OF_PLUGINS)
        raise invalid_config(name, errors, misspellings(errors, unknown, raw.keys()))
    return CheckedConnector(name, plugins, connector, dict(raw), resolved, variables, hidden, checked, creation, declared)


def refuse_foreign(name: str, define: Mapping[str, str], state: ClusterConfigState) -> None:
    """Raise ConfigException for a new connector whose DAG file names a topic or group that another connector has reserved."""
    errors = foreign_errors(name, define, state.reserved)
    if errors:
        raise invalid_config(name, errors)


def _topic_creation(connector: Connector, resolved: Mapping[str, str], settings: WorkerSettings) -> tuple[TopicCreation | None, list[str]]:
    """A source's groups of new topics, and their errors. Connect checks them at the start, not when it validates a config."""
    if not isinstance(connector, SourceConnector) or not settings.topic_creation_enable:
        return None, []
    try:
        return TopicCreation.of(resolved), []
    except ConfigException as error:
        return None, error.errors


def _plugin(connector: str, resolved: Mapping[str, str], choice: PluginChoice) -> Plugin:
    named = resolved.get("connector.class", "")
    if not named:
        raise ConfigException(f"Connector config of {connector} contains no connector type: set 'connector.class'")
    try:
        return choice.connector(connector, resolved)
    except PluginVersionException as error:
        raise invalid_config(connector, [error.message]) from error
    except ConfigException as error:
        raise invalid_config(connector, [ConfigException.of("connector.class", named, error.message).message]) from error


def check_outside(checked: CheckedConnector, *, fully: bool = False) -> None:
    """Let the connector check whether a run could start now. ``fully`` is for a preview. Raises MissingException. For any other exception
    of the connector, raises RetriableException, without secrets."""
    mask = Mask(checked.secrets())
    try:
        with plugin_code():
            (checked.connector.check_fully if fully else checked.connector.check)(strip_framework_keys(checked.resolved))
    except ConfigException as error:
        refusal = invalid_config(checked.name, map(mask, error.errors), map(mask, misspelled_settings(checked, error)))
        raise MissingException(refusal.message, errors=refusal.errors) from None
    except Exception as error:  # (the connector's own code)
        text = f"Connector {checked.name} could not check whether a run can start: {type(error).__name__}: {mask(message_of(error))}"
        raise RetriableException(text) from None


def misspelled_settings(checked: CheckedConnector, error: ConfigException) -> list[str]:
    """Warnings about unknown settings, if ``error`` is about a setting that the config lacks."""
    unknown = [] if checked.is_java else _unknown_settings(checked.connector, checked.raw, checked.declared, _OF_PLUGINS)
    return misspellings(error.errors, unknown, checked.raw.keys())


def warn_unused_settings(checked: CheckedConnector, settings: WorkerSettings) -> None:
    """Log settings without effect, which are allowed as in Connect, and variables without a value. Called once per run. Tasks log such
    settings of their converters and transformations."""
    unresolved = config_providers.unresolved_warnings(checked.raw, settings.config_providers(checked.name), checked.variables)
    named = (prefix for prefix, _ in checked.plugins.by_prefix() if prefix in checked.raw or f"{prefix}.type" in checked.raw)
    of_plugins = tuple(f"{prefix}." for prefix in named)
    unknown = [] if checked.is_java else _unknown_settings(checked.connector, checked.raw, checked.declared, of_plugins)
    for warning in (*unknown, *unresolved):
        log.warning("Connector %s: %s", checked.name, warning)
    kinds = clients_of(settings, checked.resolved, is_sink=not checked.is_source)
    if not checked.is_java and (unused := unused_overrides(checked.resolved, kinds)):
        log.warning("Connector %s: %s: librdkafka has nothing like it, and nothing is changed", checked.name, ", ".join(unused))
    if not checked.is_source or not uses_topic_creation(checked.resolved):
        return
    if checked.topic_creation is None:
        log.warning(
            "Connector %s: topic.creation.* is not used: the worker has topic.creation.enable=false, so only the broker creates topics",
            checked.name,
        )
    elif unused := unused_keys(checked.resolved):
        log.warning("Connector %s: %s: topic.creation.groups names no such group, and nothing is changed", checked.name, ", ".join(unused))


def _unknown_settings(connector: Connector, raw: Mapping[str, str], declared: frozenset[str], of_plugins: tuple[str, ...]) -> list[str]:
    """Warnings about settings that neither the framework nor the connector and its tasks read. Keys that begin with one of ``of_plugins``
    are left out, because tasks log unread settings of converters and transformations."""
    framework = source_config_def() if isinstance(connector, SourceConnector) else sink_config_def()
    definitions = (framework, own_config_def(), connector.config_def, connector.task_class.config_def or ConfigDef())
    given = [key for key in raw if not (of_plugins and key.startswith(of_plugins))]
    return unknown_settings(given, {*declared, *(name for definition in definitions for name in names_of(definition))})


_OF_PLUGINS = ("transforms.", "predicates.", "key.converter.", "value.converter.", "header.converter.")


def invalid_config(name: str, errors: Iterable[str], hints: Iterable[str] = ()) -> ConfigException:
    """The exception for a config with ``errors``. ``hints`` are lines that follow the errors."""
    found = list(dict.fromkeys(errors))
    text = "\n".join([*found, *hints])
    return ConfigException(
        f"Connector configuration of {name} is invalid and contains the following {len(found)} error(s):\n{text}", errors=found
    )


@plugin_code()
def guarantee_of(checked: CheckedConnector, settings: WorkerSettings, *, exactly_once: bool = True) -> Guarantee:
    """The guarantee of a run: the requested one, otherwise the strongest that worker and connector allow. ``exactly_once``: whether the
    worker's stores support it.

    Raises ConfigException if the requested guarantee, or ``exactly.once.support=required``, is not possible.
    """
    asked = checked.settings.delivery_guarantee
    if checked.is_java:
        return _of_java(checked, asked, "" if exactly_once or not checked.is_source else _LOCAL)
    supported = _exactly_once_reason(checked, settings) if exactly_once else _LOCAL
    required = checked.is_source and checked.settings.requires_exactly_once
    if supported and (required or asked == Guarantee.EXACTLY_ONCE):
        key = "exactly.once.support" if required else "delivery.guarantee"
        raise ConfigException.of(key, "required" if required else asked, supported)
    if asked:
        return asked
    return Guarantee.AT_LEAST_ONCE if supported else Guarantee.EXACTLY_ONCE


def _of_java(checked: CheckedConnector, asked: Guarantee | None, refusal: str) -> Guarantee:
    """A Java source delivers exactly once, because only transactions fence an earlier run, also on a worker that has disabled exactly-once
    support, as Kafka Connect has by default. A Java sink delivers at least once, as in Kafka Connect."""
    only = Guarantee.EXACTLY_ONCE if checked.is_source else Guarantee.AT_LEAST_ONCE
    what = "source" if checked.is_source else "sink"
    if refusal:
        raise ConfigException.of("connector.class", checked.plugin.class_name, f"A Java {what} cannot run here. {refusal}")
    if asked not in (None, only):
        raise ConfigException.of("delivery.guarantee", asked, f"A Java {what} delivers {only}. Leave it out.")
    return only


_LOCAL = (
    "This worker keeps offsets in a local file (offset.storage.file.filename), and delivers at least once. Remove that worker setting, and "
    "offsets are kept on topics; connect-standalone always has it, and connect-run and Connect(…) need not."
)


def _exactly_once_reason(checked: CheckedConnector, settings: WorkerSettings) -> str:
    """Why exactly once is not possible. Empty if it is possible."""
    if checked.is_source and not settings.exactly_once_source_enabled:
        return "This worker does not have exactly-once source support enabled."
    connector = checked.connector
    assert isinstance(connector, SourceConnector | SinkConnector)
    if connector.exactly_once_support(strip_framework_keys(checked.resolved)) is not ExactlyOnceSupport.SUPPORTED:
        return "The connector does not support exactly-once semantics with the provided configuration."
    return ""
