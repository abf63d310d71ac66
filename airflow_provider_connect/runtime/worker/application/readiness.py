"""Checks in the Airflow task process whether a run has work, before anything is submitted. Uses neither Spark nor Arrow.

Costs one or two consumers: one reads the config topic, and for a sink another reads the ends. A source has its own check. A config whose
tasks are planned has passed every check. Only if there is work, the config is checked again, with the internal topics and outside systems.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import MissingException, StoreTimeoutException, trace_of
from airflow_provider_connect.runtime.config import config_providers
from airflow_provider_connect.runtime.config.client_settings import client_config, connector_overrides
from airflow_provider_connect.runtime.config.dag_settings import PROBE_INTERVAL, java_seconds
from airflow_provider_connect.runtime.config.masking import HideSecrets, Mask, password_values, secret_values
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.backfill import ends_within, ranges_of, read_partitions
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.config_snapshot import ConfigSnapshot
from airflow_provider_connect.runtime.model.connector_keys import strip_framework_keys
from airflow_provider_connect.runtime.model.ids import consumer_group, named_topics
from airflow_provider_connect.runtime.model.offsets import beyond_end
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import TaskStatus
from airflow_provider_connect.runtime.plugins.catalog.chosen_plugins import PluginChoice
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog, PluginKind
from airflow_provider_connect.runtime.plugins.validation.delivery_checks import refusal_of_topics
from airflow_provider_connect.runtime.stores.config_cache import ConfigCache
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.connector_offsets import ConnectorOffsets
from airflow_provider_connect.runtime.stores.kafka_errors import TopicMissingException
from airflow_provider_connect.runtime.stores.log_consumer import LogConsumer
from airflow_provider_connect.runtime.stores.offset_location import OffsetLocation, sink_admin_overrides
from airflow_provider_connect.runtime.stores.offset_store import SourceOffsets
from airflow_provider_connect.runtime.stores.status_store import StatusStore
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.stores.topic_reader import OpenTransactionException
from airflow_provider_connect.runtime.worker.bounded_call import connector_class, within
from airflow_provider_connect.runtime.worker.delivery.sink_positions import was_committed_recently
from airflow_provider_connect.runtime.worker.missing import missing_of, missing_topics, note_call, note_missing, warn_missing

if TYPE_CHECKING:
    from airflow_provider_connect.runtime.config.config_providers import ConfigProvider
    from airflow_provider_connect.sdk.connector import OffsetReader, SourceConnector

log = logging.getLogger(__name__)
WORK, NO_WORK, NOT_STARTED, WAITING = "work", "no-work", "not-started", "waiting"
LEFT_OPEN = "a run that was killed has left a transaction open"  # the next run's takeover ends it; otherwise it may stay open for a minute
COMMITTED_SECONDS = 2.0
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS, _DOUBLINGS = 60.0, 3600.0, 10
_ONE_BY_ONE = 20  # the number of topics whose partitions a consumer reads one by one; ten thousand would take minutes
_CLOCK_SECONDS = 60.0  # how much the clocks of two hosts may differ


SecretsOf = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Returns the values of those variables in a config that only Airflow resolves. Raises ConfigException for an unknown one."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """``state`` is ``work``, ``no-work``, ``not-started`` or ``waiting`` (after failures). ``reason`` is for the log. ``config`` is the raw
    config that was checked, and ``secrets`` the values of its variables. Both are empty for a connector that is not started. ``version`` is
    the version that has worked, if an upgrade decides the plugin's version. ``missing`` is what the connector waits for. ``known`` is the
    part of the config topic that was read. The run continues to read after it. ``wait_seconds`` is the rest of the wait after failures."""

    state: str
    reason: str
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    version: str | None = None
    missing: str | None = None
    known: ConfigSnapshot | None = field(default=None, repr=False)
    wait_seconds: float = 0.0


class UnreadyException(MissingException):
    """The connector itself refuses a run now, because something outside is missing. ``found`` is the readiness without this check."""

    def __init__(self, found: Readiness, refusal: MissingException) -> None:
        super().__init__(refusal.message, errors=refusal.errors)
        self.found = found


def check_readiness(
    settings: WorkerSettings,
    connector: str,
    *,
    define: Mapping[str, str] | None,
    secrets_of: SecretsOf,
    is_asked_for: bool = False,
    is_planned: bool = False,
    may_wait: bool = False,
    cache: ConfigCache | None = None,
    hide: HideSecrets = lambda _: None,
) -> Readiness:
    """Whether there is work for ``connector``, according to the config on the topic. ``define`` is used only if the topic has no config.

    A run that ``may_wait`` does not start tasks that have FAILED repeatedly (``seconds_to_wait``). A run that ``is_asked_for``, such as a
    restart, has work without a check. If the run ``is_planned``, its plan has just checked its tasks. ``cache`` contains what processes of
    this host have read of the config topic. None: the whole topic is read. ``hide`` receives the config's secrets before any code of the
    connector runs in this process.

    Raises exceptions before anything changes: ConfigException for a config that cannot run and for wrong internal topics, UnreadyException
    if the connector itself refuses, StoreTimeoutException if no broker answers.
    """
    known = _config_snapshot(settings, connector, cache)
    raw, found = _known(known, connector, define)
    if raw is None:
        return found
    providers = settings.config_providers(connector)
    secrets = config_providers.airflow_values(raw, providers, secrets_of)
    if is_planned:
        return Readiness(WORK, "its tasks were just planned", raw, secrets, known=known)
    known_secrets = secret_values(raw, providers, secrets)
    hide(known_secrets)
    is_asked = found.state == NO_WORK and not is_asked_for
    if found.state == NO_WORK:
        resolved = config_providers.resolve(raw, providers, secrets)
        checked = Readiness(WORK, "a run was asked for")
        if is_asked:
            checked = _of_kind(settings, connector, resolved, found.version, secrets=known_secrets, hide=hide)
        found = Readiness(checked.state, checked.reason, version=found.version, missing=checked.missing)
        if found.state == WORK and may_wait and not is_asked_for:
            waiting = _waiting(settings, connector)
            if waiting is not None:
                return waiting
    found = Readiness(found.state, found.reason, raw, secrets, found.version, found.missing, known)
    if found.state == WORK:
        found = replace(found, missing=_check_before_work(settings, connector, found, providers, hide, is_asked=is_asked))
    warn_missing(connector, found.missing)
    _write_notes(settings, connector, found)
    return found


def check_hosted(settings: WorkerSettings, connector: str, cache: ConfigCache) -> Readiness:
    """Whether a shared application must be asked to host the connector again, because the connector or all of its tasks have FAILED. Has no
    work while the application hosts the connector, or is about to. Raises StoreTimeoutException if no broker answers."""
    known = _config_snapshot(settings, connector, cache)
    raw, found = _known(known, connector, None)
    if raw is None or known is None:
        return found
    if (waiting := _waiting(settings, connector)) is not None:
        return waiting
    with closing(StatusStore(settings, only=connector)) as store:
        statuses = store.read()
    claim, status = known.log(connector).state.claims.get(connector), statuses.connector(connector)
    tasks = statuses.task_map(connector).values()
    if status is not None and status.state is State.FAILED and status.claim == claim:
        left = status.timestamp / 1000 + _FIRST_WAIT_SECONDS - time.time()
        if 0 < left <= _FIRST_WAIT_SECONDS + _CLOCK_SECONDS:
            return Readiness(WAITING, f"it has FAILED, and is hosted again in {math.ceil(left)} s", wait_seconds=left)
        return Readiness(WORK, "it has FAILED")
    if tasks and all(task.state is State.FAILED and task.claim == claim for task in tasks):
        return Readiness(WORK, "all of its tasks have FAILED")
    return Readiness(NO_WORK, "the application hosts it")


def request_hosting(settings: WorkerSettings, connector: str) -> None:
    """Have the shared application host a FAILED connector again: claims the connector, as a verb does."""
    with ConfigStore(settings, only=connector) as store:
        store.claim(connector)


def _known(known: ConfigSnapshot | None, connector: str, define: Mapping[str, str] | None) -> tuple[Mapping[str, str] | None, Readiness]:
    """The raw config, and the readiness according to the config topic alone. No config: the connector must not run."""
    state = None if known is None else known.log(connector).state
    raw = None if state is None else state.connector_config(connector)
    if state is None or raw is None:
        if define is None:
            return None, Readiness(NOT_STARTED, "there is no connector of this name")
        if state is not None:
            _refuse_foreign(connector, define, state)
        return define, Readiness(WORK, "this is its first run")
    target = state.target_state(connector)
    if target is not TargetState.STARTED:
        return None, Readiness(NOT_STARTED, f"its target state is {target}")
    version = state.version_in_force(connector, is_trying=False)
    if state.applied_configs.get(connector) != raw or not state.tasks(connector):  # a stop removes the tasks
        return raw, Readiness(WORK, "its tasks are not planned yet for this config", version=version)
    return raw, Readiness(NO_WORK, "", version=version)


def _refuse_foreign(connector: str, define: Mapping[str, str], state: ClusterConfigState) -> None:
    if state.reserved:
        from airflow_provider_connect.runtime.worker.task.checked_connector import refuse_foreign

        refuse_foreign(connector, define, state)


def _of_kind(
    settings: WorkerSettings, connector: str, resolved: Mapping[str, str], version: str | None, *, secrets: set[str], hide: HideSecrets
) -> Readiness:
    """The readiness of a source by its own check, and of a sink by its group's offsets."""
    plugin = PluginChoice(PluginCatalog(settings.plugin_path), settings, version=version).connector(connector, resolved)
    if plugin.kind is PluginKind.SINK:
        return _sink_readiness(connector, resolved, settings)
    if plugin.is_java:
        return _of_java(settings, connector, plugin.class_name, resolved, Mask(secrets))
    source: SourceConnector = connector_class(plugin, settings)()
    source.allowed_paths = settings.allowed_paths
    source.refusal_of_topic = refusal_of_topics(settings, resolved)
    passwords = password_values(source.config_def, resolved)
    hide(passwords)
    return source_readiness(connector, source, resolved, settings, Mask(secrets | passwords))


