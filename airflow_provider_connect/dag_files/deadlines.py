"""The deadline of a connector's runs as Airflow's own deadline alert, and the notice of a missed deadline.

Airflow stores the deadline of each run in its database, and its scheduler detects a missed one. The triggerer awaits the callback. An
executor would have to support callbacks; otherwise Airflow 3.3's scheduler ends with NotImplementedError.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import quote

from airflow.sdk import AsyncCallback, DeadlineAlert, DeadlineReference  # type: ignore[attr-defined]  # its stub lacks them
from airflow.sdk.configuration import conf

from airflow_provider_connect.dag_files.notices import deadline_context, send_notice
from airflow_provider_connect.runtime.config.dag_settings import DagSettings

OVERDUE, SILENT, LAGGING = "overdue", "silent", "lagging"
"""The values of ``state`` in a notice of a missed deadline."""


def deadline_alerts(connector: str, settings: DagSettings) -> list[DeadlineAlert]:
    """The ``deadline`` of the connector's DAG. Empty if its config does not limit runs."""
    seconds = settings.longest_run_seconds
    if seconds is None:
        return []
    given = {"connector": connector, "names": list(settings.on_deadline), "seconds": seconds}
    return [
        DeadlineAlert(
            reference=DeadlineReference.DAGRUN_QUEUED_AT,  # a connector's run may have no logical date
            interval=timedelta(seconds=seconds),
            callback=AsyncCallback(run_is_late, given),
            name=f"a run takes longer than {seconds:g}s",
        )
    ]


async def run_is_late(connector: str, names: Sequence[str], seconds: float, context: Mapping[str, Any]) -> None:
    """The triggerer awaits this after a missed deadline. Serialized DAGs have its name. ``context`` has the run as it was at that instant.

    Sends nothing for a run that ended in time: Airflow removes the deadlines of successful runs, but not of failed runs.
    """
    run, deadline = context["dag_run"], _instant(context["deadline"]["deadline_time"])
    ended = run.get("end_date")
    if ended is not None and _instant(ended) <= deadline:
        return
    dag_id, run_id = str(run["dag_id"]), str(run["dag_run_id"])
    error = f"Run {run_id} has taken longer than {seconds:g}s (airflow.deadline.duration) since it was queued. It is {run['state']}."
    send = partial(send_missed_deadline, connector, names, OVERDUE, error, dag_id=dag_id, run_id=run_id)
    await asyncio.to_thread(send)  # a notifier waits for its server; the triggerer's loop must not wait


def send_missed_deadline(connector: str, names: Sequence[str], state: str, error: str, *, dag_id: str, run_id: str = "") -> None:
    """Send the notice of a missed deadline with each notifier of ``names``. ``state`` is one of the three above. Raises no exception."""
    facts = partial(deadline_context, connector, state, error, dag_id=dag_id, run_id=run_id, url=ui_url(dag_id, run_id))
    send_notice(connector, names, facts, about="a missed deadline")


def ui_url(dag_id: str, run_id: str = "") -> str:
    """The address of a DAG or of its run in Airflow's UI; empty if ``[api] base_url`` is not set."""
    base = str(conf.get("api", "base_url", fallback="") or "").rstrip("/")
    run = f"/runs/{quote(run_id, safe='')}" if run_id else ""
    return f"{base}/dags/{quote(dag_id, safe='')}{run}" if base else ""


def _instant(value: Any) -> datetime:
    """The instant of Airflow's datetime, or of its text in JSON."""
    found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
