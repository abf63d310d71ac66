"""Whether Airflow can create a DAG from a connector's keys: checked with its real timetables and a trial DAG.

Internals of Airflow 3.3.2: ``coerce_to_core_timetable``, ``DagSerialization``, ``TimeRestriction``, ``croniter``. For processes that have
Airflow and accept configs, or write the files of DAGs. Without Airflow, ``dag_settings`` checks the rules alone.
"""

import hashlib
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise, product
from typing import Any

from airflow.sdk import DAG, timezone
from airflow.serialization.encoders import coerce_to_core_timetable
from airflow.serialization.serialized_objects import DagSerialization
from airflow.timetables._cron import croniter
from airflow.timetables.base import TimeRestriction
from cachetools import LRUCache, cached

from airflow_provider_connect.dag_files.connector_dag import StoredConnectorDag
from airflow_provider_connect.dag_files.connector_files import mark_of, steering_keys
from airflow_provider_connect.runtime.config.dag_settings import CONTINUOUS, DagCheck, DagLimits, steering_errors
from airflow_provider_connect.runtime.model.config_limits import LONGEST_ERROR, cut

_TRIAL = "connector"
_RUNS = 10  # consecutive runs to compute, for the pauses between days; the fields show those within a day
_KEPT = 4096
_START = datetime(2024, 1, 1, tzinfo=UTC)


def dag_check(limits: DagLimits) -> DagCheck:
    """The check of configs from REST or the config topic."""

    def check(connector: str, config: Mapping[str, str]) -> dict[str, list[str]]:
        errors = steering_errors(connector, config, limits, shortest_interval)
        if errors:
            return errors
        error = _error(mark_of(steering_keys(config, None)))
        return {"name": [f"Airflow can make no DAG of connector {connector[:100]}: {error}"]} if error else {}

    return check


@lru_cache(_KEPT)
def shortest_interval(schedule: str) -> float | None:
    """See ``dag_settings.ShortestInterval``. Uses the timetable that Airflow creates from ``schedule``."""
    try:
        timetable = _timetable(schedule)
        starts = _starts(timetable)
    except Exception as error:  # croniter, pendulum and Airflow raise any exception for an invalid schedule
        raise ValueError(f"Airflow takes no such schedule: {error}") from error
    if schedule == CONTINUOUS:
        return None
    if not starts:
        raise ValueError("no run would ever come")
    return min([*((later - earlier).total_seconds() for earlier, later in pairwise(starts)), *_within_a_day(schedule)], default=None)


def _within_a_day(schedule: str) -> Iterator[float]:
    """The times between the runs of one day, for a cron expression that Airflow accepts. The shortest may be after the first runs."""
    if schedule.startswith("@"):
        return
    minutes, hours, _, _, _, *rest = croniter.expand(schedule)[0]
    fields = zip((hours, minutes, *(rest or [[0]])), (24, 60, 60), strict=True)
    of_a_day = product(*(range(most) if "*" in field else sorted(set(field)) for field, most in fields))
    for earlier, later in pairwise(timedelta(hours=hour, minutes=minute, seconds=second) for hour, minute, second in of_a_day):
        yield (later - earlier).total_seconds()


def _timetable(schedule: str) -> Any:
    """The timetable that the scheduler would use."""
    timetable: Any = coerce_to_core_timetable(DAG(_TRIAL, schedule=schedule, start_date=_START, max_active_runs=1).timetable)
    timetable.validate()
    return timetable


def _starts(timetable: Any) -> list[datetime]:
    """The start times of the first runs."""
    starts: list[datetime] = []
    interval = None
    for _ in range(_RUNS):
        restriction = TimeRestriction(earliest=timezone.coerce_datetime(_START), latest=None, catchup=True)
        found = timetable.next_dagrun_info(last_automated_data_interval=interval, restriction=restriction)
        if found is None:
            break
        starts.append(found.run_after)
        interval = found.data_interval
    return starts


def _digest(mark: str) -> bytes:
    """A short key for a mark, which may have half a megabyte."""
    return hashlib.sha256(mark.encode(errors="surrogatepass")).digest()


@cached(LRUCache(_KEPT), key=_digest, lock=threading.Lock())
def _error(mark: str) -> str:
    """Airflow's error for a DAG created from ``mark``; empty if there is none."""
    return cut(_trial_error(mark), LONGEST_ERROR)


def _trial_error(mark: str) -> str:
    try:
        dag = StoredConnectorDag(_TRIAL, mark, file=__file__, is_paused=False)
        dag.validate()
        DagSerialization.to_dict(dag)
    except Exception as error:  # any error would keep the file's other DAGs from being created
        return f"{type(error).__name__}: {error}"
    return ""
