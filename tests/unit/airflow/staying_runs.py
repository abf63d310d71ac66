"""The tables of Airflow and of the mirror in memory, with connectors, their runs, and entries of the batch log."""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from typing import Any, cast

from airflow.models import import_all_models
from airflow.models.base import Base
from airflow.models.dagrun import DagRun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.serialization.serialized_objects import LazyDeserializedDAG
from sqlalchemy import create_engine, insert, update
from sqlalchemy.orm import Session

from airflow_provider_connect.dag_files.connector_dag import StoredConnectorDag
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.config.dag_settings import dag_keys
from airflow_provider_connect.runtime.model.batches import BatchRecord, ConnectorType, Stay
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId, dag_id_for
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.sql_mirror.offset_rows import take_batches
from airflow_provider_connect.runtime.sql_mirror.tables import metadata
from airflow_provider_connect.runtime.stores.state_stream import StateRecord

START = 1_800_000_000.0
CLAIM = Claim(5, "id")
_offsets = count()


class StayingRuns:
    """Any, in casts: Airflow is not typed for us."""

    def __init__(self) -> None:
        self.state, self.clock = ClusterConfigState(), START
        import_all_models()  # a table can only be created with those that it refers to
        self.engine = create_engine("sqlite://")
        cast("Any", Base).metadata.create_all(self.engine)
        metadata.create_all(self.engine)

    @contextmanager
    def sessions(self) -> Iterator[Session]:
        with Session(self.engine) as session:
            yield session
            session.commit()

    def config_state(self) -> ClusterConfigState:
        return self.state

    def add(self, name: str, config: dict[str, str]) -> None:
        """A connector and its serialized DAG."""
        self.state.connector_configs[name] = {"name": name, **config}
        dag = LazyDeserializedDAG.from_dag(StoredConnectorDag(name, json.dumps(dag_keys(config)), file=__file__, is_paused=False))
        with self.sessions() as session:
            SerializedDagModel.write_dag(dag, bundle_name="connectors", session=session)

    def run(self, name: str, run: str, state: str) -> None:
        """A run whose task has ``state``."""
        at = datetime.fromtimestamp(START, UTC)
        key = {"dag_id": dag_id_for(name), "run_id": run}
        of_task = {"id": uuid.uuid4(), "task_id": "run", "map_index": -1, "try_number": 1, "max_tries": 0, "pool": "p", "pool_slots": 1}
        with self.sessions() as session:
            values = {"state": "running", "run_type": "manual", "run_after": at, "log_template_id": 1, "clear_number": 0}
            session.execute(insert(cast("Any", DagRun.__table__)).values(**key, **values))
            session.execute(insert(cast("Any", TaskInstance.__table__)).values(**key, **of_task, state=state, start_date=at))

    def end(self, name: str, state: str, note: str) -> None:
        """The end of the connector's runs, as ``end_runs`` writes it."""
        with self.sessions() as session:
            ended = {"state": state, "end_date": datetime.now(UTC)}
            session.execute(update(TaskInstance).where(TaskInstance.dag_id == dag_id_for(name)).values(**ended))
            for run in session.query(DagRun).where(DagRun.dag_id == dag_id_for(name)):
                run.note = note

    def deliver(self, name: str, first: int, end: int, *, run: str, topic: str = "t", is_source: bool = False) -> None:
        """An entry of the connector's task, read by the mirror."""
        kind, datasets = ConnectorType.SOURCE if is_source else ConnectorType.SINK, [("file", f"/{name}")]
        ranges = {topic: {0: (first, end)}}
        entry = BatchRecord(ConnectorTaskId(name, 0), run, CLAIM, kind, end - first, 10, ranges=ranges, stay=Stay.OPEN, datasets=datasets)
        offset = next(_offsets)
        with self.sessions() as session:
            take_batches(session, [StateRecord(TopicPartition("batches", 0), offset, int(self.clock * 1000) + offset, entry)])
