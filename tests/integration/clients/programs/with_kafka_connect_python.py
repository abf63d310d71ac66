"""kafka-connect-python: a host and a port and no path, so it speaks to a server at the root; it knows no users, but urllib does."""

import base64
import collections
import collections.abc
import urllib.request
from urllib.parse import urlsplit

collections.MutableMapping = collections.abc.MutableMapping  # where Python 3.9 and older had it

from kafka_connect import KafkaConnect, NotFoundError  # noqa: E402
from life import check_info, config, login, name, refused, until, url  # noqa: E402

if login is not None:
    opener = urllib.request.build_opener()
    opener.addheaders.append(("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}"))
    urllib.request.install_opener(opener)

client = KafkaConnect(host=urlsplit(url).hostname, port=urlsplit(url).port)
api = client.api


def status():
    found = api.get(f"/connectors/{name}/status")
    return [found["connector"]["state"], *(task["state"] for task in found["tasks"])]


assert api.version
assert api.kafka_cluster_id
assert "FileStreamSourceConnector" in {str(plugin).rpartition(".")[2] for plugin in client.plugins}
assert name not in api.get("/connectors")
refused(lambda: api.get(f"/connectors/{name}"), NotFoundError)
client.connectors[name] = dict(config)
check_info(api.get(f"/connectors/{name}"))
until(status, ["RUNNING", "RUNNING"])
connector = client.connectors[name]
assert dict(connector.config.items()) == {**config, "name": name}
connector.pause()
until(status, ["PAUSED", "PAUSED"])
connector.resume()
until(status, ["RUNNING", "RUNNING"])
connector.restart()
until(lambda: [task.id for task in connector.tasks], [0])
until(lambda: connector.tasks[0].status.state, "RUNNING")
connector.config["batch.size"] = "7"
until(lambda: connector.config["batch.size"], "7")
del client.connectors[name]
assert name not in api.get("/connectors")
