"""Requests to the dag-processor to parse a file soon.

Internals of Airflow 3.3.2: ``DagPriorityParsingRequest``, its arguments, and how its id is computed. The dag-processor ignores a request
for a file that does not exist. For the API server only.
"""

import hashlib

from airflow.models.dagbag import DagPriorityParsingRequest
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session


def request_parse(session: Session, bundle: str, file: str) -> None:
    """Have the dag-processor refresh the bundle and parse the file next. Further requests until then change nothing."""
    request = hashlib.md5(f"{bundle}:{file}".encode(), usedforsecurity=False).hexdigest()  # Airflow's id
    if session.get(DagPriorityParsingRequest, request) is not None:
        return
    try:
        with session.begin_nested():
            session.add(DagPriorityParsingRequest(bundle, file))
    except IntegrityError:  # another process has just requested it
        return
