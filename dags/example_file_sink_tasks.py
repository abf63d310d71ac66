"""### A Spark application for each group of tasks

With `tasks.per.application` the DAG has three tasks: `plan` shares the connector's tasks out, `run` is mapped over groups of that size,
each a spark-submit job of its own, and `report` adds their counts up. Here four tasks run in two applications. Worth it when one task's
trouble, memory or cores must not be another's; the default, all tasks in one application, starts fewer of them.

It never runs by itself: trigger it.
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
