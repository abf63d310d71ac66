"""Replays of dead-letter records: what is asked for, and how far the last one is. Fields are as in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_connect.runtime.model.previews import Preview
from airflow_provider_connect.runtime.model.view_json import OMITTED

Edits = Mapping[str, Mapping[str, str | None]]
"""By ``PARTITION:OFFSET`` the new ``key``, the new ``value``, or both; None is a null."""


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Which records of a sink's queue, and what is done to them. Empty conditions are met by every record.

    ``offsets`` are entries such as ``0:5-20``, ``PARTITION:RANGE``; ``from_topics`` where records failed; ``exceptions`` class names, whole
    or their last part. ``topic``: where the records go; None: each back to the topic on which it failed. ``transforms`` are settings such
    as ``transforms`` and ``transforms.a.type``, with ``predicates`` where they name some. ``replay`` identifies the request: the same
    one twice is one replay; None: each is another.
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
    """The last replay of a sink's dead-letter records, or with ``preview`` what one would write.

    ``connector`` is the connector whose runs do it; ``queue`` the topic that it reads, ``until`` its ends by partition. ``records`` were
    written so far. ``is_done``: all was read. ``state`` is the worst of the connector and its task, None: none is known yet; ``failure``
    the first line of the trace where that is FAILED.
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
