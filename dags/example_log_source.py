"""### Requests of a web server to a topic

Every line that is appended to `access.log` becomes a record of the topic `demo-requests`, with the line's fields and time. The lines have
the format `combined` of web servers. Delivery is exactly once, even if the file is rotated and compressed. The environment variable
`CONNECT_DEMO_DIR` names the directory.
"""

import os

from airflow_provider_connect import ConnectorDag

DIRECTORY = os.environ.get("CONNECT_DEMO_DIR", "/tmp/connect-demo")

ConnectorDag(
    "demo-requests",
    {
        "connector.class": "LogSource",
        "tasks.max": "1",
        "paths": f"{DIRECTORY}/access.log",
        "topic": "demo-requests",
        "line.format": "combined",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "airflow.tags": "demo",
        "airflow.description": "Requests of a web server to a topic",
    },
    doc_md=__doc__,
)
