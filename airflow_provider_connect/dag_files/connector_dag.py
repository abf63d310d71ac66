"""A connector as a DAG, as a user writes it in a DAG file.

::

    from airflow_provider_connect import ConnectorDag

    ConnectorDag("orders", {"connector.class": "FileStreamSource", "file": "/data/orders.txt", "topic": "orders"})

The DAG needs no variable. Keys beginning with ``airflow.`` are settings of the DAG; keyword arguments are those of ``airflow.sdk.DAG``. For
a connector that was created over REST, ``stored_connector_dags`` creates the DAG, in a file that ``ConnectorsBundle`` writes.
"""

import json
import sys
import warnings
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, AssetAlias

from airflow_provider_connect.dag_files.deadlines import deadline_alerts
from airflow_provider_connect.dag_files.notices import FailureNotifier
from airflow_provider_connect.dag_files.own_dags import START, create_dags
from airflow_provider_connect.dag_files.retry import ConnectRetryPolicy
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.hooks.airflow_settings import section_schedule
from airflow_provider_connect.operators.connect import ConnectTaskOperator
from airflow_provider_connect.operators.definition import definition_text
from airflow_provider_connect.operators.plan import ConnectPlanOperator, ConnectReportOperator
from airflow_provider_connect.runtime.config.dag_settings import (
    CONTINUOUS,
    MAX_TASKS,
    PREFIX,
    SCHEDULE,
    DagSettings,
    check_definition,
    dag_settings,
    literal_secrets,
)
from airflow_provider_connect.runtime.model.ids import dag_id_for, is_shortened

TAG = "connector"
_DISPLAY_LENGTH = 2000  # characters of a DAG's name that Airflow's database keeps
_FORCED = {"max_active_runs": 1, "catchup": False, "is_paused_upon_creation": False}
_RUN_TYPES = ("scheduled", "manual", "operator_triggered", "asset_triggered", "asset_materialization")
_SERIAL = ("depends_on_past", "wait_for_downstream")
_NO_PAST = (
    "a connector's run has no logical date: it goes on from the connector's offsets. To have a sink's records delivered again, use "
    "BackfillOperator or airflow connect backfill; to move the connector itself back, change its offsets: AlterOffsetsOperator, or PATCH "
    "/connectors/«name»/offsets of the stopped connector"
)
_KEY_OF_ARGUMENT = {
    "schedule": SCHEDULE,
    "description": "airflow.description",
    "doc_md": "airflow.doc",
    "dag_display_name": "airflow.display.name",
}


class ConnectorDag(DAG):  # type: ignore[misc]  # Airflow is not typed for us
    """The DAG of one connector. Its only task ``run`` is a Spark application that hosts all tasks of the connector.

    With ``tasks.per.application`` in the config, the DAG's tasks are ``plan``, ``run`` mapped over groups of tasks, and ``report``. The
    config is written to the config topic when the newest version of the DAG is detected, or when the connector first runs. Raises
    ConfigException for errors that can be detected without a broker. Airflow shows it as an import error.
    """

    def __init__(self, name: str, config: Mapping[str, str], *, spark_conn_id: str | None = None, **dag_arguments: Any) -> None:
        check_definition(name, config)
        steering = {**config, SCHEDULE: _schedule_text(dag_arguments["schedule"])} if "schedule" in dag_arguments else config
        settings = dag_settings(name, steering, section_schedule())  # no Variable and no Connection, because this runs at each parse
        _refuse_conflicts(config, dag_arguments)
        _warn_of_secrets(name, config)
        super().__init__(dag_id_for(name), **_dag_arguments(name, settings, dag_arguments))
        self.fileloc = sys._getframe(1).f_code.co_filename  # the user's file, not the file that calls DAG
        self.connector = name
        if settings.schedule == CONTINUOUS and "schedule" in dag_arguments:
            config = {**config, SCHEDULE: CONTINUOUS}  # so that a run that stays notices that the DAG has another schedule
        first = {"connector_definition": definition_text(config)}
        run = {"spark_conn_id": spark_conn_id, "outlets": [AssetAlias(self.dag_id)]}
        with self:
            _add_tasks(name, settings, first, run, _task_arguments(name, settings, config, dag_arguments.get("default_args") or {}))


class StoredConnectorDag(DAG):  # type: ignore[misc]  # Airflow is not typed for us
    """The DAG of a connector that only the config topic defines. ``mark`` has the keys that define the DAG (``connector_files``), as JSON.
    The DAG's tasks read the config from the topic."""

    def __init__(self, name: str, mark: str, *, file: str, is_paused: bool) -> None:
        keys = json.loads(mark)
        settings = dag_settings(name, keys)
        super().__init__(dag_id_for(name), **_dag_arguments(name, settings, {}) | {"is_paused_upon_creation": is_paused})
        self.fileloc = file
        self.connector = name
        with self:
            _add_tasks(name, settings, {"dag_mark": mark}, {"outlets": [AssetAlias(self.dag_id)]}, _task_arguments(name, settings, keys))


