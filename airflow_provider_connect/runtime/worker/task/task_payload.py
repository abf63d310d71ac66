"""The payload of a task, and the checks whether the task may run. The driver imports this module, so it imports no module that only tasks
need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_connect.errors import FencedException, TaskException
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.config_snapshot import ConfigSnapshot
from airflow_provider_connect.runtime.model.run import Claim


@dataclass(frozen=True, slots=True)
class TaskPayload:
    """Sent pickled with the Spark job. Configs are raw. ``settings`` and ``secrets`` contain secrets, so a payload is never logged.

    ``known_topics`` are the topics that the status topic has for the connector. None: topics are not tracked. ``endless``: the task keeps
    reading new records without a limit of time. Otherwise a sink stops at the ends that its topics had when it began, and a source stops
    when it has no more records. ``versions`` are the versions of plugins that the run has chosen, by the plugin's key in the config. None:
    the task chooses. ``locations`` are the paths of these plugins in ``plugin.path``. ``failures`` is the number of consecutive
    applications before this one in which the task has FAILED. ``known`` is the part of the config topic that the driver has read: the task
    continues from there. ``needs_spark``: the task runs in the driver. ``hosted`` is how many tasks the run has. ``stays``: the task runs
    until there is a reason to end. ``idle_seconds``: an ``endless`` task ends when it had no new record for that long, or when
    ``longest_seconds`` are over. ``is_rehearsal``: the task is not run; its process only loads what it needs.
    """

    connector: str
    task: int
    tasks: int
    settings: Mapping[str, str]
    secrets: Mapping[str, str]
    connector_config: Mapping[str, str]
    task_config: Mapping[str, str]
    claim: Claim
    guarantee: str
    run_id: str
    stop_address: tuple[str, int]
    stop_token: str
    known_topics: Sequence[str] | None = None
    versions: Mapping[str, str] | None = None
    locations: Sequence[str] = ()
    endless: bool = False
    failures: int = 0
    known: ConfigSnapshot | None = None
    needs_spark: bool = False
    hosted: int = 1
    is_java: bool = False
    stays: bool = False
    idle_seconds: float | None = None
    longest_seconds: float | None = None
    is_rehearsal: bool = False

    def __repr__(self) -> str:
        return f"TaskPayload({self.connector}-{self.task})"


def refuse_second_attempt(attempt: int) -> None:
    """Raise TaskException for a second attempt. When an executor is lost, Spark starts a task again with the same claim, whatever
    ``spark.task.maxFailures`` is."""
    if attempt > 0:
        raise TaskException(f"Spark started this task a second time (attempt {attempt}); only Airflow retries")


def require_newest_claim(state: ClusterConfigState, connector: str, claim: Claim) -> None:
    """Raise FencedException if ``claim`` is no longer the newest claim of the connector."""
    newest = state.claims.get(connector)
    if newest != claim:
        raise FencedException(f"claim {claim} of {connector} is no longer the newest, {newest} is")
