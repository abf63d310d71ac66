"""No header of a stranger holds the event loop while Airflow's own access reads it: tokens, passwords and cookies in hostile forms."""

import json
import subprocess
import sys

from tests.conftest import CHECKOUT
from tests.integration.airflow.test_dag_test import home
from tests.waiting import HANG_SECONDS

__all__ = ["home"]  # a fixture

_SCRIPT = """
import base64, json
from fastapi import FastAPI
from airflow_provider_connect.api_server.access import AirflowAccess
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.rest.server import RestListener, RestServer
from tests.contract.rest.test_event_loop import PREFIX, Loop

MOST = 60_000  # more is refused by the server before it is read

def no_herder():
    raise ConnectException("there is none")

def encoded(text):
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")[:MOST]

nested = encoded('{"a":' * 8_000)
numbers = encoded('{"alg":"HS256","exp":' + "9" * 20_000 + "}")
token = encoded('{"alg":"HS512","typ":"JWT"}')
VALUES = {
    "Authorization": [
        "Basic " + "A" * MOST, "Basic " + encoded("a" * 20_000 + ":" + "b" * 20_000),
        "Basic " + encoded(":" * 40_000), "Basic " + "=" * MOST,
        "Bearer " + "a." * (MOST // 2), "Bearer " + "." * MOST, f"Bearer {nested}.e30.e30", f"Bearer {token}.{nested}.AAAA",
        f"Bearer {numbers}.{numbers}.AAAA"[:MOST], f"Bearer {token}.e30." + "A" * 50_000, "Negotiate " + "x " * (MOST // 2), "," * MOST,
    ],
    "Cookie": [
        "_token=" + "a." * 25_000, f"_token={token}.{nested[:40_000]}.AAAA", '_token="' + chr(92) * 50_000 + '"',
        '_token="' + (chr(92) + "042") * 12_000 + '"',
        "a=b;" * 14_000, "_token=" * 8_000, ";" * MOST, "=" * MOST,
    ],
}

loop = Loop()
outer = FastAPI(lifespan=loop.watched)
outer.mount(PREFIX, create_app(herder=no_herder, access=AirflowAccess.standalone(), info=no_herder))
found = []
with RestServer(outer, RestListener(port=0)) as server:
    loop.url = server.url
    assert loop.ask("GET", "/connectors")[0] == 401
    for name, values in VALUES.items():
        for value in values:
            for method in ("GET", "PUT"):
                path = "/connectors" if method == "GET" else "/connectors/x/pause"
                status, answer = loop.ask(method, path, headers={name: value})
                found.append([method, name, value[:20], status, answer[:100].decode(errors="replace")])
print("FOUND", json.dumps(found), flush=True)
"""


def test_no_credentials_hold_the_loop(home: dict[str, str]) -> None:
    command = [sys.executable, "-c", _SCRIPT]
    done = subprocess.run(command, env=home, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=HANG_SECONDS)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")] or [done.stdout + done.stderr[-5000:]]
    found = json.loads(line.removeprefix("FOUND "))
    assert len(found) == 40
    assert [each for each in found if each[3] not in (401, 403, 431)] == []
