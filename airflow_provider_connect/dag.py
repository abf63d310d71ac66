"""A connector as a DAG: what a user writes in a DAG file.

::

    from airflow_provider_connect import ConnectorDag

    ConnectorDag("orders", {"connector.class": "FileStreamSource", "file": "/data/orders.txt", "topic": "orders"})

No name needs to be bound to it. Keys beginning with ``airflow.`` steer the DAG, keyword arguments are those of ``airflow.sdk.DAG``.
"""

import sys
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, AssetAlias

from airflow_provider_connect.dag_settings import (
    MAX_TASKS,
    PREFIX,
    DagSettings,
    check_definition,
    dag_settings,
    literal_secrets,
)
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.model.ids import consumer_group, dag_id_for
from airflow_provider_connect.operators.connect import ConnectTaskOperator
from airflow_provider_connect.operators.definition import definition_text
from airflow_provider_connect.operators.plan import ConnectPlanOperator, ConnectReportOperator
from airflow_provider_connect.retry import ConnectRetryPolicy

TAG = "connector"
_START = datetime(2024, 1, 1, tzinfo=UTC)  # any fixed past day: a DAG must be the same each time its file is parsed
_FORCED = {"max_active_runs": 1, "catchup": False, "is_paused_upon_creation": False}
_KEY_OF_ARGUMENT = {
    "schedule": "airflow.schedule",
    "description": "airflow.description",
    "doc_md": "airflow.doc",
    "dag_display_name": "airflow.display.name",
}


class ConnectorDag(DAG):  # type: ignore[misc]  # Airflow is not typed for us
    """The DAG of one connector. Its one task ``run`` is a Spark application that hosts all of the connector's tasks; with
    ``tasks.per.application`` in the config it is ``plan``, ``run`` mapped over groups of tasks, and ``report``.

    The config goes to the config topic when the newest version of the DAG is seen, or when the connector first runs. Raises
    ConfigException, shown as an import error, for whatever can be seen to be wrong without a broker.
    """

    def __init__(self, name: str, config: Mapping[str, str], *, spark_conn_id: str | None = None, **dag_arguments: Any) -> None:
        check_definition(name, config)
        settings = dag_settings(name, config)
        _refuse_conflicts(config, dag_arguments)
        _warn_of_secrets(name, config)
        super().__init__(dag_id_for(name), **_dag_arguments(settings, dag_arguments))
        self.fileloc = sys._getframe(1).f_code.co_filename  # where this is written, not where DAG is called
        self.connector = name
        task = _task_arguments(settings, config)
        with self:
            if settings.tasks_per_application is None:
                self._one_application(config, spark_conn_id, task)
            else:
                self._several_applications(config, spark_conn_id, settings.tasks_per_application, task)

    def _one_application(self, config: Mapping[str, str], spark_conn_id: str | None, task: Mapping[str, Any]) -> None:
        ConnectTaskOperator(
            task_id="run",
            connector=self.connector,
            connector_definition=definition_text(config),
            spark_conn_id=spark_conn_id,
            sink_group=_sink_group(self.connector, config),
            outlets=[AssetAlias(self.dag_id)],
            **task,
        )

    def _several_applications(self, config: Mapping[str, str], spark_conn_id: str | None, group: int, task: Mapping[str, Any]) -> None:
        plan = ConnectPlanOperator(
            task_id="plan",
            connector=self.connector,
            connector_definition=definition_text(config),
            tasks_per_application=group,
            **task,
        )
        run = ConnectTaskOperator.partial(
            task_id="run",
            connector=self.connector,
            spark_conn_id=spark_conn_id,
            sink_group=_sink_group(self.connector, config),
            outlets=[AssetAlias(self.dag_id)],
            map_index_template="{{ task.tasks_label }}",
            **task,
        ).expand_kwargs(plan.output)
        report = ConnectReportOperator(task_id="report", connector=self.connector, trigger_rule="none_failed", **task)
        run >> report


def _sink_group(connector: str, config: Mapping[str, str]) -> str | None:
    return consumer_group(connector, config) if config.get("topics") or config.get("topics.regex") else None


def _refuse_conflicts(config: Mapping[str, str], arguments: Mapping[str, Any]) -> None:
    errors = [
        f"{argument} is given twice, as keyword argument and as {key} in the config: leave one out"
        for argument, key in _KEY_OF_ARGUMENT.items()
        if argument in arguments and key in config
    ]
    errors += [
        f"Invalid value {arguments[argument]} for keyword argument {argument}: a connector's DAG always has {value}; leave it out"
        for argument, value in _FORCED.items()
        if arguments.get(argument, value) != value
    ]
    if "dag_id" in arguments:
        errors.append("dag_id is made from the connector's name: leave it out")
    if errors:
        raise ConfigException("; ".join(errors), errors=errors)


def _warn_of_secrets(name: str, config: Mapping[str, str]) -> None:
    for key in literal_secrets(config):
        warnings.warn(
            f"Connector {name}: the value of {key} looks like a secret and is written out in the DAG file, where everybody who may read "
            f"the DAG can see it; write a variable such as ${{airflow:my_connection:password}} or ${{variable:my_key}} instead",
            UserWarning,
            stacklevel=3,
        )


def _dag_arguments(settings: DagSettings, given: Mapping[str, Any]) -> dict[str, Any]:
    schedule = timedelta(seconds=settings.schedule) if isinstance(settings.schedule, float) else settings.schedule
    arguments: dict[str, Any] = {
        "schedule": schedule,
        "start_date": _START,
        "description": settings.description,
        "doc_md": settings.doc,
        "max_active_tasks": MAX_TASKS if settings.tasks_per_application else 1,
    }
    if settings.display_name is not None:
        arguments["dag_display_name"] = settings.display_name
    tags = {TAG, *settings.tags, *given.get("tags", ())}
    return arguments | dict(given) | _FORCED | {"tags": sorted(tags)}


def _task_arguments(settings: DagSettings, config: Mapping[str, str]) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "retries": settings.retries,
        "retry_delay": timedelta(seconds=settings.retry_delay_seconds),
        "retry_policy": ConnectRetryPolicy({key: value for key, value in config.items() if key.startswith(PREFIX)}),
        "pool_slots": settings.pool_slots,
        "priority_weight": settings.priority_weight,
    }
    optional = {
        "owner": settings.owner,
        "pool": settings.pool,
        "queue": settings.queue,
        "execution_timeout": None if settings.max_duration_seconds is None else timedelta(seconds=settings.max_duration_seconds),
    }
    return arguments | {name: value for name, value in optional.items() if value is not None}
