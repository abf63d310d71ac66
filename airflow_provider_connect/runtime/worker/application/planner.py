"""Claims a connector, and publishes the task set that its config needs. Knows nothing of Spark or of how tasks run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from airflow_provider_connect.errors import ConfigException, FencedException, MissingException, TaskException
from airflow_provider_connect.runtime.config.masking import HideSecrets, secret_values
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.java.jvm.host import JavaHost
from airflow_provider_connect.runtime.java.task.staying_connector import StayingConnector
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.records import ConfigRecord, ConnectorRecord
from airflow_provider_connect.runtime.model.run import Claim, RunSpec
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.stores.backing import Backing, repair_records
from airflow_provider_connect.runtime.stores.config_changes import ConfigChanges
from airflow_provider_connect.runtime.stores.offset_location import OffsetLocation
from airflow_provider_connect.runtime.stores.offset_store import SourceOffsets
from airflow_provider_connect.runtime.stores.transactional_producer import Fence
from airflow_provider_connect.runtime.worker.bounded_call import CallOverdueException, within
from airflow_provider_connect.runtime.worker.errors.traces import line_of_author
from airflow_provider_connect.runtime.worker.missing import missing_of, warn_missing
from airflow_provider_connect.runtime.worker.task.checked_connector import (
    CheckedConnector,
    check_connector,
    guarantee_of,
    refuse_foreign,
    warn_unused_settings,
)
from airflow_provider_connect.runtime.worker.task.task_configs import PlanningContext, task_configs
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload, require_newest_claim

_MOST_UNRETURNED = 10  # plans of a connector that hang; each keeps a thread of the driver


@dataclass(frozen=True, slots=True)
class Plan:
    """The tasks that an application runs. ``task_configs`` are raw, because variables are resolved where a task runs."""

    connector: CheckedConnector
    claim: Claim
    guarantee: str
    task_configs: Sequence[Mapping[str, str]]
    tasks: Sequence[int]

    def payload(self, spec: RunSpec, task: int) -> TaskPayload:
        """The payload of a task in the run of ``spec``. The caller adds what only it knows, such as the address that requests the end."""
        return TaskPayload(
            connector=spec.connector,
            task=task,
            tasks=len(self.task_configs),
            settings=dict(spec.settings),
            secrets=dict(spec.secrets),
            connector_config=dict(self.connector.raw),
            task_config=dict(self.task_configs[task]),
            claim=self.claim,
            guarantee=self.guarantee,
            run_id=spec.run_id,
            stop_address=("", 0),
            stop_token="",
            versions=self.connector.plugins.versions(),
            locations=self.connector.plugins.locations(),
            needs_spark=self.connector.connector.needs_spark,
            hosted=len(self.tasks),
            is_java=self.connector.is_java,
            endless=spec.idle_seconds is not None,
            idle_seconds=spec.idle_seconds,
            longest_seconds=spec.longest_seconds,
        )


@dataclass(frozen=True, slots=True)
class NoPlan:
    """There is no task to run: the connector is deleted or not STARTED, or a newer claim exists."""

    reason: str


class Planner:
    """Plans one run. ``store`` belongs to the backing, and its owner keeps it open. ``hide`` receives the secrets of the config before the
    connector's code sees them. ``mask`` hides these secrets. ``java`` receives the JVM of a Java connector's plan. ``owner`` identifies the
    run in its claims. A run that ``yields`` has claimed the connector, and claims again only if no other run has since. Of a run that
    ``stays``, ``staying`` keeps a Java connector started. The caller closes it."""

    def __init__(
        self,
        settings: WorkerSettings,
        backing: Backing,
        store: ConfigChanges,
        fence: Fence,
        *,
        hide: HideSecrets = lambda _: None,
        java: JavaHost | None = None,
        mask: Callable[[str], str] = str,
        owner: str | None = None,
        yields: bool = False,
        stays: bool = False,
    ) -> None:
        self.owner = owner
        self.staying = StayingConnector() if stays else None
        self.store = store
        self._yields = yields
        self._settings = settings
        self._java = java
        self._mask = mask
        self._hide = hide
        self._backing = backing
        self._fence = fence
        self._unreturned = set[object]()  # calls of the connector's code that are running, or that hang

    def claim(self, spec: RunSpec) -> Claim | NoPlan:
        """Steps: 1 define the connector, if a DAG file defines it and the topic has no config; 2 check the target state; 3 claim the
        connector.

        Raises ConfigException for a definition that names a resource of another connector, FencedException if the run yields to another.
        """
        state = self.store.read()
        if spec.connector not in state.connector_configs:
            if spec.define is None:
                return NoPlan(f"there is no connector {spec.connector}")
            self._define(spec.connector, spec.define)
            state = self.store.read()
        not_started = _not_started(state, spec.connector)
        if not_started:
            return NoPlan(not_started)
        if spec.claim is None:
            return self.store.claim(spec.connector, owner=self.owner, again=self._yields)
        newest = state.claims.get(spec.connector)
        if newest != spec.claim:
            return NoPlan(f"claim {spec.claim} is no longer the newest, {newest} is")
        return spec.claim

    def _define(self, name: str, config: Mapping[str, str]) -> None:
        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            refuse_foreign(name, config, state)
            return [ConnectorRecord(name, dict(config))]

        self.store.change(decide)

    def secrets(self, spec: RunSpec, state: ClusterConfigState) -> set[str]:
        """The secrets of the connector's config, which no output may show."""
        raw = state.connector_config(spec.connector)
        return secret_values(raw or {}, self._settings.config_providers(spec.connector), spec.secrets)

    def plan(self, spec: RunSpec, claim: Claim) -> Plan:
        """Steps: 1 check the config; 2 start the connector; 3 get its task configs; 4 publish them if they changed; 5 fence tasks that no
        longer exist; 6 if there are several tasks, fence the current ones too, and repair offsets.

        Raises ConfigException, TooManyTasksException, FencedException if a newer claim exists, and the connector's own exceptions.
        """
        state = self.store.read()
        raw = state.connector_config(spec.connector)
        if raw is None:
            raise FencedException(f"connector {spec.connector} was deleted")
        version = state.version_in_force(spec.connector)
        checked = check_connector(spec.connector, raw, self._settings, spec.secrets, version=version, hide=self._hide)
        warn_unused_settings(checked, self._settings)
        guarantee = guarantee_of(checked, self._settings, exactly_once=self._backing.exactly_once)
        planned = spec.claim is not None or (spec.tasks is not None and self._is_planned(spec.connector))
        if planned:
            configs = self._published(spec.connector)
        else:
            configs = self._generated(checked, claim)
            self._publish(checked, configs, claim)
            self._take_over(checked, claim, len(configs))
        tasks = [task for task in range(len(configs)) if not planned or spec.tasks is None or task in spec.tasks]
        return Plan(checked, claim, guarantee, configs, tasks)

    def rehearsal(self, spec: RunSpec) -> TaskPayload:
        """A payload with which an engine loads what the connector's tasks need, without running them. Raises ConfigException."""
        state = self.store.read()
        raw, version = state.connector_config(spec.connector) or {}, state.version_in_force(spec.connector)
        checked = check_connector(spec.connector, raw, self._settings, spec.secrets, version=version, hide=self._hide)
        tasks = range(max(1, state.task_counts.get(spec.connector, 0)))
        plan = Plan(checked, state.claims[spec.connector], "", [{} for _ in tasks], tasks)
        return replace(plan.payload(spec, 0), is_rehearsal=True)

    def is_outdated(self, spec: RunSpec, plan: Plan) -> bool:
        """Whether the connector needs other tasks than those of ``plan``. Writes and fences nothing, because these tasks run. A Java
        connector is asked only if it has asked for other tasks. Raises what ``plan`` raises."""
        state = self.store.read()
        raw = state.connector_config(spec.connector)
        if raw is None or raw != plan.connector.raw:
            return raw != plan.connector.raw
        if plan.connector.is_java:
            return self.staying is not None and self.staying.is_outdated(plan.task_configs)
        version = state.version_in_force(spec.connector)
        checked = check_connector(spec.connector, raw, self._settings, spec.secrets, version=version, hide=self._hide)
        if self._unreturned:  # another call would also keep a thread; a verb may make one
            return False
        return self._task_configs(checked, PlanningContext(checked.name, partial(self._offsets, checked))) != plan.task_configs

    def _generated(self, checked: CheckedConnector, claim: Claim) -> list[Mapping[str, str]]:
        if checked.is_java:
            self._end_open(checked, claim)  # a connector that reads offsets would wait for an open transaction
            is_valid = self._is_planned(checked.name)
            if self.staying is not None:
                return self.staying.task_configs(checked, self._settings, is_valid=is_valid, mask=self._mask)
            from airflow_provider_connect.runtime.java.task.connector_jvm import java_task_configs

            return java_task_configs(checked, self._settings, self._java, is_valid=is_valid, mask=self._mask)
        context = PlanningContext(checked.name, partial(self._offsets, checked), take_over=partial(self._end_open, checked, claim))
        try:
            configs = self._task_configs(checked, context)
        except ConfigException as error:  # the config was checked, so something outside it is wrong
            raise MissingException(error.message, errors=error.errors) from error
        warn_missing(checked.name, missing_of(checked.connector, self._mask))
        return configs

    def _task_configs(self, checked: CheckedConnector, context: PlanningContext) -> list[Mapping[str, str]]:
        """Raises TaskException if the connector's code exceeds ``plugin.plan.timeout.ms``, or if too many earlier calls have not returned:
        each of them keeps a thread."""
        seconds, plugin = self._settings.plugin_plan_timeout_ms / 1000, checked.plugin
        if len(self._unreturned) >= _MOST_UNRETURNED:
            text = f"{plugin.class_name} ({plugin.origin}) has not returned from its last {_MOST_UNRETURNED} plans. Restart its application"
            raise TaskException(text)
        call = object()

        def plan() -> list[Mapping[str, str]]:
            self._unreturned.add(call)
            try:
                return task_configs(checked, context, self._settings)
            finally:
                self._unreturned.discard(call)

        try:
            return within(seconds, plan, f"plan of connector {checked.name}")
        except CallOverdueException as error:
            line = line_of_author(error.stack) or " no line of its own"
            raise TaskException(
                f"{plugin.class_name} ({plugin.origin}) took more than the {seconds:g} s of plugin.plan.timeout.ms to start and to name "
                f"its tasks. It was then at{line}. Restart the connector once what it waits for responds."
            ) from None

    def _offsets(self, checked: CheckedConnector, settle_seconds: float | None) -> SourceOffsets:
        with closing(self._backing.offsets(OffsetLocation.of(self._settings, checked.resolved), settle_seconds=settle_seconds)) as store:
            return store.read(checked.name)

    def _is_planned(self, connector: str) -> bool:
        """Whether the published task configs were created from the config in force. If not, a run of only some tasks is not allowed."""
        state = self.store.read()
        return state.applied_configs.get(connector) == state.connector_config(connector)

    def _published(self, connector: str) -> list[Mapping[str, str]]:
        state = self.store.read()
        return list(state.all_task_configs(connector).values())

    def _take_over(self, checked: CheckedConnector, claim: Claim, tasks: int) -> None:
        """Fence every old owner before any task reads its offsets, because a partition may have moved to another task. A single task does
        all this itself.

        Steps: 1 take over every id; 2 check that the claim is the newest; 3 repair offsets. If a driver was frozen in between, step 1 of a
        newer driver fences it, or step 2 refuses it. So it never writes offsets that it read before a newer run changed them.
        """
        if tasks < 2 or not self._has_ids(checked):
            return
        if not checked.is_source:
            self._fence.fence(checked.name, range(tasks), checked.producer_overrides(self._settings))
            return
        self._fence.fence(checked.name, range(1, tasks), checked.producer_overrides(self._settings))  # 1
        offsets = self._backing.offsets(OffsetLocation.of(self._settings, checked.resolved))
        with closing(offsets), self._fence.owner(checked.name, checked.producer_overrides(self._settings)) as owner:
            require_newest_claim(self.store.read(), checked.name, claim)  # 2
            owner.write(repair_records(offsets, checked.name))  # 3

    def _end_open(self, checked: CheckedConnector, claim: Claim) -> None:
        """Fence the tasks of the last run before the plan rather than after it, because they have an open transaction."""
        state = self.store.read()
        require_newest_claim(state, checked.name, claim)
        if self._has_ids(checked):
            self._fence.fence(checked.name, range(state.fencing_counts.get(checked.name, 0)), checked.producer_overrides(self._settings))

    def _publish(self, checked: CheckedConnector, configs: Sequence[Mapping[str, str]], claim: Claim) -> None:
        """Write task configs, then the commit record. For a smaller set, fence the ids that are no longer used, and delete the
        statuses of their tasks, before writing the count."""
        name = checked.name
        self.store.put_tasks(name, configs, claim, planned_from=checked.raw)
        alive = self.store.read().fencing_counts.get(name, 0)
        if alive != len(configs):
            if self._has_ids(checked):
                self._fence.fence(name, range(len(configs), alive), checked.producer_overrides(self._settings))
            with self._backing.status_notes(claim) as statuses:
                for task in range(len(configs), alive):
                    statuses.delete_task(name, task)
            self.store.put_fencing_count(name, len(configs), claim)

    def _has_ids(self, checked: CheckedConnector) -> bool:
        """Whether the connector's tasks commit in transactions of their transactional ids. If not, the offset store fences the tasks."""
        return self._backing.exactly_once or not checked.is_source


def _not_started(state: ClusterConfigState, connector: str) -> str:
    target = state.target_state(connector)
    return "" if target is TargetState.STARTED else f"connector {connector} is {target}"
