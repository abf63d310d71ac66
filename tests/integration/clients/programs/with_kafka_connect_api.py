"""kafka-connect-api: a slash at the end of a connector's address, a JSON Content-Type without a body, log levels."""

from kafka_connect_api.errors import GenericNotFound
from kafka_connect_api.kafka_connect_api import Api, Cluster, Connector
from life import config, login, name, refused, states, until, url

user, password = login.split(":") if login else (None, None)
cluster = Cluster(Api(url=url, username=user, password=password))
connector = Connector(cluster, name)


def status():
    return states(connector.status)


assert cluster.version
assert cluster.kafka_cluster
assert name not in cluster.connectors
assert refused(connector.exists, GenericNotFound).details[0] == {"error_code": 404, "message": f"Connector {name} not found"}

assert cluster.api.post("/connectors", json={"name": name, "config": config})["name"] == name
assert connector.exists()
assert name in cluster.connectors
until(status, ["RUNNING", "RUNNING"])
assert connector.config == {**config, "name": name}
connector.config = {**config, "batch.size": 7}
assert connector.config["batch.size"] == "7"
until(status, ["RUNNING", "RUNNING"])

connector.pause()
until(status, ["PAUSED", "PAUSED"])
assert not connector.tasks[0].is_running()
connector.resume()
until(status, ["RUNNING", "RUNNING"])
connector.restart()
connector.restart_all_tasks()
until(status, ["RUNNING", "RUNNING"])
connector.cycle_connector()
until(status, ["RUNNING", "RUNNING"])

level = cluster.root_logger["level"]
cluster.root_logger = "WARN"
assert cluster.root_logger["level"] == "WARN"
cluster.root_logger = level

connector.delete()
assert name not in cluster.connectors
