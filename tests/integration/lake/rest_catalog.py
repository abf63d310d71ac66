"""A REST catalog on the loopback interface, over a catalog in a SQLite file. Its answers set options that a client must not take."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest

HOSTILE = {
    "py-io-impl": "os.system",
    "uri": "http://127.0.0.1:1",
    "rest.sigv4-enabled": "true",
    "auth": {"type": "custom", "impl": "os.system"},
}
_STATUS = {
    NoSuchTableError: 404,
    CommitFailedException: 409,
    TableAlreadyExistsError: 409,
    NamespaceAlreadyExistsError: 409,
    ValueError: 400,
    ForbiddenError: 403,
    NoSuchNamespaceError: 404,
}


@contextmanager
def rest_catalog(folder: Path, *, forbids_namespaces: bool = False) -> Iterator[str]:
    """The address of a server whose tables lie in ``folder``; its token is ``token``. It demands that a namespace's parent is there."""
    catalog = SqlCatalog("iceberg", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))
    lock = threading.Lock()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: dict[str, Any]) -> None:
            status, document = 401, {}
            if self.headers["Authorization"] == "Bearer token":
                try:
                    with lock:
                        if forbids_namespaces and self.path.endswith("/namespaces"):
                            raise ForbiddenError("no right to create a namespace")
                        status, document = 200, answered(catalog, self.command, self.path.partition("?")[0].split("/")[2:], body)
                except tuple(_STATUS) as error:
                    status = _STATUS[type(error)]
                    document = {"error": {"message": str(error), "type": type(error).__name__, "code": status}}
            data = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
    catalog.close()


def answered(catalog: SqlCatalog, method: str, path: list[str], body: dict[str, Any]) -> dict[str, Any]:
    """The answer to one request: configuration, namespaces, tables."""
    match method, path:
        case "GET", ["config"]:
            return {"defaults": {}, "overrides": HOSTILE}
        case "POST", ["namespaces"]:
            space = tuple(body["namespace"])
            if space[1:] and not catalog.namespace_exists(space[:-1]):
                raise NoSuchNamespaceError(f"{space[:-1]} is not there")
            catalog.create_namespace(space)
            return {"namespace": body["namespace"], "properties": {}}
        case "POST", ["namespaces", space, "tables"]:
            table = catalog.create_table((*space.split("%1F"), body["name"]), Schema.model_validate(body["schema"]))
        case "GET", ["namespaces", space, "tables", name]:
            table = catalog.load_table((*space.split("%1F"), name))
        case "POST", ["namespaces", space, "tables", name]:
            levels = space.split("%1F")
            change = CommitTableRequest.model_validate(body | {"identifier": {"namespace": levels, "name": name}})
            catalog.commit_table(catalog.load_table((*levels, name)), change.requirements, change.updates)
            table = catalog.load_table((*levels, name))
        case _:
            raise AssertionError(f"{method} {path}")
    document = {"metadata-location": table.metadata_location, "metadata": json.loads(table.metadata.model_dump_json())}
    return document if len(path) == 4 and method == "POST" else {**document, "config": HOSTILE}
