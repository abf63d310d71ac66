"""Asset events of runs that stay: their content, how often they come, and what a restart or a missing run changes."""

from typing import Any, cast

import pytest
from airflow.models.asset import AssetAliasModel, AssetDagRunQueue, AssetEvent, AssetModel, DagScheduleAssetUriReference
from airflow.models.dag import DagModel
from sqlalchemy import select

from airflow_provider_connect.api_server.delivery_events import DeliveryEvents
from airflow_provider_connect.operators.run_report import emit_asset_events
from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.model.run import RunResult, RunState, TaskResult
from airflow_provider_connect.runtime.sql_mirror.delivery_rows import Deliveries
from tests.unit.airflow.staying_runs import START, StayingRuns

SINK = {"connector.class": "FileStreamSink", "topics": "t", "airflow.schedule": "@continuous"}
ASSET = "kafka://k:9092/t?group=connect-orders"


class World(StayingRuns):
    """With the part of the API server that emits events; ``reported`` is what lineage gets of it."""

    def __init__(self) -> None:
        super().__init__()
        self.reported = list[Deliveries]()
        self.restart()

    def restart(self) -> None:
        self.events = DeliveryEvents(self, self.sessions, "k:9092,l:9092", report=self.reported.append, now=lambda: self.clock)

    def tick(self, seconds: float) -> list[Any]:
        """The new events after a tick at this time; Any: rows of Airflow's table."""
        self.clock = START + seconds
        with self.sessions() as session:
            known = set(session.scalars(select(AssetEvent.id)))
        self.events.tick()
        with self.sessions() as session:
            session.expire_on_commit = False
            return [event for event in session.scalars(select(AssetEvent).order_by(AssetEvent.id)) if event.id not in known]

    def ranges(self, seconds: float) -> list[Any]:
        return [event.extra["ranges"] for event in self.tick(seconds)]


@pytest.fixture
def world() -> World:
    return World()


def test_an_event_of_a_run_that_stays_is_as_the_event_of_one_that_ends(world: World) -> None:
    world.add("orders", SINK)
    world.run("orders", "r1", "running")
    with world.sessions() as session:
        session.add(DagModel(dag_id="consumer", bundle_name="b", fileloc="f", is_paused=False, is_stale=False))
        session.flush()
        session.add(DagScheduleAssetUriReference(uri=ASSET, dag_id="consumer"))
    world.deliver("orders", 0, 5, run="r1")
    (event,) = world.tick(0)
    assert (event.source_dag_id, event.source_task_id, event.source_run_id, event.source_map_index) == ("connect.orders", "run", "r1", -1)
    assert event.extra == {"connector": "orders", "ranges": {"0": [[0, 5]]}} == of_a_run_that_ends(world)
    with world.sessions() as session:
        assert session.scalars(select(AssetModel.uri)).all() == [ASSET]
        assert session.scalars(select(AssetAliasModel.name)).all() == ["connect.orders"]
        assert session.scalars(select(AssetDagRunQueue.target_dag_id)).all() == ["consumer"]
    assert [(found.connector, found.ranges) for found in world.reported] == [("orders", {"t": {"0": [[0, 5]]}})]


def of_a_run_that_ends(world: World) -> Any:
    """The event's content that the operator gives to Airflow; a task whose ranges are logged has none."""
    from airflow.sdk import AssetAlias
    from airflow.sdk.execution_time.context import OutletEventAccessors

    class Task:
        dag_id, outlets = dag_id_for("orders"), (AssetAlias(dag_id_for("orders")),)

    events = OutletEventAccessors()
    tasks = [TaskResult(0, ranges={"t": {"0": [0, 5]}}), TaskResult(1, ranges={"u": {"0": [0, 5]}}, is_logged=True)]
    context = {"ti": Task, "task": Task, "outlet_events": events}
    emit_asset_events(context, "k:9092", RunResult("orders", RunState.DONE, tasks=tasks), group="connect-orders")
    (found,) = cast("Any", events[AssetAlias(dag_id_for("orders"))]).asset_alias_events
    assert found.dest_asset_key.uri == ASSET
    return found.extra


def test_an_event_comes_once_in_an_interval_and_only_with_new_ranges(world: World) -> None:
    world.add("orders", {**SINK, "airflow.asset.interval": "30s"})
    world.run("orders", "r1", "running")
    world.deliver("orders", 0, 5, run="r1")
    assert world.ranges(0) == [{"0": [[0, 5]]}]
    assert world.ranges(60) == []
    world.deliver("orders", 0, 6, run="r1")
    assert world.ranges(61) == [{"0": [[5, 6]]}]
    world.deliver("orders", 0, 7, run="r1")
    world.deliver("orders", 0, 9, run="r1")
    assert world.ranges(90) == []
    world.restart()
    assert world.ranges(90.5) == []
    assert world.ranges(91) == [{"0": [[6, 9]]}]
    world.restart()
    assert world.ranges(200) == []


def test_a_member_of_a_shared_application_has_events_of_its_own_run(world: World) -> None:
    """The application may deliver before the connector's own run has begun."""
    world.add("orders", {**SINK, "airflow.application": "crm"})
    world.deliver("orders", 0, 5, run="connect-application.crm/r7")
    assert world.tick(0) == []
    world.run("orders", "r1", "deferred")
    world.run("orders", "r2", "deferred")
    (event,) = world.tick(10)
    assert (event.source_dag_id, event.source_run_id, event.extra["ranges"]) == ("connect.orders", "r2", {"0": [[0, 5]]})


def test_a_deleted_connector_has_no_event_and_hinders_no_other(world: World) -> None:
    world.add("orders", SINK)
    world.run("orders", "r1", "running")
    world.deliver("gone", 0, 5, run="r1")
    world.deliver("orders", 0, 5, run="r1")
    assert [event.extra["connector"] for event in world.tick(0)] == ["orders"]
    assert world.tick(100) == []