def _of_java(settings: WorkerSettings, connector: str, class_name: str, resolved: Mapping[str, str], mask: Mask) -> Readiness:
    from airflow_provider_connect.runtime.java.bounded.sources import bounded_source

    source = bounded_source(class_name)
    if source is None:
        return _probe(settings, connector, resolved)
    return _answer(connector, partial(source.has_new_data, within=within), resolved, settings, mask)


def _probe(settings: WorkerSettings, connector: str, resolved: Mapping[str, str]) -> Readiness:
    """The readiness of a Java source that reports new data only to a run. It depends on when the last run started."""
    work = Readiness(WORK, "a Java source of this class is asked for new data by a run")
    interval = java_seconds(resolved, PROBE_INTERVAL)
    if interval is None:
        return work
    tasks = _tasks(settings, connector)
    if not tasks or not all(task.state is State.RUNNING for task in tasks):
        return work
    started = max(task.timestamp for task in tasks) / 1000
    left = started + interval - time.time()
    if not 0 < left <= interval + _CLOCK_SECONDS:
        return work
    return Readiness(NO_WORK, f"the next run that asks it for new data starts in {math.ceil(left)} s at the earliest ({PROBE_INTERVAL})")


def _tasks(settings: WorkerSettings, connector: str) -> list[TaskStatus]:
    try:
        with closing(StatusStore(settings, only=connector)) as store:
            return list(store.read().task_map(connector).values())
    except TopicMissingException:
        return []


