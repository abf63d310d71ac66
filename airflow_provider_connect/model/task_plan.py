"""A connector's next task set beside the committed one: has it changed, what says so, which ids must be fenced (contract §2.4)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_connect.model.cluster_state import ClusterConfigState
from airflow_provider_connect.model.ids import ConnectorTaskId
from airflow_provider_connect.model.records import CommitRecord, FencingRecord, TaskRecord
from airflow_provider_connect.model.run import Claim


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """What to do about the tasks. ``configs`` is the new set; ``alive`` how many task ids, 0 … ``alive`` - 1, may still have a writer."""

    connector: str
    configs: list[dict[str, str]]
    is_changed: bool
    alive: int

    @property
    def records(self) -> list[TaskRecord | CommitRecord]:
        """What to write, in this order and in one transaction; nothing if nothing changed."""
        if not self.is_changed:
            return []
        tasks = [TaskRecord(ConnectorTaskId(self.connector, number), config) for number, config in enumerate(self.configs)]
        return [*tasks, CommitRecord(self.connector, len(self.configs))]  # commit record last: a reader must never apply half a set

    def ids_to_fence(self, hosted: Collection[int]) -> list[int]:
        """The task ids that may have a writer and that the run does not host (those it hosts, it fences by starting them)."""
        return [task for task in range(self.alive) if task not in hosted]

    def fencing_record(self, claim: Claim) -> FencingRecord | None:
        """The count to write behind the commit record, once ``ids_to_fence`` are fenced; None: it stands already."""
        return None if self.alive == len(self.configs) else FencingRecord(self.connector, len(self.configs), claim)


def task_plan(state: ClusterConfigState, connector: str, configs: Sequence[Mapping[str, str]]) -> TaskPlan:
    """The plan for ``configs``, raw and whole (see ``task_config``); none at all is the plan of a stop.

    The set has changed if its size or a config differs, if the committed one is inconsistent, or if the connector's config is not the one
    that the committed set was made from.
    """
    committed = state.all_task_configs(connector)
    new = [dict(config) for config in configs]
    is_same = [committed[number] for number in sorted(committed)] == new and connector not in state.inconsistent
    is_current = not new or state.applied_configs.get(connector) == state.connector_configs.get(connector)
    return TaskPlan(connector, new, not (is_same and is_current), ids_alive(state, connector))


def ids_alive(state: ClusterConfigState, connector: str) -> int:
    """How many task ids of the connector may have a writer: the larger of the last fencing record and the committed count. What a claim
    records: a smaller value would let a zombie of a higher number commit after a takeover."""
    return max(state.fencing_counts.get(connector, 0), state.task_counts.get(connector, 0))


def task_config(generated: Mapping[str, str], connector_config: Mapping[str, str], *, task_class: str, is_sink: bool) -> dict[str, str]:
    """One task's config as it is committed.

    That is what the connector generated, with ``task.class``; for a sink its ``topics`` and ``topics.regex``, which it reads from here. A
    key whose value in ``connector_config`` (raw) holds a variable gets that text back, so that no secret lies on the topic.
    """
    config = dict(generated)
    config["task.class"] = task_class
    if is_sink:
        config.update({key: connector_config[key] for key in ("topics", "topics.regex") if key in connector_config})
    return {key: connector_config[key] if "${" in connector_config.get(key, "") else value for key, value in config.items()}
