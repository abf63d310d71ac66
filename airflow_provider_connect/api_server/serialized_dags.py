"""Serialized DAGs in Airflow's database: attributes in the JSON of a connector DAG's tasks. Also requests to parse a file soon.

Internals of Airflow 3.3.2: ``DagVersion``; ``SerializedDagModel``, and of its JSON ``dag``, ``tasks``, ``__var``, ``relative_fileloc`` and
``fileloc``; ``DagPriorityParsingRequest``, its arguments, and how its id is computed. The dag-processor ignores a request for a file that
does not exist. For the API server only: tasks and DAG files may not use the database.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from airflow.models.dag_version import DagVersion
from airflow.models.dagbag import DagPriorityParsingRequest
from airflow.models.serialized_dag import SerializedDagModel
from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from airflow_provider_connect.operators.definition import ATTRIBUTE, CONNECTOR, MARK, stored_config
from airflow_provider_connect.runtime.model.ids import connector_for, dag_id_for, is_shortened

_IN_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Definition:
    """A connector's config in a DAG file, in the form of the config topic, and the file relative to its bundle. ``version`` is the bundle's
    version when the file was parsed, such as a commit. None: bundles of this kind have no versions."""

    config: dict[str, str]
    file: str
    version: str | None


def definition(session: Session, dag_id: str) -> Definition | None:
    """The definition in the newest version of a DAG. None: its connector is defined elsewhere."""
    row = next(_rows(session, [dag_id]), None)
    text = None if row is None else _attribute(row, ATTRIBUTE)
    connector = _connector(row) if text else None
    if row is None or text is None or connector is None:
        return None
    file = str(row.data["dag"].get("relative_fileloc") or row.data["dag"]["fileloc"])
    version = session.scalar(select(DagVersion.bundle_version).where(DagVersion.id == row.dag_version_id))
    return Definition(stored_config(connector, json.loads(text), file), file, version)


def marks(session: Session, dag_ids: Iterable[str]) -> dict[str, str]:
    """The marks (``StoredConnectorDag``) in the newest versions of the DAGs; ``""`` for a DAG without a mark."""
    return {row.dag_id: _attribute(row, MARK) or "" for row in _rows(session, dag_ids)}


def connector_names(session: Session, dag_ids: Iterable[str]) -> dict[str, str]:
    """The connectors of the DAGs, by DAG id. Other DAGs are left out. If an id is shortened, the name is read from the DAG's tasks."""
    ordered = list(dag_ids)
    carried = {row.dag_id: _connector(row) for row in _rows(session, filter(is_shortened, ordered))}
    return {dag_id: name for dag_id in ordered if (name := carried.get(dag_id) or connector_for(dag_id)) is not None}


def versions(session: Session, dag_ids: Iterable[str]) -> dict[str, str]:
    """The hash of each DAG's newest version."""
    found: dict[str, str] = {}
    for part in _parts(dag_ids):
        newest = _newest(part)
        rows = session.execute(select(newest.c.dag_id, SerializedDagModel.dag_hash).join(newest, newest.c.id == SerializedDagModel.id))
        found |= {str(dag_id): str(dag_hash) for dag_id, dag_hash in rows}
    return found


def _rows(session: Session, dag_ids: Iterable[str]) -> Iterator[SerializedDagModel]:
    """The newest version of each DAG."""
    for part in _parts(dag_ids):
        newest = _newest(part)
        yield from session.scalars(select(SerializedDagModel).join(newest, newest.c.id == SerializedDagModel.id))


def _newest(dag_ids: list[str]) -> Any:  # a subquery
    """The id of each DAG's newest version: the largest, because UUIDs of version 7 increase with time."""
    latest = func.row_number().over(partition_by=SerializedDagModel.dag_id, order_by=SerializedDagModel.id.desc())
    ranked = select(SerializedDagModel.dag_id, SerializedDagModel.id, latest.label("age")).where(SerializedDagModel.dag_id.in_(dag_ids))
    found = ranked.subquery()
    return select(found.c.dag_id, found.c.id).where(found.c.age == 1).subquery()


def _attribute(row: SerializedDagModel, attribute: str) -> str | None:
    """The value of the attribute in the first task that has it."""
    return next((text for task in row.data["dag"]["tasks"] if isinstance(text := task["__var"].get(attribute), str) and text), None)


def _connector(row: SerializedDagModel) -> str | None:
    names = (task["__var"].get(CONNECTOR) for task in row.data["dag"]["tasks"])
    return next((name for name in names if isinstance(name, str) and dag_id_for(name) == row.dag_id), connector_for(row.dag_id))


def in_parts(session: Session, statement: Any, column: Any, names: Iterable[str]) -> Iterator[Any]:
    """The rows of ``statement`` whose ``column`` is one of ``names``, queried in chunks that a database accepts."""
    for part in _parts(names):
        yield from session.scalars(statement.where(column.in_(part)))


def rows_in_parts(session: Session, statement: Any, column: Any, names: Iterable[str]) -> Iterator[Any]:
    """Like ``in_parts``, with all columns of the statement."""
    for part in _parts(names):
        yield from session.execute(statement.where(column.in_(part)))


def _parts(names: Iterable[str]) -> Iterator[list[str]]:
    ordered = sorted(names)
    return (ordered[at : at + _IN_LIMIT] for at in range(0, len(ordered), _IN_LIMIT))


def request_parse(session: Session, bundle: str, file: str) -> None:
    """Request that the dag-processor refresh the bundle and parse the file next. Until then, repeated requests have no effect."""
    request = hashlib.md5(f"{bundle}:{file}".encode(), usedforsecurity=False).hexdigest()  # Airflow's id
    if session.get(DagPriorityParsingRequest, request) is not None:
        return
    try:
        with session.begin_nested():
            session.add(DagPriorityParsingRequest(bundle, file))
    except IntegrityError:  # another process has just requested it
        return
