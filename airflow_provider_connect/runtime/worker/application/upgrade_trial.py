"""A run's part in an upgrade of its connector: it compares the versions, tries the new one, and restores the old one if the trial fails.

Every step is one compare-and-set of the config topic by the run that holds the newest claim. So a run that is killed between two steps
leaves the state before or after a step. If a trial's run never reported, the trial has failed.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from airflow_provider_connect.errors import ConnectException, last_line
from airflow_provider_connect.runtime.config.dag_settings import DEFINED_IN
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model import upgrades
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.records import ConfigRecord, ConnectorRecord, UpgradeRecord
from airflow_provider_connect.runtime.model.run import Claim, TaskResult
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.upgrades import VERSION_KEY, Upgrade, UpgradeState
from airflow_provider_connect.runtime.stores.config_changes import ConfigChanges
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason

if TYPE_CHECKING:
    from airflow_provider_connect.runtime.model.previews import Preview

log = logging.getLogger(__name__)

_DID_ITS_WORK = (None, StopReason.TIME, StopReason.EXPIRED)
"""The reasons to stop that count as a success of the new version."""


class Previews(Protocol):
    """Makes previews: a PreviewRunner."""

    def preview(self, connector: str, config: Mapping[str, str], *, records: int, version: str | None = None) -> Preview: ...


def preview_in_subprocess(settings: WorkerSettings, secrets: Mapping[str, str]) -> Previews:
    """Makes previews in processes of their own."""
    from airflow_provider_connect.runtime.worker.preview.runner import PreviewRunner

    return PreviewRunner(settings, secrets=lambda _: secrets)


class UpgradeTrial:
    """The upgrade trial of one connector, for one run that has claimed it. ``state`` was read after the claim. From then on only this run
    changes an open upgrade. ``previews`` is called if there are versions to compare. ``now_ms`` is the time of day."""

    def __init__(
        self,
        connector: str,
        claim: Claim,
        store: ConfigChanges,
        previews: Callable[[], Previews],
        *,
        state: ClusterConfigState,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self._connector = connector
        self._claim = claim
        self._store = store
        self._previews = previews
        self._now_ms = now_ms
        self._config = state.connector_config(connector) or {}
        self._found = _concerning(state, connector)
        self._is_trying = self._is_own_trial(self._found)  # true already if another process has planned

    @property
    def is_trying(self) -> bool:
        """Whether this run is a trial of the new version."""
        return self._is_trying

    def before_plan(self, *, is_whole: bool) -> bool:
        """Steps: 1 fail a trial that never reported its end; 2 compare the versions, if a trial is requested; 3 begin the trial.

        Called before the plan, which then uses the version in force. ``is_whole``: all of the connector's tasks run. A run of only some
        tasks begins no trial. Returns whether all tasks must be planned again, because another version has planned them.
        """
        upgrade = self._found
        if upgrade is None:
            return False
        if upgrade.state is UpgradeState.TRIAL and upgrade.claim is not None:
            upgrade = self._change(
                upgrade, lambda known: upgrades.roll_back(known, f"the first run with version {known.new} never reported its end")
            )
        if upgrade.state is UpgradeState.REQUESTED and is_whole:
            upgrade = self._compared(upgrade)
        if upgrade.state is UpgradeState.TRIAL:
            begun = self._change(upgrade, lambda known: upgrades.begin_trial(known, self._claim))
            self._is_trying = self._is_own_trial(begun)
            return True
        if upgrade.state is UpgradeState.ROLLED_BACK and not upgrade.is_replanned:
            self._change(upgrade, lambda known: dataclasses.replace(known, is_replanned=True))
            return True
        return False

    def after(self, results: Sequence[TaskResult], tasks: int) -> str:
        """Evaluate the trial by the results of some or all of its ``tasks``, if this run is a trial. Returns why the trial failed, as a
        sentence for users. Empty: it has not failed."""
        failed = [result for result in results if result.state == State.FAILED]
        if failed:
            return self.failed(f"task {failed[0].task}: {last_line(failed[0].trace or '') or 'no reason given'}")
        done = [result.task for result in results if result.stopped_by in _DID_ITS_WORK]
        if len(done) < len(results):
            self._end(upgrades.postpone)
        else:
            self._end(lambda known: upgrades.pass_tasks(known, done, tasks))
        return ""

    def failed(self, reason: str) -> str:
        """Restore the old version after a failure of the connector or of a task, if this run is a trial."""
        ended = self._end(lambda known: upgrades.roll_back(known, reason))
        if ended is None or ended.state is not UpgradeState.ROLLED_BACK:
            return ""
        log.warning("Connector %s goes back from version %s to %s: %s", self._connector, ended.new, ended.old, reason)
        return f"the upgrade to version {ended.new} failed, and version {ended.old} holds again"

    def _is_own_trial(self, upgrade: Upgrade | None) -> bool:
        return upgrade is not None and upgrade.state is UpgradeState.TRIAL and upgrade.claim == self._claim

    def _compared(self, upgrade: Upgrade) -> Upgrade:
        if upgrade.canary == 0:
            return self._change(upgrade, lambda known: dataclasses.replace(known, state=UpgradeState.TRIAL, reason=""))
        from airflow_provider_connect.runtime.model.preview_comparison import compare_previews

        previews = self._previews()
        try:
            old = previews.preview(self._connector, self._config, records=upgrade.canary, version=upgrade.old)
        except ConnectException as error:
            log.warning("Connector %s: its next records cannot be read with version %s: %s", self._connector, upgrade.old, error.message)
            reason = f"the next records could not be read with version {upgrade.old}; the next run retries it: {error.message}"
            return self._change(upgrade, lambda known: dataclasses.replace(known, reason=reason))
        try:
            new = previews.preview(self._connector, self._config, records=upgrade.canary, version=upgrade.new)
        except ConnectException as error:
            reason = f"version {upgrade.new} could not read the next records: {error.message}"
            changed = self._change(upgrade, lambda known: upgrades.hold(known, reason))
        else:
            changed = self._change(upgrade, lambda known: upgrades.evaluate(known, compare_previews(old, new)))
        reason = f": {changed.reason}" if changed.reason else ""
        log.info("Connector %s: upgrade from version %s to %s is %s%s", self._connector, changed.old, changed.new, changed.state, reason)
        return changed

    def _change(self, upgrade: Upgrade, step: Callable[[Upgrade], Upgrade]) -> Upgrade:
        """Take the step, if the upgrade is unchanged and the claim is the newest. Returns the upgrade after the step."""
        found: list[Upgrade] = []

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            known = state.upgrades.get(self._connector)
            found[:] = [upgrade if known is None else known]
            if known != upgrade or state.claims.get(self._connector) != self._claim:
                return []
            if (changed := step(known)) == known:
                return []
            found[:] = [dataclasses.replace(changed, changed_ms=self._now_ms())]
            return [UpgradeRecord(self._connector, found[0])]

        self._store.change(decide)
        return found[0]

    def _end(self, step: Callable[[Upgrade], Upgrade]) -> Upgrade | None:
        """Take a step of the trial that has this run's claim. None: there is no such trial.

        With DONE, the config gets the requested version. If a DAG file owns the config, the upgrade keeps the version instead.
        """
        found: list[Upgrade] = []

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            found.clear()
            known = _concerning(state, self._connector)
            if known is None or not self._is_own_trial(known):
                return []
            found.append(dataclasses.replace(step(known), changed_ms=self._now_ms()))
            records: list[ConfigRecord] = [UpgradeRecord(self._connector, found[0])]
            config = state.connector_configs[self._connector]
            if found[0].state is UpgradeState.DONE and DEFINED_IN not in config:
                records.append(ConnectorRecord(self._connector, {**config, VERSION_KEY: found[0].to}))
            return records

        if self._is_trying:
            self._store.change(decide)
        return found[0] if found else None


def _concerning(state: ClusterConfigState, connector: str) -> Upgrade | None:
    upgrade, config = state.upgrades.get(connector), state.connector_config(connector)
    return upgrade if upgrade is not None and config is not None and upgrade.concerns(config) else None
