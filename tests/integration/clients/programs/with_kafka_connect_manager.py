"""kafka-connect-manager, by its command line: errors known by ``error_code`` in the body, a worker behind every state."""

import json
import os
import re

import httpx
from kafka_connect_manager.cli import app
from life import LIMIT_SECONDS, config, file, name, until, url
from typer.testing import CliRunner

OWN = re.sub("[^A-Za-z0-9]", "", name)  # it takes everything else out of names


def command(*words, ends=0):
    done = CliRunner().invoke(app, ["--host", f"{url}/", *words], env={"COLUMNS": "200"})
    assert done.exit_code == ends, (done.output, done.exception)
    return done.output


def states():
    return re.findall("RUNNING|PAUSED|FAILED|UNASSIGNED|RESTARTING|STOPPED", command("status", "--connector", OWN))


def written(config):
    path = f"{file}.json"
    with open(path, "w") as opened:
        json.dump({"name": name, "config": config}, opened)
    return path


assert OWN not in command("list")
command("add", "-f", written(config))
assert "already exists" in command("add", "-f", written(config), ends=2)
until(states, ["RUNNING", "RUNNING"])
assert re.search(rf"{OWN}.*source.*FileStreamSourceConnector.* 1 ", command("list", "--type", "source"))
for verb, wanted in (("pause", "PAUSED"), ("resume", "RUNNING")):  # verbs that it lacks
    assert httpx.put(f"{url}/connectors/{OWN}/{verb}", timeout=LIMIT_SECONDS).status_code == 202
    until(states, [wanted, wanted])
command("update", OWN, "-f", written({**config, "batch.size": 7}))
assert httpx.get(f"{url}/connectors/{OWN}/config", timeout=LIMIT_SECONDS).json() == {**config, "batch.size": "7", "name": OWN}
until(states, ["RUNNING", "RUNNING"])
os.remove(f"{file}.json")
assert httpx.delete(f"{url}/connectors/{OWN}", timeout=LIMIT_SECONDS).status_code == 204
assert OWN not in command("list")
