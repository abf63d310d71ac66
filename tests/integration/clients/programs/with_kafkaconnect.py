"""kafkaconnect: made by PUT to its config, errors known by their status codes, every body that is there is JSON."""

import json

from kafkaconnect.connect import Connect
from life import CLASS, check_info, config, name, named, states, topic, until, url

connect = Connect(url)


def status():
    return states(json.loads(connect.status(name)))


def parsed(text):
    return json.loads(text)


assert name not in parsed(connect.list())
assert connect.info(name) == f"Resource {url}/connectors/{name} not found."
assert CLASS in {plugin["class"] for plugin in parsed(connect.plugins())}
wrong = parsed(connect.validate_and_create(name, json.dumps({**named, "tasks.max": "0"})))
assert wrong["error_count"] == 1
assert [one["value"]["errors"] for one in wrong["configs"] if one["value"]["name"] == "tasks.max"] != [[]]

check_info(parsed(connect.validate_and_create(name, json.dumps(named))))
until(status, ["RUNNING", "RUNNING"])
check_info(parsed(connect.info(name)))
assert parsed(connect.config(name)) == {**config, "name": name}
assert parsed(connect.tasks(name))[0]["id"] == {"connector": name, "task": 0}
until(lambda: parsed(connect.topics(name)), {name: {"topics": [topic]}})
assert connect.pause(name) == ""
until(status, ["PAUSED", "PAUSED"])
assert connect.resume(name) == ""
until(status, ["RUNNING", "RUNNING"])
assert connect.restart(name) == ""
until(status, ["RUNNING", "RUNNING"])
assert connect.remove(name) == ""
assert name not in parsed(connect.list())