def stored_connector_dags(file: str, connectors: Mapping[str, str], *, paused: Collection[str] = ()) -> None:
    """Create the DAGs of ``connectors``, which maps names to marks. DAGs of ``paused`` are paused when Airflow first sees them. If a DAG
    cannot be created, only that DAG is left out.

    The files of ``ConnectorsBundle`` call it: in the dag-processor for all connectors, and in each task for the connector of its DAG.
    """
    create_dags(
        "Connector", connectors, dag_id_for, lambda name: StoredConnectorDag(name, connectors[name], file=file, is_paused=name in paused)
    )


def _add_tasks(connector: str, settings: DagSettings, first: Mapping[str, Any], run: Mapping[str, Any], every: Mapping[str, Any]) -> None:
    """Add a connector's tasks to the open DAG. Takes the arguments of the first task, of ``run``, and of every task."""
    run = {**run, "engine": settings.engine, "stays_seconds": settings.stays_seconds, "application_name": settings.application}
    if settings.idle_seconds is not None:
        run |= {"idle_seconds": settings.idle_seconds, "longest_seconds": settings.run_seconds}
    if settings.tasks_per_application is None:
        ConnectTaskOperator(task_id="run", connector=connector, **first, **run, **every)
        return
    plan = ConnectPlanOperator(task_id="plan", connector=connector, tasks_per_application=settings.tasks_per_application, **first, **every)
    mapped = ConnectTaskOperator.partial(
        task_id="run", connector=connector, map_index_template="{{ task.tasks_label }}", **run, **every
    ).expand_kwargs(plan.output)
    mapped >> ConnectReportOperator(task_id="report", connector=connector, trigger_rule="none_failed", **every)


def _schedule_text(schedule: object) -> str:
    """Of a schedule that is given as keyword argument, which Airflow checks, only whether runs stay concerns the settings."""
    return CONTINUOUS if schedule == CONTINUOUS else "none"


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
    asked_for = {**arguments, **(arguments.get("default_args") or {})}
    errors += [f"Invalid value True for argument {argument}: {_NO_PAST}" for argument in _SERIAL if asked_for.get(argument)]
    if "allowed_run_types" in arguments:
        errors.append(f"allowed_run_types is always {', '.join(_RUN_TYPES)}: {_NO_PAST}; leave it out")
    if "dag_id" in arguments:
        errors.append("dag_id is made from the connector's name: leave it out")
    if errors:
        raise ConfigException("; ".join(errors), errors=errors)


def _warn_of_secrets(name: str, config: Mapping[str, str]) -> None:
    for key in literal_secrets(config):
        warnings.warn(
            f"Connector {name}: the value of {key} looks like a secret and is written out in the DAG file, where every user who may read "
            f"the DAG can see it; write a variable such as ${{airflow:my_connection:password}} or ${{variable:my_key}} instead",
            UserWarning,
            stacklevel=3,
        )


def _document(text: str | None) -> str | None:
    """``text`` as a DAG's ``doc_md``. Airflow would open text that ends with ``.md`` as a file."""
    return f"{text}\n" if text is not None and text.endswith(".md") else text


def _dag_arguments(connector: str, settings: DagSettings, given: Mapping[str, Any]) -> dict[str, Any]:
    schedule = timedelta(seconds=settings.schedule) if isinstance(settings.schedule, float) else settings.schedule
    arguments: dict[str, Any] = {
        "schedule": schedule,
        "start_date": START,
        "description": settings.description,
        "doc_md": _document(settings.doc),
        "allowed_run_types": _RUN_TYPES,
        "max_active_tasks": MAX_TASKS if settings.tasks_per_application else 1,
    }
    if settings.display_name is not None:
        arguments["dag_display_name"] = settings.display_name
    elif is_shortened(dag_id_for(connector)):
        arguments["dag_display_name"] = connector[:_DISPLAY_LENGTH]
    if deadlines := deadline_alerts(connector, settings):
        own = given.get("deadline") or []
        given = {**given, "deadline": [*(own if isinstance(own, list | tuple) else [own]), *deadlines]}
    tags = {TAG, *settings.tags, *given.get("tags", ())}
    return arguments | dict(given) | _FORCED | {"tags": sorted(tags)}


def _task_arguments(
    connector: str, settings: DagSettings, config: Mapping[str, str], defaults: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The arguments of every task. ``defaults`` are the DAG's own; their callbacks are kept in addition to the connector's."""
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
    if settings.on_failure:
        given = (defaults or {}).get("on_failure_callback") or []
        own = list(given) if isinstance(given, list | tuple) else [given]
        arguments["on_failure_callback"] = [*own, FailureNotifier(connector, settings.on_failure)]
    if settings.stays_seconds is not None or settings.idle_seconds is not None:
        arguments["execution_timeout"] = None  # Airflow's default_task_execution_timeout would fail the run
    return arguments | {name: value for name, value in optional.items() if value is not None}
