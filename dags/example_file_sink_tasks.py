"""### A Spark application for each group of tasks

With `tasks.per.application` the DAG has three tasks. `plan` divides the connector's tasks into groups of that size. `run` is mapped over
the groups, each of which is a separate spark-submit job. `report` adds up their counts. Here four tasks run in two applications. Use this
if tasks must not share failures, memory or cores. By default all tasks run in one application, so fewer applications are started.

The DAG has no schedule: trigger it yourself.
"""

import os

from airflow_provider_connect import ConnectorDag

DIRECTORY = os.environ.get("CONNECT_DEMO_DIR", "/tmp/connect-demo")

ConnectorDag(
    "demo-file-sink-tasks",
    {
        "connector.class": "FileStreamSink",
        "tasks.max": "4",
        "tasks.per.application": "2",
        "file": f"{DIRECTORY}/demo-output-tasks.txt",
        "topics": "demo-lines",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "airflow.schedule": "none",
        "airflow.tags": "demo",
        "airflow.description": "Two Spark applications of two tasks each",
    },
    doc_md=__doc__,
)
