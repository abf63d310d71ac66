"""The deadline of a connector's runs as Airflow's own deadline alert, and the notice of one that was missed.

Airflow keeps the deadline of each run in its database and finds it missed in the scheduler. The callback is awaited in the triggerer: an
executor would have to know callbacks, and Airflow 3.3's scheduler ends with NotImplementedError where one does not.
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
"""What a notice of a missed deadline has as ``state``."""


def deadline_alerts(connector: str, settings: DagSettings) -> list[DeadlineAlert]:
    """What the connector's DAG has as ``deadline``; empty where its config limits no run."""
    seconds = settings.longest_run_seconds
    if seconds is None:
        return []
    given = {"connector": connector, "names": list(settings.on_deadline), "seconds": seconds}
    return [
        DeadlineAlert(
            reference=DeadlineReference.DAGRUN_QUEUED_AT,  # no run of a connector need have a logical date
            interval=timedelta(seconds=seconds),
            callback=AsyncCallback(run_is_late, given),
            name=f"a run takes longer than {seconds:g}s",
        )
    ]


async def run_is_late(connector: str, names: Sequence[str], seconds: float, context: Mapping[str, Any]) -> None:
    """Awaited by the triggerer when a run has missed its deadline; its name is in serialized DAGs. ``context`` has the run as it was then.

    Sends nothing of a run that had ended in time: Airflow forgets the deadlines of runs that succeeded, but not of those that failed.
    """
    run, deadline = context["dag_run"], _instant(context["deadline"]["deadline_time"])
    ended = run.get("end_date")
    if ended is not None and _instant(ended) <= deadline:
        return
    dag_id, run_id = str(run["dag_id"]), str(run["dag_run_id"])
    error = f"Run {run_id} has taken longer than {seconds:g}s (airflow.deadline.duration) since it was queued. It is {run['state']}."
    send = partial(send_missed_deadline, connector, names, OVERDUE, error, dag_id=dag_id, run_id=run_id)
    await asyncio.to_thread(send)  # a notifier waits for its server, which the triggerer's loop must not


def send_missed_deadline(connector: str, names: Sequence[str], state: str, error: str, *, dag_id: str, run_id: str = "") -> None:
    """Send the notice of a missed deadline by each notifier of ``names``. ``state`` is one of the three above. Raises nothing."""
    facts = partial(deadline_context, connector, state, error, dag_id=dag_id, run_id=run_id, url=ui_url(dag_id, run_id))
    send_notice(connector, names, facts, about="a missed deadline")


def ui_url(dag_id: str, run_id: str = "") -> str:
    """The address of a DAG or of its run in Airflow's UI; empty where ``[api] base_url`` is not set."""
    base = str(conf.get("api", "base_url", fallback="") or "").rstrip("/")
    run = f"/runs/{quote(run_id, safe='')}" if run_id else ""
    return f"{base}/dags/{quote(dag_id, safe='')}{run}" if base else ""


def _instant(value: Any) -> datetime:
    """A datetime of Airflow, or its text in JSON."""
    found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
