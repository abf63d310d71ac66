"""### Requests of a web server to a topic

Every line that is appended to `access.log`, in the format `combined` of web servers, becomes a record of the topic `demo-requests` with its
fields and its time, exactly once, also where the file is rotated and compressed. The directory is that of the environment variable
`CONNECT_DEMO_DIR`.
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
