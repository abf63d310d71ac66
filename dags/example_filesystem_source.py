"""### Files of a folder to a topic

Each new file in the folder `connect-demo/incoming` is read once: its JSON lines become records of the topic `demo-files`. After that, the
file is moved to `connect-demo/incoming/finished`. A run without new files does not start Spark. With another `url` and `format`, the
connector reads Parquet, Avro or CSV files from other locations. The environment variable `CONNECT_DEMO_DIR` names the directory.

    mkdir -p /tmp/connect-demo/incoming
    echo '{"order": 1, "what": "tea"}' > /tmp/connect-demo/incoming/orders-1.json
"""

import os

from airflow_provider_connect import ConnectorDag

DIRECTORY = os.environ.get("CONNECT_DEMO_DIR", "/tmp/connect-demo")

ConnectorDag(
    "example-filesystem-source",
    {
        "connector.class": "FileSystemSource",
        "tasks.max": "2",
        "url": f"{DIRECTORY}/incoming",
        "format": "json",
        "cleanup.policy": "archive",
        "topic": "demo-files",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "airflow.tags": "example",
        "airflow.description": "Files of a folder to a topic",
    },
    doc_md=__doc__,
)
