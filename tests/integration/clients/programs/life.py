"""The command line of every program here, and its waits. The standard library only: a client's environment has nothing else.

Arguments: the API's address, a connector's name, a file, a topic, and ``user:password`` where the API asks for it.
"""

import sys
import time

CLASS = "org.apache.kafka.connect.file.FileStreamSourceConnector"

url, name, file, topic = sys.argv[1:5]
login = sys.argv[5] if len(sys.argv) > 5 else None
config = {"connector.class": CLASS, "tasks.max": "1", "file": file, "topic": topic}
named = {**config, "name": name}


LIMIT_SECONDS = 300.0  # tests/waiting.py is not on the path of a client's environment


def until(answer, wanted):
    """Ask until the answer is ``wanted``. A Kafka Connect that has just created a connector has no status of it at first."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while True:
        try:
            found = answer()
        except Exception as error:
            if time.monotonic() > deadline:
                raise
            found = error
        if found == wanted:
            return
        assert time.monotonic() < deadline, f"{found} is not {wanted}"
        time.sleep(0.1)


def refused(act, kind):
    """The error of this kind that ``act`` raises."""
    try:
        act()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def states(status):
    """Of the connector, then of its tasks, from the status as Connect shows it."""
    assert set(status) == {"name", "connector", "tasks", "type"}, status
    assert all(isinstance(value, str) for value in status["connector"].values()), status
    assert status["connector"]["worker_id"], status
    assert all("trace" not in task for task in status["tasks"] if task["state"] != "FAILED"), status
    return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]


def check_info(info):
    """What an answer about the connector holds, and that it holds no more."""
    assert set(info) == {"name", "config", "tasks", "type"}, info
    assert (info["name"], info["config"], info["type"]) == (name, named, "source"), info
