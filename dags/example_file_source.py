"""### Lines of a file to a topic

The smallest connector: every line that is appended to `demo-input.txt` becomes a record of the topic `demo-lines`, exactly once. The
connector stores how far it has read. A run without new lines does not start Spark. The environment variable `CONNECT_DEMO_DIR` names the
directory.
"""

import os

from airflow_provider_connect import ConnectorDag

DIRECTORY = os.environ.get("CONNECT_DEMO_DIR", "/tmp/connect-demo")

ConnectorDag(
    "demo-file-source",
    {
        "connector.class": "FileStreamSource",
        "tasks.max": "1",
        "file": f"{DIRECTORY}/demo-input.txt",
        "topic": "demo-lines",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "airflow.tags": "demo",
        "airflow.description": "Lines of a file to a topic",
    },
    doc_md=__doc__,
)
