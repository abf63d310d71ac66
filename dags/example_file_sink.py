"""### Records of a topic to a file

Each record of the topic `demo-lines` becomes a line of `demo-output.txt`. The offsets are a consumer group's, `connect-demo-file-sink`, so
every tool that shows lag shows this connector's. The directory is that of the environment variable `CONNECT_DEMO_DIR`.
"""

import os

from airflow_provider_connect import ConnectorDag

DIRECTORY = os.environ.get("CONNECT_DEMO_DIR", "/tmp/connect-demo")

ConnectorDag(
    "demo-file-sink",
    {
        "connector.class": "FileStreamSink",
        "tasks.max": "1",
        "file": f"{DIRECTORY}/demo-output.txt",
        "topics": "demo-lines",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "airflow.tags": "demo",
        "airflow.description": "Records of a topic to a file",
    },
    doc_md=__doc__,
)
