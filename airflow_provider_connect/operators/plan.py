"""Beginning and end of a run with several applications: ``plan`` groups the tasks, ``report`` adds up their counts."""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_connect.hooks.airflow_settings import worker_settings
from airflow_provider_connect.operators.definition import DefinesConnector
from airflow_provider_connect.operators.planning import airflow_errors, plan_in_process, require_started
from airflow_provider_connect.operators.run_conf import refuse_backfill, requested_tasks
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.spark.parent_death import die_with_parent


class ConnectPlanOperator(DefinesConnector, BaseOperator):  # type: ignore[misc]  # Airflow is not typed for us
    """Claims the connector, creates its task configs in a subprocess, and returns the arguments of one ``run`` for each group of tasks."""

    template_fields: Sequence[str] = ()  # as ConnectTaskOperator's
    ui_color = "#e8f1f8"

    def __init__(
        self,
        *,
        connector: str,
        connector_definition: str | None = None,
        dag_mark: str | None = None,
        tasks_per_application: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.connector = connector
        self.connector_definition = connector_definition
        self.dag_mark = dag_mark
        self.tasks_per_application = tasks_per_application

    def execute(self, context: Mapping[str, Any]) -> list[dict[str, Any]]:
        """``[{"tasks": [0, 1], "claim": "…"}, …]``; empty without work, so that no task is mapped."""
        die_with_parent()
        with airflow_errors(f"Connector {self.connector}"):
            return self._groups(context)

    def _groups(self, context: Mapping[str, Any]) -> list[dict[str, Any]]:
        refuse_backfill(context)
        settings, asked_for = worker_settings(), requested_tasks(context)
        readiness = require_started(self, settings, context, is_asked_for=asked_for is not None)
        if readiness.state == "no-work":
            self.log.info("Connector %s has nothing to do: %s", self.connector, readiness.reason)
            return []
        plan = plan_in_process(self.connector, settings, readiness, context, self.definition())
        if plan.claim is None:
            raise AirflowSkipException(f"Connector {self.connector} did not run: {plan.reason}")
        return groups_of([task for task in plan.tasks if asked_for is None or task in asked_for], plan.claim, self.tasks_per_application)


class ConnectReportOperator(DefinesConnector, BaseOperator):  # type: ignore[misc]  # Airflow is not typed for us
    """Adds up the counts of the mapped ``run`` tasks. A failed ``run`` task fails the Dag run, and this operator then does not run."""

    template_fields: Sequence[str] = ()  # as ConnectTaskOperator's
    ui_color = "#e8f1f8"

    def __init__(self, *, connector: str, run_task_id: str = "run", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.connector = connector
        self.run_task_id = run_task_id

    def execute(self, context: Mapping[str, Any]) -> dict[str, float]:
        """The counts of all tasks together."""
        found = context["ti"].xcom_pull(task_ids=self.run_task_id) or []
        runs = [found] if isinstance(found, Mapping) else found  # the value of a single mapped task is not in a list
        tasks = [task for run in runs if run for task in run.values()]
        total = {name: round(sum(task[name] for task in tasks), 3) for name in ("records", "bytes", "seconds", "cpu_seconds")}
        self.log.info("Connector %s: %d records in %d tasks", self.connector, total["records"], len(tasks))
        return {"tasks": len(tasks), **total}


def groups_of(tasks: Sequence[int], claim: Claim, size: int) -> list[dict[str, Any]]:
    """``tasks`` in groups of ``size``, as arguments of ConnectTaskOperator."""
    numbers = sorted(tasks)
    return [{"tasks": numbers[at : at + size], "claim": str(claim)} for at in range(0, len(numbers), size)]
