"""The oracle of control: config topic, statuses, offsets, mirror, REST and DAGs compared with one another, and with what users want."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

import httpx
from sqlalchemy import Connection, Engine, Table, select
from sqlalchemy.exc import SQLAlchemyError

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.ids import DAG_ID_PREFIX, dag_id_for
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import StatusState
from airflow_provider_connect.runtime.sql_mirror import tables
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.offset_store import OffsetStore
from airflow_provider_connect.runtime.stores.status_store import StatusStore
from tests.waiting import wait_until

REACHED = {TargetState.STARTED: State.RUNNING, TargetState.PAUSED: State.PAUSED, TargetState.STOPPED: State.STOPPED}
PAGE = 100
NOT_SHOWN = "airflow."  # what only steers the DAG is no part of the config that clients see


class Server(Protocol):
    """An API server, logged in to."""

    @property
    def client(self) -> httpx.Client: ...


@dataclass(slots=True)
class Oracle:
    """``servers`` must all agree; ``sources`` are the connectors whose offsets are compared. ``has_dags``: a dag-processor runs."""

    settings: WorkerSettings
    engine: Engine
    servers: Sequence[Server]
    has_dags: bool = True
    sources: Collection[str] = ()

    def wait_for_agreement(self) -> float:
        """Seconds until nothing differs. Raises AssertionError with what still differs after the time."""
        started = time.monotonic()
        with ExitStack() as stack:
            configs, statuses = stack.enter_context(ConfigStore(self.settings)), stack.enter_context(StatusStore(self.settings))
            offsets = stack.enter_context(OffsetStore(self.settings))
            differences: list[str] = []

            def is_agreed() -> bool:
                differences[:] = self._differences(configs, statuses, offsets)
                return not differences

            wait_until(is_agreed, lambda: f"agreement: {'; '.join(differences)}")
        return time.monotonic() - started

    def _differences(self, configs: ConfigStore, statuses: StatusStore, offsets: OffsetStore) -> list[str]:
        try:
            state, reported = configs.read(), statuses.read()
            found = {name: _pairs(offsets.read(name).pairs()) for name in self.sources if name in state}
            differences = _half_done(state, reported)
            with self.engine.connect() as connection:
                differences += _mirror(connection, state, reported, found)
            for server in self.servers:
                differences += _rest(server.client, state, reported, found)
            return differences + (_dags(self.servers[0].client, state) if self.has_dags else [])
        except (httpx.HTTPError, SQLAlchemyError, ConnectException) as error:
            return [f"{type(error).__name__}: {error}"]


def _pairs(pairs: Sequence[tuple[object, object]]) -> list[str]:
    return sorted(json.dumps(pair, sort_keys=True) for pair in pairs)


def _differ(what: str, one: object, other: object) -> list[str]:
    return [] if one == other else [f"{what}: {one} and {other}"]


def _without_tasks(state: ClusterConfigState) -> set[str]:
    """Connectors whose tasks are known only to readers that were there before compaction: their config was changed while they did not
    run, so that it lies behind the commit record of their tasks."""
    return {
        name for name in state.connectors() if name not in state.applied_configs and state.target_state(name) is not TargetState.STARTED
    }


def _half_done(state: ClusterConfigState, reported: StatusState) -> list[str]:
    """Statuses that are not those of the target states, tasks that are not those committed, and what is left of deleted connectors."""
    differences = [f"{name} is deleted, but has statuses" for name in sorted(reported.names() - set(state.connector_configs))]
    differences += [f"{name} is inconsistent" for name in sorted(state.inconsistent)]
    unknown = _without_tasks(state)
    for name in state.connectors():
        target = state.target_state(name) or TargetState.STARTED
        status = reported.connector(name)
        differences += _differ(f"{name}, target and status", REACHED[target], None if status is None else status.state)
        if name not in unknown:
            differences += _differ(f"{name}, tasks and statuses", state.tasks(name), list(reported.task_map(name)))
        for task in reported.tasks_of(name):
            if task.state is not REACHED[target]:
                differences.append(f"{name}-{task.task} is {task.state} ({(task.trace or 'no trace').strip()[-200:]})")
        if target is TargetState.STOPPED:
            differences += _differ(f"{name} is STOPPED, tasks", [], state.tasks(name))
    return differences


def _mirror(connection: Connection, state: ClusterConfigState, reported: StatusState, offsets: Mapping[str, list[str]]) -> list[str]:
    def rows(table: Table, key: Callable[[Any], object], value: Callable[[Any], object]) -> dict[object, object]:
        return {key(row): value(row) for row in connection.execute(select(table))}

    configs = rows(tables.connector_config, lambda row: row.connector, lambda row: json.loads(row.config))
    differences = _differ("configs on topic and in mirror", state.connector_configs, configs)
    targets = rows(tables.target_state, lambda row: row.connector, lambda row: row.state)
    differences += _differ("target states on topic and in mirror", {name: str(its) for name, its in state.target_states.items()}, targets)
    counts = rows(tables.task_set, lambda row: row.connector, lambda row: row.tasks)
    compared = set(state.connectors()) - _without_tasks(state)
    known = {name: count for name, count in state.task_counts.items() if name in compared}
    of_rows = {name: count for name, count in counts.items() if name in compared}
    differences += _differ("numbers of tasks on topic and in mirror", known, of_rows)
    found = rows(tables.connector_status, lambda row: row.connector, lambda row: row.state)
    differences += _differ("statuses on topic and in mirror", {name: str(its.state) for name, its in reported.connectors.items()}, found)
    tasks = rows(tables.task_status, lambda row: (row.connector, row.task), lambda row: row.state)
    differences += _differ("task statuses on topic and in mirror", {(*id,): str(its.state) for id, its in reported.tasks.items()}, tasks)
    for name, pairs in offsets.items():
        mirrored = select(tables.source_offset).where(tables.source_offset.c.connector == name)
        there = _pairs([(json.loads(row.source_partition), json.loads(row.source_offset)) for row in connection.execute(mirrored)])
        differences += _differ(f"{name}, offsets on topic and in mirror", pairs, there)
    return differences


def _rest(client: httpx.Client, state: ClusterConfigState, reported: StatusState, offsets: Mapping[str, list[str]]) -> list[str]:
    listed = client.get("/connect/connectors").raise_for_status().json()
    differences = _differ("connectors on topic and over REST", sorted(state.connectors()), sorted(listed))
    expanded = client.get("/connect/connectors?expand=info&expand=status").raise_for_status().json()
    unknown = _without_tasks(state)
    for name, its in expanded.items():
        raw = state.connector_config(name) or {}
        shown = {key: value for key, value in raw.items() if not key.startswith(NOT_SHOWN)}
        differences += _differ(f"{name}, config on topic and over REST", shown, its["info"]["config"])
        if name not in unknown:
            require_task_list = [task["task"] for task in its["info"]["tasks"]]
            differences += _differ(f"{name}, tasks on topic and over REST", state.tasks(name), require_task_list)
        status = reported.connector(name)
        topic = (None if status is None else str(status.state), [(task.task, str(task.state)) for task in reported.tasks_of(name)])
        rest = (its["status"]["connector"]["state"], [(task["id"], task["state"]) for task in its["status"]["tasks"]])
        differences += _differ(f"{name}, status on topic and over REST", topic, rest)
    for name, pairs in offsets.items():
        answered = client.get(f"/connect/connectors/{name}/offsets").raise_for_status().json()["offsets"]
        there = _pairs([(offset["partition"], offset["offset"]) for offset in answered])
        differences += _differ(f"{name}, offsets on topic and over REST", pairs, there)
    return differences


def _dags(client: httpx.Client, state: ClusterConfigState) -> list[str]:
    """Every connector has its DAG, whose flag agrees with its target state, and no deleted one has."""
    wanted = {dag_id_for(name): state.target_state(name) is not TargetState.STARTED for name in state.connectors()}
    found: dict[str, bool] = {}
    passed = 0  # not those found: one that came in between moves the others on
    while page := _page(client, passed):
        passed += len(page)
        found |= {dag["dag_id"]: dag["is_paused"] for dag in page}
    return _differ("DAGs and whether they are to be paused", wanted, found)


def _page(client: httpx.Client, offset: int) -> list[dict[str, Any]]:
    listed = client.get("/api/v2/dags", params={"limit": PAGE, "offset": offset, "dag_id_pattern": f"{DAG_ID_PREFIX}%"})
    return list(listed.raise_for_status().json()["dags"])
