"""kafka-connect-cli, by its command line: PUT and POST with the body ``null``, JSON recognized by its Content-Type."""

import contextlib
import io
import json
import sys

from kafka_connect.__main__ import main
from life import check_info, config, name, until, url


def command(*words):
    """What the command prints."""
    sys.argv, printed = ["kafka_connect", *words, "--url", url], io.StringIO()
    with contextlib.redirect_stdout(printed):
        main()
    return printed.getvalue()


def connector(verb, *words):
    return command("connector", verb, "--name", name, *words)


def found():
    """As its list returns it: the worst state among the connector and its tasks."""
    listed = json.loads(command("connector", "list"))
    return {one["connector"]: one["state"] for one in listed}.get(name)


def healthy():
    try:
        command("health-check")
    except SystemExit as ended:
        return ended.code
    return None


assert found() is None
check_info(json.loads(connector("create", "--configuration", json.dumps(config))))
assert json.loads(connector("create", "--configuration", json.dumps(config), "--if-not-exists")) is None
until(found, "RUNNING")
until(healthy, 0)
assert json.loads(connector("get")) == {"connector": name, "state": "RUNNING", "failedTasks": []}
assert json.loads(connector("configuration")) == {**config, "name": name}
assert json.loads(command("task", "list", "--connector", name)) == [{"taskId": 0, "state": "RUNNING", "trace": ""}]
connector("pause")
until(found, "PAUSED")
until(healthy, 0)
connector("resume")
until(found, "RUNNING")
connector("restart")
command("task", "restart", "--connector", name, "--task", "0")
until(found, "RUNNING")
assert json.loads(connector("update", "--configuration", json.dumps({**config, "batch.size": 7})))["config"]["batch.size"] == "7"
until(found, "RUNNING")
connector("delete")
assert found() is None
