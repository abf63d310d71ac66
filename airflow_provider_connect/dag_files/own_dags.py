"""Creates the DAGs of a file that ``ConnectorsBundle`` writes: all of them in the dag-processor, and in a task only its own."""

import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from airflow.sdk import get_parsing_context

START = datetime(2024, 1, 1, tzinfo=UTC)  # any fixed day in the past, because a DAG must be the same each time its file is parsed

_log = logging.getLogger(__name__)


def create_dags(kind: str, names: Iterable[str], dag_id_of: Callable[[str], str], create: Callable[[str], object]) -> None:
    """Call ``create`` for each of ``names`` whose DAG is wanted. If a DAG cannot be created, only that DAG is left out. ``kind`` is what
    the names are names of, for the log."""
    wanted = get_parsing_context().dag_id
    for name in names:
        if wanted is None or dag_id_of(name) == wanted:
            try:
                create(name)
            except Exception:  # any error: the other DAGs of the file still run
                _log.exception("%s %s: no DAG can be made of it, so it does not run", kind, name)
