"""kafka-connect-py: actions without a Content-Type, ``?expand=``, ``includeTasks=True``, JSON wherever there is a body."""

from kafka_connect import KafkaConnect
from life import CLASS, check_info, config, login, name, refused, states, topic, until, url
from requests import HTTPError

client = KafkaConnect(url, auth=login)


def status():
    return states(client.get_connector_status(name))


assert set(client.get_cluster_info()) == {"version", "commit", "kafka_cluster_id"}
assert name not in client.list_connectors()
assert CLASS in {plugin["class"] for plugin in client.list_connector_plugins()}
assert client.validate_connector_config("FileStreamSource", config | {"name": name})["error_count"] == 0

check_info(client.create_connector({"name": name, "config": config}))
again = refused(lambda: client.create_connector({"name": name, "config": config}), HTTPError).response
assert (again.status_code, again.headers["Content-Type"]) == (409, "application/json")
assert again.json() == {"error_code": 409, "message": f"Connector {name} already exists"}
until(status, ["RUNNING", "RUNNING"])
check_info(client.get_connector(name))
assert client.get_connector_config(name) == {**config, "name": name}
assert states(client.list_connectors(expand="status", pattern=name)[name]["status"])[0] == "RUNNING"
check_info(client.list_connectors(expand="info")[name]["info"])
assert client.list_connectors(pattern=name, state="running") == [name]

client.pause_connector(name)
until(status, ["PAUSED", "PAUSED"])
client.resume_connector(name)
until(status, ["RUNNING", "RUNNING"])
assert client.restart_connector(name) is None  # includeTasks=False: 204
plan = client.restart_connector(name, include_tasks=True)
assert states(plan) == ["RESTARTING", "RESTARTING"]
until(status, ["RUNNING", "RUNNING"])

(task,) = client.list_connector_tasks(name)
assert task["id"] == {"connector": name, "task": 0}
until(lambda: client.get_connector_task_status(name, 0)["state"], "RUNNING")
client.restart_connector_task(name, 0)
until(status, ["RUNNING", "RUNNING"])
until(lambda: client.list_connector_topics(name), {name: {"topics": [topic]}})
client.reset_connector_topics(name)
assert client.update_connector(name, {**config, "batch.size": 7})["config"]["batch.size"] == "7"
until(status, ["RUNNING", "RUNNING"])

client.delete_connector(name)
assert name not in client.list_connectors()