def _waiting(settings: WorkerSettings, connector: str) -> Readiness | None:
    """The wait after failures. None: not all of the connector's tasks have FAILED, or their wait is over."""
    tasks = _tasks(settings, connector)
    if not tasks or not all(task.state is State.FAILED and task.failures for task in tasks):
        return None
    wait = seconds_left(tasks, time.time())
    if wait <= 0:
        return None
    failures = max(task.failures for task in tasks)
    times = "once" if failures == 1 else f"{failures} times in a row"
    return Readiness(
        WAITING,
        f"its tasks have FAILED {times}, so the next application starts in {math.ceil(wait)} s at the earliest. A "
        "restart (POST /connectors/«name»/restart?includeTasks=true), a run by hand and a change of its config start one at once",
        wait_seconds=wait,
    )


def seconds_left(tasks: Iterable[TaskStatus], now: float) -> float:
    """The shortest remaining wait, in seconds at ``now``, of tasks that have FAILED. A status from the future, due to a wrong clock, delays
    no run."""
    left = ((task.timestamp / 1000 + (longest := seconds_to_wait(task.failures)) - now, longest) for task in tasks)
    return min((seconds if seconds <= longest + _CLOCK_SECONDS else 0.0 for seconds, longest in left), default=0.0)


def seconds_to_wait(failures: int) -> float:
    """How long a scheduled run waits after the last of ``failures`` consecutive failures before it starts the application again. The wait
    doubles with each failure, up to an hour."""
    return min(_FIRST_WAIT_SECONDS * 2.0 ** min(failures - 1, _DOUBLINGS), _LONGEST_WAIT_SECONDS)


