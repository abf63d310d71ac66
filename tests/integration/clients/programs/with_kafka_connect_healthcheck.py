"""kafka-connect-healthcheck: set to watch one connector run, then fail, then run again. It only reads; the changes are made beside it."""

import requests
from kafka_connect_healthcheck.health import Health
from life import config, file, name, until, url

health = Health(url, None, ["FAILED"], "", 0, ["connector", "task"])


def failures():
    result = health.get_health_result()
    assert "error" not in result, result
    found = [one for one in result["failures"] if one["connector"] == name]
    assert result["healthy"] is (not result["failures"])
    return [(one["type"], one["state"], bool(one.get("trace"))) for one in found]


def ask(method, path, **arguments):
    requests.request(method, f"{url}/connectors{path}", **arguments).raise_for_status()


def put(config):
    ask("PUT", f"/{name}/config", json=config)


ask("POST", "/", json={"name": name, "config": config})  # with the slash that some of its kind write
until(lambda: requests.get(f"{url}/connectors/{name}/status").json()["tasks"] != [], True)
until(failures, [])
BYTES = {"value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"}
put({**config, **BYTES})  # and lines are text
with open(file, "a") as opened:
    opened.write("three\n")
until(failures, [("task", "FAILED", True)])
ask("POST", f"/{name}/restart", params={"includeTasks": "True", "onlyFailed": "True"}, data='""')
put(config)
until(failures, [])
ask("DELETE", f"/{name}/")
assert name not in health.get_connector_names()
