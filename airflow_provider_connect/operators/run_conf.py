"""The conf of a connector's Dag run. With ``{"tasks": [0, 2]}`` only these tasks of the connector run. A restart sets it."""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.dag_settings import MAX_TASKS

_TASKS = "tasks"


def run_conf(tasks: Sequence[int] | None) -> dict[str, list[int]]:
    """The conf of a run of ``tasks``, or by default of all tasks."""
    return {} if tasks is None else {_TASKS: sorted(tasks)}


def parse_tasks(conf: object) -> list[int] | None:
    """The tasks that a conf names; None: all. Raises ConfigException for anything else, because users may write the conf of a run."""
    tasks = conf.get(_TASKS) if isinstance(conf, dict) else None
    if tasks is None:
        return None
    if not isinstance(tasks, list) or not tasks or not all(type(task) is int and 0 <= task < MAX_TASKS for task in tasks):
        raise ConfigException.of(f"{_TASKS} in the run's conf", tasks, "give a list of task numbers such as [0, 2], or leave it out")
    return sorted(set(tasks))


def requested_tasks(context: Mapping[str, Any]) -> list[int] | None:
    """The tasks in the conf of the run of this ``context``."""
    return parse_tasks(getattr(context.get("dag_run"), "conf", None))


def may_wait(context: Mapping[str, Any]) -> bool:
    """Whether the run may leave the work to a later run after failures. The first try may, unless a user started the run."""
    run_type = str(getattr(getattr(context.get("dag_run"), "run_type", None), "value", ""))
    return run_type != "manual" and context["ti"].try_number <= 1


def refuse_backfill(context: Mapping[str, Any]) -> None:
    """Raise ConfigException in a backfill run, because Airflow starts several such runs at once, even if the DAG does not allow it."""
    if str(getattr(getattr(context.get("dag_run"), "run_type", None), "value", "")) == "backfill":
        raise ConfigException(
            "A connector's DAG has no backfills: its runs go on from its offsets, one at a time. To have a sink's records delivered again, "
            "create a backfill of it with BackfillOperator or airflow connect backfill. To move the connector itself back, stop it and "
            "change its offsets with AlterOffsetsOperator or PATCH /connectors/«name»/offsets"
        )


def covers(waiting: object, tasks: Sequence[int] | None) -> bool:
    """Whether a run with conf ``waiting`` also does the work of a run of ``tasks``.

    A run of all tasks may find no work, so it covers only another such run."""
    try:
        named = parse_tasks(waiting)
    except ConfigException:
        return False
    return named is None if tasks is None else named is not None and set(tasks) <= set(named)
