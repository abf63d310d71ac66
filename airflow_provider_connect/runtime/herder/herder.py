"""Every verb of Kafka Connect, over the stores. One Herder per process, shared by many threads.

Knows nothing of Airflow: ``ports`` has the protocols that its host implements. Each call reads the topics to their ends. So an answer
contains every change that was confirmed to any process before the call.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Self

from airflow_provider_connect.data.java_text import BLANKS
from airflow_provider_connect.data.records import Distance
from airflow_provider_connect.errors import BadRequestException, ConfigException, ConnectException, ForbiddenException, NotFoundException
from airflow_provider_connect.runtime.config.dag_settings import DagCheck, steering_errors
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.backfills import Backfills
from airflow_provider_connect.runtime.herder.checks import AcceptedConfig, validated_config, with_own_values
from airflow_provider_connect.runtime.herder.connectors import ConnectorConfigs, RestoreSecrets
from airflow_provider_connect.runtime.herder.corrections import Corrections
from airflow_provider_connect.runtime.herder.costs import Readable, RecordedCosts
from airflow_provider_connect.runtime.herder.dead_letters import SinkSecrets
from airflow_provider_connect.runtime.herder.history import ConnectorHistory
from airflow_provider_connect.runtime.herder.lifecycle import Lifecycle
from airflow_provider_connect.runtime.herder.metrics import (
    BatchLogMetrics,
    ReadTaskMetrics,
    TaskMetrics,
    counted_warnings,
    with_counted_records,
)
from airflow_provider_connect.runtime.herder.offsets import OffsetKeeper, Resolve
from airflow_provider_connect.runtime.herder.plugin_facts import ChosenVersions, KnownPlugins
from airflow_provider_connect.runtime.herder.ports import Launcher, Previewer, Probe, RecordedChanges
from airflow_provider_connect.runtime.herder.replays import Replays
from airflow_provider_connect.runtime.herder.restarts import RestartRequest, Restarts
from airflow_provider_connect.runtime.herder.sinks import Sinks
from airflow_provider_connect.runtime.herder.snapshot import Snapshot, SnapshotReader, Topics, config_of
from airflow_provider_connect.runtime.herder.statuses import StatusKeeper
from airflow_provider_connect.runtime.herder.upgrades import Upgrades
from airflow_provider_connect.runtime.herder.views import ConnectorViews, RetainedWal, task_view, visible_config, workers_of
from airflow_provider_connect.runtime.model.backfill_request import Backfill, BackfillRequest
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.contradictions import RunFacts
from airflow_provider_connect.runtime.model.cost import DEFAULT_DAYS, ConnectorCosts, Costs
from airflow_provider_connect.runtime.model.health import Pace
from airflow_provider_connect.runtime.model.history import ConfigHistory, OffsetHistory, OffsetUndo, Redact
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.page import ConnectorClass, ConnectorLag, DeadLetters
from airflow_provider_connect.runtime.model.preview_comparison import Comparison
from airflow_provider_connect.runtime.model.previews import Preview
from airflow_provider_connect.runtime.model.records import LoggerRecord
from airflow_provider_connect.runtime.model.replays import Replay, ReplayRequest
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.model.upgrades import Upgrade
from airflow_provider_connect.runtime.model.views import (
    ConfigKeyView,
    ConnectorInfo,
    ConnectorStatusView,
    OffsetView,
    PluginView,
    TaskInfo,
    TaskView,
    Validation,
    WorkerView,
)
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.runtime.stores.backing import Backing, TopicBacking


class Herder:
    """The verbs of the REST API. The objects that the herder holds implement the verbs.

    ``probe`` calls plugins. Without a probe, configs are neither accepted nor validated. ``previewer`` makes dry runs. ``takes_upgrades``:
    whether runs carry out upgrades. ``backing`` keeps the state. None: Kafka's topics. ``worker_id`` is in the statuses that the herder
    writes. ``resolve`` replaces the variables of a config. None: the worker's config providers do. ``dag_check`` returns why Airflow cannot
    create a DAG for a config. None: only the rules for ``airflow.*`` keys apply. ``task_metrics`` returns the counts of tasks. None: the
    batch log has them. ``recorded`` is the history. None: no history is kept. ``author`` is the default author of changes.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        launcher: Launcher,
        *,
        probe: Probe | None = None,
        previewer: Previewer | None = None,
        takes_upgrades: bool = True,
        backing: Backing | None = None,
        worker_id: str | None = None,
        resolve: Resolve | None = None,
        dag_check: DagCheck | None = None,
        task_metrics: ReadTaskMetrics | None = None,
        recorded: RecordedChanges | None = None,
        author: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        backing = backing or TopicBacking(settings)
        self.settings, self._launcher, self._probe, self._previewer, self._author = settings, launcher, probe, previewer, author
        self._dag_check: DagCheck = dag_check or partial(steering_errors, limits=settings.dag_limits)
        self._topics = topics = Topics(backing.configs(), SnapshotReader(backing))

        self._batch_log = batch_log = BatchLogMetrics(backing.batch_log())
        self._task_metrics = task_metrics or batch_log.read
        self._with_records = batch_log.with_records if task_metrics is None else partial(with_counted_records, task_metrics)
        warnings = batch_log.warnings if task_metrics is None else partial(counted_warnings, task_metrics)

        catalog = PluginCatalog(settings.plugin_path)
        self._plugins = plugins = KnownPlugins(catalog)
        self._chosen = ChosenVersions(settings, catalog, upgrades=lambda: self.config_state().upgrades)
        self.retained_wal = RetainedWal()
        self._views = ConnectorViews(plugins, self.retained_wal, warnings)

        self._statuses = statuses = StatusKeeper(backing.status_notes(), plugins, worker_id=worker_id or f"{socket.gethostname()}:0")
        self._offsets = offsets = OffsetKeeper(
            settings, backing, topics, launcher, probe=probe, facts_of=plugins.of, resolve=resolve, sleep=sleep
        )
        self._lifecycle = lifecycle = Lifecycle(
            topics,
            statuses,
            launcher,
            repair_offsets=offsets.repair,
            graceful_seconds=settings.task_shutdown_graceful_timeout_ms / 1000,
            sleep=sleep,
        )
        self._connectors = connectors = ConnectorConfigs(topics, lifecycle, probe, self._dag_check, with_topics=offsets.with_topics)
        self._corrections = Corrections(topics, statuses, lifecycle, launcher)
        self._restarts = Restarts(topics, statuses, lifecycle, launcher, plugins, sleep=sleep)

        self._upgrades = Upgrades(topics, settings, catalog, self._require_previewer, are_taken=takes_upgrades)
        self._history = ConnectorHistory(topics, connectors, offsets, recorded, sleep=sleep)
        self._costs = RecordedCosts(topics.reader, recorded, settings.prices)
        self._backfills = Backfills(settings, topics, connectors, offsets)
        secrets = SinkSecrets(settings, offsets.values_of)
        self._replays = Replays(
            settings,
            topics,
            connectors,
            offsets,
            lifecycle,
            previewer=self._require_previewer,
            dag_check=self._dag_check,
            secrets=secrets,
        )
        self._sinks = Sinks(settings, topics, offsets, batch_log, secrets=secrets, replayed=self._replays.replayed)

    # ── connectors ──

    def connectors(self) -> list[str]:
        return self.config_state().connectors()

    def config_state(self) -> ClusterConfigState:
        """The current state of the config topic. The returned state is never modified."""
        return self._topics.reader.configs()

    def snapshot(self) -> Snapshot:
        """The current states of the config and the status topic."""
        return self._topics.reader.read()

    def connector_info(self, name: str) -> ConnectorInfo:
        found = self._views.info(self.config_state(), name)
        if found is None:
            raise NotFoundException(f"Connector {name} not found")
        return found

    def connector_config(self, name: str) -> dict[str, str]:
        return visible_config(config_of(self.config_state(), name))

    def connector_status(self, name: str) -> ConnectorStatusView:
        """Based on the status topic, as in Connect: 404 until a status was written, and 200 for a short time after a deletion."""
        found = self._views.status(self.snapshot(), name)
        if found is None:
            raise NotFoundException(f"No status found for connector {name}")
        return found

    def expanded(self, info: bool, status: bool) -> dict[str, dict[str, ConnectorInfo | ConnectorStatusView]]:
        """Every connector with its info, its status or both. With ``status``, connectors without a status are left out.

        A view that has not changed since an earlier call is the same object, so its bytes may be cached.
        """
        snapshot = self.snapshot() if status else Snapshot.of(self.config_state())
        for kept in (self._views, self._chosen):
            kept.forget_others(snapshot.configs.connector_configs.keys())
        all_expanded: dict[str, dict[str, ConnectorInfo | ConnectorStatusView]] = {}
        for name in snapshot.configs.connector_configs:
            expanded: dict[str, ConnectorInfo | ConnectorStatusView] = {}
            if status:
                found = self._views.status(snapshot, name)
                if found is None:
                    continue
                expanded["status"] = found
            if info and (known := self._views.info(snapshot.configs, name)) is not None:
                expanded["info"] = known
            all_expanded[name] = expanded
        return all_expanded

    def listed(self) -> Iterator[tuple[ConnectorInfo, ConnectorStatusView | None]]:
        """Every connector with its status, if it has one, from a single read. Returns the same views as ``expanded``."""
        return self._views.listed(self.snapshot())

    def create_connector(
        self, name: str, config: Mapping[str, str | None], initial_state: TargetState | None = None, *, author: str | None = None
    ) -> ConnectorInfo:
        """Check, write, and start a run (contract §5.1). ``author``, here and below, is the user, for the history."""
        created = self._connectors.create(name, config, initial_state, author or self._author)
        return self._written(name.strip(BLANKS), created)

    def put_connector_config(self, name: str, config: Mapping[str, str | None], *, author: str | None = None) -> tuple[ConnectorInfo, bool]:
        """Replace the config and keep the target state, or create the connector. The second value is True if it was created."""
        put, is_new = self._connectors.put(name, config, author or self._author)
        return self._written(name, put), is_new

    def patch_connector_config(
        self,
        name: str,
        patch: Mapping[str, str | None],
        restore: RestoreSecrets = lambda patch, _: patch,
        *,
        author: str | None = None,
    ) -> ConnectorInfo:
        """Merge ``patch`` into the raw config. None removes a key (KIP-477). ``restore`` inserts secrets, separately for each config into
        which the patch is merged."""
        return self._written(name, self._connectors.patch(name, patch, restore, author or self._author))

    def define_connector(self, name: str, config: Mapping[str, str], defined_in: str, version: str | None = None) -> None:
        """Create the connector that a DAG file defines, or change its config. Writes nothing if the config is unchanged. ``version`` is the
        version of the file's bundle, such as a commit.

        Raises ConfigException for a config that names a resource of another connector. An existing connector is then FAILED, with the
        reason, until ``accept_definition`` restarts it.
        """
        try:
            self._connectors.define(name, config, defined_in, version)
        except ConfigException as error:
            self._corrections.refuse_definition(name, error.message)
            raise

    def refused_definitions(self, names: Collection[str]) -> list[str]:
        """The connectors among ``names`` that are FAILED because the config in their DAG file was refused. Reads the topics once."""
        return self._corrections.refused_definitions(names)

    def accept_definition(self, name: str) -> None:
        """Called when the config in the connector's DAG file is valid again. Restart the connector if it is FAILED because of this file."""
        self._corrections.accept_definition(name)

    def note_state(self, name: str) -> None:
        """Record the target state of a connector whose DAG file was removed. The state is restored when the file returns."""
        self._connectors.note_state(name)

    def release_connector(self, name: str) -> None:
        """Let REST change and delete a connector whose DAG file was removed."""
        self._connectors.release(name)

    def delete_connector(self, name: str, *, author: str | None = None) -> None:
        """End its runs and remove its statuses, active topics and DAG. Its offsets stay, as in Connect."""
        self._connectors.delete(name, author or self._author)

    # ── lifecycle ──

    def resume(self, name: str, *, author: str | None = None) -> None:
        """Set the target state STARTED. Raises NotFoundException."""
        self._lifecycle.resume(name, author or self._author)

    def pause(self, name: str, *, keep_failed: bool = False, author: str | None = None) -> None:
        """Set the target state PAUSED. ``keep_failed``: tasks that have FAILED stay FAILED. Raises NotFoundException."""
        self._lifecycle.pause(name, author or self._author, keep_failed=keep_failed)

    def stop(self, name: str, *, author: str | None = None) -> None:
        """Set the target state STOPPED: end the connector's runs and remove its tasks. Raises NotFoundException."""
        self._lifecycle.stop(name, author or self._author)

    def restart_connector(self, name: str, *, include_tasks: bool, only_failed: bool, author: str | None = None) -> ConnectorStatusView:
        """Returns the plan: the statuses, with RESTARTING for each instance that restarts.

        Raises NotFoundException. Without ``include_tasks`` and ``only_failed``, also raises ConnectException, with the cause, if a FAILED
        connector cannot be started again.
        """
        return self._restarts.connector(RestartRequest(name, only_failed, include_tasks, author or self._author))

    def restart_task(self, name: str, task: int, *, author: str | None = None) -> None:
        """Raises NotFoundException."""
        self._restarts.task(name, task, author or self._author)

    # ── tasks ──

    def task_infos(self, name: str) -> list[TaskInfo]:
        """The committed tasks with their raw configs, in the order of their numbers."""
        state = self.config_state()
        config_of(state, name)
        return [TaskInfo(ConnectorTaskId(name, task), config) for task, config in state.all_task_configs(name).items()]

    def task_status(self, name: str, task: int) -> TaskView:
        found = self.snapshot().statuses.task(name, task)
        if found is None:
            raise NotFoundException(f"No status found for task {ConnectorTaskId(name, task)}")
        return task_view(found)

    def workers(self) -> list[WorkerView]:
        """The running applications with their tasks and delivered records."""
        running = self._launcher.running()
        return self._with_records(workers_of(self.snapshot(), running), running)

    # ── topics and offsets ──

    def active_topics(self, name: str) -> list[str]:
        """The connector's active topics, in alphabetical order. Empty for an unknown connector (KIP-558). Raises ForbiddenException if
        topics are not tracked."""
        if not self.settings.topic_tracking_enable:
            raise ForbiddenException("Topic tracking is disabled")
        return self.snapshot().statuses.topics_of(name)

    def reset_active_topics(self, name: str, *, author: str | None = None) -> None:
        """Forget the connector's active topics. Topics that are still used are recorded again. Raises ForbiddenException if resets are not
        allowed."""
        topics = self.active_topics(name)
        if not self.settings.topic_tracking_allow_reset:
            raise ForbiddenException("Topic tracking reset is disabled")
        self._lifecycle.forget_topics(name, topics, author or self._author)

    def offsets(self, name: str) -> list[OffsetView]:
        """Raises NotFoundException."""
        return self._offsets.offsets(name)

    def alter_offsets(self, name: str, offsets: Sequence[OffsetView], *, author: str | None = None) -> str:
        """For a STOPPED connector. Returns the message for the user. See ``OffsetKeeper``."""
        return self._offsets.alter(name, offsets, author or self._author)

    def reset_offsets(self, name: str, *, author: str | None = None) -> str:
        """For a STOPPED connector. Returns the message for the user. See ``OffsetKeeper``."""
        return self._offsets.reset(name, author or self._author)

    def sink_lags(self, names: Collection[str]) -> dict[str, dict[str, float]]:
        """The lags of the sinks among ``names``. See ``Sinks.lags``."""
        return self._sinks.lags(names)

    def partition_lags(self, name: str) -> ConnectorLag:
        """The sink's current lag, by partition. See ``Sinks.partition_lags``."""
        return self._sinks.partition_lags(name)

    def distances(self, names: Collection[str], lags: Mapping[str, Mapping[str, float]] | None = None) -> dict[str, Distance]:
        """The distances of the connectors ``names`` from their ends. See ``Sinks.distances``."""
        return self._sinks.distances(names, lags)

    def pace(self, name: str) -> Pace | None:
        """What the connector delivers, by the batch log entries at the last ``task_metrics``. None: unknown."""
        return self._batch_log.pace(name)

    def datasets(self, name: str) -> list[tuple[str, str]]:
        """Namespaces and names of what the connector reads or writes outside of Kafka, by the batch log entries at the last
        ``task_metrics``."""
        return self._batch_log.datasets(name)

    # ── dead-letter records and backfills ──

    def dead_letters(self, name: str, *, limit: int, redact: Redact) -> DeadLetters:
        """The newest records of the sink's dead letter queue. See ``Sinks.dead_letters``."""
        return self._sinks.dead_letters(name, limit=limit, redact=redact)

    def dead_letter_replay(self, name: str) -> Replay:
        """The last replay of the sink's dead-letter records. Raises NotFoundException if there was no replay."""
        return self._replays.state(name)

    def replay_dead_letters(
        self,
        name: str,
        asked: ReplayRequest,
        *,
        dry_run: bool = False,
        records: int = 10,
        author: str | None = None,
        redact: Redact = dict,
    ) -> Replay:
        """Write dead-letter records of a sink back to their topics, each once. See ``Replays.request``. A dry run returns the first
        ``records``. ``redact`` hides secrets of a config that its keys' names do not reveal."""
        if dry_run:
            return self._replays.preview(name, asked, records=records, redact=redact)
        return self._replays.request(name, asked, author or self._author, redact=redact)

    def backfills(self, name: str) -> list[Backfill]:
        """The backfills of a connector, by name. See ``Backfills.list_for``."""
        return self._backfills.list_for(name)

    def create_backfill(
        self,
        name: str,
        request: BackfillRequest,
        restore: RestoreSecrets = lambda patch, _: patch,
        *,
        dry_run: bool = False,
        author: str | None = None,
    ) -> Backfill:
        """Deliver ranges of a sink's topics again, next to the live connector. See ``Backfills.create``."""
        return self._backfills.create(name, request, restore, dry_run=dry_run, author=author or self._author)

    # ── history and costs ──

    def config_history(self, name: str, *, limit: int = 50, before: int | None = None, redact: Redact = dict) -> ConfigHistory:
        """The configs that the connector had, the newest first. ``redact`` hides secrets that are not hidden yet."""
        return self._history.configs(name, limit=limit, before=before, redact=redact)

    def rollback_config(self, name: str, revision: int, restore: RestoreSecrets, *, author: str | None = None) -> ConnectorInfo:
        """Give the connector the config of an earlier revision. See ``ConnectorHistory.roll_back``."""
        return self._written(name, self._history.roll_back(name, revision, restore, author or self._author))

    def offsets_history(self, name: str, *, limit: int = 50, before: int | None = None) -> OffsetHistory:
        """The changes of the connector's offsets, the newest first. ``limit`` counts partitions."""
        return self._history.offsets(name, limit=limit, before=before)

    def undo_offsets(
        self, name: str, *, to: str | int | None = None, entry: int | None = None, dry_run: bool = False, author: str | None = None
    ) -> OffsetUndo:
        """Set the offsets of an earlier instant. See ``ConnectorHistory.undo``."""
        return self._history.undo(name, to=to, entry=entry, dry_run=dry_run, author=author or self._author)

    def costs(self, *, days: int = DEFAULT_DAYS, readable: Readable = lambda names: names) -> Costs:
        """By connector and day, for today and the days before. ``readable`` selects the connectors that the user may read."""
        return self._costs.of_all(days, readable)

    def connector_costs(self, name: str, *, days: int = DEFAULT_DAYS) -> ConnectorCosts:
        """By day and by run. Deleted connectors keep their costs."""
        return self._costs.of_one(name, days)

    # ── previews and upgrades ──

    def preview(self, name: str, config: Mapping[str, str] | None = None, *, records: int, version: str | None = None) -> Preview:
        """A dry run: the plan and the first records of the next run. ``config`` None: the connector's own. See ``Previewer``.

        Raises NotFoundException for an unknown connector without a config.
        """
        given = config
        if given is None:
            state = self.config_state()
            given, version = config_of(state, name), version or state.version_in_force(name)
        return self._require_previewer().preview(name, {**given, "name": name}, records=records, version=version)

    def upgrade(self, name: str) -> Upgrade:
        """The last requested upgrade. Raises NotFoundException."""
        return self._upgrades.get(name)

    def request_upgrade(self, name: str, to: str, *, canary: int, accept_schema_change: bool = False, author: str | None = None) -> Upgrade:
        """Have the next run use another version of the connector's plugin, if nothing prevents it. See ``Upgrades.request``."""
        by = author or self._author
        return self._upgrades.request(name, to, canary=canary, accept_schema_change=accept_schema_change, author=by)

    def compare_versions(self, name: str, to: str, *, records: int) -> Comparison:
        """The comparison that the next run would make before it used another version. Changes nothing."""
        return self._upgrades.compare(name, to, records=records)

    def forget_upgrade(self, name: str, *, author: str | None = None) -> None:
        """Remove the request, so that only the config decides which version runs. Raises NotFoundException."""
        self._upgrades.forget(name, author or self._author)

    # ── for the reconciler ──

    def correct(self, name: str, facts: RunFacts) -> bool:
        """Complete a verb or a run that was killed. Returns False if something remains to be done. Then call again."""
        return self._corrections.correct(name, facts)

    def report_waiting(self, name: str, reason: str, claim: Claim | None) -> None:
        """Write UNASSIGNED, with the reason, for a connector whose run has not started, unless it has a newer claim than ``claim``."""
        self._corrections.report_waiting(name, reason, claim)

    def refuse_dag(self, name: str, reason: str) -> None:
        """Mark the connector FAILED because no DAG can be created for it."""
        self._corrections.refuse_dag(name, reason)

    def accept_dags(self, names: Collection[str]) -> None:
        """Restart those connectors among ``names`` that are FAILED because no DAG could be created for them."""
        self._corrections.accept_dags(names)

    # ── plugins ──

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Validation:
        """The validation of each key by plugin and framework, with the errors of ``airflow.*`` keys."""
        return with_own_values(self._require_probe().validate(plugin, validated_config(config)), config, self._dag_check)

    def plugins(self, connectors_only: bool = True) -> list[PluginView]:
        return list(self._require_probe().plugins(connectors_only))

    def connector_classes(self) -> list[ConnectorClass]:
        """The connector classes that users can configure, in the order of ``plugins``."""
        return self._plugins.classes()

    def plugin_config(self, plugin: str, version: str | None = None, location: str | None = None) -> list[ConfigKeyView]:
        return list(self._require_probe().config_keys(plugin, version, location))

    def put_log_level(self, logger: str, level: str, *, author: str | None = None) -> None:
        """Request that all running workers set the level of a logger (KIP-976)."""
        self._topics.configs.change(lambda _: [LoggerRecord(logger, level, author=author or self._author)])

    def chosen_plugins(self, info: ConnectorInfo) -> Mapping[str, PluginView]:
        """The plugins that a run of the connector would use now, by their prefixes in the config. Empty: no run could start."""
        return self._chosen.of(info.name, info.config)

    def task_metrics(self) -> TaskMetrics:
        """The counts of tasks, by connector, task and Connect's metric names."""
        return self._task_metrics()

    def current_distances(self) -> dict[str, Distance]:
        """The distance of each connector from its end, by the latest batch log entries."""
        names = self.connectors()
        self._task_metrics()  # reads the batch log to its end
        return self.distances(names)

    def status_update_metrics(self) -> dict[str, float]:
        """Metrics of this process's status writes, by Connect's names."""
        return self._statuses.metrics()

    def health_warnings(self) -> list[str]:
        """Warnings of a server that answers requests: why connectors will not run, and how many need attention."""
        return list(filter(None, [self._launcher.obstacle(), *self._views.attention(self.snapshot())]))

    def close(self) -> None:
        """Write pending statuses, then close all stores."""
        self._batch_log.close()
        self._statuses.close()
        self._topics.reader.close()
        self._topics.configs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _written(self, name: str, written: AcceptedConfig) -> ConnectorInfo:
        """The response to a write: the config as this call wrote it, in its order, even if it was changed afterwards."""
        state = self.config_state()
        known = self._views.info(state, name)
        tasks, kind = ([], "unknown") if known is None else (list(known.tasks), known.type)
        return ConnectorInfo(name, visible_config(written.config), tasks, kind, written.warnings)

    def _require_probe(self) -> Probe:
        if self._probe is None:
            raise ConnectException("This process has no access to plugins")
        return self._probe

    def _require_previewer(self) -> Previewer:
        if self._previewer is None:
            raise BadRequestException("This server makes no previews: its worker keeps offsets in a file, not on topics")
        return self._previewer
