"""Requests for replays of dead-letter records, and the progress of the last replay. Fields are named as in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_connect.runtime.model.previews import Preview
from airflow_provider_connect.runtime.model.view_json import OMITTED

Edits = Mapping[str, Mapping[str, str | None]]
"""The new ``key``, the new ``value``, or both, by ``PARTITION:OFFSET``. None is null."""


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """The records of a sink's queue to replay, and the changes to these records. An empty condition matches every record.

    ``offsets`` are entries such as ``0:5-20``, ``PARTITION:RANGE``. ``from_topics`` are the topics on which records failed. ``exceptions``
    are class names, either in full or only the last part. ``topic`` is the destination. None: each record's original topic. ``transforms``
    are settings such as ``transforms`` and ``transforms.a.type``, with ``predicates`` if the transformations use predicates. ``replay``
    identifies the request: a repeated request is the same replay. None: each request is a new replay.
    """

    offsets: Sequence[str] = ()
    from_topics: Sequence[str] = ()
    exceptions: Sequence[str] = ()
    topic: str | None = None
    edits: Edits = field(default_factory=dict)
    transforms: Mapping[str, str] = field(default_factory=dict)
    replay: str | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """The last replay of a sink's dead-letter records. With ``preview``, a dry run.

    ``connector`` is the connector that replays. ``queue`` is the topic that it reads. ``until`` has the topic's ends by partition.
    ``records`` is the number of records written so far. ``is_done``: everything was read. ``state`` is the worst state of the connector and
    its task. None: not known yet. If the state is FAILED, ``failure`` is the first line of the trace.
    """

    connector: str
    replay: str
    queue: str
    until: Sequence[str]
    records: int
    is_done: bool
    state: str | None
    failure: str | None = None
    preview: Preview | None = field(default=None, metadata=OMITTED)


def replay_connector(sink: str) -> str:
    """The name of the connector that replays the dead-letter records of ``sink``."""
    return f"{sink}-replay"
