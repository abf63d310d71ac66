"""A whole product for one profile: broker, Airflow and runs, as ``make up WORKER=FILE`` brings it up."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_provider_connect.dev.stack import Stack
from tests.contract.rest.profiles import versions, worker_settings
from tests.contract.rest.server import Server


@contextmanager
def product(profile: str, folder: Path, cache: Path) -> Iterator[Server]:
    """Its API in the API server, for an administrator by Basic auth. Everything lies in ``folder``, which is kept."""
    files = folder / "data"
    files.mkdir(parents=True)
    worker = folder / "given.properties"
    settings = worker_settings(profile, folder) | {"airflow.engine": "spark"}
    worker.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    with Stack(folder / "stack", cache=cache, worker=worker, notify=lambda _: None) as stack:
        state = stack.state() or {}
        credentials = base64.b64encode(f"{state['username']}:{state['password']}".encode()).decode()
        yield Server(
            str(state["rest_url"]),
            str(state["bootstrap_servers"]),
            files,
            headers={"Authorization": f"Basic {credentials}"},
            versions=versions(profile),
        )