def _config_snapshot(settings: WorkerSettings, connector: str, cache: ConfigCache | None) -> ConfigSnapshot | None:
    """The config topic as far as the connector needs it. None: the topic does not exist yet. Raises ConfigException for a missing topic
    that this worker may not create."""
    try:
        if cache is not None:
            return cache.read(settings, connector)
        with ConfigStore(settings, only=connector) as store:
            store.read()
            return store.snapshot()
    except TopicMissingException:
        if not settings.internal_topics_creation_enable:
            with closing(TopicAdmin(settings)) as admin:
                admin.ensure_internal_topics()
        return None


def _write_notes(settings: WorkerSettings, connector: str, found: Readiness) -> None:
    """Write the note about what the connector waits for, unless the note is already there, and remove that of an earlier run's call."""
    state = None if found.known is None else found.known.log(connector).state
    if state is None or state.connector_config(connector) != found.config:
        return

    def open_store() -> ConfigStore:
        return ConfigStore(settings, known=found.known, only=connector)

    if state.notes.get(connector) != found.missing:
        note_missing(open_store, connector, found.missing, of=found.config)
    if connector in state.long_calls:
        note_call(open_store, connector, None, of=found.config)


def _check_before_work(
    settings: WorkerSettings,
    connector: str,
    found: Readiness,
    providers: Mapping[str, ConfigProvider],
    hide: HideSecrets,
    *,
    is_asked: bool,
) -> str | None:
    """Check the config, the guarantee, the connector's own conditions and the internal topics. Raises ConfigException if one is wrong.
    Returns what the connector waits for. ``is_asked``: ``found`` already contains what a sink waits for."""
    from airflow_provider_connect.runtime.worker.task.checked_connector import check_connector, check_outside, guarantee_of

    checked = check_connector(connector, found.config, settings, found.secrets, version=found.version, providers=providers, hide=hide)
    guarantee_of(checked, settings)
    try:
        check_outside(checked)
    except MissingException as error:
        raise UnreadyException(found, error) from None
    admin = TopicAdmin(settings)
    admin.ensure_internal_topics()
    admin.close()
    missing = missing_of(checked.connector, Mask(checked.secrets())) or found.missing
    if missing or checked.is_source or is_asked:
        return missing
    return _sink_readiness(connector, checked.resolved, settings).missing


