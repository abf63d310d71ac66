"""### Records of a topic to a file

Each record of the topic `demo-lines` becomes a line of `demo-output.txt`. The offsets belong to the consumer group
`connect-demo-file-sink`, so every tool that shows lags also shows this connector's lag. The environment variable `CONNECT_DEMO_DIR` names
the directory.
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