def source_readiness(
    name: str, connector: SourceConnector, resolved: Mapping[str, str], settings: WorkerSettings, mask: Callable[[str], str]
) -> Readiness:
    """Whether the source has new data. ``mask`` hides secrets in exceptions of the connector."""
    found = _answer(name, connector.check_for_new_data, {**connector.default_settings, **resolved}, settings, mask)
    return replace(found, missing=missing_of(connector, mask))


def _answer(
    name: str,
    check: Callable[[Mapping[str, str], OffsetReader], bool | None],
    resolved: Mapping[str, str],
    settings: WorkerSettings,
    mask: Callable[[str], str],
) -> Readiness:
    """The readiness according to ``check``, which returns whether there is new data. ``mask`` hides secrets in exceptions of ``check``."""
    known: list[SourceOffsets] = []

    def offset(partition: Mapping[str, object]) -> Mapping[str, object] | None:
        if not known:
            with ConnectorOffsets(settings, OffsetLocation.of(settings, resolved), settle_seconds=0.0) as store:
                known.append(store.read(name))
        return known[0].get(partition)

    try:
        found = check(strip_framework_keys(resolved), offset)
    except OpenTransactionException:
        return Readiness(WORK, LEFT_OPEN)
    except Exception as error:  # (the connector's own code)
        log.warning("Connector %s: has_new_data raised, so a run starts\n%s", name, mask(trace_of(error)))
        return Readiness(WORK, f"the connector failed to check for new data: {type(error).__name__}")
    if found is None:
        return Readiness(WORK, "the connector cannot check for new data")
    return Readiness(WORK, "there is new data at its source") if found else Readiness(NO_WORK, "there is nothing new at its source")


def _sink_readiness(name: str, resolved: Mapping[str, str], settings: WorkerSettings) -> Readiness:
    overrides = connector_overrides(resolved, "consumer")
    group = consumer_group(name, resolved, settings.values)
    config = client_config(settings, "consumer", overrides) | {"group.id": group}
    read_committed = config.get("isolation.level") != "read_uncommitted"
    with LogConsumer(config, read_committed=read_committed) as consumer:
        counts = _topics(resolved, settings, consumer)
        ranges = ranges_of(resolved)
        partitions = read_partitions([TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)], ranges)
        missing = missing_topics(resolved, counts)
        try:
            committed = consumer.committed(partitions, COMMITTED_SECONDS)
        except StoreTimeoutException:  # the broker has answered until now
            return Readiness(WORK, LEFT_OPEN)
        ends = ends_within(consumer.end_offsets(partitions), ranges)
    offsets = {p: committed[p].offset for p in partitions if p in committed}
    if any(offset > ends[p] for p, offset in offsets.items()):  # a transaction may be open at this offset
        with LogConsumer(config, read_committed=False) as reader:
            missing = missing or beyond_end(offsets, reader.end_offsets(list(offsets)))
    waiting = [p for p in partitions if p not in committed or committed[p].offset != ends[p]]
    if waiting:
        reason = f"{len(waiting)} of {len(partitions)} partitions have records beyond the group's offsets"
    elif not all(was_committed_recently(committed[p].metadata, time.time()) for p in partitions):
        reason = "the group's offsets are not this connector's, or are a day old and have to be committed again before they expire"
    else:
        return Readiness(NO_WORK, f"group {group} is at the end of all {len(partitions)} partitions", missing=missing)
    return Readiness(WORK, reason, missing=missing)


def _topics(resolved: Mapping[str, str], settings: WorkerSettings, consumer: LogConsumer) -> dict[str, int]:
    """Partition counts of the sink's existing topics."""
    named = named_topics(resolved)
    if not named or len(named) > _ONE_BY_ONE:
        admin = TopicAdmin(settings, sink_admin_overrides(resolved))
        return admin.partitions(named) if named else admin.matching(resolved["topics.regex"])
    counts = {}
    for topic in named:
        try:
            counts[topic] = consumer.partition_count(topic)
        except TopicMissingException:
            continue
    return counts
